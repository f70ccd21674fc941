"""The published fits of Law et al. (2018) by gradient, against closed forms on the same features.

python studies/distribution_gradient/gradient.py            # about two minutes
python studies/distribution_gradient/gradient.py --quick    # a tenth of the bags
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from scipy import optimize

sys.path.insert(0, str(Path(__file__).parent))
from gamma_data import draw_all

from crosslevel.distribution.features import BagFeatures, pool
from crosslevel.distribution.landmarks import FeatureSettings, candidate_maps
from crosslevel.distribution.linear.penalty import fit_ridge
from crosslevel.distribution.shrinkage.eigenbasis import shrink_factors
from crosslevel.distribution.shrinkage.likelihood import Problem, ridge_start
from crosslevel.distribution.shrinkage.model import basis_of, fit_shrinkage_model, problem_of, standardize

SEEDS = (23, 25, 26)
RATE, BATCH, EPOCHS, PATIENCE = 0.5, 30, 750, 10
"""Of the published networks: Adam's rate, bags of a step, epochs at most, and epochs without a new best, a third of all done."""
PENALTIES = (0.0, 1e-6)


def adam(train: BagFeatures, y: np.ndarray, early: BagFeatures, truth: np.ndarray, seed: int) -> np.ndarray:
    """Train weights and a bias on minibatches; give those with the least error on the early bags."""
    rng = np.random.default_rng(seed)
    X, E = (np.column_stack([np.ones(len(f)), f.mu]) for f in (train, early))
    w, m, v, t = rng.normal(size=X.shape[1]), 0.0, 0.0, 0
    best, kept, since = np.inf, w, 0
    for epoch in range(EPOCHS):
        for rows in np.array_split(rng.permutation(len(y)), -(-len(y) // BATCH)):
            t += 1
            gradient = 2.0 * X[rows].T @ (X[rows] @ w - y[rows]) / len(rows)
            m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
            w = w - RATE * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        error = np.mean((E @ w - truth) ** 2)
        if epoch < EPOCHS // 3:
            continue
        since = since + 1
        if error < best:
            best, kept, since = error, w, 0
        if since == PATIENCE:
            break
    return kept


def objective(theta: np.ndarray, problem: Problem, penalty: float) -> tuple[float, np.ndarray]:
    """1/2 sum(log nu + (y - xi)^2 / nu) + penalty/2 a'a and its gradient at theta = (a, b, log sigma2, log eta)."""
    q = len(problem.s)
    a, b, sigma2, eta = theta[:q], theta[q], np.exp(theta[q + 1]), np.exp(theta[q + 2])
    S, C = shrink_factors(problem.s, problem.sizes, eta)
    Z = S * problem.delta
    nu = sigma2 + C @ (a * a)
    e = problem.y - b - Z @ a
    value = 0.5 * float(np.sum(np.log(nu) + e * e / nu)) + 0.5 * penalty * float(a @ a)
    by_xi, by_nu = -e / nu, 0.5 * (1.0 / nu - e * e / nu**2)
    by_eta = by_xi @ ((Z * (1.0 - S)) @ a) + by_nu @ ((C * (1.0 - S)) @ (a * a))
    by_a = Z.T @ by_xi + 2.0 * a * (C.T @ by_nu) + penalty * a
    return value, np.concatenate([by_a, [by_xi.sum(), sigma2 * by_nu.sum(), by_eta]])


def most_probable(features: BagFeatures, y: np.ndarray, reg: float):
    """Fit weights at the paper's penalty reg a'Ka on the mean over bags; the weights count as known."""
    labels, mean, sd = standardize(y)
    basis = basis_of(features, "base", None)
    problem = problem_of(features, basis, labels)
    q, unit = len(problem.s), problem.unit
    scale = np.ones(q + 3)
    scale[:q] = 1.0 / np.sqrt(np.mean(problem.delta**2, axis=0) + 1e-12 * unit)
    a, b = ridge_start(problem, unit, 1e-8 * unit * len(y))
    start = np.concatenate([a, [b, np.log(0.3), np.log(unit)]]) / scale

    def scaled(t: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(t * scale, problem, 2.0 * len(y) * reg)
        return value, gradient * scale

    options = {"maxiter": 20_000, "maxfun": 40_000, "maxcor": 30, "ftol": 1e-13, "gtol": 1e-7}
    theta = optimize.minimize(scaled, start, jac=True, method="L-BFGS-B", options=options).x * scale

    def predict(new: BagFeatures) -> tuple[np.ndarray, np.ndarray]:
        S, C = shrink_factors(basis.s, new.sizes, np.exp(theta[q + 2]))
        xi = theta[q] + (S * basis.rotate(new.mu, features.m0)) @ theta[:q]
        return mean + sd * xi, sd**2 * (np.exp(theta[q + 1]) + C @ theta[:q] ** 2)

    return predict


def log_loss(y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> float:
    return float(0.5 * np.mean(np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance))


def one(seed: int, shrink: int) -> None:
    """Print the rows of one draw of bags of 1,000."""
    sets = draw_all(seed, shrink=shrink)
    y = {name: data.y for name, data in sets.items()}
    settings = FeatureSettings(n_landmarks=(30, 90), landmarks="paper", standardize=False)
    maps = candidate_maps(sets["train"].bags, settings)
    features = {name: pool(data.bags, maps, within=True) for name, data in sets.items()}
    for d, scale in ((30, 2), (90, 4)):  # places of the scales 1 and 1.5
        i = [k for k, m in enumerate(maps) if len(m.U) == d][scale]
        w = adam(features["train"][i], y["train"], features["early"][i], y["early"], seed)
        ridge = fit_ridge([features["train"][i]], y["train"]).predict(features["test"][i]).mean
        spread = np.linalg.svd(features["train"][i].mu - features["train"][i].m0, compute_uv=False)
        errors = (np.mean((p - y["test"]) ** 2) for p in (w[0] + features["test"][i].mu @ w[1:], ridge))
        print(seed, d, "Adam {:.4f} ridge {:.4f}".format(*errors), f"condition {(spread[0] / spread[-1]) ** 2:.0e}")
    wide = [k for k, m in enumerate(maps) if len(m.U) == 90][2:]
    tried = [(k, most_probable(features["train"][k], y["train"], reg)) for k in wide for reg in PENALTIES]
    k, best = min(tried, key=lambda one: log_loss(y["validation"], *one[1](features["validation"][one[0]])))
    mean, variance = best(features["test"][k])
    found = fit_shrinkage_model([features["train"][k] for k in wide], y["train"])
    seen = found.predict(features["test"][wide[found.chosen]])
    for name, p, v in (("penalty", mean, variance), ("evidence", seen.mean, seen.std**2)):
        print(seed, name, f"{np.mean((p - y['test']) ** 2):.4f} / {log_loss(y['test'], p, v):.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    for seed in SEEDS:
        one(seed, 10 if parser.parse_args().quick else 1)


if __name__ == "__main__":
    main()
