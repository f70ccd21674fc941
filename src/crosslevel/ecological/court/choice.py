"""Candidate of choice: which outcome each group supports most, in a table and in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.ecological.court.reporting import (
    Report,
    abstention_of,
    denominator_of,
    describe_abstention,
    interval_columns,
    lead_over_others,
    level_of,
    mean_of_draws,
    names_of,
    outcomes_left,
    probability_of_first,
    remarks_on,
)
from crosslevel.ecological.tables.answer_cells import cells_of, people_of
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray, IntArray


def candidate_of_choice(
    result: Estimates,
    *,
    exclude: str | Sequence[str] = (),
    abstention: str | Sequence[str] | None = "auto",
    level: float | None = None,
) -> Estimates:
    """Report the candidate of choice of each group: the outcome it supports most, by how much, and with what probability.

    Parameters
    ----------
    result : Estimates
        The answer of a method for counts by unit, or of :func:`among_voters`.
    exclude : str or sequence of str
        Outcomes that are nobody's choice, such as ``"blank"``. The shares stay shares of the whole group;
        :func:`among_voters` first gives shares of its voters.
    abstention : str, sequence of str or None, default "auto"
        The outcomes of those who did not vote, which are left out and named in a warning. ``"auto"`` recognizes "did not vote",
        "abstained", "abstention", "nonvoters" and "not voting" in any case, with spaces, "_" or "-"; None leaves out none.
    level : float, optional
        Level of the intervals; the result's own when not given.

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome`` (after ``district`` where there are several), the candidate of choice first in each
        group: ``rank`` 1 (shared by outcomes that are exactly level). ``estimate`` is the share of the group (of its voters, where the
        result comes from :func:`among_voters`), ``lead`` its
        distance from the best of the others with the interval ``lead_low``, ``lead_high`` (negative for all but the
        first), ``probability_first`` the probability of being first (draws in which several are level are split evenly among
        them), ``count`` and ``lead_count`` the same in people. Lead intervals and probabilities are null where the method has
        no draws (only rxc, king and multinomial_dirichlet have). ``diagnostics["findings"]`` says it in sentences; where nobody is first
        with a probability of ``level`` at least, that the candidate of choice cannot be determined.

    Examples
    --------
    >>> from crosslevel import Counts
    >>> from crosslevel.ecological import rxc
    >>> data = {"young": [10, 40, 70, 90, 20, 55], "old": [90, 60, 30, 10, 80, 45]}
    >>> data |= {"yes": [19, 37, 55, 67, 25, 46], "no": [81, 63, 45, 33, 75, 54]}
    >>> counts = Counts(data, groups=["young", "old"], outcomes=["yes", "no"])
    >>> found = candidate_of_choice(rxc(counts))
    >>> found["outcome"].tolist(), found["rank"].tolist()
    (['yes', 'no', 'no', 'yes'], [1, 2, 1, 2])
    >>> bool(found["probability_first"][2] > 0.99)
    True
    >>> from crosslevel.ecological import neighborhood
    >>> data |= {"yes": [9, 17, 25, 27, 15, 26], "no": [21, 23, 15, 13, 15, 14], "did_not_vote": [70, 60, 60, 60, 70, 60]}
    >>> counts = Counts(data, groups=["young", "old"], outcomes=["yes", "no", "did_not_vote"])
    >>> candidate_of_choice(neighborhood(counts)).diagnostics["findings"][0]
    'young: yes, with 0.234 of everybody in the group, leads no by 0.079.'
    """
    cells = cells_of(result)
    out, home = names_of(exclude, "exclude"), abstention_of(cells, abstention)
    kept = outcomes_left(cells, out, home)
    level = level_of(result, level, own=True)
    share, rows = cells.grid(result["estimate"])[:, :, kept], cells.row[:, :, kept]
    at = _ranked(share, rows)  # place, group and outcome of every row of the answer
    take = rows[at]
    lead = lead_over_others(share)[at]
    leads, first, n = None, np.full(len(take), np.nan), 0
    if result.draws is not None:
        support, n = cells.grid(result.draws)[..., kept], len(result.draws)
        leads = lead_over_others(support)[:, *at]
        first = mean_of_draws(probability_of_first(support)[:, *at])
    interval = interval_columns(leads, lead, level)
    columns: dict[str, Any] = {
        **cells.keys(at[0], at[1], kept[at[2]]),
        "estimate": result["estimate"][take],
        **_interval_of_shares(result, take, level),
        "rank": pa.array(_ranks(share)[at], pa.int64()),
        "probability_first": first,
        "lead": lead,
        "lead_low": interval["conf_low"],
        "lead_high": interval["conf_high"],
        "count": result["count"][take],
        "lead_count": lead * people_of(cells, result)[at[:2]],
        "lower": result["lower"][take],
        "upper": result["upper"][take],
    }
    return Report(
        columns=columns,
        keys=(*cells.place_keys, "group", "outcome"),
        title=f"Support of each group, its candidate of choice first{describe_excluded((*out, *home))}",
        call=f"candidate_of_choice(exclude={out!r}, abstention={abstention!r}, level={level!r})",
        level=level,
        interval=_describe_interval(result, level),
        draws=None if result.draws is None else result.draws[:, take],
        diagnostics={"findings": describe_choices(columns, cells.place_keys, level, n, denominator_of(result))},
        warnings=(
            *describe_abstention(result, home, out),
            *remarks_on(result, "leads carry no interval and being first no probability"),
        ),
    ).of(result)


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


def _interval_of_shares(result: Estimates, take: IntArray, level: float | None) -> dict[str, FloatArray]:
    """Give the method's own interval of the shares, or one from the draws at another level."""
    if level == result.level or result.draws is None or level is None:
        return {name: result[name][take] for name in ("std_error", "conf_low", "conf_high")}
    return interval_columns(result.draws[:, take], result["estimate"][take], level)


def _describe_interval(result: Estimates, level: float | None) -> str:
    if level is None:
        return "none"
    if result.draws is None:
        return result.interval
    drawn = f"quantiles of {len(result.draws):,} draws"
    return drawn if level != result.level or result.interval == drawn else f"{result.interval}; leads: {drawn}"


UNDETERMINED = "cannot be determined"
"""What is said of a candidate of choice who is first with a probability below the level."""


def describe_probability(probability: float, n_draws: int) -> str:
    """Write a probability with no more digits than the draws support: never 0 or 1.

    Examples
    --------
    >>> describe_probability(0.953, 1000), describe_probability(1.0, 1000), describe_probability(0.0, 100)
    ('0.95', 'above 0.999', 'below 0.01')
    """
    if probability >= 1 - 0.5 / n_draws:
        return f"above {1 - 1 / n_draws:.10g}"
    if probability <= 0.5 / n_draws:
        return f"below {1 / n_draws:.10g}"
    return f"{probability:.2f}" if 0.01 <= probability <= 0.99 else f"{probability:.3f}"


def describe_excluded(names: Sequence[str]) -> str:
    """Name what is left out, for the end of a title.

    Examples
    --------
    >>> describe_excluded(["did not vote"]), describe_excluded([])
    (', leaving out did not vote', '')
    """
    return f", leaving out {', '.join(dict.fromkeys(names))}" if names else ""


def describe_difference(differ: bool | None, probability: float | None, n_draws: int) -> str:
    """Write whether two groups choose differently, with its probability.

    Examples
    --------
    >>> describe_difference(True, 0.97, 100), describe_difference(False, 0.02, 100), describe_difference(None, 0.51, 100)
    ('their candidates of choice differ (probability 0.97)', 'their candidate of choice is the same (probability 0.98)',
     'whether their candidates of choice differ cannot be determined (probability 0.51)')
    """
    if differ is None:
        said = f"whether their candidates of choice differ {UNDETERMINED}"
    elif differ:
        said = "their candidates of choice differ"
    else:
        said, probability = "their candidate of choice is the same", None if probability is None else 1 - probability
    if probability is None or not np.isfinite(probability):
        return said
    return f"{said} (probability {describe_probability(float(probability), n_draws)})"


def describe_choices(
    columns: Mapping[str, Any], place_keys: Sequence[str], level: float | None, n_draws: int, denominator: str
) -> list[str]:
    """Write the candidate of choice of every group, from the columns of the table (the first of each group first).

    ``denominator`` says of whom the shares are: "of the group's voters".
    """
    sentences = []
    ranks, shares = columns["rank"], columns["estimate"]
    firsts = [i for i, rank in enumerate(ranks.to_pylist()) if rank == 1]
    blocks: dict[tuple[Any, ...], list[int]] = {}
    for i in firsts:
        blocks.setdefault((*(columns[k][i] for k in place_keys), columns["group"][i]), []).append(i)
    for name, rows in blocks.items():
        who = ", ".join(map(str, name))
        i = rows[0]
        if len(rows) > 1:
            tied = " and ".join(columns["outcome"][j] for j in rows)
            sentences.append(f"{who}: {tied} are tied with {shares[i]:.3f} {denominator} each.")
            continue
        probability = columns["probability_first"][i]
        open_ = level is not None and probability < level
        text = (
            f"{who}: {f'{UNDETERMINED}; ' if open_ else ''}{columns['outcome'][i]}, with {shares[i]:.3f} {denominator}"
        )
        lead, low, high = (columns[k][i] for k in ("lead", "lead_low", "lead_high"))
        if np.isfinite(lead):
            text += f", leads {columns['outcome'][i + 1]} by {lead:.3f}"
        if np.isfinite(low) and level is not None:
            text += f" ({100 * level:.10g} % interval {low:.3f} to {high:.3f})"
        if np.isfinite(probability):
            text += f"; first with probability {describe_probability(float(probability), n_draws)}"
        sentences.append(f"{text}.")
    return sentences
