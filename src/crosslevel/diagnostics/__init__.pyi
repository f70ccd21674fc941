"""Public names of this package and where each is defined; :mod:`crosslevel.lazy` loads them from here."""

from crosslevel.diagnostics.bag_folds import BagValidation as BagValidation
from crosslevel.diagnostics.bag_folds import cross_validate_bags as cross_validate_bags
from crosslevel.diagnostics.calibration import ConformalScale as ConformalScale
from crosslevel.diagnostics.calibration import calibration_table as calibration_table
from crosslevel.diagnostics.calibration import conformal_interval as conformal_interval
from crosslevel.diagnostics.calibration import fit_conformal as fit_conformal
from crosslevel.diagnostics.calibration import gaussian_nll as gaussian_nll
from crosslevel.diagnostics.calibration import gaussian_pit as gaussian_pit
from crosslevel.diagnostics.calibration import pit_uniformity as pit_uniformity
from crosslevel.diagnostics.calibration import size_strata as size_strata
from crosslevel.diagnostics.hidden_labels import hidden_label as hidden_label
from crosslevel.diagnostics.place_scores import compare_places as compare_places
