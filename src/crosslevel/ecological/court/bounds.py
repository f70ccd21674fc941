"""What the margins imply with certainty for turnout and for shares among voters.

It rests on one fact. The row of a group in one unit can be any vector n with 0 <= n_c <= T_c that adds up to X_r, and the
box of its cells' own bounds [l_c, u_c], cut by the same sum, is the same set. So l, u and X_r are all that is needed; and
since units do not constrain one another, what is sharp in each is sharp for their sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslevel.ecological.court.cells import NOBODY, Cells, cells_of, people_of
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray, IntArray

__all__ = ["Box", "box_of", "turnout_bounds", "voter_bounds"]


@dataclass(frozen=True)
class Box:
    """What is certain of the cells of each group in each place, in counts.

    Attributes
    ----------
    people : (n_places, n_groups)
    low, high : (n_places, n_groups, n_outcomes)
    code : (n_places,)
        Number of the place of the answer to which each place here belongs.
    """

    people: FloatArray
    low: FloatArray
    high: FloatArray
    code: IntArray

    def total(self, values: FloatArray, n: int) -> FloatArray:
        """Sum (n_places, ...) over the places of each of the n places of the answer."""
        out = np.zeros((n, *values.shape[1:]))
        np.add.at(out, self.code, values)
        return out


def box_of(result: Estimates, cells: Cells) -> Box:
    """Give the bounds of the units where the answer has them, and else its own, which are valid but not sharp for sums.

    Shares among voters have no fixed people, so that only their own bounds, as shares of one, say something certain.
    """
    units = result.units
    if units is not None and "voters" not in result.table.column_names:
        inner = cells_of(units)
        shared = [inner.place_keys.index(k) for k in cells.place_keys if k in inner.place_keys]
        known = {p: i for i, p in enumerate(cells.places)}
        belongs = [known.get(tuple(p[i] for i in shared)) for p in inner.places]
        aligned = _aligned(inner, cells)
        people = people_of(aligned, units)
        if len(shared) == len(cells.place_keys) and None not in belongs and np.isfinite(people).all():
            return _box(units, aligned, people, np.array(belongs, dtype=np.intp))
    one = np.where((cells.row >= 0).any(axis=2), 1.0, 0.0)
    return _box(result, cells, one, np.arange(len(cells.places)))


def _aligned(inner: Cells, cells: Cells) -> Cells:
    """Bring the units' groups and outcomes into the order of the answer's; a district that lacks an option has no row."""
    row = np.full((len(inner.places), len(cells.groups), len(cells.outcomes)), -1, dtype=np.intp)
    sides = []
    for own, wanted in ((inner.groups, cells.groups), (inner.outcomes, cells.outcomes)):
        pairs = [(wanted.index(name), j) for j, name in enumerate(own) if name in wanted]
        sides.append(np.array(pairs, dtype=np.intp).reshape(-1, 2))
    (to_g, from_g), (to_o, from_o) = (side.T for side in sides)
    row[:, to_g[:, None], to_o] = inner.row[:, from_g[:, None], from_o]
    return Cells(inner.place_keys, inner.places, cells.groups, cells.outcomes, row)


def _box(result: Estimates, cells: Cells, people: FloatArray, code: IntArray) -> Box:
    low, high = (np.nan_to_num(cells.grid(result[name])) * people[:, :, None] for name in ("lower", "upper"))
    return Box(people, low, high, code)


def voter_bounds(box: Box, voting: IntArray, n: int) -> tuple[FloatArray, FloatArray]:
    """Bound each outcome's share of the voters, summed over the places: two of (n, n_groups, n_outcomes).

    Parameters
    ----------
    box : Box
    voting : (n_voting,)
        Numbers of the outcomes of those who voted.
    n : int
        Places of the answer.

    Notes
    -----
    The share is S / (S + O), S people with the outcome and O voters with another. In a unit S is largest when the outcome
    takes all it can; if the rest of the group then stays at home as far as it can, O is smallest at the same time. So the
    upper bound has the largest S and the smallest O of every unit, is attained, and is sharp; and the lower likewise.
    NaN where the group can have no voter.
    """
    shape = (n, box.high.shape[1], box.high.shape[2])
    lower, upper = np.full(shape, np.nan), np.full(shape, np.nan)
    home = np.delete(box.high, voting, axis=2).sum(axis=2)
    for c in voting:
        others = box.high[:, :, voting[voting != c]].sum(axis=2)
        least = box.people - box.high[:, :, c] - home
        least = np.where(least > NOBODY * box.people, least, 0.0)
        most = np.minimum(box.people, others)
        s_low, s_high, o_low, o_high = (box.total(v, n) for v in (box.low[:, :, c], box.high[:, :, c], least, most))
        possible = s_high + o_high > 0
        # S = O = 0 at an end means that the other end decides: the share is 1 (0) whenever there is a voter
        lower[:, :, c] = np.where(possible, _ratio(s_low, o_high, empty=1.0), np.nan)
        upper[:, :, c] = np.where(possible, _ratio(s_high, o_low, empty=0.0), np.nan)
    return lower, upper


def turnout_bounds(box: Box, voting: IntArray, n: int) -> tuple[FloatArray, FloatArray]:
    """Bound the share of each group that voted, summed over the places: two of (n, n_groups); sharp."""
    home = np.delete(box.high, voting, axis=2).sum(axis=2)
    most = np.minimum(box.people, box.high[:, :, voting].sum(axis=2))
    least = np.maximum(0.0, box.people - home)
    people, low, high = (box.total(v, n) for v in (box.people, least, most))
    return _shares(low, people), _shares(high, people)


def _shares(counts: FloatArray, people: FloatArray) -> FloatArray:
    return np.divide(counts, people, out=np.full(people.shape, np.nan), where=people > 0)


def _ratio(part: FloatArray, rest: FloatArray, empty: float) -> FloatArray:
    whole = part + rest
    return np.divide(part, whole, out=np.full(part.shape, empty), where=whole > 0)
