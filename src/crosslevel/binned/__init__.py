"""What curve or surface lies behind bins, boxes and areas?

The names are loaded on first use (PEP 562).
"""

from crosslevel.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
