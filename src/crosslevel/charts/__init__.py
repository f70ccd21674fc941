"""Pictures of results, with matplotlib: ``ax=None`` in, the axes out.

matplotlib is imported when a picture is drawn, not before.
"""

from __future__ import annotations

from crosslevel.charts.bags import bag_calibration, predicted_bags
from crosslevel.charts.comparison import methods
from crosslevel.charts.effects import effect_curve, effect_distributions, effect_ranking
from crosslevel.charts.histogram import histogram
from crosslevel.charts.imputed import cluster_profiles, imputed_means
from crosslevel.charts.intervals import intervals
from crosslevel.charts.map_pair import choropleth_pair, estimate_pair
from crosslevel.charts.maps import choropleth, estimate_map
from crosslevel.charts.margins import margins
from crosslevel.charts.rho import rho
from crosslevel.charts.sensitivity import contour, slope_curve
from crosslevel.charts.style import style
from crosslevel.charts.tomography import tomography, xt
from crosslevel.charts.transfers import transfers
from crosslevel.charts.unit_map import unit_map

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
