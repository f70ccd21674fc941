"""What can we learn about individuals when the outcome is reported only for groups, and how certain can we be?

The public names are loaded on first use (PEP 562): ``import crosslevel`` imports no numerical, plotting or
dataframe library.
"""

from crosslevel.lazy import attach

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = attach(__name__, __file__)
__all__ += ["__version__"]
