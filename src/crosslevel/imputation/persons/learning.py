"""Read similar columns, hide each in turn, and say what they teach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslevel.data import checks, frames
from crosslevel.errors import InputError, listed
from crosslevel.imputation.cells import Cells
from crosslevel.imputation.persons.answers import Hidden
from crosslevel.imputation.persons.design import Design
from crosslevel.imputation.persons.fitting import case_of
from crosslevel.imputation.persons.model import Settings
from crosslevel.imputation.persons.similar import FEWEST_PEOPLE, Adjustment, Left, learn, leave_one_out
from crosslevel.typing import FloatArray, IntArray

__all__ = ["FEWEST_LABELS", "GROUPS_FOR_SLOPES", "Learnt", "learn_from"]


FEWEST_LABELS = 5
GROUPS_FOR_SLOPES = 25
"""Groups from which on factors of slopes are learnt: with fewer they gained next to nothing."""
FEWEST_CUTS = 20


@dataclass(frozen=True, eq=False)
class Learnt:
    """What similar columns taught.

    Attributes
    ----------
    names : tuple of str
        The columns.
    adjustments : dict of int to Adjustment
        By partition.
    left : dict of int to list of Left
        By partition, how each column fared when all was learnt from the others.
    warnings : tuple of str
    """

    names: tuple[str, ...]
    adjustments: dict[int, Adjustment]
    left: dict[int, list[Left]]
    warnings: tuple[str, ...]


def learn_from(
    columns: Any,
    cells: Cells,
    weight: FloatArray | None,
    design: Design,
    settings: Settings,
    hidden: Sequence[Hidden],
    *,
    borrow: bool,
) -> Learnt:
    """Learn from columns, for every partition that a hidden feature uses."""
    names, values = read_labels(columns, len(cells.pair))
    cut = _cuts(cells, design)
    adjustments, left, words = {}, {}, []
    for partition in dict.fromkeys(h.partition for h in hidden if h.binary):
        P = int(next(len(h.mean) for h in hidden if h.partition == partition))
        cases = [
            case_of(n, y, weight, partition, cells, design, settings, cut, P)
            for n, y in zip(names, values, strict=True)
        ]
        slopes = P >= GROUPS_FOR_SLOPES
        adjustments[partition] = learn(cases, design.owner, design.first, slopes=slopes, borrow=borrow)
        left[partition] = leave_one_out(cases, design.owner, design.first, slopes=slopes, borrow=borrow)
        lost = [n for n, one in zip(names, left[partition], strict=True) if one.lift < 0]
        if lost:
            words.append(
                f"{len(lost)} of {len(names)} columns, {listed(lost)}, lost to their group means when all was learnt from the others: "
                "the columns are not alike, and the hidden feature may be as little like them."
            )
    if not adjustments:
        raise InputError("no hidden feature is binary; columns can teach about yes and no only.")
    return Learnt(names, adjustments, left, tuple(words))


def read_labels(columns: Any, n: int) -> tuple[tuple[str, ...], list[FloatArray]]:
    """Read columns of 0 and 1, one row per person of the fit."""
    if frames.is_frame(columns):
        table = frames.to_arrow(columns, "columns")
        names = tuple(table.column_names)
        values = [frames.column(table, name, "columns") for name in names]
    else:
        array = checks.as_numbers(columns, "columns", 2)
        names = tuple(f"column {j}" for j in range(array.shape[1]))
        values = list(np.ascontiguousarray(array.T))
    if len(names) < FEWEST_LABELS:
        raise InputError(
            f"columns has {len(names)} column(s); at least {FEWEST_LABELS} similar ones are needed to learn from."
        )
    for name, v in zip(names, values, strict=True):
        if len(v) != n:
            raise InputError(
                f"columns has {len(v):,} rows for the {n:,} people of the fit; pass the same people in the same order."
            )
        if np.isnan(v).any() or not np.isin(v, (0.0, 1.0)).all():
            row = int(np.argmax(~np.isin(v, (0.0, 1.0))))
            raise InputError(f"columns: {name!r} is {v[row]} in row {row:,}; every value must be known, 0 or 1.")
        if v.min() == v.max():
            raise InputError(f"columns: {name!r} is {v[0]:g} for everybody; leave it out.")
    return names, values


def _cuts(cells: Cells, design: Design) -> IntArray:
    """Choose groups of persons on which intervals are judged: cells, or levels of one column where cells are small."""
    people = np.bincount(cells.pair_cell, cells.count, len(cells.X))
    if (people >= FEWEST_PEOPLE).sum() >= FEWEST_CUTS:
        return cells.pair_cell
    # every score of every cell contributes to the sum: twenty groups of equal size along it
    Z = design.matrix(cells.X)[:, design.first].sum(axis=1)
    order = np.argsort(Z, kind="stable")
    share = np.cumsum(people[order]) / people.sum()
    code = np.empty(len(Z), dtype=np.intp)
    code[order] = np.minimum((share * FEWEST_CUTS).astype(np.intp), FEWEST_CUTS - 1)
    return np.unique(code, return_inverse=True)[1].reshape(-1)[cells.pair_cell].astype(np.intp)
