"""Differences of support: between two groups (polarization) and between two outcomes (margin)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from crosslevel.ecological.court.choice import (
    UNDETERMINED,
    describe_difference,
    describe_excluded,
    describe_probability,
)
from crosslevel.ecological.court.reporting import (
    Report,
    abstention_of,
    denominator_of,
    describe_abstention,
    interval_columns,
    level_of,
    mean_of_draws,
    names_of,
    outcomes_left,
    pair_of,
    probability_of_first,
    refuse_abstention,
    remarks_on,
    share_of_draws,
)
from crosslevel.ecological.tables.answer_cells import Cells, cells_of, people_of
from crosslevel.errors import InputError
from crosslevel.results import Estimates
from crosslevel.typing import BoolArray, FloatArray, IntArray


def polarization(
    result: Estimates,
    groups: Sequence[str],
    *,
    outcome: str | None = None,
    threshold: float | None = None,
    exclude: str | Sequence[str] = (),
    abstention: str | Sequence[str] | None = "auto",
    level: float | None = None,
) -> Estimates:
    """Report racially polarized voting: how far two groups differ in their support, and whether they choose differently.

    Parameters
    ----------
    result : Estimates
        The answer of a method for counts by unit, or of :func:`among_voters`.
    groups : (str, str)
        The groups a and b; the difference is a's share less b's.
    outcome : str, optional
        One outcome; every one that is not excluded when not given.
    threshold : float, optional
        The difference that matters, 0 when not given; only for results with draws.
    exclude : str or sequence of str
        Outcomes that are nobody's choice, such as ``"blank"``.
    abstention : str, sequence of str or None, default "auto"
        The outcomes of those who did not vote, which are left out; ``"auto"`` recognizes their usual names, as in
        :func:`candidate_of_choice`, None leaves out none.
    level : float, optional
        Level of the intervals; the result's own when not given.

    Returns
    -------
    Estimates
        Key ``outcome`` (after ``district`` where there are several); ``estimate`` is the difference. ``probability_above``
        is the probability that it exceeds the threshold, ``probability_below`` that it is less than minus the threshold; their
        sum is the probability of a difference larger than the threshold either way. ``share_a``, ``share_b``, ``count_a``,
        ``count_b``: the groups' support. ``lower`` and ``upper``: what the margins imply with certainty, sharp for shares
        of whole groups. ``choices_differ`` tells whether the two candidates of choice differ (null when a group has two
        that are exactly tied, or none with a probability of ``level`` at least), ``probability_choices_differ`` its probability; both
        are the same in all rows of a place. The title and ``diagnostics["findings"]`` say it in words.

    Examples
    --------
    >>> from crosslevel import Counts
    >>> from crosslevel.ecological import rxc
    >>> data = {"young": [10, 40, 70, 90, 20, 55], "old": [90, 60, 30, 10, 80, 45]}
    >>> data |= {"yes": [19, 37, 55, 67, 25, 46], "no": [81, 63, 45, 33, 75, 54]}
    >>> counts = Counts(data, groups=["young", "old"], outcomes=["yes", "no"])
    >>> found = polarization(rxc(counts), groups=("young", "old"), outcome="yes", threshold=0.2)
    >>> found.diagnostics["findings"]
    ['young choose yes, old choose no, by shares of everybody in the group; their candidates of choice differ (probability above 0.9975).']
    >>> bool(found["lower"][0] <= found["conf_low"][0] <= found["estimate"][0])
    True
    """
    cells = cells_of(result)
    a, b = pair_of(cells, groups, "groups", "group")
    out, home = names_of(exclude, "exclude"), abstention_of(cells, abstention)
    kept = outcomes_left(cells, out, home)
    if outcome is not None:
        refuse_abstention(outcome, home, "outcome")
    shown = kept if outcome is None else np.array([cells.number("outcome", outcome, "outcome")], dtype=np.intp)
    limit, level = _check_threshold(threshold, result), level_of(result, level)
    place, position = np.nonzero(((cells.row[:, a] >= 0) & (cells.row[:, b] >= 0))[:, shown])
    option = shown[position]
    found = _difference(result, cells, (place, a, option), (place, b, option), level)
    share = cells.grid(result["estimate"])
    choices = [Choices(probability_of_first(share[p][[a, b]][:, kept]) > 0) for p in range(len(cells.places))]
    above, below, differ = (np.full(len(place), np.nan) for _ in range(3))
    chosen, n = None, 0
    if found.draws is not None and result.draws is not None:
        n, draws = len(found.draws), found.draws
        both = probability_of_first(cells.grid(result.draws)[..., [a, b], :][..., kept])
        chosen = mean_of_draws(1 - np.nansum(both[:, :, 0] * both[:, :, 1], axis=-1))
        assert level is not None
        choices = [Choices(c.first, p, level) for c, p in zip(choices, mean_of_draws(both), strict=True)]
        lacking = np.array([np.isnan(both[:, :, g]).all(axis=(0, 2)) for g in (0, 1)]).any(axis=0)
        chosen = np.where(lacking, np.nan, chosen)  # a group that is not there chooses nobody
        above, below, differ = (
            share_of_draws(draws > limit, draws),
            share_of_draws(draws < -limit, draws),
            chosen[place],
        )
    pair = (cells.groups[a], cells.groups[b])
    of = denominator_of(result)
    said = [_describe_choices(cells, p, pair, kept, choices[p], chosen, n, of) for p in range(len(cells.places))]
    apart = [c.differ for c in choices]
    title = f"Support among {pair[0]} less support among {pair[1]}, as shares {of}{describe_excluded((*out, *home))}"
    if len(cells.places) == 1:
        title += f": {describe_difference(apart[0], None if chosen is None else chosen[0], n)}"
    return Report(
        columns={
            **{k: v for k, v in cells.keys(place, np.full(len(place), a), option).items() if k != "group"},
            **found.interval,
            "probability_above": above,
            "probability_below": below,
            **found.bounds,
            "choices_differ": pa.array([apart[p] for p in place], pa.bool_()),
            "probability_choices_differ": differ,
            **found.sides,
        },
        keys=(*cells.place_keys, "outcome"),
        title=title,
        call=f"polarization(groups={pair!r}, outcome={outcome!r}, threshold={threshold!r}, exclude={out!r}, "
        f"abstention={abstention!r}, level={level!r})",
        level=level,
        draws=found.draws,
        diagnostics={"threshold": limit, "findings": said},
        warnings=(
            *describe_abstention(result, home, out),
            *remarks_on(result, "differences carry no interval and no probability"),
        ),
    ).of(result)


def margin(
    result: Estimates,
    outcomes: Sequence[str],
    *,
    abstention: str | Sequence[str] | None = "auto",
    level: float | None = None,
) -> Estimates:
    """Report the margin of one outcome over another in each group.

    Parameters
    ----------
    result : Estimates
        The answer of a method for counts by unit, or of :func:`among_voters`.
    outcomes : (str, str)
        The outcomes a and b; the lead is a's share less b's.
    abstention : str, sequence of str or None, default "auto"
        The outcomes of those who did not vote, which are no candidates: as one of ``outcomes`` they are refused. ``"auto"`` recognizes
        their usual names, as in :func:`candidate_of_choice`; with None every outcome may be compared.
    level : float, optional
        Level of the intervals; the result's own when not given.

    Returns
    -------
    Estimates
        Key ``group`` (after ``district`` where there are several); ``estimate`` is the lead as a share of the group,
        ``probability`` the probability that it is above zero, ``count``, ``count_low`` and ``count_high`` the lead in people
        with its interval; ``share_a``, ``share_b``, ``count_a``, ``count_b`` the two outcomes. ``lower`` and ``upper`` are
        what the margins imply with certainty: sharp for shares of whole groups; valid, but perhaps wider than need be, for
        shares among voters. ``diagnostics["bounds"]`` says which.

    Examples
    --------
    >>> from crosslevel import Counts
    >>> from crosslevel.ecological import rxc
    >>> data = {"young": [10, 40, 70, 90, 20, 55], "old": [90, 60, 30, 10, 80, 45]}
    >>> data |= {"yes": [19, 37, 55, 67, 25, 46], "no": [81, 63, 45, 33, 75, 54]}
    >>> counts = Counts(data, groups=["young", "old"], outcomes=["yes", "no"])
    >>> found = margin(rxc(counts), outcomes=("yes", "no"))
    >>> (found["estimate"] > 0).tolist(), found.diagnostics["bounds"]
    ([True, False], 'sharp')
    """
    cells = cells_of(result)
    a, b = pair_of(cells, outcomes, "outcomes", "outcome")
    home = abstention_of(cells, abstention)
    for name in outcomes:
        refuse_abstention(name, home, "outcomes")
    level = level_of(result, level)
    place, group = np.nonzero((cells.row[:, :, a] >= 0) & (cells.row[:, :, b] >= 0))
    found = _difference(result, cells, (place, group, a), (place, group, b), level)
    probability = np.full(len(place), np.nan) if found.draws is None else share_of_draws(found.draws > 0, found.draws)
    people = people_of(cells, result)[place, group]
    sides = found.sides
    pair = (cells.outcomes[a], cells.outcomes[b])
    return Report(
        columns={
            **cells.keys(place, group),
            **found.interval,
            "probability": probability,
            **found.bounds,
            "share_a": sides["share_a"],
            "share_b": sides["share_b"],
            "count": sides["count_a"] - sides["count_b"],
            "count_low": found.interval["conf_low"] * people,
            "count_high": found.interval["conf_high"] * people,
            "count_a": sides["count_a"],
            "count_b": sides["count_b"],
        },
        keys=(*cells.place_keys, "group"),
        title=f"Lead of {pair[0]} over {pair[1]} in each group, as a share {denominator_of(result)}",
        call=f"margin(outcomes={pair!r}, abstention={abstention!r}, level={level!r})",
        level=level,
        draws=found.draws,
        diagnostics={"bounds": "valid" if "voters" in result.table.column_names else "sharp"},
        warnings=remarks_on(result, "leads carry no interval and no probability"),
    ).of(result)


class _Difference(NamedTuple):
    """One cell less another, row by row: columns of the table, and draws (n_draws, n_rows) or None."""

    interval: dict[str, FloatArray]
    bounds: dict[str, FloatArray]
    sides: dict[str, FloatArray]
    draws: FloatArray | None


def _difference(
    result: Estimates, cells: Cells, at_a: tuple[Any, ...], at_b: tuple[Any, ...], level: float | None
) -> _Difference:
    """Subtract the cells at b from the cells at a, each given by place, group and outcome."""
    (share_a, share_b), (count_a, count_b), (low_a, low_b), (high_a, high_b) = (
        (grid[at_a], grid[at_b]) for grid in (cells.grid(result[n]) for n in ("estimate", "count", "lower", "upper"))
    )
    draws = None
    if result.draws is not None:
        support = cells.grid(result.draws)
        draws = support[:, *at_a] - support[:, *at_b]
    return _Difference(
        interval={"estimate": share_a - share_b, **interval_columns(draws, share_a - share_b, level)},
        # in every unit a can have all it may while b has its least, so both ends are attained
        bounds={"lower": low_a - high_b, "upper": high_a - low_b},
        sides={"share_a": share_a, "share_b": share_b, "count_a": count_a, "count_b": count_b},
        draws=draws,
    )


def _check_threshold(threshold: object, result: Estimates) -> float:
    if threshold is None:
        return 0.0
    if isinstance(threshold, bool) or not isinstance(threshold, Real) or not 0 <= float(threshold) < 1:
        raise InputError(f"threshold={threshold!r} is not a difference of shares; pass a number from 0 to below 1.")
    if result.draws is None:
        raise InputError(f"threshold={threshold!r} has no effect without posterior draws; leave threshold out.")
    return float(threshold)


@dataclass(frozen=True)
class Choices:
    """Whom two groups of one place choose.

    Attributes
    ----------
    first : (2, n_outcomes) bool
        Which outcomes each group supports most; none where nothing is known.
    probability : (2, n_outcomes) or None
        Of being first, where there are draws.
    level : float
        Least probability of a candidate of choice.
    """

    first: BoolArray
    probability: FloatArray | None = None
    level: float = 0.0

    def open(self, group: int) -> bool:
        """Tell whether the candidate of choice of the group cannot be determined."""
        return self.probability is not None and not self._known(group)

    def _known(self, group: int) -> bool:
        assert self.probability is not None
        return bool((self.probability[group][self.first[group]] >= self.level).any())

    @property
    def differ(self) -> bool | None:
        """Whether the two choose differently; None where one has no choice, two that are tied, or none that can be determined."""
        if not self.first.any(axis=1).all() or self.open(0) or self.open(1):
            return None
        if not self.first.all(axis=0).any():
            return True
        return False if (self.first.sum(axis=1) == 1).all() else None


def _describe_choices(
    cells: Cells,
    place: int,
    pair: tuple[str, str],
    kept: IntArray,
    choices: Choices,
    chosen: FloatArray | None,
    n_draws: int,
    denominator: str,
) -> str:
    """Write whom the two groups of a place choose, by shares of whom, and whether they differ."""
    where = "".join(f"{v}: " for v in cells.places[place])
    told = []
    for group, name in enumerate(pair):
        first = choices.first[group]
        who = " or ".join(cells.outcomes[c] for c in kept[first]) or "nobody"
        if choices.probability is not None and choices.open(group) and first.any():
            sure = describe_probability(float(choices.probability[group][first].max()), n_draws)
            told.append(f"whom {name} choose {UNDETERMINED} ({who} with probability {sure})")
        else:
            told.append(f"{name} choose {who}")
    verdict = describe_difference(choices.differ, None if chosen is None else chosen[place], n_draws)
    return f"{where}{told[0]}, {told[1]}, by shares {denominator}; {verdict}."
