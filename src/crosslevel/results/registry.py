"""Names of plots and of saved kinds, and where each lives.

The homes are dotted paths, imported when they are called for: results lie below plots and rooms, so no import
may point there. A new method adds its line to the tables here; a program outside crosslevel calls
:func:`register_plot` or :func:`register_kind`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from crosslevel.errors import InputError, unknown_name

__all__ = ["find_kind", "find_plot", "kind_of", "kinds", "register_kind", "register_plot"]

_PLOTS: dict[str, str | Callable[..., Any]] = {
    "bag_calibration": "crosslevel.charts.bags:bag_calibration",
    "bags": "crosslevel.charts.bags:predicted_bags",
    "clusters": "crosslevel.charts.imputed:cluster_profiles",
    "imputed": "crosslevel.charts.imputed:imputed_means",
    "histogram": "crosslevel.charts.histogram:histogram",
    "intervals": "crosslevel.charts.intervals:intervals",
    "map": "crosslevel.charts.maps:estimate_map",
    "map_pair": "crosslevel.charts.map_pair:estimate_pair",
    "margins": "crosslevel.charts.margins:margins",
    "methods": "crosslevel.charts.comparison:methods",
    "rho": "crosslevel.charts.rho:rho",
    "sensitivity": "crosslevel.charts.sensitivity:contour",
    "transfers": "crosslevel.charts.transfers:transfers",
    "unit_map": "crosslevel.charts.unit_map:unit_map",
}
"""Name of a plot -> "module:function" that draws ``(estimates, ax=None, **options)`` and returns the axes."""

_KINDS: dict[str, str | type] = {
    "bayesian_linear": "crosslevel.distribution.bayesian_linear:BayesianLinear",
    "bayesian_linear_classifier": "crosslevel.distribution.linear_classifier:BayesianLinearClassifier",
    "binned_gp": "crosslevel.binned.estimator:BinnedGP",
    "cudia": "crosslevel.imputation.estimator:CUDIA",
    "ecological_inference": "crosslevel.ecological.estimator:EcologicalInference",
    "embeddings": "crosslevel.embedding.embeddings:Embeddings",
    "estimates": "crosslevel.results.estimates:Estimates",
    "frequentist_shrinkage": "crosslevel.distribution.frequentist:FrequentistShrinkage",
    "full_bayes": "crosslevel.distribution.full_bayes:FullBayes",
    "full_bayes_classifier": "crosslevel.distribution.full_bayes:FullBayesClassifier",
    "individual_link": "crosslevel.imputation.individual_link.estimator:IndividualLink",
    "krls": "crosslevel.krls.estimator:KRLS",
    "mean_embedding": "crosslevel.embedding.embedder:MeanEmbedding",
    "mean_shrinkage": "crosslevel.distribution.mean_shrinkage:MeanShrinkage",
    "mean_shrinkage_classifier": "crosslevel.distribution.mean_shrinkage:MeanShrinkageClassifier",
    "rbf_network": "crosslevel.distribution.rbf_network:RBFNetwork",
}
"""Kind of saved object -> "module:Class" with ``to_payload()`` and the classmethod ``from_payload(meta, arrays)``."""


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
    >>> register_plot("intervals", "crosslevel.charts.intervals:intervals")
    """
    _check(name, target, "plot")
    _PLOTS[name] = target


def register_kind(name: str, target: str | type) -> None:
    """Make a class known to ``save`` and ``load`` under a name, which is written into the file.

    Parameters
    ----------
    name : str
        The name of the kind; it must never change once files exist.
    target : str or class
        ``"module:Class"`` or the class; it has ``to_payload() -> (meta, arrays)`` and the classmethod
        ``from_payload(meta, arrays)``.

    Examples
    --------
    >>> register_kind("estimates", "crosslevel.results.estimates:Estimates")
    """
    _check(name, target, "kind")
    _KINDS[name] = target


def find_plot(name: str) -> Callable[..., Any]:
    """Give the function that draws the plot of this name."""
    if name not in _PLOTS:
        raise unknown_name("kind", name, sorted(_PLOTS), "plot")
    return _resolve(_PLOTS[name])


def find_kind(name: str) -> Any:
    """Give the class that reads the saved kind of this name."""
    if name not in _KINDS:
        raise unknown_name("kind", name, kinds(), "kind")
    return _resolve(_KINDS[name])


def kind_of(obj: object) -> str | None:
    """Name the kind under which an object is saved, or None."""
    home = f"{type(obj).__module__}:{type(obj).__qualname__}"
    return next((name for name, target in _KINDS.items() if target is type(obj) or target == home), None)


def kinds() -> list[str]:
    """List the kinds that can be saved.

    Examples
    --------
    >>> "estimates" in kinds()
    True
    """
    return sorted(_KINDS)


def _check(name: object, target: object, what: str) -> None:
    if not isinstance(name, str) or not name:
        raise InputError(f"name={name!r} is not a name; name the {what} with text.")
    path = isinstance(target, str) and target.count(":") == 1 and all(target.split(":"))
    if not path and not callable(target):
        raise InputError(
            f"target={target!r} does not say where the {what} lives; pass 'module:name' or the object itself."
        )


def _resolve(target: Any) -> Any:
    if not isinstance(target, str):
        return target
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)
