"""Variants of CUDIA that the library does not have: choosing by leave-one-out error, ridge to zero, weight beta, logistic normal mixes.

1. BRFSS 2016, diabetes hidden (paper 6.3): leave-one-out error of a group mean and log-likelihood of persons, over ridges to zero and to
   the overall mean (fig 7a) and numbers of clusters (fig 7b); and two rules of choosing, on eight hidden answers.
2. The paper's simulation (6.1): the weight beta of the means in hard clustering (eq 19), and a logistic normal prior of the mixes (4.1).

    CROSSLEVEL_DATA=... python studies/cudia_variants/variants.py [--quick]
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import crosslevel as cl
from crosslevel.imputation.cudia import fit as ways
from crosslevel.imputation.cudia.chain import accept_mix, draw_clusters, propose_mix
from crosslevel.imputation.cudia.estimator import CUDIA
from crosslevel.imputation.cudia.fit import fit_hard
from crosslevel.imputation.cudia.impute import Crowd, expected_values, probabilities
from crosslevel.imputation.cudia.mixture import (
    fit_mixture,
    identify,
    leave_one_out,
    make_prior,
    person_variance,
    regress,
)
from crosslevel.imputation.cudia.model import Fit, Parameters, Problem, build
from crosslevel.imputation.inputs import read_fit, read_rows

FloatArray = npt.NDArray[np.float64]
COLUMNS = ["age_group", "bmi_cat", "education", "income"]
ANSWERS = [
    "diabetes", "heart_disease", "stroke", "arthritis", "kidney_disease", "diff_walk", "poor_health", "smoker",
]  # fmt: skip
CLUSTERS, RIDGES, TARGETS = (2, 3, 5, 7, 9), (2.0, 20.0, 200.0, 2000.0, 20000.0), ("zero", "mean")
LEAST_RIDGE = 1e-6
"""Stands for no ridge at all, with which clusters that no mean tells apart have no hidden mean."""


@dataclass(frozen=True)
class Choice:
    """Clusters, ridge and its target, and how well they predict means that were left out."""

    n_clusters: int
    ridge: float
    target: str
    error: float
    std_error: float
    effective_df: float


def nouns(X: Mapping[str, Any], group: Any, means: FloatArray) -> tuple[cl.People, cl.Places]:
    """People with their group, and the mean of every group."""
    places = cl.Places({"group": np.unique(group), "u": means}, by="group", means=["u"])
    return cl.People({**X, "group": group}, by="group", columns=list(X)), places


class Tried:
    """A problem whose mixtures are fitted once for each number of clusters, as ``CUDIA(random_state=0)`` fits them."""

    def __init__(self, X: Mapping[str, Any], group: Any, means: FloatArray) -> None:
        people, places = nouns(X, group, means)
        given = read_fit(people, places, allow_missing=True)
        self.cells = read_rows(people, given.schema, allow_missing=True).cells
        self.problem = build(given, "auto", "cudia")
        self.seed, self.mixtures = int(np.random.default_rng(0).integers(2**63)), {}

    def mixture(self, K: int) -> Fit:
        if K not in self.mixtures:
            self.mixtures[K] = fit_mixture(self.problem, make_prior(self.problem, np.ones(K)), self.seed)
        return self.mixtures[K]

    def two_stage(self, K: int, ridge: float, target: str) -> Fit:
        """Regress the published means on the shares of the clusters."""
        mixture = self.mixture(K)
        unit = person_variance(self.problem, mixture.parameters, mixture.shares)
        prior = make_prior(self.problem, np.ones(K), ridge=ridge, unit=unit)
        if target == "zero":
            prior = replace(prior, center=np.zeros_like(prior.center))
        at = regress(self.problem, prior, mixture.parameters, mixture.shares)
        return replace(mixture, prior=prior, parameters=at)

    def judge(self, K: int, ridge: float, target: str) -> Choice:
        """Predict every mean from the others."""
        fit = self.two_stage(K, ridge, target)
        given = (self.problem, fit.prior, fit.parameters, fit.shares)
        squares = np.concatenate(leave_one_out(*given)) ** 2
        error = float(np.sqrt(squares.mean()))
        std_error = float(squares.std(ddof=1) / np.sqrt(len(squares)) / (2 * error))
        return Choice(K, ridge, target, error, std_error, float(np.mean([r.effective_df for r in identify(*given)])))

    @cached_property
    def choices(self) -> list[Choice]:
        """All combinations of clusters, ridges and targets."""
        return [self.judge(K, ridge, target) for K in CLUSTERS for target in TARGETS for ridge in RIDGES]

    @property
    def lowest(self) -> Choice:
        """The choice of lowest error."""
        return min(self.choices, key=lambda c: c.error)

    @property
    def simplest(self) -> Choice:
        """The fewest effective degrees of freedom within one standard error of the lowest error."""
        near = [c for c in self.choices if c.error <= self.lowest.error + self.lowest.std_error]
        return min(near, key=lambda c: (c.effective_df, c.error))

    def score(self, y: FloatArray, fit: Fit) -> float:
        """Mean log-likelihood of persons, their group means met."""
        values = expected_values(self.problem, fit.parameters, Crowd.of_fit(self.problem))[0]
        return log_likelihood(y, values[self.cells.pair, 0])


def log_likelihood(y: FloatArray, p: FloatArray) -> float:
    inside = np.clip(p, 1e-6, 1 - 1e-6)
    return float(np.mean(y * np.log(inside) + (1 - y) * np.log(1 - inside)))


def hidden(people: pd.DataFrame, answer: str, level: str) -> tuple[Tried, FloatArray, FloatArray]:
    """Hide one answer: the problem, the truth, and everybody's group mean."""
    whole = people.dropna(subset=[*COLUMNS, answer])
    y, place = whole[answer].to_numpy(float), whole[level].astype(str).to_numpy()
    group = np.unique(place, return_inverse=True)[1]
    means = np.bincount(group, y) / np.bincount(group)
    return Tried({c: whole[c].to_numpy(int) for c in COLUMNS}, place, means), y, means[group]


def sweeps(people: pd.DataFrame) -> str:
    """Figures 7a and 7b: diabetes, over ridges and over numbers of clusters."""
    parts = []
    for level in ("division", "state"):
        tried, y, naive = hidden(people, "diabetes", level)
        rows = []
        for ridge in (LEAST_RIDGE, *RIDGES):
            found = [(tried.judge(5, ridge, t).error, tried.score(y, tried.two_stage(5, ridge, t))) for t in TARGETS]
            rows.append(
                [f"{ridge:g}" if ridge > 1 else "none", *(f"{v:.{2 + 2 * i}f}" for f in found for i, v in enumerate(f))]
            )
        rows_K = []
        for K in CLUSTERS:
            one = tried.judge(K, 20.0, "mean")
            rows_K.append([str(K), f"{one.error:.2f}", f"{tried.score(y, tried.two_stage(K, 20.0, 'mean')):.4f}"])
        heading = ["ridge, people", *(f"{what}, to {t}" for t in TARGETS for what in ("error", "log-lik."))]
        parts += [f"By {level}; naive {log_likelihood(y, naive):.4f}.", lay(heading, rows)]
        parts += [lay(["clusters, ridge 20 to mean", "error", "log-lik."], rows_K)]
    return "\n\n".join(parts)


def rules(people: pd.DataFrame, answers: Sequence[str]) -> str:
    """Two rules of choosing, and a fit without any choice, on hidden answers."""
    rows: dict[str, list[float]] = {a: [] for a in answers}
    for level in ("state", "division"):
        for answer in answers:
            tried, y, naive = hidden(people, answer, level)
            fits = [tried.two_stage(c.n_clusters, c.ridge, c.target) for c in (tried.simplest, tried.lowest)]
            rows[answer] += [log_likelihood(y, naive), *(tried.score(y, fit) for fit in fits)]
    mean = np.mean([rows[a] for a in answers[1:]], axis=0)
    table = {a.replace("_", " "): v for a, v in rows.items()} | {f"mean without {answers[0]}": mean}
    heading = ["", *(f"{n}, by {level}" for level in ("state", "division") for n in ("naive", "one error", "lowest"))]
    return lay(heading, [[name, *(f"{v:.4f}" for v in values)] for name, values in table.items()])


def paper_world(seed: int) -> tuple[FloatArray, FloatArray, npt.NDArray[np.intp], FloatArray]:
    """Two Gaussian clusters, one coordinate seen and one published as the means of six groups of 160."""
    rng = np.random.default_rng(seed)
    pi, group = rng.dirichlet([1.0, 1.0], 6), np.repeat(np.arange(6), 160)
    z = (rng.random(960)[:, None] > np.cumsum(pi, axis=1)[group]).sum(axis=1).clip(0, 1)
    x, u = (np.array([-0.5, 0.5])[z] + rng.normal(size=960) * np.sqrt(0.07) for _ in range(2))
    return x, u, group, np.bincount(group, u) / 160


def weights_of_means(seeds: int) -> str:
    """Equation 19: the weight beta of the published means in hard clustering, which is that of more people behind them."""
    rows = []
    for beta in (0.1, 1.0, 10.0, 100.0):
        errors = []
        for seed in range(seeds):
            x, u, group, s = paper_world(seed)
            tried = Tried({"x": x}, group, s)
            prior = make_prior(tried.problem, np.ones(2), ridge=1.0)
            blocks = tuple(replace(b, size=beta * b.size) for b in tried.problem.blocks)
            weighed = replace(tried.problem, blocks=blocks)
            at = fit_hard(weighed, prior, np.random.default_rng(seed), 3).parameters
            r = probabilities(tried.problem, at, Crowd.of_fit(tried.problem))[tried.cells.pair]
            soft, hard = r @ at.H[:, 0], at.H[r.argmax(axis=1), 0]
            errors.append([np.mean((u - soft) ** 2), np.mean((u - hard) ** 2)])
        rows.append([f"{beta:g}", *(f"{e:.4f}" for e in np.mean(errors, axis=0))])
    return lay(["beta", "MSE, soft values", "MSE, values of the likeliest cluster"], rows)


class LogisticNormal:
    """An E-step whose mixes have a logistic normal prior, learned along: normal centered logits with a mean and a variance."""

    def __init__(self) -> None:
        self.mean, self.variance = np.zeros(1), np.ones(1)

    def log_density(self, pi: FloatArray) -> FloatArray:
        """Log density of the mixes themselves, with the Jacobian of their logits, (A,)."""
        logits = np.log(pi)
        centered = logits - logits.mean(axis=1, keepdims=True)
        return -0.5 * ((centered - self.mean) ** 2 / self.variance).sum(axis=1) - logits.sum(axis=1)

    def __call__(
        self, problem: Problem, at: Parameters, alpha: FloatArray, Z: Any, rng: np.random.Generator
    ) -> tuple[ways.Expectations, FloatArray]:
        log_f, totals = problem.log_density(at.theta), [0.0] * 6
        for _ in range(ways.SWEEPS):
            _, by_cell, n = draw_clusters(problem, log_f, at.pi, rng)
            new = propose_mix(1.0 + n, rng)
            pi, accepted = accept_mix(problem, at, new, self.log_density(new) - self.log_density(at.pi), rng)
            at, shares = replace(at, pi=pi), n / problem.size[:, None]
            found = (by_cell, shares, shares[:, :, None] * shares[:, None, :], pi, np.log(pi), accepted)
            totals = [total + value / ways.SWEEPS for total, value in zip(totals, found, strict=True)]
        logits = totals[4] - totals[4].mean(axis=1, keepdims=True)
        self.mean = logits.mean(axis=0)
        # with the weight of one place at variance 1
        self.variance = np.maximum((((logits - self.mean) ** 2).sum(axis=0) + 1.0) / (len(logits) + 1.0), 1e-3)
        return ways.Expectations(*totals), at.pi


def run_logistic_normal(problem: Problem, start: Fit, rng: np.random.Generator, step: Any = None) -> Fit:
    return ways.run_mcem(problem, start, rng, step, LogisticNormal())


def priors_of_mixes(seeds: int) -> str:
    """Section 4.1: Monte Carlo EM with a Dirichlet prior, uniform or learned, and with a logistic normal one."""
    ways.METHODS["logistic normal"] = run_logistic_normal
    made = {
        "Dirichlet, uniform": {},
        "Dirichlet, learned": {"alpha": "learn"},
        "logistic normal": {"method": "logistic normal"},
    }
    errors: dict[str, list[float]] = {name: [] for name in made}
    for seed in range(seeds):
        x, u, group, s = paper_world(seed)
        people, places = nouns({"x": x}, group, s)
        for name, options in made.items():
            model = CUDIA(2, n_restarts=3, allow_unconverged=True, **options).fit(people, places)
            errors[name].append(float(np.mean((u - model.transform(people)["u"].to_numpy()) ** 2)))
    rows = [[n, f"{np.mean(e):.4f}", f"{np.std(e, ddof=1):.4f}"] for n, e in errors.items()]
    return lay(["prior of the mixes", "MSE", "sd over seeds"], rows)


def lay(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def main() -> None:
    """Print all tables."""
    warnings.simplefilter("ignore")
    quick, folder = "--quick" in sys.argv, os.environ.get("CROSSLEVEL_DATA")
    seeds = 3 if quick else 50
    for title, text in (("beta", weights_of_means(seeds)), ("mixes", priors_of_mixes(seeds))):
        print(f"\n## {title}\n\n{text}", flush=True)
    if not folder:
        sys.exit("set CROSSLEVEL_DATA to the folder of real data for the rest")
    people = pd.read_parquet(Path(folder) / "brfss2016" / "brfss2016_division.parquet")
    print(f"\n## sweeps\n\n{sweeps(people)}", flush=True)
    print(f"\n## rules\n\n{rules(people, ANSWERS[:2] if quick else ANSWERS)}", flush=True)


if __name__ == "__main__":
    main()
