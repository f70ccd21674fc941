"""The individual link, fitted: a mode for every question of the chain, and who was asked it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.ecological.group.covariance import Hyperparameters, Terms
from crosslevel.ecological.individual.collapse import Coarsening, Collapsed
from crosslevel.ecological.individual.effects import Effects, effects_of
from crosslevel.ecological.individual.fit import IndividualFit, fit_individual
from crosslevel.ecological.individual.model import Design, cell_logits
from crosslevel.ecological.individual.sampling import sample_posterior
from crosslevel.ecological.individual.sweeps import Pairs, chances, roots
from crosslevel.ecological.places import Totals
from crosslevel.numerics.laplace import Binomial
from crosslevel.typing import FloatArray

__all__ = [
    "IndividualModel",
    "asked_next",
    "composition",
    "design_of",
    "fit_link",
    "level_shares",
    "observed_rate",
]


@dataclass(frozen=True, eq=False)
class IndividualModel:
    """A fitted individual link.

    Attributes
    ----------
    coarsening : Coarsening
        How people become cells.
    effects : Effects
    terms : Terms
    fits : tuple of IndividualFit
        One for each question of the chain.
    rho : float
        How far a place's composition acts on everybody in it: an assumption.
    """

    coarsening: Coarsening
    effects: Effects
    terms: Terms
    fits: tuple[IndividualFit, ...]
    rho: float

    def eta(self, levels: npt.NDArray[np.int32], beta: FloatArray) -> FloatArray:
        """Give the logit of cells but for their place: (p,) to (n_cells,), or (n_draws, p) to (n_draws, n_cells)."""
        return cell_logits(beta @ self.effects.B.T, self.effects.codes(levels))


def fit_link(
    collapsed: Collapsed,
    coarsening: Coarsening,
    terms: Terms,
    totals: Totals,
    *,
    interactions: Sequence[Sequence[str]] | None = None,
    rho: float = 0.0,
    fixed: Sequence[Hyperparameters] | None = None,
    inference: str = "laplace",
    seed: int = 0,
    n_jobs: int = 1,
    **options: Any,
) -> IndividualModel:
    """Fit every question of the chain, each among those who are left after the one before.

    Parameters
    ----------
    collapsed : Collapsed
        People by place and cell.
    coarsening : Coarsening
    terms : Terms
    totals : Totals
    interactions : sequence of (column, column), optional
    rho : float
        Variance of the effect that a place's composition has on everybody there, in units of that of people's own effects.
    fixed : sequence of Hyperparameters, optional
        One for each question, taken as they are.
    inference : {"laplace", "nuts"}
        Approximate the posterior, or sample it.
    seed : int
        Of the sampler.
    options
        Of :func:`crosslevel.ecological.individual.fit.fit_individual`.
    """
    effects = effects_of(coarsening, interactions)
    codes = effects.codes(collapsed.codes)
    context = None
    if rho > 0:
        context = np.sqrt(rho) * composition(collapsed.pairs, collapsed.total, codes, effects.B)
    pairs, fits = collapsed.pairs, []
    for stage in range(len(totals.trials)):
        design = Design(codes, effects.B, pairs, context)
        counted = Binomial(totals.successes[stage], totals.trials[stage])
        found = fit_individual(
            design, terms, counted, fixed=None if fixed is None else fixed[stage], n_jobs=n_jobs, **options
        )
        if inference == "nuts":
            drawn = sample_posterior(design, terms, counted, found, seed=seed + stage, fixed=fixed is not None)
            found = replace(found, sampled=drawn)
        fits.append(found)
        if stage + 1 < len(totals.trials):
            pairs = _left(design, found, totals, stage, n_jobs)
    return IndividualModel(coarsening, effects, terms, tuple(fits), rho)


def design_of(model: IndividualModel, collapsed: Collapsed, totals: Totals, stage: int, n_jobs: int = 1) -> Design:
    """Make the design of a fitted question again: those who were asked it."""
    pairs, codes = collapsed.pairs, model.effects.codes(collapsed.codes)
    for before in range(stage):
        pairs = _left(Design(codes, model.effects.B, pairs), model.fits[before], totals, before, n_jobs)
    J = model.fits[stage].linear.J
    extra = model.fits[stage].rows.M[:, J.shape[1] :]
    return Design(codes, model.effects.B, pairs, extra if extra.shape[1] else None)


def _left(design: Design, found: IndividualFit, totals: Totals, stage: int, n_jobs: int) -> Pairs:
    """Weigh people by their probability of being asked the next question."""
    pairs, eta = design.pairs, design.eta(found.linear.beta)
    f = roots(pairs, eta, observed_rate(totals, stage), found.linear.f, n_jobs)
    left = asked_next(totals, stage, chances(pairs, eta, f)) * pairs.weight
    return replace(pairs, weight=_shares(left, pairs))


def asked_next(totals: Totals, stage: int, chance: FloatArray) -> FloatArray:
    """Give the probability of being asked the next question: that of voting, then of not having chosen yet."""
    return chance if totals.turnout and stage == 0 else 1.0 - chance


def observed_rate(totals: Totals, stage: int) -> FloatArray:
    """Give the rate that was counted in every place, (q,); one half where nobody was asked."""
    n = totals.trials[stage]
    return np.divide(totals.successes[stage], n, out=np.full(len(n), 0.5), where=n > 0)


def composition(pairs: Pairs, total: FloatArray, codes: npt.NDArray[np.int32], B: FloatArray) -> FloatArray:
    """Give who lives in each place, per coefficient and less the mean over people, (q, p).

    Parameters
    ----------
    pairs : Pairs
    total : (q,)
        Weight of each place's people.
    codes : (n_cells, n_terms)
    B : (n_effects, p)
    """
    shares = level_shares(pairs, codes, len(B))
    return np.asarray((shares - total @ shares / total.sum()) @ B)


def level_shares(pairs: Pairs, codes: npt.NDArray[np.int32], n_effects: int) -> FloatArray:
    """Give the share of each place's people with every effect, (q, n_effects).

    Parameters
    ----------
    pairs : Pairs
    codes : (n_cells, n_terms)
    n_effects : int
    """
    q, place = pairs.n_places, pairs.place
    out = np.zeros((q, n_effects))
    for term in range(codes.shape[1]):
        at = place * n_effects + codes[pairs.cell, term]
        out += np.bincount(at, weights=pairs.weight, minlength=q * n_effects).reshape(q, n_effects)
    return out


def _shares(weight: FloatArray, pairs: Pairs) -> FloatArray:
    """Scale weights to add up to one in every place; where nobody is left the people stay as they were."""
    whole = np.add.reduceat(weight, pairs.start[:-1])[pairs.place]
    return np.where(whole > 0, weight / np.where(whole > 0, whole, 1.0), pairs.weight)
