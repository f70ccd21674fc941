"""Public names of this package and where each is defined; :mod:`crosslevel.lazy` loads them from here."""

from crosslevel.krls.estimator import KRLS as KRLS
from crosslevel.krls.paths import Cost as Cost
