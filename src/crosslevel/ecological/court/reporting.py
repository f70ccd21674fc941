"""What the reports share: names read from an answer, probabilities and intervals from its joint draws, and the frame.

A method without draws gives the point answer, and nothing is made up in their place.

Those who did not vote: recognized by the name of their outcome, and nobody's candidate unless asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crosslevel.data import checks
from crosslevel.ecological.tables.answer_cells import Cells
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import BoolArray, FloatArray, IntArray

USUAL_LEVEL = 0.95
WITH_DRAWS = "rxc, king and multinomial_dirichlet"
FEW_DRAWS = 400
"""With fewer, a probability of 0.95 is known to worse than two points, and that is said."""


def probability_of_first(support: FloatArray) -> FloatArray:
    """Give each outcome its share of the first place in every draw (..., n_outcomes); ties are split evenly.

    Examples
    --------
    >>> import numpy as np
    >>> probability_of_first(np.array([[0.5, 0.2, 0.3], [0.4, 0.4, 0.2]])).tolist()
    [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]
    """
    level = np.where(np.isnan(support), -np.inf, support)
    best = level == level.max(axis=-1, keepdims=True)
    there = np.isfinite(support)
    first = (best & there).astype(np.float64)
    total = first.sum(axis=-1, keepdims=True)
    return np.where(there, np.divide(first, total, out=np.zeros_like(first), where=total > 0), np.nan)


def lead_over_others(support: FloatArray) -> FloatArray:
    """Give the lead of each outcome over the best of the others, (..., n_outcomes); NaN where there is no other."""
    filled = np.where(np.isnan(support), -np.inf, support)
    best_other = np.stack(
        [np.delete(filled, c, axis=-1).max(axis=-1, initial=-np.inf) for c in range(filled.shape[-1])], -1
    )
    with np.errstate(invalid="ignore"):
        lead = filled - best_other
    return np.where(np.isfinite(lead), lead, np.nan)


def interval_columns(draws: FloatArray | None, estimate: FloatArray, level: float | None) -> dict[str, FloatArray]:
    """Give std_error, conf_low and conf_high from draws (n_draws, ...); NaN where there are none.

    The interval is widened to hold the estimate, which need not be the draws' center where they end at a bound.
    """
    error, low, high = (np.full(estimate.shape, np.nan) for _ in range(3))
    if draws is not None and level is not None:
        known = np.isfinite(draws).any(axis=0) & np.isfinite(estimate)
        kept = draws[:, known]
        if kept.shape[1]:
            error[known] = np.nanstd(kept, axis=0)
            ends = np.nanquantile(kept, [(1 - level) / 2, (1 + level) / 2], axis=0)
            low[known], high[known] = np.minimum(ends[0], estimate[known]), np.maximum(ends[1], estimate[known])
    return {"std_error": error, "conf_low": low, "conf_high": high}


def share_of_draws(held: BoolArray, draws: FloatArray) -> FloatArray:
    """Give the share of the draws (n_draws, ...) in which something held; NaN where there are none."""
    return mean_of_draws(np.where(np.isfinite(draws), held, np.nan))


def mean_of_draws(values: FloatArray) -> FloatArray:
    """Average over the draws (n_draws, ...); NaN where there are none."""
    known = np.isfinite(values)
    n = known.sum(axis=0)
    return np.divide(np.where(known, values, 0.0).sum(axis=0), n, out=np.full(n.shape, np.nan), where=n > 0)


def level_of(result: Estimates, level: float | None, own: bool = False) -> float | None:
    """Choose the level of the intervals: the caller's, the answer's, 95 %.

    Without draws there is none, unless the answer's ``own`` interval is shown.
    """
    if level is not None:
        level = checks.check_level(level)
    if result.draws is not None:
        return level if level is not None else result.level if result.level is not None else USUAL_LEVEL
    if level is not None and level != result.level:
        has = "no interval" if result.level is None else f"its own interval at {result.level:g} only"
        raise InputError(
            f"level={level!r} needs posterior draws, and {result.method} has none and {has}; leave level out, or use a method "
            f"with draws ({WITH_DRAWS})."
        )
    return result.level if own else level


def remarks_on(result: Estimates, missing: str) -> tuple[str, ...]:
    """Say what the reader should know: no draws and what is missing for that, an assumed slope, few draws, or midpoints of bounds."""
    methods = set(result["method"].tolist()) if "method" in result.keys else {result.method.split(" ")[0]}
    said = (
        ("Midpoints of bounds are not estimates: nothing inside the bounds is more probable than anything else.",)
        if "bounds" in methods
        else ()
    )
    if result.draws is None:
        return (*said, f"{result.method}: no posterior draws, so {missing}; {WITH_DRAWS} have draws.")
    n = len(result.draws)
    slope, sd = (result.diagnostics.get(name) for name in ("contextual_slope", "contextual_slope_sd"))
    if slope is not None:
        assumed = f"Probabilities and intervals hold given the assumed contextual slope, {slope:g} ± {sd:g}"
        said = (*said, f"{assumed}, which margins cannot check; sensitivity shows the answer under others.")
    if n >= FEW_DRAWS:
        return said
    return (*said, f"Probabilities rest on {n:,} draws: one of 0.95 is known to ±{2 * np.sqrt(0.95 * 0.05 / n):.2f}.")


def names_of(names: str | Sequence[str], argument: str) -> tuple[str, ...]:
    """Read one name or several."""
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, Sequence):
        raise InputError(f"{argument}={names!r} is not a name or a list of names; pass text.")
    return tuple(dict.fromkeys(names))


def outcomes_left(cells: Cells, exclude: tuple[str, ...], abstention: tuple[str, ...] = ()) -> IntArray:
    """Give the numbers of the outcomes that are left when some are excluded, at least two."""
    out = {cells.number("exclude", name, "outcome") for name in exclude}
    out |= {cells.outcomes.index(name) for name in abstention}
    kept = np.array([c for c in range(len(cells.outcomes)) if c not in out], dtype=np.intp)
    if len(kept) < 2:
        also = (
            f" and abstention ({', '.join(map(repr, abstention))}; abstention=None leaves it in)" if abstention else ""
        )
        raise InputError(f"exclude={exclude!r}{also} leaves {len(kept)} outcome(s); leave at least two to choose from.")
    return kept


def pair_of(cells: Cells, names: object, argument: str, side: str) -> tuple[int, int]:
    """Read the names of two different groups or outcomes."""
    if isinstance(names, str) or not isinstance(names, Sequence) or len(names) != 2 or names[0] == names[1]:
        raise InputError(f"{argument}={names!r} is not a pair; pass the names of two different {side}s.")
    return cells.number(argument, names[0], side), cells.number(argument, names[1], side)


@dataclass(frozen=True)
class Report:
    """What a report says of a result: columns of the table, title, call, and as in :meth:`crosslevel.results.Estimates.build`.

    Without ``interval`` the interval is that of the draws, and there is none without draws.
    """

    columns: Mapping[str, Any]
    keys: Sequence[str]
    title: str
    call: str
    level: float | None
    interval: str | None = None
    draws: FloatArray | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    units: Estimates | None = None

    def of(self, result: Estimates) -> Estimates:
        """Lay it out with the result's method, seed, data and warnings, the call around its call."""
        came, draws = result.provenance, self.draws
        name, _, options = self.call.partition("(")
        kept = {k: v for k, v in result.diagnostics.items() if not isinstance(v, list | dict)}
        level, interval = self.level, self.interval
        if interval is None:
            level, interval = (None, "none") if draws is None else (level, f"quantiles of {len(draws):,} draws")
        return Estimates.build(
            self.columns,
            keys=self.keys,
            kind="margins",
            method=result.method,
            level=level,
            interval=interval,
            provenance=Provenance.of(
                call=f"crosslevel.ecological.{name}({came.call}, {options}", seed=came.seed, data=came.data
            ),
            diagnostics={**kept, **self.diagnostics},
            warnings=tuple(dict.fromkeys((*result.warnings, *self.warnings))),
            units=self.units,
            frame=result.frame,
            title=self.title,
            draws=draws,
        )


def _of_contests(text: str, names: Sequence[str], n: int) -> str:
    if len(names) == n:
        return text
    return f"{', '.join(names)}: {text}" if len(names) <= 3 else f"{len(names)} of {n} contests: {text}"


def said_once(where: Mapping[str, Sequence[str]], n: int) -> tuple[str, ...]:
    """Say sentences with the contests they are of, of ``n``.

    Examples
    --------
    >>> said_once({"No unit is homogeneous.": ["x", "y"], "Few voters.": ["y"]}, 2)
    ('No unit is homogeneous.', 'y: Few voters.')
    """
    return tuple(_of_contests(text, names, n) for text, names in where.items())


AUTO = "auto"
SEPARATORS = str.maketrans({" ": None, "_": None, "-": None, "\u2019": "'"})
WORDS = frozenset(
    (
        "did not vote",
        "didn't vote",
        "abstain",
        "abstained",
        "abstention",
        "abstentions",
        "non voter",
        "non voters",
        "not voting",
    )
)
"""Names of outcomes that mean abstention, in small letters."""


def abstention_among(outcomes: Sequence[str]) -> tuple[str, ...]:
    """Name the outcomes that are abstention, in any case and with spaces, "_", "-" or nothing between words.

    Examples
    --------
    >>> abstention_among(["Smith", "Did_Not_Vote", "non-voters"])
    ('Did_Not_Vote', 'non-voters')
    """
    joined = {word.replace(" ", "") for word in WORDS}
    plain = {name: str(name).casefold().translate(SEPARATORS) for name in outcomes}
    return tuple(name for name, text in plain.items() if text in joined)


def abstention_of(cells: Cells, abstention: str | Sequence[str] | None) -> tuple[str, ...]:
    """Read the argument ``abstention``: recognized outcomes, none, or those named."""
    if abstention is None:
        return ()
    if abstention == AUTO:
        return abstention_among(cells.outcomes)
    names = names_of(abstention, "abstention")
    for name in names:
        cells.number("abstention", name, "outcome")
    return names


def refuse_abstention(name: str, abstaining: Sequence[str], argument: str) -> None:
    """Refuse an outcome that is abstention where a candidate is asked for."""
    if name in abstaining:
        raise InputError(
            f"{argument} names {name!r}, which counts as abstention and is no candidate; turnout tells which share of a group voted. "
            "To compare it all the same, pass abstention=None."
        )


def describe_abstention(result: Estimates, abstaining: Sequence[str], excluded: Sequence[str] = ()) -> tuple[str, ...]:
    """Say that outcomes were left out as abstention, unless the caller excluded them."""
    left = [name for name in abstaining if name not in excluded]
    if not left:
        return ()
    return (
        f"{listed(left)} counts as abstention and is nobody's candidate; shares are {denominator_of(result)}. among_voters gives "
        "shares of those who voted, abstention=None counts it as a choice.",
    )


def denominator_of(result: Estimates) -> str:
    """Say of whom the shares of a result are shares.

    Examples
    --------
    >>> from crosslevel import Counts
    >>> from crosslevel.ecological import among_voters, neighborhood
    >>> data = {"young": [60, 20], "old": [40, 80], "yes": [30, 20], "no": [20, 60], "did not vote": [50, 20]}
    >>> found = neighborhood(Counts(data, groups=["young", "old"], outcomes=["yes", "no", "did not vote"]))
    >>> denominator_of(found), denominator_of(among_voters(found))
    ('of everybody in the group', "of the group's voters")
    """
    return "of the group's voters" if "voters" in result.table.column_names else "of everybody in the group"
