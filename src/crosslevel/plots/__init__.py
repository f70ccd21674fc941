"""Pictures of results, with matplotlib: ``ax=None`` in, the axes out.

matplotlib is imported when a picture is drawn, not before.
"""

from __future__ import annotations

from crosslevel.plots.effects import effect_curve, effect_distributions, effect_ranking
from crosslevel.plots.intervals import intervals
from crosslevel.plots.maps import choropleth
from crosslevel.plots.style import style

__all__ = ["choropleth", "effect_curve", "effect_distributions", "effect_ranking", "intervals", "style"]
