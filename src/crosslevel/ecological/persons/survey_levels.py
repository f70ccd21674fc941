"""What a survey moved: every level of every column without it, with it, and as simpler methods say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import special, stats

from crosslevel.data.place_cells import Bins
from crosslevel.ecological.persons.poststratification import calibrated_rates, direct_rates, mrp_rates, regress
from crosslevel.ecological.persons.respondents import Respondents
from crosslevel.ecological.persons.survey import EffectPrior, Likelihood, SurveyPosterior
from crosslevel.typing import FloatArray, IntArray

LEVEL = 0.95
Z = float(stats.norm.ppf(0.5 + LEVEL / 2))
DIRECT = "respondents"
METHODS = ("totals", "survey and totals", DIRECT, "MRP", "calibrated MRP")
"""Totals alone, both, respondents as they answered, multilevel regression with poststratification, and that shifted to the totals."""
LEAST_SHOWN = 10.0
"""Respondents below which the direct share of a level is not given: it would be the answers of single people."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A question that a survey asked, fitted.

    Attributes
    ----------
    name : str
    number : int
    bins : Bins
    problem : Likelihood
    people : (q,)
        How many of each place are asked it.
    prior : EffectPrior
    posterior : SurveyPosterior
    respondents : Respondents or None
    """

    name: str
    number: int
    bins: Bins
    problem: Likelihood
    people: FloatArray
    prior: EffectPrior
    posterior: SurveyPosterior
    respondents: Respondents | None

    def columns(self) -> Iterator[tuple[str, list[str], IntArray, IntArray | None]]:
        """Give name, words of the levels, level of every pair, and level of every row of respondents, of each column."""
        bins, own, kinds = self.bins, self.respondents, self.problem.kinds
        words = bins.describe()
        for j, name in enumerate(bins.names):
            level = kinds.levels[kinds.pairs.cell, j].astype(np.intp)
            yield name, list(words[name]), level, None if own is None else own.levels[:, j]

    def counts(self, level: IntArray | None, n: int) -> tuple[FloatArray, FloatArray]:
        """Count the respondents of each level who said yes, and all of them."""
        own = self.respondents
        if own is None or level is None:
            return np.zeros(n), np.zeros(n)
        yes, asked = (np.bincount(level, v[self.number], n) for v in (own.successes, own.trials))
        return np.asarray(yes), np.asarray(asked)


def describe_levels(stage: Stage, compare: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Say of every level of every column what the survey moved, and what each method makes of it, over all places.

    Methods are totals, both, and respondents; with ``compare`` also MRP and calibrated MRP.
    """
    problem, own, kinds = stage.problem, stage.respondents, stage.problem.kinds
    regression, areas = None, cast("tuple[IntArray, ...]", ())
    if compare and own is not None:
        areas = (own.areas,) if own.areas.max(initial=0) > 0 else ()
        regression = regress(kinds, problem.rows, areas)
    at = [problem.plain(theta) for theta in (stage.prior.mean, stage.posterior.theta)]
    covariances = (stage.prior.root @ stage.prior.root, stage.posterior.covariance)
    moved: list[dict[str, Any]] = []
    compared: list[dict[str, Any]] = []
    for name, words, level, of_rows in stage.columns():
        n, counts = len(words), stage.counts(of_rows, len(words))
        both = [problem.groups(one, stage.people, level, n) for one in at]
        people, found = both[0].people, [(g.rate, g.spread(C)) for g, C in zip(both, covariances, strict=True)]
        shown = counts[1] >= LEAST_SHOWN
        yes, asked = (np.where(shown, v, 0.0) for v in counts)
        direct, *ends = direct_rates(yes, asked, np.arange(n), n, Z)
        found.append((direct, (ends[1] - ends[0]) / (2.0 * Z)))
        if regression is not None:
            found += [mrp_rates(regression, kinds, stage.people, areas, level, n)]
            found += [calibrated_rates(regression, kinds, problem.rate, stage.people, level, n)]
        heads = [{"question": stage.name, "column": name, "level": word} for word in words]
        lived = np.flatnonzero(people > 0).tolist()
        moved += [heads[i] | _move(i, people, found, counts) for i in lived]
        for method, (P, sd) in zip(METHODS, found, strict=False):
            rows = {i: _interval(P[i], sd[i]) for i in lived if np.isfinite(P[i])}
            if method == DIRECT:  # of a share that may be 0 or 1, which has no logit
                rows = {i: _row(P[i], sd[i], ends[0][i], ends[1][i]) for i in rows}
            compared += [heads[i] | {"method": method} | row for i, row in rows.items()]
    return moved, compared


def _move(
    i: int,
    people: FloatArray,
    found: list[tuple[FloatArray, FloatArray]],
    counts: tuple[FloatArray, FloatArray],
) -> dict[str, Any]:
    """Compare a level without and with the survey, and with its respondents."""
    (before, spread), (after, left), (direct, _) = ((P[i], sd[i]) for P, sd in found[:3])
    spread, shown = max(spread, 1e-12), bool(np.isfinite(direct))
    return {
        "share": float(people[i] / people.sum()),
        "without": float(before),
        "with_survey": float(after),
        "moved": float((special.logit(after) - special.logit(before)) / spread),
        "from_survey": float(1.0 - (left / spread) ** 2),
        "direct": float(direct) if shown else None,
        "n": float(counts[1][i]) if shown else None,
        "survey_share": float(counts[1][i] / counts[1].sum()) if shown else None,
    }


def _interval(P: float, sd: float) -> dict[str, Any]:
    """Give an estimate with its interval, from the sd of its logit."""
    with np.errstate(divide="ignore"):
        low, high = (float(special.expit(special.logit(P) + side * Z * sd)) for side in (-1.0, 1.0))
    return _row(P, sd * P * (1.0 - P), low, high)


def _row(P: float, std_error: float, low: float, high: float) -> dict[str, Any]:
    return {"estimate": float(P), "std_error": float(std_error), "conf_low": float(low), "conf_high": float(high)}
