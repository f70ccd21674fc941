"""Public names of this package and where each is defined; :mod:`crosslevel.lazy` loads them from here."""

from crosslevel.diagnostics.calibration import calibration_table as calibration_table
from crosslevel.diagnostics.calibration import size_strata as size_strata
