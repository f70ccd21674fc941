"""Charts of results: what each kind of table shows, decided once; matplotlib draws it here and Vega-Lite on the page.

Every function takes ``ax=None`` and returns the axes. matplotlib is imported when a picture is drawn, not before.
"""

from __future__ import annotations

from crosslevel.charts.curves import contextual_variance, effect_curve, histogram
from crosslevel.charts.densities import effect_distributions, margins
from crosslevel.charts.effects import effect_ranking
from crosslevel.charts.heat import cluster_profiles, transfers
from crosslevel.charts.intervals import intervals, methods
from crosslevel.charts.maps import choropleth, estimate_map, estimate_pair, unit_map
from crosslevel.charts.scatter import bag_calibration, imputed_means, predicted_bags
from crosslevel.charts.sensitivity import contour, slope_curve
from crosslevel.charts.style import style
from crosslevel.charts.tomography import tomography, xt

__all__ = [
    "bag_calibration",
    "choropleth",
    "cluster_profiles",
    "contextual_variance",
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
    "slope_curve",
    "style",
    "tomography",
    "transfers",
    "unit_map",
    "xt",
]
