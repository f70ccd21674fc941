"""Who voted, and how those who voted chose: shares of the voters instead of shares of the group.

The bounds rest on one fact. The row of a group in one unit can be any vector n with 0 <= n_c <= T_c that adds up to X_r, and the
box of its cells' own bounds [l_c, u_c], cut by the same sum, is the same set. So l, u and X_r are all that is needed; and
since units do not constrain one another, what is sharp in each is sharp for their sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslevel.ecological.court.reporting import (
    Report,
    interval_columns,
    level_of,
    names_of,
    remarks_on,
)
from crosslevel.ecological.tables.answer_cells import NOBODY, Cells, cells_of, people_of
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray, IntArray

SAME_SUM = 1e-6
"""Largest relative difference between a sum of cells and its people that is taken for rounding."""


def among_voters(
    result: Estimates, abstain: str | Sequence[str] = "did not vote", *, level: float | None = None
) -> Estimates:
    """Report an answer as shares of those who voted.

    Parameters
    ----------
    result : Estimates
        The answer of a method for counts by unit, with every outcome.
    abstain : str or sequence of str, default "did not vote"
        The outcomes of those who did not vote (or voted for nobody, or stand outside the question).
    level : float, optional
        Level of the intervals; the result's own when not given.

    Returns
    -------
    Estimates
        Keys as in the result, without the rows of ``abstain``. ``estimate`` is the group's count over its voters, so that
        a group's shares add up to one; interval and ``draws`` are those of the ratio, draw by draw. ``count`` stays what
        it was; ``voters`` and ``turnout`` belong to the group and repeat in its rows (:func:`turnout` has their interval).
        ``lower`` and ``upper`` are what the margins imply with certainty for the ratio, sharp where the result has units.
        ``.units`` is the same by unit. Everything is null for a group without voters.

    See Also
    --------
    turnout : the share of each group that voted.

    Notes
    -----
    The number of a group's voters is itself unknown. Its share with an outcome is S / (S + O), with S people of the
    outcome and O other voters; in every unit the margins allow the largest S together with the smallest O (the rest
    stays at home as far as it can), and the reverse. The sums of these over units give bounds that some table attains.

    Examples
    --------
    >>> from crosslevel import Counts
    >>> from crosslevel.ecological import neighborhood
    >>> data = {"young": [60, 20], "old": [40, 80], "yes": [30, 20], "no": [20, 60], "did not vote": [50, 20]}
    >>> counts = Counts(data, groups=["young", "old"], outcomes=["yes", "no", "did not vote"])
    >>> found = among_voters(neighborhood(counts))
    >>> found["estimate"].round(3).tolist(), found["voters"].tolist()
    ([0.478, 0.522, 0.333, 0.667], [46.0, 46.0, 84.0, 84.0])
    """
    return _with_units(_among, result, abstain, level)


def turnout(
    result: Estimates, abstain: str | Sequence[str] = "did not vote", *, level: float | None = None
) -> Estimates:
    """Report the turnout of each group: its share that voted.

    Parameters
    ----------
    result : Estimates
        The answer of a method for counts by unit, with every outcome.
    abstain : str or sequence of str, default "did not vote"
        The outcomes of those who did not vote.
    level : float, optional
        Level of the intervals; the result's own when not given.

    Returns
    -------
    Estimates
        Key ``group`` (after ``district`` where there are several); ``count`` holds the voters with their interval
        ``count_low``, ``count_high``, ``people`` the group; ``lower`` and ``upper`` what the margins imply with certainty
        (sharp where the result has units). ``.units`` is the same by unit.

    See Also
    --------
    among_voters : how those who voted chose.

    Examples
    --------
    >>> from crosslevel import Counts
    >>> from crosslevel.ecological import neighborhood
    >>> data = {"young": [60, 20], "old": [40, 80], "yes": [30, 20], "no": [20, 60], "did not vote": [50, 20]}
    >>> counts = Counts(data, groups=["young", "old"], outcomes=["yes", "no", "did not vote"])
    >>> found = turnout(neighborhood(counts))
    >>> found["estimate"].round(3).tolist(), found["lower"].round(3).tolist()
    ([0.575, 0.7], [0.125, 0.5])
    """
    return _with_units(_turnout, result, abstain, level)


def _with_units(
    report: Callable[..., Estimates], result: Estimates, abstain: str | Sequence[str], level: float | None
) -> Estimates:
    """Report the district and its units alike."""
    names, level = names_of(abstain, "abstain"), level_of(result, level)
    read, units = _voting(result, names), result.units
    if units is not None:
        units = report(units, *_voting(units, names), names, level if units.draws is not None else None, None)
    return report(result, *read, names, level, units)


def _among(
    result: Estimates,
    cells: Cells,
    voting: IntArray,
    names: tuple[str, ...],
    level: float | None,
    units: Estimates | None,
) -> Estimates:
    share, count = (cells.grid(result[name])[:, :, voting] for name in ("estimate", "count"))
    voted = _voted(share)
    at: tuple[Any, ...] = np.nonzero(
        cells.row[:, :, voting] >= 0
    )  # place, group and position among the outcomes of voters
    missing = np.isnan(cells.grid(result["lower"]))
    ends = voter_bounds(box_of(result, cells), voting, len(cells.places))
    lower, upper = (np.where(missing, np.nan, end)[:, :, voting][at] for end in ends)
    estimate, draws = (share / voted[:, :, None])[at], None
    if result.draws is not None and level is not None:
        support = cells.grid(result.draws)[..., voting]
        draws = (support / _voted(support)[..., None])[:, *at]
    return Report(
        columns={
            **cells.keys(at[0], at[1], voting[at[2]]),
            "estimate": estimate,
            **({} if draws is None else interval_columns(draws, estimate, level)),
            "lower": lower,
            "upper": upper,
            "count": count[at],
            "voters": _sum(count)[at[:2]],
            "turnout": _sum(share)[at[:2]],
        },
        keys=(*cells.place_keys, "group", "outcome"),
        title=f"Share of each group's voters with each outcome{_by_unit(cells)}",
        call=f"among_voters(abstain={names!r}, level={level!r})",
        level=level,
        draws=draws,
        warnings=(*_remarks(result, cells), *_empty(cells, voted, share)),
        units=units,
    ).of(result)


def _turnout(
    result: Estimates,
    cells: Cells,
    voting: IntArray,
    names: tuple[str, ...],
    level: float | None,
    units: Estimates | None,
) -> Estimates:
    share, count = (cells.grid(result[name])[:, :, voting] for name in ("estimate", "count"))
    at: tuple[Any, ...] = np.nonzero((cells.row >= 0).any(axis=2))  # place and group
    people, voted = people_of(cells, result)[at], _sum(share)[at]
    missing = np.isnan(cells.grid(result["lower"])).all(axis=2)
    ends = turnout_bounds(box_of(result, cells), voting, len(cells.places))
    lower, upper = (np.where(missing, np.nan, end)[at] for end in ends)
    draws = None
    if result.draws is not None and level is not None:
        support = cells.grid(result.draws)
        # draws of single cells need not add up to one, so that the whole is summed as well
        draws = (_sum(support[..., voting]) / _voted(support))[:, *at]
    interval = interval_columns(draws, voted, level)
    return Report(
        columns={
            **cells.keys(*at),
            "estimate": voted,
            **interval,
            "lower": lower,
            "upper": upper,
            "count": _sum(count)[at],
            "count_low": interval["conf_low"] * people,
            "count_high": interval["conf_high"] * people,
            "people": people,
        },
        keys=(*cells.place_keys, "group"),
        title=f"Share of each group that voted{_by_unit(cells)}",
        call=f"turnout(abstain={names!r}, level={level!r})",
        level=level,
        draws=draws,
        warnings=_remarks(result, cells),
        units=units,
    ).of(result)


def _voting(result: Estimates, names: tuple[str, ...]) -> tuple[Cells, IntArray]:
    """Read the result and give the numbers of the outcomes of voters; every group's shares must add up to one."""
    cells = cells_of(result)
    home = [cells.number("abstain", name, "outcome") for name in names]
    voting = np.array([c for c in range(len(cells.outcomes)) if c not in home], dtype=np.intp)
    if not home or not len(voting):
        raise InputError(
            f"abstain={names!r} leaves {'everybody' if not home else 'nobody'} voting; name some outcomes."
        )
    if "voters" in result.table.column_names:
        raise InputError("result already holds shares of voters; pass the answer it was made from.")
    total = _sum(cells.grid(result["estimate"]))
    off = np.abs(total - 1) > SAME_SUM
    if off.any():
        p, g = (int(i) for i in np.argwhere(off)[0])
        raise InputError(
            f"result: the shares of {', '.join(map(repr, (*cells.places[p], cells.groups[g])))} add up to {total[p, g]:.3f}, not "
            "to 1; pass a whole answer (before select) of a method whose shares add up, such as neighborhood, goodman or rxc: "
            "the bounds stand beside it."
        )
    return cells, voting


def _sum(values: FloatArray) -> FloatArray:
    """Sum over outcomes, leaving out those that are not there; NaN where none is."""
    return np.where(np.isnan(values).all(axis=-1), np.nan, np.nansum(values, axis=-1))


def _voted(share: FloatArray) -> FloatArray:
    """Give what shares are divided by: their sum, or NaN where it is nothing."""
    total = _sum(share)
    return np.where(np.nan_to_num(total) > NOBODY, total, np.nan)


def _by_unit(cells: Cells) -> str:
    return ", by unit" if "unit" in cells.place_keys else ""


def _remarks(result: Estimates, cells: Cells) -> tuple[str, ...]:
    # the units' table carries no remarks of its own in any method
    return () if "unit" in cells.place_keys else remarks_on(result, "the shares carry no interval")


def _empty(cells: Cells, voted: FloatArray, share: FloatArray) -> tuple[str, ...]:
    none = np.argwhere(np.isnan(voted) & ~np.isnan(_sum(share)))
    if "unit" in cells.place_keys or not len(none):
        return ()
    named = [", ".join(map(str, (*cells.places[p], cells.groups[g]))) for p, g in none]
    return (f"Nobody of {listed(named)} voted by this estimate, so there are no shares: null.",)


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
