"""Public names of this package and where each is defined; :mod:`crosslevel.lazy` loads them from here."""

from crosslevel.krls.estimator import KRLS as KRLS
from crosslevel.krls.logistic.estimator import KernelLogistic as KernelLogistic
from crosslevel.krls.paths import Cost as Cost
from crosslevel.krls.paths import cost as cost
