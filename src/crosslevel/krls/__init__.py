"""How does y respond to each x, with no functional form assumed?"""

from crosslevel.krls.estimator import KRLS

__all__ = ["KRLS"]
