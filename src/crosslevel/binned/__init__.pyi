"""Public names of this package and where each is defined; :mod:`crosslevel.lazy` loads them from here."""

from crosslevel.binned.counts.estimator import BinnedCountGP as BinnedCountGP
from crosslevel.binned.gaussian.estimator import BinnedGP as BinnedGP
from crosslevel.binned.interpolation import interpolate as interpolate
from crosslevel.binned.regions.boxes import Boxes as Boxes
from crosslevel.binned.regions.boxes import Intervals as Intervals
from crosslevel.binned.regions.boxes import Points as Points
from crosslevel.binned.regions.polygons import Polygons as Polygons
from crosslevel.binned.regions.simplices import Simplices as Simplices
from crosslevel.binned.regions.sums import WeightedSum as WeightedSum
from crosslevel.binned.regions.sums import stack as stack
