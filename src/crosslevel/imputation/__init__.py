"""What was each person's hidden value, when only group means were published?

The names are loaded on first use (PEP 562): pooling the answers of completed data sets needs no model.
"""

from crosslevel.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
