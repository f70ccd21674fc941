"""The E-step of CUDIA as Algorithms 1 and 2 print it, in the place of the corrected one: a method ``CUDIA(method="printed")``.

Mixes are proposed from Dir(alpha), which hardly ever moves in groups of thousands; expected counts stand in the place of drawn clusters,
which makes the uncertainty too small; and the published means are regressed on the mixes (eq 12) instead of the shares of the clusters.
The acceptance ratio is the corrected one: with the printed one, which squares the prior, nothing would be left to compare. What this
costs stands in ``docs/guide/cudia-simulation.md``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.imputation.cudia import fitting
from crosslevel.imputation.cudia.mcem import Expectations
from crosslevel.imputation.cudia.model import Parameters, Problem, log_density
from crosslevel.imputation.cudia.posterior import MixPrior, weigh
from crosslevel.imputation.cudia.sampling import accept_mix, propose_mix

FloatArray = npt.NDArray[np.float64]


def draw_mix_from_prior(
    problem: Problem,
    pi: FloatArray,
    counts: FloatArray,
    prior: MixPrior,
    H: FloatArray,
    tau2: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, float]:
    """Move every mix once by a proposal from Dir(alpha); prior and proposal cancel, and the counts stay in the ratio."""
    new = propose_mix(np.broadcast_to(prior.alpha, counts.shape), rng)
    ratio = (counts * (np.log(new) - np.log(pi))).sum(axis=1)
    return accept_mix(problem, pi, new, ratio, H, tau2, rng)


def expectations(
    problem: Problem,
    at: Parameters,
    pi: FloatArray,
    mix_prior: MixPrior,
    rng: np.random.Generator,
    *,
    sweeps: int,
    Z: Any = None,
) -> tuple[Expectations, FloatArray]:
    """Run the E-step as printed; also gives the mixes it ended at."""
    log_f = log_density(problem, at.theta)
    by_cell, mean, second, log_pi = (np.zeros(s) for s in (log_f.shape, pi.shape, (*pi.shape, pi.shape[1]), pi.shape))
    accepted = []
    for _ in range(sweeps):
        _, own, n = weigh(log_f, pi, problem.cell, problem.atom, problem.weight)
        pi, share = draw_mix_from_prior(problem, pi, n, mix_prior, at.H, at.tau2, rng)
        accepted.append(share)
        for total, value in (
            (by_cell, own),
            (mean, pi),
            (second, pi[:, :, None] * pi[:, None, :]),
            (log_pi, np.log(pi)),
        ):
            total += value / sweeps
    cov = second - mean[:, :, None] * mean[:, None, :]
    return Expectations(by_cell, mean, cov, mean, log_pi, float(np.mean(accepted))), pi


fitting.METHODS["printed"] = partial(fitting.run_mcem_method, e_step=expectations)
