"""How does y respond to each x, with no functional form assumed?

The names are loaded on first use (PEP 562), so that the modules on arrays can be imported without any dataframe library.
"""

from crosslevel.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
