"""What label belongs to a group, given a sample of its members, and how much does a small sample cost?

Names are imported when they are first used, so that a linear model needs no sampler.
"""

from crosslevel.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
