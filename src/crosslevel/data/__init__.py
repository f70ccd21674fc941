"""The way in: frames, bags, streams, regions, official file formats and simulated worlds.

The names are loaded on first use (PEP 562).
"""

from crosslevel.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
