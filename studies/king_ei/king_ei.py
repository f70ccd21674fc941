"""What R's sampler does to King's intervals, and what a learned prior does to the Multinomial-Dirichlet model.

The package ei 1.3-3 proposes parameters from a normal with a quarter of the covariance, in batches of 100, and keeps those of a batch whose
importance ratio, over the largest in it, exceeds one uniform number. What is kept lies closer to the mode than the posterior does.

The learned prior: alpha_rc ~ Gamma(shape, rate shape / mean), with log shape and log mean normal around those of eiPack's (4, 2).

    CROSSLEVEL_DATA=FOLDER python studies/king_ei/king_ei.py [king] [prior] [--quick]
"""

from __future__ import annotations

import math
import os
import sys
import threading
from pathlib import Path

import numpy as np
from scipy import special

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments"))
from dirichlet_prior import PLAN, measure, sources
from ecological_data import Known, two_by_two

from crosslevel.ecological.tables.contextual_effect import ContextualEffect
from crosslevel.ecological.tables.dirichlet.sampler import _Chain, _Given
from crosslevel.ecological.tables.king.likelihood import Prior, Problem, log_posterior, tomography_lines
from crosslevel.ecological.tables.king.mode import Mode, find_mode, limits
from crosslevel.ecological.tables.king.simulation import draw_parameters, draw_units

BATCH, PRIOR, SPREAD, TURNS = 100, (4.0, 2.0), 1.0, 3
R_SAYS = {"ei_matproii": (0.5682, 0.0244), "eco_reg": (0.6229, 0.034)}
"""R 4.2.2, ei 1.3-3 at its defaults: share of the first group, and its standard error."""


def draw_as_ei(problem: Problem, mode: Mode, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Sample the parameters as the R package does, (n_draws, n_parameters)."""
    box = limits(problem.n_parameters)
    roots, vectors = np.linalg.eigh(mode.covariance / 4.0)
    root, kept = vectors * np.sqrt(np.maximum(roots, 1e-20)), []
    while sum(map(len, kept)) < n_draws:
        z = rng.standard_normal((BATCH, problem.n_parameters))
        phi = mode.phi + z @ root.T
        inside = ((phi >= box[:, 0]) & (phi <= box[:, 1])).all(axis=1)
        ratio = np.where(inside, log_posterior(phi, problem) + 0.5 * (z**2).sum(axis=1), -np.inf)
        ratio[0] = max(ratio[0], -1e300)  # a batch wholly outside the limits keeps its first
        kept.append(phi[np.exp(ratio - ratio.max()) > rng.random()])
    return np.concatenate(kept)[:n_draws]


def both_samplers(X: np.ndarray, T: np.ndarray, seed: int, n_draws: int = 1000) -> list[np.ndarray]:
    """Give draws of the first group's share in the district, by R's sampler and from the posterior."""
    x, t, none = X[:, 0] / X.sum(axis=1), T[:, 0] / T.sum(axis=1), np.empty((len(X), 0))
    problem = Problem(tomography_lines(x, t), none, none, Prior(0.5, 0.5, 0.5))
    mode, rng = find_mode(problem), np.random.default_rng(seed)
    drawn = [draw_as_ei(problem, mode, n_draws, rng), draw_parameters(problem, mode, n_draws, rng).phi]
    return [draw_units(problem, phi, rng)[0] @ (X[:, 0] / X[:, 0].sum()) for phi in drawn]


def world(seed: int, n: int = 60, people: int = 1000) -> tuple[np.ndarray, np.ndarray, float]:
    """Draw units from King's model; give both margins and the first group's share."""
    rng = np.random.default_rng(seed)
    drawn = rng.multivariate_normal((0.6, 0.3), [[0.0225, 0.0045], [0.0045, 0.01]], 60 * n)
    shares = drawn[((drawn > 0) & (drawn < 1)).all(axis=1)][:n]
    first = np.round(people * rng.beta(1.2, 1.5, n))
    X = np.column_stack([first, people - first])
    yes = (X * shares).sum(axis=1)
    return X, np.column_stack([yes, people - yes]), float(X[:, 0] @ shares[:, 0] / X[:, 0].sum())


def king(folder: Path, worlds: int) -> None:
    print("| data | truth | R says | R's sampler | posterior |\n| --- | --- | --- | --- | --- |")
    for name, columns in (("ei_matproii", ("x", "t", "n", "tb", "tw")), ("eco_reg", ("X", "Y", "N", "W1", "W2"))):
        known = two_by_two(folder / f"{name}.csv", columns, name)
        shown = " | ".join(f"{d.mean():.3f}, sd {d.std():.3f}" for d in both_samplers(known.X, known.T, 0))
        mean, error = R_SAYS[name]
        print(f"| {name} | {known.truth[0, 0] / known.truth[0].sum():.3f} | {mean:.3f}, sd {error:.3f} | {shown} |")
    held = np.zeros(2)
    for seed in range(worlds):
        X, T, truth = world(seed)
        ends = [np.quantile(d, (0.025, 0.975)) for d in both_samplers(X, T, seed, 500)]
        held += [low <= truth <= high for low, high in ends]
    print(
        f"\n95 % intervals, {worlds} worlds of the model: R's sampler {held[0]:.0f}, posterior {held[1]:.0f} hold the truth\n"
    )


def log_density(u: float, v: float, n: int, logs: float, total: float) -> float:
    """Give the log posterior of u = log shape and v = log mean of the gamma prior of n alphas."""
    shape = math.exp(u)
    likelihood = n * (shape * (u - v) - special.gammaln(shape)) + shape * logs - shape * math.exp(-v) * total
    return float(
        likelihood - ((u - math.log(PRIOR[0])) ** 2 + (v - math.log(PRIOR[0] / PRIOR[1])) ** 2) / (2 * SPREAD**2)
    )


class Learning(_Chain):
    """A chain whose prior of alpha is renewed after every draw, by slices of log shape and log mean in turn."""

    def forward(self, adapt: bool) -> None:
        super().forward(adapt)
        known = self.alpha.size, float(np.log(self.alpha).sum()), float(self.alpha.sum())
        u, v = math.log(self.prior[0]), math.log(self.prior[0] / self.prior[1])
        for _ in range(TURNS):
            u = self._slice(lambda z, v=v: log_density(z, v, *known), u)
            v = self._slice(lambda z, u=u: log_density(u, z, *known), v)
        self.prior = math.exp(u), math.exp(u - v)

    def _slice(self, density, here: float) -> float:
        level, low = density(here) + math.log(self.rng.random()), here - self.rng.random()
        high = low + 1
        while density(low) > level:
            low -= 1
        while density(high) > level:
            high += 1
        while density(z := low + (high - low) * self.rng.random()) < level:
            low, high = (z, high) if z < here else (low, z)
        return z


def measure_learned(known: Known) -> float:
    """Give the percent of people whom the posterior mean under a learned prior puts in a wrong cell."""
    tables = known.counts.tables
    effect, mean = ContextualEffect(np.zeros(tables.T.shape), 0.0, 0.0), 0.0
    for seed in np.random.SeedSequence(PLAN.seed).spawn(PLAN.chains):
        chain = Learning.start(_Given.read(tables.X, tables.T, effect, 1), PRIOR, np.random.default_rng(seed))
        chain.run(PLAN.warmup, PLAN.draws, threading.Event())
        mean = mean + np.mean(chain.seen.cells, axis=0) / PLAN.chains
    return float(50 * np.abs(mean - known.truth).sum() / known.truth.sum())


def prior(folder: Path, quick: bool) -> None:
    print("| source | Gamma(4, 2) | learned |\n| --- | --- | --- |")
    for source, tables in sources(folder).items():
        used = tables[:1] if quick else tables
        fixed, learned = np.mean([(measure(known, PRIOR), measure_learned(known)) for known in used], axis=0)
        print(f"| {source} | {fixed:.2f} | {learned:.2f} |", flush=True)


if __name__ == "__main__":
    data, asked = Path(os.environ["CROSSLEVEL_DATA"]) / "truth", sys.argv[1:]
    if "prior" not in asked:
        king(data, 20 if "--quick" in asked else 100)
    if "king" not in asked:
        prior(data, "--quick" in asked)
