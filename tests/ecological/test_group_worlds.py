"""Simulated nations whose truth follows the model: estimates without bias, intervals that hold what they promise.

Weights, field, group effects and nuggets are drawn from the prior, counts from the binomial; the hyperparameters are learnt, not
given. The truth of a subgroup is its latent value, shifted to the place's total as the model has it (account=True) or as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from scipy import special

from crosslevel.ecological.accounting import account
from crosslevel.ecological.answers import Rollup
from crosslevel.ecological.estimating import Question, Setting, answer
from crosslevel.ecological.estimator import EcologicalInference
from crosslevel.ecological.group.covariance import Hyperparameters, Terms, place_covariance
from crosslevel.ecological.group.link import fit_group
from crosslevel.ecological.partitions import Request, cut
from crosslevel.ecological.places import Totals
from crosslevel.embedding import Embeddings
from crosslevel.numerics.kernels import distances
from crosslevel.results import Estimates, Provenance

FloatArray = npt.NDArray[np.float64]

TRUTH = Hyperparameters(embedding=1.0, spatial=0.2, length=1.0, nugget=0.02, group=0.05)
Q, G, P, STATES = 60, 3, 6, 6


@dataclass(frozen=True)
class World:
    """Arrays of one nation; parts are numbered place by place, subgroup by subgroup."""

    terms: Terms
    whole: Embeddings
    found: Embeddings
    totals: Totals
    share: FloatArray
    place: npt.NDArray[np.intp]
    rates: FloatArray
    shifted: FloatArray


def make(seed: int, *, nugget: float = TRUTH.nugget, trials: int = 4000) -> World:
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, 5, (Q, 2))
    terms = Terms(Q, "matern32", distances(xy, xy, "plane"), True, np.arange(Q) % STATES)
    share = rng.dirichlet([4.0, 3.0, 2.0], Q)
    centres = rng.normal(size=(G, P)) / np.sqrt(P)
    vectors = centres[None] + 0.35 * rng.normal(size=(Q, 1, P)) / np.sqrt(P) + 0.2 * rng.normal(size=(Q, G, P)) / np.sqrt(P)
    M = (share[:, :, None] * vectors).sum(axis=1)
    weight = rng.uniform(50, 200, Q)
    centre = weight @ M / weight.sum()
    h = Hyperparameters(TRUTH.embedding, TRUTH.spatial, TRUTH.length, nugget, TRUTH.group)
    w = rng.standard_normal(P) * np.sqrt(h.embedding)
    K = place_covariance(terms, h) - 10.0 + 1e-9 * np.eye(Q)  # the level is set by hand
    u = rng.normal(0, 0.5) + np.linalg.cholesky(K) @ rng.standard_normal(Q)
    f = ((vectors - centre) @ w + u[:, None]).ravel()
    k = rng.binomial(trials, special.expit((M - centre) @ w + u)).astype(float)
    place = np.repeat(np.arange(Q), G)
    totals = Totals(("yes",), k[None], np.full((1, Q), float(trials)), False)
    big = np.full(Q * G, 1e9)  # no sampling error
    found = Embeddings(
        vectors.reshape(-1, P),
        pa.table({"place": place, "group": np.tile(np.arange(G), Q)}),
        (share * weight[:, None]).ravel(),
        big.astype(np.int64),
        big,
    )
    whole = Embeddings(M, pa.table({"place": np.arange(Q)}), weight, big[:Q].astype(np.int64), big[:Q])
    shifted = account(f[None], share.ravel(), place, k / trials).rate[0]
    return World(terms, whole, found, totals, share.ravel(), place, special.expit(f), shifted)


def solve(world: World, *, accounted: bool, national: bool = False, draws: int = 400) -> Estimates:
    model = fit_group(
        world.whole.values, world.whole.weight, world.terms, world.totals.successes, world.totals.trials, n_starts=1
    )
    keys = list(range(Q))
    parts = cut(world.found, Request(("group",), {}, None), world.whole, keys)
    rollup = Rollup(None, (None,), np.zeros(Q, np.intp)) if national else Rollup("place", tuple(keys), np.arange(Q))
    question = Question(rollup, "voters", None, None, 0.95, draws, 0)
    setting = Setting(world.totals, accounted, False, "group", Provenance.of(call="test"), "pyarrow", (), {})
    return answer(model, parts, question, setting)


def study(seeds: range, *, accounted: bool) -> dict[str, float]:
    inside, errors, scaled, national = [], [], [], []
    for seed in seeds:
        world = make(seed)
        truth = world.shifted if accounted else world.rates
        found = solve(world, accounted=accounted)
        inside.append(np.mean((found["conf_low"] <= truth) & (truth <= found["conf_high"])))
        errors.append(np.mean(found["estimate"] - truth))
        scaled.append(np.mean((found["estimate"] - truth) ** 2) / np.mean(found["std_error"] ** 2))
        weight = world.found.weight.reshape(Q, G)
        all_truth = (truth.reshape(Q, G) * weight).sum(axis=0) / weight.sum(axis=0)
        everywhere = solve(world, accounted=accounted, national=True)
        national.append(np.mean((everywhere["conf_low"] <= all_truth) & (all_truth <= everywhere["conf_high"])))
    return {
        "coverage": float(np.mean(inside)),
        "coverage_error": float(np.std(inside) / np.sqrt(len(inside))),
        "bias": float(np.mean(errors)),
        "bias_error": float(np.std(errors) / np.sqrt(len(errors))),
        "scaled": float(np.mean(scaled)),
        "national": float(np.mean(national)),
    }
