"""What can be said about people when the outcome is known only for groups, and how sure may we be?

The public names are loaded on first use (PEP 562): ``import crosslevel`` imports no numerical, plotting or
dataframe library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Bags": "crosslevel.data.bags",
    "BinnedCountGP": "crosslevel.binned.counts.estimator",
    "BinnedGP": "crosslevel.binned.gaussian.estimator",
    "Boxes": "crosslevel.binned.regions.boxes",
    "CUDIA": "crosslevel.imputation.cudia.estimator",
    "CrossLevelImputer": "crosslevel.imputation.persons.estimator",
    "EcologicalInference": "crosslevel.ecological.persons.estimator",
    "Embeddings": "crosslevel.embedding.embeddings",
    "Estimates": "crosslevel.results.estimates",
    "Intervals": "crosslevel.binned.regions.boxes",
    "KRLS": "crosslevel.krls.estimator",
    "MeanEmbedding": "crosslevel.embedding.estimator",
    "MeanShrinkage": "crosslevel.distribution.shrinkage.estimator",
    "Polygons": "crosslevel.binned.regions.polygons",
    "Simplices": "crosslevel.binned.regions.simplices",
    "load": "crosslevel.results.files",
    "report": "crosslevel.reports.report",
    "save": "crosslevel.results.files",
}
"""Public name -> the module that defines it."""

_ROOMS = (
    "binned",
    "data",
    "diagnostics",
    "distribution",
    "ecological",
    "embedding",
    "errors",
    "imputation",
    "krls",
    "charts",
    "results",
)
"""Subpackages reachable as attributes without an import of their own."""

__all__ = [
    "CUDIA",
    "KRLS",
    "Bags",
    "BinnedCountGP",
    "BinnedGP",
    "Boxes",
    "CrossLevelImputer",
    "EcologicalInference",
    "Embeddings",
    "Estimates",
    "Intervals",
    "MeanEmbedding",
    "MeanShrinkage",
    "Polygons",
    "Simplices",
    "__version__",
    "binned",
    "charts",
    "data",
    "diagnostics",
    "distribution",
    "ecological",
    "embedding",
    "errors",
    "imputation",
    "krls",
    "load",
    "report",
    "results",
    "save",
]

if TYPE_CHECKING:
    from crosslevel import (
        binned,
        charts,
        data,
        diagnostics,
        distribution,
        ecological,
        embedding,
        errors,
        imputation,
        krls,
        results,
    )
    from crosslevel.binned.counts.estimator import BinnedCountGP
    from crosslevel.binned.gaussian.estimator import BinnedGP
    from crosslevel.binned.regions.boxes import Boxes, Intervals
    from crosslevel.binned.regions.polygons import Polygons
    from crosslevel.binned.regions.simplices import Simplices
    from crosslevel.data.bags import Bags
    from crosslevel.distribution.shrinkage.estimator import MeanShrinkage
    from crosslevel.ecological.persons.estimator import EcologicalInference
    from crosslevel.embedding.embeddings import Embeddings
    from crosslevel.embedding.estimator import MeanEmbedding
    from crosslevel.imputation.cudia.estimator import CUDIA
    from crosslevel.imputation.persons.estimator import CrossLevelImputer
    from crosslevel.krls.estimator import KRLS
    from crosslevel.reports.report import report
    from crosslevel.results.estimates import Estimates
    from crosslevel.results.files import load, save


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _ROOMS:
        value = importlib.import_module(f"crosslevel.{name}")
    else:
        from crosslevel.errors import nearest

        raise AttributeError(f"module 'crosslevel' has no attribute {name!r}.{nearest(name, __all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
