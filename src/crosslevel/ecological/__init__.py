"""How did each subgroup behave in each place, when only totals by place are known?

Names are imported when they are first used: counts by unit need no embedding, and a report needs no sampler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crosslevel.ecological.court.choice import candidate_of_choice
    from crosslevel.ecological.court.polarization import margin, polarization
    from crosslevel.ecological.court.voters import among_voters, turnout
    from crosslevel.ecological.persons.estimator import EcologicalInference
    from crosslevel.ecological.regression.estimator import DistributionRegression
    from crosslevel.ecological.tables.assumptions.car_test import car_test
    from crosslevel.ecological.tables.assumptions.robustness import sensitivity
    from crosslevel.ecological.tables.baselines import bounds, homogeneous, neighborhood
    from crosslevel.ecological.tables.compare import compare
    from crosslevel.ecological.tables.contextual.estimator import rxc
    from crosslevel.ecological.tables.dirichlet.estimator import multinomial_dirichlet
    from crosslevel.ecological.tables.em import rxc_em
    from crosslevel.ecological.tables.goodman import goodman
    from crosslevel.ecological.tables.king.estimator import king
    from crosslevel.ecological.tables.linear_programming import lp
    from crosslevel.ecological.tables.unit_tables import UnitTables, group_counts, table_from_frame, unit_tables

__all__ = [
    "DistributionRegression",
    "EcologicalInference",
    "UnitTables",
    "among_voters",
    "bounds",
    "candidate_of_choice",
    "car_test",
    "compare",
    "goodman",
    "group_counts",
    "homogeneous",
    "king",
    "lp",
    "margin",
    "multinomial_dirichlet",
    "neighborhood",
    "polarization",
    "rxc",
    "rxc_em",
    "sensitivity",
    "table_from_frame",
    "turnout",
    "unit_tables",
]

_HOMES = {
    "car_test": "tables.assumptions.car_test",
    "sensitivity": "tables.assumptions.robustness",
    "bounds": "tables.baselines",
    "goodman": "tables.goodman",
    "neighborhood": "tables.baselines",
    "compare": "tables.compare",
    "rxc_em": "tables.em",
    "homogeneous": "tables.baselines",
    "king": "tables.king.estimator",
    "lp": "tables.linear_programming",
    "multinomial_dirichlet": "tables.dirichlet.estimator",
    "rxc": "tables.contextual.estimator",
    "UnitTables": "tables.unit_tables",
    "group_counts": "tables.unit_tables",
    "table_from_frame": "tables.unit_tables",
    "unit_tables": "tables.unit_tables",
    "candidate_of_choice": "court.choice",
    "polarization": "court.polarization",
    "margin": "court.polarization",
    "among_voters": "court.voters",
    "turnout": "court.voters",
    "DistributionRegression": "regression.estimator",
    "EcologicalInference": "persons.estimator",
}
"""Public name -> the module of this room that defines it."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'crosslevel.ecological' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"crosslevel.ecological.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
