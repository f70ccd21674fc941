"""Intervals that allow for confounding: one variance on the logit scale, learned by hiding known columns.

That a subgroup behaves alike wherever it lives cannot be checked with totals, and it is not true: groups live in special places.
The error this makes does not shrink with more people. Draws have confounded *effects* (:mod:`crosslevel.ecological.persons.groups`), and
are re-shifted to the place's total, so that a group that is nearly everybody cannot be wrong by much.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import special

from crosslevel.data.expressions import read_expression
from crosslevel.ecological.subgroups import Request
from crosslevel.typing import FloatArray

CROSSED = 0.3
"""Variance of the effect of a crossing of two columns, in units of tau^2."""
SCENARIOS = 40
"""Scales of columns that stand for the law of heavy tails."""


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
        Columns that were hidden to learn them; 0 for those shipped.
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


@dataclass(frozen=True, eq=False)
class LearnedConfounding:
    """What hidden columns taught.

    Attributes
    ----------
    confounding : Confounding
    shrinkage : mapping of column to float
        How far its effects are shrunk.
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
            return f"tau {c.of_effects.tau:.2f} (shipped; {len(self.labels)} column(s) are too few to learn it)"
        within = "" if np.isnan(self.place_coverage) else f" (within places {self.place_coverage:.2f})"
        return (
            f"tau {c.of_effects.tau:.2f} from {c.n_labels} columns, leave-one-out coverage {self.coverage:.2f}{within}"
        )


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


def cutting_columns(request: Request, schema: pa.Schema) -> list[set[str]]:
    """Name the columns that cut each partition."""

    def columns(text: str) -> set[str]:
        return set(read_expression(text, "where", schema).columns)

    own = {*request.by, *(set() if request.where is None else columns(request.where))}
    return [own | columns(text) for text in request.subgroups.values()] or [own]
