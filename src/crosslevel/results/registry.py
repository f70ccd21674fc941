"""Names of plots, and where each lives.

The homes are dotted paths, imported when they are called for: results lie below charts, so no import may point there. A new plot
adds its line to the table here; a program outside crosslevel calls :func:`register_plot`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from crosslevel.errors import InputError, unknown_name

__all__ = ["find_plot", "register_plot"]

_PLOTS: dict[str, str | Callable[..., Any]] = {
    "bag_calibration": "crosslevel.charts:bag_calibration",
    "bags": "crosslevel.charts:predicted_bags",
    "clusters": "crosslevel.charts:cluster_profiles",
    "imputed": "crosslevel.charts:imputed_means",
    "histogram": "crosslevel.charts:histogram",
    "intervals": "crosslevel.charts:intervals",
    "map": "crosslevel.charts:estimate_map",
    "map_pair": "crosslevel.charts:estimate_pair",
    "margins": "crosslevel.charts:margins",
    "methods": "crosslevel.charts:methods",
    "contextual_variance": "crosslevel.charts:contextual_variance",
    "sensitivity": "crosslevel.charts:contour",
    "transfers": "crosslevel.charts:transfers",
    "unit_map": "crosslevel.charts:unit_map",
}
"""Name of a plot -> "module:function" that draws ``(estimates, ax=None, **options)`` and returns the axes."""


def register_plot(name: str, target: str | Callable[..., Any]) -> None:
    """Make a plot known to ``Estimates.plot`` under a name.

    Parameters
    ----------
    name : str
        What users write: ``est.plot(name)``.
    target : str or callable
        ``"module:function"``, imported when first called for, or the function itself.

    Examples
    --------
    >>> register_plot("intervals", "crosslevel.charts:intervals")
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"name={name!r} is not a name; name the plot with text.")
    path = isinstance(target, str) and target.count(":") == 1 and all(target.split(":"))
    if not path and not callable(target):
        raise InputError(
            f"target={target!r} does not say where the plot lives; pass 'module:name' or the function itself."
        )
    _PLOTS[name] = target


def find_plot(name: str) -> Callable[..., Any]:
    """Give the function that draws the plot of this name."""
    if name not in _PLOTS:
        raise unknown_name("kind", name, sorted(_PLOTS), "plot")
    target = _PLOTS[name]
    if not isinstance(target, str):
        return target
    module, _, function = target.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found
