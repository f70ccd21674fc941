"""Intervals that allow for confounding: one variance on the logit scale, learned by hiding known columns.

That a subgroup behaves alike wherever it lives cannot be checked with totals, and it is not true: groups live in special places.
The error this makes does not shrink with more people. The constants of both forms of the likelihood are here. The aggregate form draws
confounded *effects* (:mod:`crosslevel.ecological.persons.groups`). The exact form draws confounded groups: eta_ig + u_g + u_ig,
u_g ~ N(0, tau^2) shared by all places, u_ig ~ N(0, omega^2) of one place. Either is re-shifted to the place's total, so that a group
that is nearly everybody cannot be wrong by much.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import special

from crosslevel.data.queries import parse
from crosslevel.ecological.subgroups import Request
from crosslevel.typing import FloatArray, IntArray

CROSSED = 0.3
"""Variance of the effect of a crossing of two columns, in units of tau^2."""
SCENARIOS = 40
"""Scales of columns that stand for the law of heavy tails."""
NOBODY = -1
"""Code of parts that a column has no effect on."""


@dataclass(frozen=True)
class Tail:
    """Heavy tails: the prior of a column's effects, and what confounds them, are multiplied by one scale that may be large.

    Attributes
    ----------
    degrees : float
        Degrees of freedom of the scale, whose square is their number over a chi-square variable of as many.
    tau, distance : float
        In place of those of a normal law.
    """

    degrees: float
    tau: float
    distance: float

    def scales(self, names: Sequence[str]) -> FloatArray:
        """Give equally probable scales of columns, (n, SCENARIOS): the same for each, in the order that its name draws.

        Examples
        --------
        >>> found = Tail(4.0, 0.1, 0.5).scales(["age", "race"])
        >>> found.shape, bool((np.sort(found[0]) == np.sort(found[1])).all()), round(float(np.median(found)), 1)
        ((2, 40), True, 1.1)
        """
        scale = np.sqrt(self.degrees / special.chdtri(self.degrees, (np.arange(SCENARIOS) + 0.5) / SCENARIOS))
        return np.stack([np.random.default_rng(zlib.crc32(name.encode())).permutation(scale) for name in names])


@dataclass(frozen=True)
class Confounding:
    """How far subgroup logits may be off for reasons that totals cannot show.

    Attributes
    ----------
    tau : float
        sd shared by all places.
    omega : float
        sd of one place.
    n_labels : int
        Columns that were hidden to learn them; 0 for the fallback.
    degrees : float or None
        Degrees of freedom of Student's quantile, which few columns ask for; None where many were hidden.
    pairs : float
        Variance of the effect of two levels together, in units of tau^2.
    distance : float
        sd of a factor of all effects of a column: the further a group lies from its neighborhood, the less sure it is.
    shrinkage, segregated : float
        How far the effects of a column are shrunk whose shares differ between places by more than ``segregated`` (variance over
        s (1 - s)); the effects of other columns are not.
    learned_on : str
        Where the constants come from.
    tail : Tail or None
        Of effects that only totals tell; the prior that a survey changes is normal, and so is all where this is None.
    """

    tau: float
    omega: float
    n_labels: int = 0
    degrees: float | None = None
    pairs: float = CROSSED
    distance: float = 0.0
    shrinkage: float = 0.0
    segregated: float = 0.0
    learned_on: str = ""
    tail: Tail | None = None

    @property
    def of_effects(self) -> Tail:
        """What is said of the effects of a column: its tails, or a normal law, which has endless degrees of freedom."""
        return self.tail or Tail(np.inf, self.tau, self.distance)


FALLBACK = Confounding(
    0.47,
    0.15,
    learned_on="twelve columns of United States microdata in 886 regions, totals and composition from different households",
)
"""Of the exact form and of the paper's model, for groups asked for."""
SHIPPED = Confounding(
    0.28,
    0.08,
    distance=0.5,
    shrinkage=0.45,
    segregated=0.012,
    learned_on=(
        "twenty-one columns of United States microdata in 886 regions, totals and composition from different households; shrinkage and "
        "distance were chosen with the national vote of 2024 in sight"
    ),
    tail=Tail(4.0, 0.20, 0.5),
)
"""Of the aggregate form, for effects."""


@dataclass(frozen=True, eq=False)
class LearnedConfounding:
    """What hidden columns taught.

    Attributes
    ----------
    confounding : Confounding
    shrinkage : mapping of column to float
        How far its groups are shrunk toward the places' own rates.
    labels : tuple of str
    coverage, place_coverage : float
        Of intervals for every hidden column, all else learned from the others: over all places, and within places.
    table : pyarrow.Table
        The same by hidden column: error, coverage, width and score, of all places and within places, and the error of the
        neighborhood.
    level : float
        Level of those intervals.
    """

    confounding: Confounding
    shrinkage: Mapping[str, float]
    labels: tuple[str, ...]
    coverage: float
    place_coverage: float
    table: pa.Table
    level: float

    def __repr__(self) -> str:
        return f"<LearnedConfounding: {self.describe()}>"

    def describe(self) -> str:
        """Say it in one line."""
        c = self.confounding
        if not c.n_labels:
            return f"tau {c.of_effects.tau:.2f} (fallback; {len(self.labels)} column(s) are too few to learn it)"
        within = "" if np.isnan(self.place_coverage) else f" (within places {self.place_coverage:.2f})"
        return (
            f"tau {c.of_effects.tau:.2f} from {c.n_labels} columns, leave-one-out coverage {self.coverage:.2f}{within}"
        )


def shrink(f: FloatArray, place_logit: FloatArray, amount: float) -> FloatArray:
    """Shrink logits toward the place's own, by a share.

    Parameters
    ----------
    f : (n_draws, m) or (m,)
    place_logit : (m,)
        Logit of the rate of each part's place.
    amount : float
        lambda, 0 for nothing and 1 for the neighborhood.

    Examples
    --------
    >>> shrink(np.array([1.0]), np.array([0.0]), 0.3)
    array([0.7])
    """
    if amount == 0.0:
        return f
    return (1.0 - amount) * f + amount * place_logit


@dataclass(frozen=True, eq=False)
class Shared:
    """Draws of the confounding that all places share.

    Attributes
    ----------
    codes : list of (m,) int
        Effect of each part, in each column that cuts them and in their crossing; NOBODY for none.
    values : list of (n_draws, n_codes + 1)
        The last is zero: the effect on NOBODY.
    scale : (n_draws, 1)
        How many times tau a draw takes: uncertain where few columns were hidden.
    """

    codes: list[IntArray]
    values: list[FloatArray]
    scale: FloatArray

    def at(self, parts: IntArray) -> FloatArray:
        """Give the effects of some parts, (n_draws, len(parts))."""
        out = np.zeros((len(self.scale), len(parts)))
        for codes, values in zip(self.codes, self.values, strict=True):
            out += values[:, codes[parts]]
        return out


def draw_shared(effects: list[IntArray], confounding: Confounding, n_draws: int, rng: np.random.Generator) -> Shared:
    """Draw effects of levels: those of several columns add up, with a smaller one of their crossing.

    Parameters
    ----------
    effects : list of (m,) int
        Level of each part in each column that cuts them, or NOBODY; parts that are NOBODY in one of them have no effect of the crossing.
    confounding : Confounding
    n_draws : int
    rng : numpy.random.Generator
    """
    scale = np.ones((n_draws, 1))
    if confounding.degrees is not None:
        scale = np.sqrt(confounding.degrees / rng.chisquare(confounding.degrees, (n_draws, 1)))
    codes, sizes = list(effects), [1.0] * len(effects)
    if len(effects) > 1:
        _, crossing = np.unique(np.column_stack(effects), axis=0, return_inverse=True)
        codes.append(np.where(np.min(effects, axis=0) == NOBODY, NOBODY, crossing.reshape(-1)))
        sizes.append(float(np.sqrt(CROSSED)))
    values = []
    for c, size in zip(codes, sizes, strict=True):
        n = int(c.max(initial=NOBODY)) + 1
        drawn = size * confounding.tau * scale * rng.standard_normal((n_draws, n))
        values.append(np.column_stack([drawn, np.zeros(n_draws)]))
    return Shared(codes, values, scale)


def perturb(
    f: FloatArray,
    shared: Shared,
    parts: IntArray,
    place: IntArray,
    confounding: Confounding,
    seed: int,
    key: tuple[int, ...],
) -> FloatArray:
    """Add confounding to every draw: shared effects of levels, and one of each part.

    Parameters
    ----------
    f : (n_draws, m)
        Logits of parts.
    shared : Shared
    parts : (m,) int
        Their numbers.
    place : (m,) int
        Their places: the effects of one place do not depend on which others are asked for.
    confounding : Confounding
    seed, key
        Of the random numbers.
    """
    out = f + shared.at(parts)
    if confounding.omega > 0:
        order = np.argsort(place, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(place[order])) + 1):
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(*key, int(place[some[0]]))))
            out[:, some] += confounding.omega * shared.scale * rng.standard_normal((len(f), len(some)))
    return out


def describe_confounding(
    learned: LearnedConfounding | None, request: Request, shrinkage: tuple[float, ...]
) -> tuple[Confounding, str, dict[str, Any]]:
    """Say which confounding an answer allows for, in a sentence for its reader and in its diagnostics."""
    found = FALLBACK if learned is None else learned.confounding
    facts: dict[str, Any] = {"tau": found.tau, "omega": found.omega, "hidden_columns": found.n_labels}
    if learned is None:
        sentence = (
            f"Intervals allow for confounding with the fallback tau = {FALLBACK.tau}, learned on United States microdata; "
            "learn_confounding() learns it from columns of your own people, and estimates are then shrunk toward their places "
            "(lambda = 0 until then)."
        )
    else:
        sentence = f"Intervals allow for confounding: {learned.describe()}."
        facts["leave_one_out_coverage"] = learned.coverage
    names = list(request.subgroups) or [", ".join(request.by) or str(request.where)]
    shrunk = [f"{name} {amount:.2g}" for name, amount in zip(names, shrinkage, strict=False) if amount]
    return found, sentence, facts | {"shrunk_toward_places": "; ".join(shrunk) or "none"}


def describe_allowance(
    learned: LearnedConfounding | None, found: Confounding, shrinkage: Mapping[str, float]
) -> tuple[str, dict[str, Any]]:
    """Say which confounding of effects an answer allows for, in a sentence for its reader and in its diagnostics."""
    shrunk = "; ".join(f"{name} {amount:.2g}" for name, amount in shrinkage.items() if amount) or "none"
    law = found.of_effects
    facts: dict[str, Any] = {"tau": law.tau, "omega": found.omega, "distance": law.distance, "pairs": found.pairs}
    if found.tail is not None:
        facts["tail_degrees"] = law.degrees
    facts |= {
        "hidden_columns": found.n_labels,
        "shrunk_toward_places": shrunk,
        "constants_learned_on": found.learned_on,
    }
    if learned is None:
        return (
            f"Intervals allow for confounding with the shipped constants (tau = {law.tau}{_describe_tail(found)}), learned on "
            f"{found.learned_on}; "
            f"learn_confounding() learns them from columns of your own people. Effects shrunk toward the places: {shrunk}."
        ), facts
    facts["leave_one_out_coverage"] = learned.coverage
    said = replace(learned, confounding=found).describe()  # with a survey, of a normal law
    return f"Intervals allow for confounding: {said}. Effects shrunk toward the places: {shrunk}.", facts


def _describe_tail(found: Confounding) -> str:
    return "" if found.tail is None else f", tails of {found.tail.degrees:g} degrees of freedom"


def shrinkage_of(learned: LearnedConfounding | None, request: Request) -> tuple[float, ...]:
    """Give the shrinkage of each partition: groups of one column as learned, crossings of several none."""
    known = {} if learned is None else learned.shrinkage
    return tuple(
        known.get(next(iter(columns)), 0.0) if len(columns) == 1 else 0.0 for columns in cutting_columns(request)
    )


def cutting_columns(request: Request) -> list[set[str]]:
    """Name the columns that cut each partition."""
    own = {*request.by, *(() if request.where is None else parse(request.where).columns)}
    if not request.subgroups:
        return [own]
    return [{*own, *parse(query).columns} for query in request.subgroups.values()]


def columns_apart(request: Request) -> tuple[int, ...]:
    """Count, for each partition, the columns beside those of its levels that tell its people from the rest.

    Examples
    --------
    >>> columns_apart(Request(("race",), {}, "sex == 2")), columns_apart(Request((), {"old women": "sex == 2 and age >= 65"}, None))
    ((1,), (1,))
    """
    # a partition without columns of its own has one level, which stands for one of them
    return tuple(max(len(columns) - max(len(request.by), 1), 0) for columns in cutting_columns(request))
