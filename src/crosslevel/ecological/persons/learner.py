"""Learn the constants of confounding from hidden labels, and score labels of other families with them.

tau is the one whose intervals have the least mean score over labels, which a label that is far off cannot govern. What few labels cannot
tell is kept as it is shipped: how far effects are shrunk, omega, and the doubt about how much of an effect is contextual.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import special, stats

from crosslevel.ecological.confounding import Confounding, LearnedConfounding
from crosslevel.ecological.persons.hidden_errors import Errors, HiddenLabel, errors_of, variance_of
from crosslevel.results.scores import interval_score
from crosslevel.typing import FloatArray

__all__ = ["Halves", "Learner", "learn_confounding", "quantile"]

FEW = 3
"""Fewer hidden labels than this tell less than the shipped constants."""
MANY_FAMILIES = 8
"""Families from which on the normal quantile serves: each is one draw of the confounding."""
TAUS = np.arange(0.0, 1.501, 0.01)
"""Values of tau that are tried."""
SCORED = 0.95
"""Level of the intervals whose score chooses tau."""


Halves = tuple[HiddenLabel, HiddenLabel]


class Learner:
    """Learn constants from some hidden labels, and score others with them.

    Parameters
    ----------
    labels : sequence of pairs of HiddenLabel
        The halves of each label.
    families : mapping of label to family
        Labels of one family are left out together.
    base : Confounding
        Constants that are not learned.
    shrinkage : mapping of column to float
        How far effects are shrunk.
    """

    def __init__(
        self,
        labels: Sequence[Halves],
        families: Mapping[str, str],
        base: Confounding,
        shrinkage: Mapping[str, float],
    ) -> None:
        self.labels = {halves[0].label: halves for halves in labels}
        self.families, self.base, self.shrinkage = dict(families), base, dict(shrinkage)
        self._errors: dict[tuple[str, bool], list[dict[str, dict[str, Errors]]]] = {}
        self._by_tau: dict[str, FloatArray | None] = {}

    def errors(self, label: str, shrunk: bool = True) -> list[dict[str, dict[str, Errors]]]:
        """Give the errors of both halves of a label, effects shrunk or as they were found."""
        if (label, shrunk) not in self._errors:
            found = [errors_of(half, self.shrinkage if shrunk else {}) for half in self.labels[label]]
            self._errors[label, shrunk] = found
        return self._errors[label, shrunk]

    def others(self, label: str) -> list[str]:
        """Name the labels of other families."""
        return [name for name in self.labels if self.families[name] != self.families[label]]

    def learn(self, names: Sequence[str]) -> Confounding:
        """Find the tau of the least mean interval score over labels: those far off count by how far, not by its square.

        The base's is kept where labels are too few.
        """
        scores = [s for s in (self._scores_by_tau(name) for name in names) if s is not None]
        if len(scores) < FEW:
            return self.base
        n_families = len({self.families[name] for name in names})
        degrees = None if n_families >= MANY_FAMILIES else float(n_families + 1)
        tau = float(TAUS[int(np.argmin(np.mean(scores, axis=0)))])
        said = f"{len(names)} columns of {n_families} families of the people given, halves of clusters kept apart"
        return replace(self.base, tau=tau, n_labels=len(names), degrees=degrees, learned_on=said)

    def _scores_by_tau(self, label: str) -> FloatArray | None:
        """Give the mean score of a label's intervals over all places for every tau; None where no group has an error."""
        if label not in self._by_tau:
            nation = [e for half in self.errors(label) for e in half["nation"].values() if len(e.truth)]
            self._by_tau[label] = None
            if nation:
                z = float(stats.norm.ppf(0.5 * (1.0 + SCORED)))
                tried = (replace(self.base, tau=tau) for tau in TAUS.tolist())
                self._by_tau[label] = np.array([_scores(nation, constants, z, SCORED)["score"] for constants in tried])
        return self._by_tau[label]

    def scores(self, label: str, constants: Confounding, level: float, shrunk: bool = True) -> dict[str, Any]:
        """Score the intervals of a label's groups: rates, so that points of a percentage are hundredths."""
        halves = self.errors(label, shrunk)
        z = quantile(constants, level)
        nation, crossed, places = (
            [e for half in halves for e in half[part].values()] for part in ("nation", "crossings", "places")
        )
        said = {"share": self.labels[label][0].share, **_scores(nation, constants, z, level)}
        said["groups"] = sum(len(e.truth) for e in halves[0]["nation"].values())
        crossings = _scores(crossed, constants, z, level)
        said |= {f"crossing_{n}": crossings[n] for n in ("error", "coverage", "width", "score")}
        within = _scores(places, constants, z, level, by_people=True)
        names = ("rmse", "neighborhood_rmse", "coverage", "width", "score")
        return said | {f"place_{n}": within[n] for n in names}


def _stacked(values: Sequence[FloatArray]) -> FloatArray:
    return np.concatenate(values) if values else np.zeros(0)


def quantile(constants: Confounding, level: float) -> float:
    """Give the quantile that intervals of a level take: Student's where few families were hidden."""
    tail = 0.5 * (1.0 + level)
    return float(stats.norm.ppf(tail) if constants.degrees is None else stats.t.ppf(tail, constants.degrees))


def _scores(
    found: Sequence[Errors], constants: Confounding, z: float, level: float, by_people: bool = False
) -> dict[str, float]:
    """Score intervals; every group counts alike, or by its people."""
    names = ("error", "neighborhood_error", "rmse", "neighborhood_rmse", "coverage", "width", "score")
    if not any(len(e.truth) for e in found):
        return dict.fromkeys(names, float("nan"))
    P, T, near, people = (
        _stacked([getattr(e, n) for e in found]) for n in ("estimate", "truth", "neighborhood", "people")
    )
    spread = z * np.sqrt(_stacked([variance_of(e, constants) for e in found]))
    low, high = special.expit(special.logit(P) - spread), special.expit(special.logit(P) + spread)
    w = people / people.sum() if by_people else np.full(len(P), 1.0 / len(P))
    values = (
        w @ np.abs(P - T),
        w @ np.abs(near - T),
        np.sqrt(w @ (P - T) ** 2),
        np.sqrt(w @ (near - T) ** 2),
        w @ ((low <= T) & (high >= T)),
        w @ (high - low),
        interval_score(low, high, T, level, w),
    )
    return dict(zip(names, map(float, values), strict=True))


def learn_confounding(learner: Learner, level: float = 0.95) -> LearnedConfounding:
    """Learn from all labels, and check it leaving out one family at a time.

    Parameters
    ----------
    learner : Learner
    level : float
        Level of the intervals that are checked.
    """
    rows = []
    for label in learner.labels:
        constants = learner.learn(learner.others(label))
        rows.append({"label": label, "family": learner.families[label]} | learner.scores(label, constants, level))
    table = pa.Table.from_pylist(rows)
    constants = learner.learn(list(learner.labels))
    nation, within = (_mean([row[name] for row in rows]) for name in ("coverage", "place_coverage"))
    return LearnedConfounding(constants, learner.shrinkage, tuple(learner.labels), nation, within, table, level)


def _mean(values: Sequence[float]) -> float:
    """Average what there is, NaN where there is nothing."""
    there = [v for v in values if np.isfinite(v)]
    return float(np.mean(there)) if there else float("nan")
