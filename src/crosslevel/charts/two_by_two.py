"""Two groups, two outcomes: what pictures need of counts, checked tables or estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslevel.data import checks, frames
from crosslevel.errors import InputError
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

__all__ = ["Margins", "by_unit", "read_margins", "true_shares", "unit_shares"]


@dataclass(frozen=True)
class Margins:
    """What the pictures show.

    X, T : (n,) share of the first group, share with the first outcome; N : (n,) people; groups, outcomes : two names each
    """

    X: FloatArray
    T: FloatArray
    N: FloatArray
    groups: tuple[str, ...]
    outcomes: tuple[str, ...]


def read_margins(groups: object, outcomes: object) -> Margins:
    """Read counts, checked tables or estimates."""
    if isinstance(groups, Estimates):
        if outcomes is not None:
            raise InputError("outcomes has no place beside estimates, which hold the counts already; leave it out.")
        cells = _unit_cells(groups)
        names = [list(dict.fromkeys(by_unit(groups).table[k].to_pylist())) for k in ("group", "outcome")]
        return _shares(cells.sum(axis=2), cells.sum(axis=1), *names)
    if outcomes is None:
        if not all(hasattr(groups, name) for name in ("X", "T", "groups", "outcomes")):
            raise InputError(
                "outcomes is missing; pass units x 2 outcomes, or as groups alone checked tables or estimates."
            )
        checked: Any = groups
        return _shares(checked.X, checked.T, checked.groups, checked.outcomes)
    X, group_names = _counts(groups, "groups", "group")
    T, outcome_names = _counts(outcomes, "outcomes", "outcome")
    if len(X) != len(T):
        raise InputError(f"groups has {len(X):,} units and outcomes {len(T):,}; pass both for the same units.")
    return _shares(X, T, group_names, outcome_names)


def _counts(given: object, argument: str, word: str) -> tuple[FloatArray, list[str]]:
    if frames.is_frame(given):
        table = frames.to_arrow(given, argument)
        names = list(table.column_names)
        array = np.column_stack([frames.column(table, name, argument) for name in names]) if names else np.empty((0, 0))
    else:
        array = checks.as_numbers(given, argument, 2)
        names = [f"{word}_{j}" for j in range(array.shape[1])]
    return checks.check_counts(array, argument, 2), names


def _shares(X: FloatArray, T: FloatArray, groups: Sequence[str], outcomes: Sequence[str]) -> Margins:
    if len(groups) != 2 or len(outcomes) != 2:
        raise InputError(
            f"this picture is of 2 x 2 tables and these have {len(groups)} groups and {len(outcomes)} outcomes; pass two of "
            "each, for example one group against all others."
        )
    N, total = X.sum(axis=1), T.sum(axis=1)
    there = (N > 0) & (total > 0)
    if not there.any():
        raise InputError("groups has no unit with people; there is nothing to draw.")
    X, T, N, total = X[there], T[there], N[there], total[there]
    return Margins(X[:, 0] / N, T[:, 0] / total, N, tuple(groups), tuple(outcomes))


def by_unit(estimates: Estimates) -> Estimates:
    """Give the answers by unit, group and outcome."""
    if estimates.units is None or estimates.units.keys != ("unit", "group", "outcome"):
        raise InputError(
            "estimates have no answers by unit, group and outcome; pass those of a method of 2 x 2 tables."
        )
    return estimates.units


def _unit_cells(estimates: Estimates) -> FloatArray:
    """(n_units, 2, 2) counts."""
    found = by_unit(estimates)["count"]
    if len(estimates) != 4 or len(found) % 4:
        raise InputError(f"estimates have {len(estimates)} cells; this picture is of 2 x 2 tables, which have four.")
    return np.asarray(found, dtype=np.float64).reshape(-1, 2, 2)


def unit_shares(estimates: Estimates, column: str, n: int) -> FloatArray:
    """Give one column as shares with the first outcome, (n_units, 2); NaN where a group has nobody."""
    _unit_cells(estimates)
    found = np.asarray(by_unit(estimates)[column], dtype=np.float64).reshape(-1, 2, 2)[:, :, 0]
    if len(found) != n:
        raise InputError(
            f"estimates have {len(found):,} units and groups {n:,} with people; pass both for the same units."
        )
    return found


def true_shares(truth: object, estimates: Estimates | None, n: int) -> FloatArray | None:
    """Give the true shares of both groups, (n_units, 2), when asked for."""
    if truth is None or truth is False:
        return None
    if truth is True:
        if estimates is None or "truth" not in by_unit(estimates).table.column_names:
            raise InputError(
                "truth=True needs estimates whose .units have a column 'truth'; pass the shares, (n_units, 2)."
            )
        return unit_shares(estimates, "truth", n)
    found = checks.as_numbers(truth, "truth", 2)
    if found.shape != (n, 2):
        raise InputError(
            f"truth has shape {found.shape}; pass both groups' shares in every unit with people, ({n}, 2)."
        )
    return found
