"""How far one outcome leads another in each group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crosslevel.ecological.court import draws as from_draws
from crosslevel.ecological.court.cells import cells_of, pair_of, people_of, report_estimates
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

__all__ = ["margin"]


def margin(result: Estimates, outcomes: Sequence[str], *, level: float | None = None) -> Estimates:
    """Tell how far one outcome leads another in each group.

    Parameters
    ----------
    result : Estimates
        The answer of a method of this room, or of :func:`among_voters`.
    outcomes : (str, str)
        The outcomes a and b; the lead is a's share less b's.
    level : float, optional
        Level of the intervals; the result's own when not given.

    Returns
    -------
    Estimates
        Key ``group`` (after ``district`` where there are several); ``estimate`` is the lead as a share of the group,
        ``probability`` the chance that it is above zero, ``count``, ``count_low`` and ``count_high`` the lead in people
        with its interval; ``share_a``, ``share_b``, ``count_a``, ``count_b`` the two outcomes. ``lower`` and ``upper`` are
        what the margins imply with certainty: sharp for shares of whole groups; valid, but perhaps wider than need be, for
        shares among voters. ``diagnostics["bounds"]`` says which.

    Examples
    --------
    >>> from crosslevel.ecological import rxc
    >>> people = {"young": [10, 40, 70, 90, 20, 55], "old": [90, 60, 30, 10, 80, 45]}
    >>> votes = {"yes": [19, 37, 55, 67, 25, 46], "no": [81, 63, 45, 33, 75, 54]}
    >>> found = margin(rxc(people, votes), outcomes=("yes", "no"))
    >>> (found["estimate"] > 0).tolist(), found.diagnostics["bounds"]
    ([True, False], 'sharp')
    """
    cells = cells_of(result)
    a, b = pair_of(cells, outcomes, "outcomes", "outcome")
    level = from_draws.level_of(result, level) if result.draws is not None or level is not None else None
    share, count, least, most = (cells.grid(result[n]) for n in ("estimate", "count", "lower", "upper"))
    place, group = np.nonzero((cells.row[:, :, a] >= 0) & (cells.row[:, :, b] >= 0))

    def of(values: FloatArray, option: int) -> FloatArray:
        picked: FloatArray = values[..., place, group, option]
        return picked

    lead = of(share, a) - of(share, b)
    draws, n = None, 0
    error, low, high, chance = (np.full(len(place), np.nan) for _ in range(4))
    if result.draws is not None and level is not None:
        support = cells.grid(result.draws)
        draws, n = of(support, a) - of(support, b), len(support)
        error, low, high = from_draws.interval_of(draws, lead, level)
        chance = from_draws.share_of_draws(draws > 0, draws)
    people = people_of(cells, result)[place, group]
    columns: dict[str, Any] = {
        **cells.keys(place, group),
        "estimate": lead,
        "std_error": error,
        "conf_low": low,
        "conf_high": high,
        "probability": chance,
        # in every unit a can take all it may while b is left with its least, so both ends are attained
        "lower": of(least, a) - of(most, b),
        "upper": of(most, a) - of(least, b),
        "share_a": of(share, a),
        "share_b": of(share, b),
        "count": of(count, a) - of(count, b),
        "count_low": low * people,
        "count_high": high * people,
        "count_a": of(count, a),
        "count_b": of(count, b),
    }
    pair = (cells.outcomes[a], cells.outcomes[b])
    return report_estimates(
        result,
        columns,
        keys=(*cells.place_keys, "group"),
        title=f"Lead of {pair[0]} over {pair[1]} in each group",
        call=f"margin(outcomes={pair!r}, level={level!r})",
        level=None if draws is None else level,
        interval="none" if draws is None else f"quantiles of {n:,} draws",
        draws=draws,
        diagnostics={"bounds": "valid" if "voters" in result.table.column_names else "sharp"},
        warnings=from_draws.remarks_on(result, "leads carry no interval and no probability"),
    )
