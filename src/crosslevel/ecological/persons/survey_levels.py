"""What a survey moved: every level of every column without it, with it, and as simpler methods say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import special, stats

from crosslevel.data.place_cells import PlaceCells
from crosslevel.ecological.persons.model import PersonsModel
from crosslevel.ecological.persons.poststratification import calibrated_rates, direct_rates, mrp_rates, regress
from crosslevel.ecological.persons.respondents import Respondents
from crosslevel.ecological.persons.survey import EffectPrior, Likelihood, SurveyPosterior, pairs_of
from crosslevel.typing import FloatArray, IntArray

__all__ = ["LEVEL", "METHODS", "Stage", "compare_levels", "describe_moves"]

LEVEL = 0.95
METHODS = ("totals", "survey and totals", "respondents", "MRP", "calibrated MRP")
"""Totals alone, both, respondents as they answered, multilevel regression with post-stratification, and that shifted to the totals."""
LEAST_SHOWN = 10.0
"""Respondents below which the direct share of a level is not given: it would be the answers of single people."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A question that a survey asked, fitted.

    Attributes
    ----------
    name : str
    number : int
    model : PersonsModel
    cells : PlaceCells
    problem : Likelihood
    people : (q,)
        How many of each place are asked it.
    prior : EffectPrior
    posterior : SurveyPosterior
    respondents : Respondents or None
    """

    name: str
    number: int
    model: PersonsModel
    cells: PlaceCells
    problem: Likelihood
    people: FloatArray
    prior: EffectPrior
    posterior: SurveyPosterior
    respondents: Respondents | None

    def columns(self) -> Iterator[tuple[str, list[str], IntArray, IntArray | None]]:
        """Give name, words of the levels, level of every pair, and level of every row of respondents, of each column."""
        bins, own = self.model.bins, self.respondents
        words = bins.describe()
        for j, name in enumerate(bins.names):
            level = self.cells.codes[self.problem.pairs.cell, j].astype(np.intp)
            yield name, list(words[name]), level, None if own is None else own.levels[:, j]

    def counts(self, level: IntArray | None, n: int) -> tuple[FloatArray, FloatArray]:
        """Count the respondents of each level who said yes, and all of them."""
        own = self.respondents
        if own is None or level is None:
            return np.zeros(n), np.zeros(n)
        yes, asked = (np.bincount(level, v[self.number], n) for v in (own.successes, own.trials))
        return np.asarray(yes), np.asarray(asked)

    def rates(self) -> Iterator[tuple[str, list[str], FloatArray, list[tuple[FloatArray, FloatArray]]]]:
        """Give every column: name, words, people of its levels, and rate and sd of the logit without the survey and with it."""
        zeros = np.zeros(self.problem.n_levels + self.problem.n_surveys)
        at = [self.problem.at(np.concatenate([t, zeros])) for t in (self.prior.mean, self.posterior.theta)]
        covariances = (self.prior.root @ self.prior.root, self.posterior.covariance)
        for name, words, level, _ in self.columns():
            both = [self.problem.groups(one, self.people, level, len(words)) for one in at]
            found = [(one.rate, one.spread(C)) for one, C in zip(both, covariances, strict=True)]
            yield name, words, both[0].people, found


def describe_moves(stage: Stage) -> list[dict[str, Any]]:
    """Compare every level of every column without and with the survey, over all places."""
    out = []
    for (name, words, people, found), (_, _, _, own) in zip(stage.rates(), stage.columns(), strict=True):
        (before, spread), (after, left) = found
        yes, asked = stage.counts(own, len(words))
        shown = asked >= LEAST_SHOWN
        moves = (special.logit(after) - special.logit(before)) / np.maximum(spread, 1e-12)
        for i in np.flatnonzero(people > 0):
            out.append(
                {
                    "question": stage.name,
                    "column": name,
                    "level": words[i],
                    "share": float(people[i] / people.sum()),
                    "without": float(before[i]),
                    "with_survey": float(after[i]),
                    "moved": float(moves[i]),
                    "from_survey": float(1.0 - (left[i] / max(spread[i], 1e-12)) ** 2),
                    "direct": float(yes[i] / asked[i]) if shown[i] else None,
                    "n": float(asked[i]) if shown[i] else None,
                    "survey_share": float(asked[i] / asked.sum()) if shown[i] else None,
                }
            )
    return out


def compare_levels(stage: Stage, compare: bool) -> list[dict[str, Any]]:
    """Give every level as each method says, with intervals: totals, both, respondents; with ``compare`` also MRP and calibrated MRP."""
    effects, problem, own = stage.model.effects, stage.problem, stage.respondents
    sets = (effects, pairs_of(effects), problem.pairs, stage.cells.codes)
    regression, areas = None, cast("tuple[IntArray, ...]", ())
    if compare and own is not None:
        areas = (own.areas,) if own.areas.max(initial=0) > 0 else ()
        regression = regress(*sets[:2], problem.rows, areas)
    out, z = [], float(stats.norm.ppf(0.5 + LEVEL / 2))
    for (name, words, people, found), (_, _, level, of_rows) in zip(stage.rates(), stage.columns(), strict=True):
        n, yes_asked = len(words), stage.counts(of_rows, len(words))
        rate, sd = direct_rates(*yes_asked, np.arange(n), n)
        shown = yes_asked[1] >= LEAST_SHOWN
        found += [(np.where(shown, rate, np.nan), np.where(shown, sd, np.nan))]
        if regression is not None:
            found += [mrp_rates(regression, *sets, stage.people, areas, level, n)]
            found += [calibrated_rates(regression, *sets, problem.rate, stage.people, level, n)]
        for method, (P, error) in zip(METHODS, found, strict=False):
            with np.errstate(divide="ignore", invalid="ignore"):
                low, high = (special.expit(special.logit(P) + side * z * error) for side in (-1.0, 1.0))
            for i in np.flatnonzero((people > 0) & np.isfinite(P)):
                row: dict[str, Any] = {"question": stage.name, "column": name, "level": words[i], "method": method}
                row |= {"estimate": float(P[i]), "std_error": float(error[i] * P[i] * (1.0 - P[i]))}
                out.append(row | {"conf_low": float(low[i]), "conf_high": float(high[i])})
    return out
