"""Counts made of two margins, for tests."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel import Counts
from crosslevel.data import frames
from crosslevel.ecological.tables.margins import Repairs

REPAIRS = set(asdict(Repairs()))


def columns(side: Any, word: str) -> dict[str, Any]:
    """Options of one margin as columns."""
    if frames.is_frame(side) and not isinstance(side, dict):
        table = frames.to_arrow(side)
        return {name: table[name] for name in table.column_names}
    if hasattr(side, "keys"):
        return {str(name): side[name] for name in side.keys()}  # noqa: SIM118
    array = np.asarray(side, dtype=float)
    return {f"{word}_{j}": array[:, j] for j in range(array.shape[1])}


def counted(groups: Any, outcomes: Any, units: Any = None, covariates: Any = None, **more: Any) -> Counts:
    """Counts of groups and outcomes; repairs by name, other words are columns."""
    sides = {side: columns(values, side[:-1]) for side, values in (("groups", groups), ("outcomes", outcomes))}
    data = {f"{side} {name}": values for side, own in sides.items() for name, values in own.items()}
    named: dict[str, Any] = {side: {name: f"{side} {name}" for name in own} for side, own in sides.items()}
    if units is not None:
        data["unit"], named["unit"] = list(units), "unit"
    if covariates is not None:
        beside = columns(covariates, "covariate") if np.ndim(covariates) != 1 else {"z": covariates}
        data |= beside
        named["covariates"] = list(beside)
    named["repair"] = {name: value for name, value in more.items() if name in REPAIRS} or "error"
    for name, values in more.items():
        if name in ("total_groups", "total_outcomes"):
            data[name], named[name] = values, name
        elif name not in REPAIRS:
            data[name] = values
    if frames.is_frame(groups) and not isinstance(groups, dict):
        data = frames.from_arrow(pa.table(data), frames.frame_kind(groups))
    return Counts(data, **named)
