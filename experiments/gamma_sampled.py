"""What does sampling everything add to mean shrinkage? ``FullBayes`` beside ``MeanShrinkage`` on the bags of the gamma experiments.

1. One fixed-size draw, with the published landmarks: does the sampler converge, and in what time?
2. Twenty draws of few bags of varying sizes, of seeds of our own: is its likelihood better, on the same features?
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from gamma_data import SETS, Labeled, draw_set, set_seeds
from gamma_page import lay
from gamma_scores import Score, score
from threadpoolctl import threadpool_limits

from crosslevel.distribution.features import pool
from crosslevel.distribution.landmarks import FeatureSettings, candidate_maps
from crosslevel.distribution.predictive import Predictive
from crosslevel.distribution.sampled.estimator import FullBayes
from crosslevel.distribution.sampled.model import SampledModel, sample_model
from crosslevel.distribution.sampled.sampler import Settings
from crosslevel.distribution.shrinkage.model import fit_shrinkage_model

FloatArray = npt.NDArray[np.float64]

DRAWS = range(101, 121)
"""Seeds of our own: no published run used them, and no setting was chosen on them. The width of the hyperparameters' priors was, on
seeds 201 to 208: .3 of .3, .5 and 1."""
TRAIN, TEST = 200, 1000
FRACTIONS = (0.25, 0.25, 0.25)
LANDMARKS = 30
LENGTH = Settings(n_chains=4, n_warmup=500, n_draws=1000)
"""What `FullBayes` does unless told otherwise."""


@dataclass(frozen=True)
class Pair:
    """Both models on one draw.

    Attributes
    ----------
    quick, sampled : Score
        Of `MeanShrinkage` and of `FullBayes`.
    mean_log : float
        Mean over draws of the negative log likelihood, which is what the published runs report for BDR.
    fit : SampledModel
    seconds : float
        Of processors, all threads together: sampling, the choice of features and, on the first draw, compilation.
    """

    quick: Score
    sampled: Score
    mean_log: float
    fit: SampledModel
    seconds: float


def fixed_pair(seed: int, shrink: int = 1) -> Pair:
    """Sample on one draw of bags of 1,000."""
    seeds = set_seeds(seed)
    train, test = (draw_set(seeds[name], SETS[name] // shrink, (0.0, 0.0, 0.0), 1.0) for name in ("train", "test"))
    return compare(train, test, FeatureSettings(landmarks="paper", standardize=False), LENGTH)


def varying_pair(seed: int, shrink: int = 1) -> Pair:
    """Sample on few bags of 5, 20, 100 and 1,000, a quarter each."""
    train = draw_set(seed, TRAIN // shrink, FRACTIONS, 0.0)
    test = draw_set(10_000 + seed, TEST // shrink, FRACTIONS, 0.0)
    return compare(train, test, FeatureSettings(n_landmarks=LANDMARKS, standardize=False), LENGTH)


def compare(train: Labeled, test: Labeled, features: FeatureSettings, settings: Settings) -> Pair:
    """Fit both models to the same bags and features."""
    with threadpool_limits(1):
        maps = candidate_maps(train.bags, features)
        known, new = pool(train.bags, maps, within=True), pool(test.bags, maps)
        quick = fit_shrinkage_model(known, train.y)
        start = time.process_time()
        sampled = sample_model(known, train.y, "base", settings, FullBayes().prior_scale)
        seconds = time.process_time() - start
        drawn = sampled.predict(new[sampled.chosen])
        return Pair(
            score(quick.predict(new[quick.chosen]), test),
            score(drawn, test),
            mean_of_logs(drawn, test.y),
            sampled,
            seconds,
        )


def mean_of_logs(found: Predictive, y: FloatArray) -> float:
    """Average the negative log density over draws and bags."""
    return float(np.mean(0.5 * (np.log(2.0 * np.pi * found.variances) + (y - found.means) ** 2 / found.variances)))


def sampled_section(seed: int, fixed: Pair, pairs: dict[int, Pair]) -> str:
    """Write the section: how the sampler converged on one draw, and the paired differences over the others."""
    fit = fixed.fit
    rows = [
        ["MeanShrinkage", f"{fixed.quick.mse:.4f}", f"{fixed.quick.nll:.4f}", "", f"{fixed.quick.cover:.3f}"],
        [
            "FullBayes",
            f"{fixed.sampled.mse:.4f}",
            f"{fixed.sampled.nll:.4f}",
            f"{fixed.mean_log:.4f}",
            f"{fixed.sampled.cover:.3f}",
        ],
    ]
    both = list(pairs.values())
    table = []
    for name, part in (("MSE", "mse"), ("NLL", "nll")):
        quick, sampled = (np.array([getattr(getattr(p, w), part) for p in both]) for w in ("quick", "sampled"))
        gap = sampled - quick
        error = gap.std(ddof=1) / np.sqrt(len(gap))
        better = f"{int((gap < 0).sum())} of {len(gap)}"
        table.append([name, f"{quick.mean():.4f}", f"{sampled.mean():.4f}", f"{gap.mean():+.4f} ± {error:.4f}", better])
    cover = " and ".join(f"{np.mean([getattr(p, w).cover for p in both]):.3f}" for w in ("quick", "sampled"))
    well = sum(p.fit.sampled_well for p in both)
    (chains, draws), seen = fit.draws.w.shape[:2], fit.draws.diagnostics
    return "\n".join(
        [
            "## Everything sampled",
            "",
            f"`FullBayes` on the bags of 1,000 of seed {seed}, {chains} chains of {LENGTH.n_warmup} + {draws} iterations: "
            f"r-hat {seen.max_rhat:.4f} at most, effective size {min(seen.min_ess_bulk, seen.min_ess_tail):.0f} at least, "
            f"{int(fit.draws.diverging.sum())} divergences, {fit.draws.n_steps.mean():.0f} steps an iteration; "
            f"{fixed.seconds:.0f} s of processor time.",
            "",
            lay(["", "MSE", "NLL", "NLL, mean of logs", "95 % coverage"], rows),
            "",
            f"{len(both)} draws of {TRAIN} training bags (a quarter each of 5, 20, 100 and 1,000 people; {LANDMARKS} landmarks; "
            f"seeds {min(pairs)}–{max(pairs)}), {TEST:,} test bags, both models on the same features. "
            f"{well} of {len(both)} runs meet r-hat below 1.01, effective sizes of at least 200 and no divergence; "
            f"{np.median([p.seconds for p in both]):.0f} s of processor time each. "
            f"Their 95 % intervals hold {cover} of the labels.",
            "",
            lay(["", "MeanShrinkage", "FullBayes", "difference, paired ± standard error", "FullBayes better"], table),
        ]
    )
