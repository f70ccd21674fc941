"""Who voted, and how those who voted chose: shares of the voters instead of shares of the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crosslevel.ecological.court import draws as from_draws
from crosslevel.ecological.court.bounds import box_of, turnout_bounds, voter_bounds
from crosslevel.ecological.court.cells import (
    NOBODY,
    SAME_SUM,
    Cells,
    cells_of,
    names_of,
    people_of,
    report_estimates,
)
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray, IntArray

__all__ = ["among_voters", "turnout"]

ERRORS = ("std_error", "conf_low", "conf_high")


def among_voters(
    result: Estimates, abstain: str | Sequence[str] = "did not vote", *, level: float | None = None
) -> Estimates:
    """Re-express an answer as shares of those who voted.

    Parameters
    ----------
    result : Estimates
        The answer of a method of this room, with every outcome.
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
    >>> from crosslevel.ecological import neighborhood
    >>> people = {"young": [60, 20], "old": [40, 80]}
    >>> votes = {"yes": [30, 20], "no": [20, 60], "did not vote": [50, 20]}
    >>> found = among_voters(neighborhood(people, votes))
    >>> found["estimate"].round(3).tolist(), found["voters"].tolist()
    ([0.478, 0.522, 0.333, 0.667], [46.0, 46.0, 84.0, 84.0])
    """
    names = names_of(abstain, "abstain")
    level = from_draws.level_of(result, level) if result.draws is not None or level is not None else None
    read = _voting(result, names)
    units = result.units
    if units is not None:
        units = _among(units, *_voting(units, names), names, level if units.draws is not None else None, None)
    return _among(result, *read, names, level, units)


def turnout(
    result: Estimates, abstain: str | Sequence[str] = "did not vote", *, level: float | None = None
) -> Estimates:
    """Tell which share of each group voted.

    Parameters
    ----------
    result : Estimates
        The answer of a method of this room, with every outcome.
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
    >>> from crosslevel.ecological import neighborhood
    >>> people = {"young": [60, 20], "old": [40, 80]}
    >>> votes = {"yes": [30, 20], "no": [20, 60], "did not vote": [50, 20]}
    >>> found = turnout(neighborhood(people, votes))
    >>> found["estimate"].round(3).tolist(), found["lower"].round(3).tolist()
    ([0.575, 0.7], [0.125, 0.5])
    """
    names = names_of(abstain, "abstain")
    level = from_draws.level_of(result, level) if result.draws is not None or level is not None else None
    read = _voting(result, names)
    units = result.units
    if units is not None:
        units = _turnout(units, *_voting(units, names), names, level if units.draws is not None else None, None)
    return _turnout(result, *read, names, level, units)


def _among(
    result: Estimates,
    cells: Cells,
    voting: IntArray,
    names: tuple[str, ...],
    level: float | None,
    units: Estimates | None,
) -> Estimates:
    n_places = len(cells.places)
    share, count = (cells.grid(result[name])[:, :, voting] for name in ("estimate", "count"))
    voted = _voted(share)
    ratio = share / voted[:, :, None]
    place, group, position = np.nonzero(cells.row[:, :, voting] >= 0)
    lower, upper = voter_bounds(box_of(result, cells), voting, n_places)
    missing = np.isnan(cells.grid(result["lower"]))
    lower, upper = (np.where(missing, np.nan, ends)[:, :, voting] for ends in (lower, upper))
    columns: dict[str, Any] = {**cells.keys(place, group, voting[position]), "estimate": ratio[place, group, position]}
    draws = None
    if result.draws is not None and level is not None:
        support = cells.grid(result.draws)[..., voting]
        draws = (support / _voted(support)[..., None])[:, place, group, position]
        columns |= dict(zip(ERRORS, from_draws.interval_of(draws, columns["estimate"], level), strict=True))
    columns |= {
        "lower": lower[place, group, position],
        "upper": upper[place, group, position],
        "count": count[place, group, position],
        "voters": _sum(count)[place, group],
        "turnout": _sum(share)[place, group],
    }
    return report_estimates(
        result,
        columns,
        keys=(*cells.place_keys, "group", "outcome"),
        title=f"Share of each group's voters with each outcome{_by_unit(cells)}",
        call=f"among_voters(abstain={names!r}, level={level!r})",
        level=None if draws is None else level,
        interval="none" if draws is None else f"quantiles of {len(draws):,} draws",
        draws=draws,
        warnings=(*_remarks(result, cells), *_empty(cells, voted, share)),
        units=units,
    )


def _turnout(
    result: Estimates,
    cells: Cells,
    voting: IntArray,
    names: tuple[str, ...],
    level: float | None,
    units: Estimates | None,
) -> Estimates:
    share, count = (cells.grid(result[name])[:, :, voting] for name in ("estimate", "count"))
    place, group = np.nonzero((cells.row >= 0).any(axis=2))
    people = people_of(cells, result)[place, group]
    voted = _sum(share)[place, group]
    box = box_of(result, cells)
    missing = np.isnan(cells.grid(result["lower"])).all(axis=2)
    lower, upper = (np.where(missing, np.nan, v)[place, group] for v in turnout_bounds(box, voting, len(cells.places)))
    error, low, high = (np.full(len(place), np.nan) for _ in range(3))
    draws = None
    if result.draws is not None and level is not None:
        support = cells.grid(result.draws)
        # draws of single cells need not add up to one, so that the whole is summed as well
        draws = (_sum(support[..., voting]) / _voted(support))[:, place, group]
        error, low, high = from_draws.interval_of(draws, voted, level)
    columns: dict[str, Any] = {
        **cells.keys(place, group),
        "estimate": voted,
        **dict(zip(ERRORS, (error, low, high), strict=True)),
        "lower": lower,
        "upper": upper,
        "count": _sum(count)[place, group],
        "count_low": low * people,
        "count_high": high * people,
        "people": people,
    }
    return report_estimates(
        result,
        columns,
        keys=(*cells.place_keys, "group"),
        title=f"Share of each group that voted{_by_unit(cells)}",
        call=f"turnout(abstain={names!r}, level={level!r})",
        level=None if draws is None else level,
        interval="none" if draws is None else f"quantiles of {len(draws):,} draws",
        draws=draws,
        warnings=_remarks(result, cells),
        units=units,
    )


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
    return () if "unit" in cells.place_keys else from_draws.remarks_on(result, "the shares carry no interval")


def _empty(cells: Cells, voted: FloatArray, share: FloatArray) -> tuple[str, ...]:
    none = np.argwhere(np.isnan(voted) & ~np.isnan(_sum(share)))
    if "unit" in cells.place_keys or not len(none):
        return ()
    named = [", ".join(map(str, (*cells.places[p], cells.groups[g]))) for p, g in none]
    return (f"Nobody of {listed(named)} voted by this estimate, so there are no shares: null.",)
