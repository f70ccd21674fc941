"""From draws of parts to the table: places or roll-ups, with bounds, baselines and contrasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslevel.ecological.quantities import Facts, Quantity, summing
from crosslevel.ecological.subgroups import Partition, Rollup
from crosslevel.ecological.tables.goodman import goodman_fit
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray, IntArray

__all__ = ["Block", "Sums", "contrast_block", "goodman_rates"]


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of the answer.

    Attributes
    ----------
    keys : dict of column to list
    draws : (n_draws, n_rows)
    columns : dict of column to (n_rows,)
        Everything but the interval.
    plain : (n_draws, n_rows) or None
        The draws without confounding, where both are needed to the end.
    """

    keys: dict[str, list[Any]]
    draws: FloatArray
    columns: dict[str, FloatArray]
    plain: FloatArray | None = None

    def __len__(self) -> int:
        return int(self.draws.shape[1])


class Sums:
    """Sums over places of what is asked for, taken in a few places at a time.

    Parameters
    ----------
    part : Partition
    rollup : Rollup
    facts : sequence of Facts
        One per outcome.
    n_draws : int
    """

    def __init__(self, part: Partition, rollup: Rollup, facts: Sequence[Facts], n_draws: int) -> None:
        self.part, self.rollup, self.facts = part, rollup, facts
        asked = np.flatnonzero(part.asked)
        cell = rollup.member[part.place[asked]] * part.levels.num_rows + part.level[asked]
        self.present, row = np.unique(cell, return_inverse=True)
        self.row = np.full(len(part.place), -1, dtype=np.intp)
        self.row[asked] = row
        size = (n_draws, len(self.present))
        self.top = [np.zeros(size) for _ in facts]
        # several outcomes of one question are shares of the same people
        self.bottom = None if facts[0].fixed else np.zeros(size)
        self.voters = np.ones(len(part.place))
        self.shift = np.zeros(len(part.place))
        self.distance: FloatArray | None = None

    def add(self, parts: IntArray, found: Sequence[Quantity], shift: FloatArray, distance: FloatArray | None) -> None:
        """Take in all parts of some places.

        Parameters
        ----------
        parts : (m,) int
            Which of the partition's parts.
        found : sequence of Quantity
            Of these parts, one per outcome.
        shift : (m,)
            Mean size of the shift.
        distance : (m,) or None
            Distance from the places' embeddings, where the model has such.
        """
        self.shift[parts] = shift
        if distance is not None:
            self.distance = np.zeros(len(self.part.place)) if self.distance is None else self.distance
            self.distance[parts] = distance
        asked = np.flatnonzero(self.row[parts] >= 0)
        weight = self.part.weight[parts[asked]]
        rows, at = np.unique(self.row[parts[asked]], return_inverse=True)
        add = summing(at, len(rows))
        for top, quantity in zip(self.top, found, strict=True):
            top[:, rows] += (add @ (quantity.numerator[:, asked] * weight).T).T
        denominator = found[0].denominator
        if self.bottom is not None and denominator is not None:
            self.bottom[:, rows] += (add @ (denominator[:, asked] * weight).T).T
            self.voters[parts] = denominator.mean(axis=0)

    def block(self, outcome: int, goodman: FloatArray) -> Block:
        """Put one outcome in rows: one per place (or roll-up) and level. The sums themselves become the draws.

        Parameters
        ----------
        outcome : int
        goodman : (n_levels,)
            Goodman's rate of each level.
        """
        part, fact = self.part, self.facts[outcome]
        asked = np.flatnonzero(part.asked)
        row, weight, place = self.row[asked], part.weight[asked], part.place[asked]
        size = len(self.present)

        def added(values: FloatArray) -> FloatArray:
            return np.asarray(np.bincount(row, weights=values * weight, minlength=size), dtype=np.float64)

        people = added(np.ones(len(asked)))
        draws, bottom = self.top[outcome], people if self.bottom is None else self.bottom
        np.divide(draws, bottom, out=draws, where=bottom > 0)
        if fact.fixed:
            low, high = added(fact.low[asked]) / people, added(fact.high[asked]) / people
        else:
            low, high = np.ones(size), np.zeros(size)
            np.minimum.at(low, row, fact.low[asked])
            np.maximum.at(high, row, fact.high[asked])
        voters = self.voters[asked]
        near = added(voters * fact.place_rate[place]) / np.maximum(added(voters), 1e-300)
        level = self.present % part.levels.num_rows
        keys: dict[str, list[Any]] = {}
        if self.rollup.name is not None:
            keys[self.rollup.name] = [self.rollup.labels[i] for i in self.present // part.levels.num_rows]
        for name in part.levels.column_names:
            values = part.levels[name].to_pylist()
            keys[name] = [values[i] for i in level]
        columns = {
            "estimate": draws.mean(axis=0),
            "bound_low": low,
            "bound_high": high,
            "neighborhood": near,
            "goodman": goodman[level],
            "population": people,
            "effective_size": people**2 / added(weight / part.effective[asked]),
            **({} if self.distance is None else {"distance": added(self.distance[asked]) / people}),
            "shift": added(self.shift[asked]) / people,
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

    def compared(draws: FloatArray) -> FloatArray:
        if kind == "difference":
            return np.asarray(draws[:, one] - draws[:, two])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(draws[:, one] / draws[:, two])

    draws, plain = compared(block.draws), None if block.plain is None else compared(block.plain)
    if kind == "difference":
        estimate = block.columns["estimate"][one] - block.columns["estimate"][two]
    else:
        # as the levels themselves are estimated: confounding widens the interval and moves nothing
        with np.errstate(invalid="ignore"):
            estimate = np.median(draws if plain is None else plain, axis=0)
    keys = {name: [block.keys[name][i] for i in one] for name in block.keys}
    keys["against"] = [", ".join(str(v) for v in labels[i]) for i in two]
    a, b = block.columns["neighborhood"][one], block.columns["neighborhood"][two]
    with np.errstate(divide="ignore", invalid="ignore"):
        near = a - b if kind == "difference" else a / b
    columns = {"estimate": estimate, "neighborhood": np.where(np.isfinite(near), near, np.nan)}
    return Block(keys, draws, columns, plain)
