"""The E-step of CUDIA as Algorithms 1 and 2 print it, in the place of the corrected one: a method ``CUDIA(method="printed")``.

Mixes are proposed from Dir(alpha), which hardly ever moves in groups of thousands; expected counts stand in the place of drawn clusters,
which makes the uncertainty too small; and the published means are regressed on the mixes (eq 12) instead of the shares of the clusters.
The acceptance ratio is the corrected one: with the printed one, which squares the prior, nothing would be left to compare. What this
costs stands in ``docs/guide/cudia-simulation.md``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.imputation.cudia import fit
from crosslevel.imputation.cudia.chain import accept_mix, propose_mix
from crosslevel.imputation.cudia.mixture import weigh
from crosslevel.imputation.cudia.model import Parameters, Problem

FloatArray = npt.NDArray[np.float64]


def draw_mix_from_prior(
    problem: Problem, at: Parameters, counts: FloatArray, alpha: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """Move every mix once by a proposal from Dir(alpha); prior and proposal cancel, and the counts stay in the ratio."""
    new = propose_mix(np.broadcast_to(alpha, counts.shape), rng)
    return accept_mix(problem, at, new, (counts * (np.log(new) - np.log(at.pi))).sum(axis=1), rng)


def expectations(
    problem: Problem, at: Parameters, alpha: FloatArray, Z: Any, rng: np.random.Generator
) -> tuple[fit.Expectations, FloatArray]:
    """Run the E-step as printed; also gives the mixes it ended at."""
    totals: list[Any] = [0.0] * 6
    for _ in range(fit.SWEEPS):
        _, by_cell, n = weigh(problem, at)
        pi, accepted = draw_mix_from_prior(problem, at, n, alpha, rng)
        at = replace(at, pi=pi)
        found = (by_cell, pi, pi[:, :, None] * pi[:, None, :], pi, np.log(pi), accepted)
        totals = [total + value / fit.SWEEPS for total, value in zip(totals, found, strict=True)]
    return fit.Expectations(*totals), at.pi


fit.METHODS["printed"] = partial(fit.run_mcem, e_step=expectations)
