"""The reports that courts know: candidate of choice and polarised voting.

Each takes the answer of a method of this room and asks a further question of it. Chances and intervals come from the
method's joint posterior draws; a method without draws gives the point answer, and nothing is made up in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.ecological.court import draws as from_draws
from crosslevel.ecological.court.cells import (
    Cells,
    cells_of,
    excluded,
    names_of,
    pair_of,
    people_of,
    report_estimates,
)
from crosslevel.ecological.court.words import choice_sentences, differ_words, leaving_out
from crosslevel.errors import InputError
from crosslevel.results import Estimates
from crosslevel.typing import BoolArray, FloatArray, IntArray

__all__ = ["candidate_of_choice", "polarization"]


def candidate_of_choice(
    result: Estimates, *, exclude: str | Sequence[str] = (), level: float | None = None
) -> Estimates:
    """Tell which outcome each group supports most, by how much, and how sure that is.

    Parameters
    ----------
    result : Estimates
        The answer of a method of this room, or of :func:`among_voters`.
    exclude : str or sequence of str
        Outcomes that are nobody's choice, such as ``"did not vote"``. The shares stay shares of the whole group;
        :func:`among_voters` first gives shares of its voters.
    level : float, optional
        Level of the intervals; the result's own when not given.

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome`` (after ``district`` where there are several), the candidate of choice first in each
        group: ``rank`` 1 (shared by outcomes that are exactly level). ``estimate`` is the share of the group, ``lead`` its
        distance from the best of the others with the interval ``lead_low``, ``lead_high`` (negative for all but the
        first), ``probability_first`` the chance of being first (draws in which several are level are split evenly among
        them), ``count`` and ``lead_count`` the same in people. Lead intervals and chances are null where the method has
        no draws (only rxc, king and multinomial_dirichlet have). ``diagnostics["findings"]`` says it in sentences.

    Examples
    --------
    >>> from crosslevel.ecological import rxc
    >>> people = {"young": [10, 40, 70, 90, 20, 55], "old": [90, 60, 30, 10, 80, 45]}
    >>> votes = {"yes": [19, 37, 55, 67, 25, 46], "no": [81, 63, 45, 33, 75, 54]}
    >>> found = candidate_of_choice(rxc(people, votes))
    >>> found["outcome"].tolist(), found["rank"].tolist()
    (['yes', 'no', 'no', 'yes'], [1, 2, 1, 2])
    >>> bool(found["probability_first"][2] > 0.99)
    True
    """
    cells = cells_of(result)
    out = names_of(exclude, "exclude")
    kept = excluded(cells, out, "exclude")
    level = from_draws.level_of(result, level)
    share, rows = cells.grid(result["estimate"])[:, :, kept], cells.row[:, :, kept]
    at = _ranked(share, rows)  # place, group and outcome of every row of the answer
    take = rows[at]
    lead = from_draws.lead_over_others(share)[at]
    unknown = np.full(len(take), np.nan)
    columns: dict[str, Any] = {
        **cells.keys(at[0], at[1], kept[at[2]]),
        "estimate": result["estimate"][take],
        **_shares_interval(result, take, level),
        "rank": pa.array(_ranks(share)[at], pa.int64()),
        "probability_first": unknown,
        "lead": lead,
        "lead_low": unknown,
        "lead_high": unknown,
        "count": result["count"][take],
        "lead_count": lead * people_of(cells, result)[at[:2]],
        "lower": result["lower"][take],
        "upper": result["upper"][take],
    }
    if result.draws is not None and level is not None:
        support = cells.grid(result.draws)[..., kept]
        leads = from_draws.lead_over_others(support)[:, *at]
        _, columns["lead_low"], columns["lead_high"] = from_draws.interval_of(leads, lead, level)
        columns["probability_first"] = from_draws.mean_of_draws(from_draws.chance_of_first(support)[:, *at])
    n = 0 if result.draws is None else len(result.draws)
    return report_estimates(
        result,
        columns,
        keys=(*cells.place_keys, "group", "outcome"),
        title=f"Support of each group, its candidate of choice first{leaving_out(out)}",
        call=f"candidate_of_choice(exclude={out!r}, level={level!r})",
        level=level,
        interval=_interval_words(result, level),
        draws=None if result.draws is None else result.draws[:, take],
        diagnostics={"findings": choice_sentences(columns, cells.place_keys, level, n)},
        warnings=from_draws.remarks_on(result, "leads carry no interval and being first no probability"),
    )


def polarization(
    result: Estimates,
    groups: Sequence[str],
    *,
    outcome: str | None = None,
    threshold: float | None = None,
    exclude: str | Sequence[str] = (),
    level: float | None = None,
) -> Estimates:
    """Tell how far two groups differ in their support, and whether they choose differently.

    Parameters
    ----------
    result : Estimates
        The answer of a method of this room, or of :func:`among_voters`.
    groups : (str, str)
        The groups a and b; the difference is a's share less b's.
    outcome : str, optional
        One outcome; every one that is not excluded when not given.
    threshold : float, optional
        The difference that matters, 0 when not given.
    exclude : str or sequence of str
        Outcomes that are nobody's choice, such as ``"did not vote"``.
    level : float, optional
        Level of the intervals; the result's own when not given.

    Returns
    -------
    Estimates
        Key ``outcome`` (after ``district`` where there are several); ``estimate`` is the difference. ``probability_above``
        is the chance that it exceeds the threshold, ``probability_below`` that it is less than minus the threshold; their
        sum is the chance of a difference larger than the threshold either way. ``share_a``, ``share_b``, ``count_a``,
        ``count_b``: the groups' support. ``lower`` and ``upper``: what the margins imply with certainty, sharp for shares
        of whole groups. ``choices_differ`` tells whether the two candidates of choice differ (null when a group has two
        that are exactly level), ``probability_choices_differ`` its chance; both are the same in all rows of a place. The
        title and ``diagnostics["findings"]`` say it in words.

    Examples
    --------
    >>> from crosslevel.ecological import rxc
    >>> people = {"young": [10, 40, 70, 90, 20, 55], "old": [90, 60, 30, 10, 80, 45]}
    >>> votes = {"yes": [19, 37, 55, 67, 25, 46], "no": [81, 63, 45, 33, 75, 54]}
    >>> found = polarization(rxc(people, votes), groups=("young", "old"), outcome="yes", threshold=0.2)
    >>> found.diagnostics["findings"]
    ['young choose yes, old choose no; their candidates of choice differ (probability above 0.9975).']
    >>> bool(found["lower"][0] <= found["conf_low"][0] <= found["estimate"][0])
    True
    """
    cells = cells_of(result)
    a, b = pair_of(cells, groups, "groups", "group")
    out = names_of(exclude, "exclude")
    kept = excluded(cells, out, "exclude")
    shown = kept if outcome is None else np.array([cells.number("outcome", outcome, "outcome")], dtype=np.intp)
    limit = _threshold(threshold)
    level = from_draws.level_of(result, level) if result.draws is not None or level is not None else None
    share, count, low, high = (cells.grid(result[n]) for n in ("estimate", "count", "lower", "upper"))
    place, position = np.nonzero(((cells.row[:, a] >= 0) & (cells.row[:, b] >= 0))[:, shown])
    option = shown[position]

    def of(values: FloatArray, group: int) -> FloatArray:
        picked: FloatArray = values[..., place, group, option]
        return picked

    choices = [_first_of(share[p][[a, b]][:, kept]) for p in range(len(cells.places))]
    unknown = np.full(len(place), np.nan)
    columns: dict[str, Any] = {
        **{k: v for k, v in cells.keys(place, np.full(len(place), a), option).items() if k != "group"},
        "estimate": of(share, a) - of(share, b),
        "probability_above": unknown,
        "probability_below": unknown,
        # in every unit a can have most of an outcome while b has least, so both ends are attained
        "lower": of(low, a) - of(high, b),
        "upper": of(high, a) - of(low, b),
        "choices_differ": pa.array([_differ(*choices[p]) for p in place], pa.bool_()),
        "probability_choices_differ": unknown,
        "share_a": of(share, a),
        "share_b": of(share, b),
        "count_a": of(count, a),
        "count_b": of(count, b),
    }
    draws, chance, n = None, None, 0
    if result.draws is not None and level is not None:
        support = cells.grid(result.draws)
        draws, n = of(support, a) - of(support, b), len(support)
        both = from_draws.chance_of_first(support[..., [a, b], :][..., kept])
        chance = from_draws.mean_of_draws(1 - np.nansum(both[:, :, 0] * both[:, :, 1], axis=-1))
        lacking = np.array([np.isnan(both[:, :, g]).all(axis=(0, 2)) for g in (0, 1)]).any(axis=0)
        chance = np.where(lacking, np.nan, chance)  # a group that is not there chooses nobody
        errors = from_draws.interval_of(draws, columns["estimate"], level)
        columns |= dict(zip(("std_error", "conf_low", "conf_high"), errors, strict=True))
        columns |= {
            "probability_above": from_draws.share_of_draws(draws > limit, draws),
            "probability_below": from_draws.share_of_draws(draws < -limit, draws),
            "probability_choices_differ": chance[place],
        }
    pair = (cells.groups[a], cells.groups[b])
    said = [_choice_words(cells, p, pair, kept, choices[p], chance, n) for p in range(len(cells.places))]
    one = len(cells.places) == 1
    title = f"Support among {pair[0]} less support among {pair[1]}{leaving_out(out)}"
    return report_estimates(
        result,
        columns,
        keys=(*cells.place_keys, "outcome"),
        title=f"{title}: {differ_words(_differ(*choices[0]), None if chance is None else chance[0], n)}"
        if one
        else title,
        call=f"polarization(groups={pair!r}, outcome={outcome!r}, threshold={threshold!r}, exclude={out!r}, level={level!r})",
        level=None if draws is None else level,
        interval="none" if draws is None else f"quantiles of {n:,} draws",
        draws=draws,
        diagnostics={"threshold": limit, "findings": said},
        warnings=from_draws.remarks_on(result, "differences carry no interval and no probability"),
    )


def _ranked(share: FloatArray, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Order the cells that have a row: by place and group, large shares first, those without a share last."""
    place, group, option = np.nonzero(rows >= 0)
    size = -share[place, group, option]
    order = np.lexsort((option, size, group, place))  # NaN sorts last
    return place[order], group[order], option[order]


def _ranks(share: FloatArray) -> npt.NDArray[np.object_]:
    """Give each outcome one more than the number of larger ones in its group; None without a share."""
    with np.errstate(invalid="ignore"):
        ranks = 1 + (share[..., None, :] > share[..., :, None]).sum(axis=-1)
    out = ranks.astype(object)
    out[np.isnan(share)] = None
    return out


def _shares_interval(result: Estimates, take: IntArray, level: float | None) -> dict[str, FloatArray]:
    """Give the method's own interval of the shares, or one from the draws at another level."""
    names = ("std_error", "conf_low", "conf_high")
    if level == result.level or result.draws is None or level is None:
        return {name: result[name][take] for name in names}
    ends = from_draws.interval_of(result.draws[:, take], result["estimate"][take], level)
    return dict(zip(names, ends, strict=True))


def _interval_words(result: Estimates, level: float | None) -> str:
    if level is None:
        return "none"
    if result.draws is None:
        return result.interval
    drawn = f"quantiles of {len(result.draws):,} draws"
    return drawn if level != result.level or result.interval == drawn else f"{result.interval}; leads: {drawn}"


def _threshold(threshold: object) -> float:
    if threshold is None:
        return 0.0
    if isinstance(threshold, bool) or not isinstance(threshold, Real) or not 0 <= float(threshold) < 1:
        raise InputError(f"threshold={threshold!r} is not a difference of shares; pass a number from 0 to below 1.")
    return float(threshold)


def _first_of(share: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Tell which outcomes are first in the two groups, (2, n_outcomes); none where nothing is known."""
    first = from_draws.chance_of_first(share) > 0
    return first[0], first[1]


def _differ(first: BoolArray, second: BoolArray) -> bool | None:
    """Tell whether two groups choose differently; None when that is open, since one has no choice or two that are level."""
    if not first.any() or not second.any():
        return None
    if not (first & second).any():
        return True
    return False if first.sum() == second.sum() == 1 else None


def _choice_words(
    cells: Cells,
    place: int,
    pair: tuple[str, str],
    kept: IntArray,
    choices: tuple[BoolArray, BoolArray],
    chance: FloatArray | None,
    n_draws: int,
) -> str:
    """Say whom the two groups of a place choose, and whether they differ."""
    where = "".join(f"{v}: " for v in cells.places[place])
    named = [" or ".join(cells.outcomes[c] for c in kept[first]) or "nobody" for first in choices]
    verdict = differ_words(_differ(*choices), None if chance is None else chance[place], n_draws)
    return f"{where}{pair[0]} choose {named[0]}, {pair[1]} choose {named[1]}; {verdict}."
