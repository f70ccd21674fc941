"""From draws of parts to the table: places or roll-ups, with bounds, baselines and contrasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.ecological.accounting import summing
from crosslevel.ecological.classical.least_squares import goodman_fit
from crosslevel.ecological.partitions import Partition
from crosslevel.ecological.quantities import Quantity
from crosslevel.errors import InputError

__all__ = ["Block", "Rollup", "contrast_block", "goodman_rates", "tabulate_part"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Rollup:
    """Where the answer is given: each place by itself, or places put together.

    Attributes
    ----------
    name : str or None
        Key column; None when there is one row for everywhere.
    labels : tuple
    member : (q,) int
        Label of each place.
    """

    name: str | None
    labels: tuple[object, ...]
    member: IntArray


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of the answer.

    Attributes
    ----------
    keys : dict of column to list
    draws : (n_draws, n_rows)
    columns : dict of column to (n_rows,)
        Everything but the interval.
    """

    keys: dict[str, list[Any]]
    draws: FloatArray
    columns: dict[str, FloatArray]

    def __len__(self) -> int:
        return int(self.draws.shape[1])


def tabulate_part(
    part: Partition,
    quantity: Quantity,
    shift: FloatArray,
    rollup: Rollup,
    *,
    distance: FloatArray,
    goodman: FloatArray,
    estimate: FloatArray | None = None,
) -> Block:
    """Put the parts asked for in rows: one per place (or roll-up) and level.

    Parameters
    ----------
    part : Partition
    quantity : Quantity
    shift : (n_draws, q)
    rollup : Rollup
    distance : (m,)
        How far each part's embedding lies from the places'.
    goodman : (n_levels,)
        Goodman's rate of each level.
    estimate : (m,), optional
        Means in closed form, in place of those of the draws.
    """
    asked = np.flatnonzero(part.asked)
    n_levels = part.levels.num_rows
    cell = rollup.member[part.place[asked]] * n_levels + part.level[asked]
    present, row = np.unique(cell, return_inverse=True)
    size = len(present)
    weight, add = part.weight[asked], summing(row, size)

    def added(values: FloatArray) -> FloatArray:
        """Sum over places, (..., m) to (..., n_rows)."""
        return np.asarray((add @ (values * weight).T).T)

    people = added(np.ones(len(asked)))
    top, bottom = added(quantity.numerator[:, asked]), added(quantity.denominator[:, asked])
    draws = np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
    if quantity.fixed:
        low, high = added(quantity.low[asked]) / people, added(quantity.high[asked]) / people
        near = added(quantity.place_rate[part.place[asked]]) / people
    else:
        low, high = np.ones(size), np.zeros(size)
        np.minimum.at(low, row, quantity.low[asked])
        np.maximum.at(high, row, quantity.high[asked])
        voters = quantity.denominator[:, asked].mean(axis=0)
        near = added(voters * quantity.place_rate[part.place[asked]]) / np.maximum(added(voters), 1e-300)
    squares = added(weight / part.effective[asked])
    moved = np.nan_to_num(np.abs(shift)).mean(axis=0)[part.place[asked]]
    level = present % n_levels
    keys: dict[str, list[Any]] = {}
    if rollup.name is not None:
        keys[rollup.name] = [rollup.labels[i] for i in present // n_levels]
    for name in part.levels.column_names:
        values = part.levels[name].to_pylist()
        keys[name] = [values[i] for i in level]
    columns = {
        "estimate": draws.mean(axis=0) if estimate is None else added(estimate[asked]) / people,
        "bound_low": low,
        "bound_high": high,
        "neighbourhood": near,
        "goodman": goodman[level],
        "population": people,
        "effective_size": people**2 / squares,
        "distance": added(distance[asked]) / people,
        "shift": added(moved) / people,
    }
    return Block(keys, draws, columns)


def goodman_rates(part: Partition, rate: FloatArray, trials: FloatArray) -> FloatArray:
    """Give Goodman's constant rate of every level, (n_levels,); NaN where the places cannot tell the levels apart."""
    q, n = len(rate), part.levels.num_rows
    x = np.zeros((q, n + 1))
    x[part.place, np.where(part.asked, part.level, n)] = part.share
    used = x.sum(axis=0) > 0
    names = tuple(str(i) for i in np.flatnonzero(used))
    out = np.full(n + 1, np.nan)
    try:
        found = goodman_fit(x[:, used], np.column_stack([rate, 1.0 - rate]), trials, names)
    except InputError:
        return out[:n]
    out[used] = found.B[:, 0]
    return out[:n]


def contrast_block(block: Block, levels: Sequence[str], kind: str, reference: object | None) -> Block:
    """Compare levels within each place or roll-up: every level with the reference, or each pair once.

    Parameters
    ----------
    block : Block
    levels : names of the key columns that tell subgroups apart
    kind : {"difference", "ratio"}
    reference : value or tuple of values, optional
    """
    outer = [name for name in block.keys if name not in levels]
    labels = [tuple(block.keys[name][i] for name in levels) for i in range(len(block))]
    places = [tuple(block.keys[name][i] for name in outer) for i in range(len(block))]
    order = list(dict.fromkeys(labels))
    base = None
    if reference is not None:
        base = tuple(reference) if isinstance(reference, tuple | list) else (reference,)
        if base not in order:
            shown = [label[0] if len(label) == 1 else label for label in order]
            raise InputError(f"reference={reference!r} is none of the subgroups; they are {shown!r}.")
    where = {(place, label): i for i, (place, label) in enumerate(zip(places, labels, strict=True))}
    pairs = []
    for place in dict.fromkeys(places):
        here = [label for label in order if (place, label) in where]
        if base is not None:
            pairs += [(where[place, label], where[place, base]) for label in here if label != base and base in here]
        else:
            pairs += [(where[place, b], where[place, a]) for j, b in enumerate(here) for a in here[:j]]
    if not pairs:
        raise InputError("contrast compares subgroups, and no place has two of them; ask for at least two.")
    one, two = (np.array(side, dtype=np.intp) for side in zip(*pairs, strict=True))
    if kind == "difference":
        draws = block.draws[:, one] - block.draws[:, two]
        estimate = block.columns["estimate"][one] - block.columns["estimate"][two]
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            draws = block.draws[:, one] / block.draws[:, two]
            estimate = np.median(draws, axis=0)
    keys = {name: [block.keys[name][i] for i in one] for name in block.keys}
    keys["against"] = [", ".join(str(v) for v in labels[i]) for i in two]
    a, b = block.columns["neighbourhood"][one], block.columns["neighbourhood"][two]
    with np.errstate(divide="ignore", invalid="ignore"):
        near = a - b if kind == "difference" else a / b
    return Block(keys, draws, {"estimate": estimate, "neighbourhood": np.where(np.isfinite(near), near, np.nan)})
