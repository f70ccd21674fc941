"""Pictures of results, with matplotlib: ``ax=None`` in, the axes out.

matplotlib is imported when a picture is drawn, not before.
"""

from __future__ import annotations

from crosslevel.plots.bags import bag_calibration, predicted_bags
from crosslevel.plots.comparison import methods
from crosslevel.plots.effects import effect_curve, effect_distributions, effect_ranking
from crosslevel.plots.histogram import histogram
from crosslevel.plots.imputed import cluster_profiles, imputed_means
from crosslevel.plots.intervals import intervals
from crosslevel.plots.map_pair import choropleth_pair, estimate_pair
from crosslevel.plots.maps import choropleth, estimate_map
from crosslevel.plots.margins import margins
from crosslevel.plots.rho import rho
from crosslevel.plots.sensitivity import contour, slope_curve
from crosslevel.plots.style import style
from crosslevel.plots.tomography import tomography, xt
from crosslevel.plots.transfers import transfers
from crosslevel.plots.unit_map import unit_map

__all__ = [
    "bag_calibration",
    "choropleth",
    "choropleth_pair",
    "cluster_profiles",
    "contour",
    "effect_curve",
    "effect_distributions",
    "effect_ranking",
    "estimate_map",
    "estimate_pair",
    "histogram",
    "imputed_means",
    "intervals",
    "margins",
    "methods",
    "predicted_bags",
    "rho",
    "slope_curve",
    "style",
    "tomography",
    "transfers",
    "unit_map",
    "xt",
]
