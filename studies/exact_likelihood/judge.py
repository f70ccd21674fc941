"""Is the Laplace approximation of ``EcologicalInference`` near its posterior, and what would the exact likelihood say? Both by NUTS.

Totals of places whose people are known, from the exact form: a place's effect is added to the logit of every person. Either its variance
is the same everywhere, as both likelihoods take it, or it differs between places, as in real ones.

    python studies/exact_likelihood/judge.py [--worlds 6] [--places 40 300]
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import linalg, special

from crosslevel.data.place_cells import Pairs
from crosslevel.ecological.covariance import BIAS, Terms
from crosslevel.ecological.persons.aggregate import EFFECT_VARIANCE, AggregateFit, fit_aggregate
from crosslevel.ecological.persons.model import Design
from crosslevel.ecological.persons.sweeps import level_rates, place_effects
from crosslevel.numerics.chains import diagnose
from crosslevel.numerics.laplace import Binomial
from crosslevel.numerics.nuts import sample_nuts

SIZES, VOTES = (3, 4, 2), 20_000
CODES = np.stack(np.meshgrid(*(np.arange(n) for n in SIZES), indexing="ij"), axis=-1).reshape(-1, len(SIZES))
CODES = (CODES + np.concatenate([[0], np.cumsum(SIZES)[:-1]])).astype(np.int32)
P = sum(SIZES)
CENTERED = linalg.block_diag(*(np.eye(n) - 1.0 / n for n in SIZES))
"""Effects of a column count relative to their mean, since what they have in common is the level of the places."""
SCALE_PRIORS = np.array([[np.log(0.25), 1.2], [np.log(0.03), 2.0]])
"""Normal priors of the logarithms of both variances, of effects and of places."""
CHAINS = {"n_warmup": 500, "n_draws": 1_000, "target": 0.97}


@dataclass(frozen=True, eq=False)
class World:
    effects: np.ndarray
    design: Design
    counted: Binomial
    fit: AggregateFit


def make(q: int, unequal: bool, seed: int) -> World:
    """Draw a world and fit it as the library does."""
    rng = np.random.default_rng(seed)
    spread = np.zeros((q, len(CODES)))
    for column, sd in enumerate((1.0, 0.7, 0.3)):
        spread += sd * rng.normal(size=(q, P))[:, CODES[:, column]]
    share = special.softmax(spread, axis=1)
    effects, sd = 0.45 * rng.normal(size=P), np.full(q, 0.2)
    if unequal:
        sd = sd * np.exp(rng.normal(size=q))
    logit = effects[CODES].sum(axis=1) + sd[:, None] * rng.normal(size=(q, 1))
    successes = rng.binomial(VOTES, (share * special.expit(logit)).sum(axis=1)).astype(float)
    start = np.arange(0, q * len(CODES) + 1, len(CODES))
    design = Design(CODES, np.eye(P), Pairs(start, np.tile(np.arange(len(CODES), dtype=np.int32), q), share.ravel()))
    counted = Binomial(successes, np.full(q, float(VOTES)))
    return World(
        effects, design, counted, fit_aggregate(design, Terms(q, None, None, "plane", True, None), counted, np.ones(q))
    )


def aggregate(at: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
    """Minus the log posterior of the form that is shipped, of coefficients and the variance of places."""
    beta, log = data["start"] + data["root"] @ at["v"], data["log"] + 0.5 * at["s"][0]
    P_i = data["share"] @ jax.nn.sigmoid(beta[CODES].sum(axis=1) + data["level"])
    r, w = data["z"] - jax.scipy.special.logit(P_i), 1.0 / (jnp.exp(log) + data["noise"])
    square = r @ (w * r) - (w @ r) ** 2 * BIAS / (1.0 + BIAS * w.sum())
    loss = square - jnp.log(w).sum() + jnp.log(1.0 + BIAS * w.sum()) + beta @ beta / EFFECT_VARIANCE
    return 0.5 * (loss + ((log - SCALE_PRIORS[1, 0]) / SCALE_PRIORS[1, 1]) ** 2)


def exact(at: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
    """Minus the log posterior of the exact form, of coefficients, effects of places and both variances."""
    x, logs = data["start"] + data["root"] @ at["v"], data["log"] + 0.5 * at["s"]
    beta, f = x[:P], x[P:]
    effect_variance, nugget = jnp.exp(logs)
    logit = beta[CODES].sum(axis=1) + f[:, None]
    rate = jnp.clip((data["share"] * jax.nn.sigmoid(logit)).sum(axis=1), 1e-300, 1.0 - 1e-16)
    seen = data["k"] @ jnp.log(rate) + (VOTES - data["k"]) @ jnp.log1p(-rate)
    whole = nugget + len(f) * BIAS
    places = (f @ f - f.sum() ** 2 * BIAS / whole) / nugget + (len(f) - 1) * logs[1] + jnp.log(whole)
    own = beta @ beta / effect_variance + P * logs[0]
    return 0.5 * (places + own + (((logs - SCALE_PRIORS[:, 0]) / SCALE_PRIORS[:, 1]) ** 2).sum()) - seen


def sampled(world: World, which: Any, seed: int) -> tuple[np.ndarray, float]:
    """Draw centered effects, (n, P), with the worst r-hat; parameters in units of a normal law around the shipped fit."""
    fit, design, q = world.fit, world.design, len(world.fit.z)
    data = {"share": design.pairs.weight.reshape(q, -1), "k": world.counted.successes, "z": fit.z, "noise": fit.noise}
    logs = np.log([EFFECT_VARIANCE, max(fit.hyperparameters.nugget, 1e-4)])
    if which is aggregate:
        data |= {"start": fit.beta, "root": linalg.cholesky(fit.covariance, lower=True)}
        data |= {"level": np.array(fit.level), "log": logs[1]}
    else:
        eta, rate = design.eta(fit.beta), special.expit(fit.z)
        f = place_effects(design.pairs, eta, rate, fit.z)
        at = level_rates(design.pairs, eta, f, design.codes, P)
        A = np.hstack([at.by_level / at.slope[:, None], np.eye(q)])
        K = BIAS + np.exp(logs[1]) * np.eye(q)
        precision = linalg.block_diag(np.eye(P) / EFFECT_VARIANCE, linalg.inv(K))
        precision += (A.T * (VOTES * at.slope**2 / (rate * (1.0 - rate)))) @ A
        values, vectors = linalg.eigh(precision)
        data |= {"start": np.concatenate([fit.beta, f]), "root": vectors / np.sqrt(values), "log": logs}
    rng = np.random.default_rng(seed)
    first = {"v": 0.3 * rng.normal(size=(2, len(data["start"]))), "s": 0.3 * rng.normal(size=(2, np.size(data["log"])))}
    drawn = sample_nuts(which, data, first, seed=seed, **CHAINS)
    beta = (data["start"] + drawn.values["v"] @ data["root"].T)[:, :, :P] @ CENTERED
    return beta.reshape(-1, P), diagnose(beta, drawn.n_divergent).max_rhat


def study(q: int, unequal: bool, worlds: int) -> list[str]:
    """Give a row of the table of each world kind."""
    off, ratio, met = [], [], []
    error: dict[str, list[float]] = {"shipped": [], "exact": []}
    held: dict[str, list[float]] = {"shipped": [], "exact": []}
    for seed in range(worlds):
        world = make(q, unequal, seed)
        truth, mean = CENTERED @ world.effects, CENTERED @ world.fit.beta
        sd = np.sqrt(np.diag(CENTERED @ world.fit.covariance @ CENTERED))
        same, one = sampled(world, aggregate, seed)
        other, two = sampled(world, exact, seed)
        met += [one, two]
        off.append(np.abs(mean - same.mean(axis=0)) / same.std(axis=0))
        ratio.append(sd / same.std(axis=0))
        error["shipped"] += np.abs(mean - truth).tolist()
        held["shipped"] += (np.abs(mean - truth) < 1.96 * sd).tolist()
        low, high = np.quantile(other, [0.025, 0.975], axis=0)
        error["exact"] += np.abs(other.mean(axis=0) - truth).tolist()
        held["exact"] += ((low < truth) & (truth < high)).tolist()
    told = [f"{np.max(off):.2f}", f"{np.min(ratio):.2f} to {np.max(ratio):.2f}"]
    told += [f"{np.mean(error[name]):.3f}, {np.mean(held[name]):.2f}" for name in ("shipped", "exact")]
    return [f"{q}, {'unequal' if unequal else 'common'}", *told, f"{max(met):.3f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=6)
    parser.add_argument("--places", type=int, nargs="+", default=[40, 300])
    asked = parser.parse_args()
    heading = [
        "places, their variance",
        "means apart",
        "sd over sd",
        "shipped: error, held",
        "exact: error, held",
        "r-hat",
    ]
    print("| " + " | ".join(heading) + " |\n" + "|---" * len(heading) + "|")
    for q in asked.places:
        for unequal in (False, True):
            print("| " + " | ".join(study(q, unequal, asked.worlds)) + " |", flush=True)


if __name__ == "__main__":
    main()
