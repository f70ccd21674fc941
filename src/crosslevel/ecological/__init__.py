"""How did each subgroup behave in each place, when only totals by place are known?

Names are imported when they are first used: counts by unit need no embedding, and a report needs no sampler.
"""

from crosslevel.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
