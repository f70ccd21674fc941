"""Public names of this package and where each is defined; :mod:`crosslevel.lazy` loads them from here."""

from crosslevel.imputation.cudia.estimator import CUDIA as CUDIA
from crosslevel.imputation.persons.estimator import CrossLevelImputer as CrossLevelImputer
from crosslevel.imputation.rubin import pool as pool
