"""How did each subgroup behave in each place, when only totals by place are known?

Names are imported when they are first used: counts by unit need no embedding, and a report needs no sampler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crosslevel.ecological.assumptions.car_test import car_test
    from crosslevel.ecological.assumptions.sensitivity import sensitivity
    from crosslevel.ecological.classical.baselines import bounds, goodman, neighborhood
    from crosslevel.ecological.classical.comparison import compare
    from crosslevel.ecological.classical.em import rxc_em
    from crosslevel.ecological.classical.homogeneous import homogeneous
    from crosslevel.ecological.classical.king import king
    from crosslevel.ecological.classical.linear_programme import lp
    from crosslevel.ecological.classical.multinomial_dirichlet import multinomial_dirichlet
    from crosslevel.ecological.classical.rxc import rxc
    from crosslevel.ecological.classical.tables import UnitTables, group_counts, table_from_frame, unit_tables
    from crosslevel.ecological.court.choice import candidate_of_choice, polarization
    from crosslevel.ecological.court.margins import margin
    from crosslevel.ecological.court.voters import among_voters, turnout
    from crosslevel.ecological.estimator import EcologicalInference

__all__ = [
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
    "car_test": "assumptions.car_test",
    "sensitivity": "assumptions.sensitivity",
    "bounds": "classical.baselines",
    "goodman": "classical.baselines",
    "neighborhood": "classical.baselines",
    "compare": "classical.comparison",
    "rxc_em": "classical.em",
    "homogeneous": "classical.homogeneous",
    "king": "classical.king",
    "lp": "classical.linear_programme",
    "multinomial_dirichlet": "classical.multinomial_dirichlet",
    "rxc": "classical.rxc",
    "UnitTables": "classical.tables",
    "group_counts": "classical.tables",
    "table_from_frame": "classical.tables",
    "unit_tables": "classical.tables",
    "candidate_of_choice": "court.choice",
    "polarization": "court.choice",
    "margin": "court.margins",
    "among_voters": "court.voters",
    "turnout": "court.voters",
    "EcologicalInference": "estimator",
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
