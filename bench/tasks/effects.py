"""Average effects of covariates in designs whose regression function is known.

The truth of a column is the mean over the drawn rows of the derivative of the function, or of its difference where the column has two
values. D are after the designs of an earlier study, E were written before any had been run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from bench.cases import Case, FloatArray

Rng = np.random.Generator
Function = Callable[[FloatArray], FloatArray]
Noise = Callable[[Rng, FloatArray], FloatArray]
Drawn = tuple[FloatArray, Function, Noise | float]
"""Covariates, the function of them, and how outcomes scatter: a standard deviation, or a function that draws them."""
STEP = 1e-5


def coin(rng: Rng, n: int, p: float | FloatArray = 0.5) -> FloatArray:
    """Draw ones with a probability."""
    return (rng.random(n) < p).astype(float)


def logistic(t: FloatArray) -> FloatArray:
    """Give the logistic function."""
    return 1.0 / (1.0 + np.exp(-t))


def normals(rng: Rng, n: int, p: int, *others: FloatArray) -> FloatArray:
    """Draw normal columns, and put others behind them."""
    return np.column_stack([rng.normal(size=(n, p)), *others])


def smooth(X: FloatArray) -> FloatArray:
    """Bend, curve and interact."""
    return np.sin(X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.6 * X[:, 0] * X[:, 2]


def two_choices(rng: Rng, mean: FloatArray) -> FloatArray:
    """Draw zeros and ones."""
    return coin(rng, len(mean), mean)


def mixed(rng: Rng) -> Drawn:
    """D1."""
    X = normals(rng, 150, 2, coin(rng, 150))
    return X, lambda X: np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.8 * X[:, 2] + 0.4 * X[:, 2] * X[:, 0], 1.0


def survey(rng: Rng) -> Drawn:
    """D4: age, income, sex, school, ideology; R2 about .1."""
    n = 600
    numbers = [rng.uniform(18, 90, n), rng.normal(size=n), coin(rng, n), rng.integers(1, 6, n), rng.integers(1, 8, n)]

    def f(X: FloatArray) -> FloatArray:
        age, income, woman, school, ideology = (X - [54, 0, 0, 3, 4]).T / np.array([20, 1, 1, 1, 1])[:, None]
        return 0.15 * age - 0.1 * age**2 + 0.1 * income * woman + 0.2 * woman + 0.1 * school + 0.08 * ideology

    return np.column_stack(numbers).astype(float), f, 1.0


def many(rng: Rng) -> Drawn:
    """D5: two of ten columns matter."""
    return normals(rng, 300, 10), lambda X: np.sin(1.5 * X[:, 0]) + 0.7 * X[:, 1] + 0.5 * X[:, 0] * X[:, 1], 1.0


def unequal(rng: Rng) -> Drawn:
    """D6: noise that grows with a covariate."""
    X = normals(rng, 300, 3)
    return X, smooth, lambda r, mean: mean + (0.3 + 0.9 * np.abs(X[:, 0])) * r.normal(size=len(mean))


def binary(rng: Rng) -> Drawn:
    """D9: a yes or no."""
    X = normals(rng, 400, 3, coin(rng, 400))
    return X, lambda X: logistic(0.8 * X[:, 0] - 0.5 * X[:, 0] * X[:, 1] + 0.3 * X[:, 2] + 0.7 * X[:, 3]), two_choices


def skewed(rng: Rng) -> Drawn:
    """D11: a covariate with a long tail."""
    X = np.column_stack([rng.exponential(size=300), rng.uniform(-1, 1, 300), rng.uniform(0, 1, 300)])
    return X, lambda X: 2 * np.log1p(np.maximum(X[:, 0], -0.9)) + np.exp(X[:, 1]) + np.sin(2 * X[:, 2]), 0.7


def correlated(rng: Rng) -> Drawn:
    """D13: correlated covariates, noise of three degrees of freedom."""
    root = np.linalg.cholesky(0.6 ** np.abs(np.subtract.outer(np.arange(5), np.arange(5))))
    X = rng.normal(size=(300, 5)) @ root.T
    f: Function = lambda X: np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.4 * X[:, 3]  # noqa: E731
    return X, f, lambda r, mean: mean + 0.8 * r.standard_t(3, len(mean))


def letter(rng: Rng) -> Drawn:
    """E2: a letter to one in six."""
    n = 800
    X = np.column_stack([coin(rng, n, 1 / 6), rng.integers(18, 91, n), coin(rng, n), coin(rng, n, 0.4)]).astype(float)

    def f(X: FloatArray) -> FloatArray:
        treated, age, woman, before = X.T
        return logistic(
            -1.2 + 0.025 * (age - 50) + 0.1 * woman + before + 0.6 * treated * np.exp(-(((age - 50) / 20) ** 2))
        )

    return X, f, two_choices


def confounded(rng: Rng) -> Drawn:
    """E3: a treatment that goes to those with high covariates."""
    n = 400
    x1 = rng.normal(size=n)
    x2 = 0.8 * x1 + 0.6 * rng.normal(size=n)
    X = np.column_stack([coin(rng, n, logistic(x1 + 0.5 * x2)), x1, x2])
    return X, lambda X: X[:, 0] * (1 + 0.5 * X[:, 1]) + X[:, 1] + 0.5 * X[:, 2] ** 2, 1.0


def kinks(rng: Rng) -> Drawn:
    """E4: broken lines."""
    X = rng.uniform(-2, 2, (300, 3))
    return X, lambda X: np.abs(X[:, 0]) + np.maximum(X[:, 1], 0) - 0.5 * np.maximum(X[:, 2] - 1, 0), 0.6


def counts(rng: Rng) -> Drawn:
    """E5: Poisson outcomes."""
    X = normals(rng, 350, 2, coin(rng, 350))
    f: Function = lambda X: np.exp(0.5 + 0.4 * np.sin(2 * X[:, 0]) + 0.2 * X[:, 1] + 0.3 * X[:, 2])  # noqa: E731
    return X, f, lambda r, mean: r.poisson(mean).astype(float)


def bumpy(rng: Rng) -> Drawn:
    """E6: waves narrower than the kernel, Laplace noise."""
    f: Function = lambda X: np.sin(2.5 * X[:, 0]) + 0.5 * np.cos(2 * X[:, 1]) + 0.4 * X[:, 2]  # noqa: E731
    return normals(rng, 400, 4), f, lambda r, mean: mean + r.laplace(0, 0.5, len(mean))


def humps(rng: Rng) -> Drawn:
    """E7: a covariate with two humps, and another that follows it."""
    x1 = np.where(rng.random(250) < 0.5, -1.5, 1.5) + 0.5 * rng.normal(size=250)
    X = np.column_stack([x1, 0.9 * x1 + 0.5 * rng.normal(size=250), rng.normal(size=250)])
    return X, lambda X: X[:, 0] + np.tanh(X[:, 1]) - 0.3 * X[:, 0] * X[:, 1], 0.8


def one(rng: Rng) -> Drawn:
    """E10: one covariate, a hundred rows."""
    return rng.uniform(-2, 2, (100, 1)), lambda X: np.sin(2 * X[:, 0]) + 0.5 * X[:, 0], 0.5


DESIGNS: dict[str, Callable[[Rng], Drawn]] = {
    "D1, mixed": mixed,
    "D2, smooth": lambda rng: (normals(rng, 200, 3), smooth, 0.7),
    "D4, survey": survey,
    "D5, many columns": many,
    "D6, unequal noise": unequal,
    "D8, lines": lambda rng: (normals(rng, 200, 4), lambda X: X[:, 0] + 0.5 * X[:, 1] - 0.3 * X[:, 2], 1.0),
    "D9, yes or no": binary,
    "D10, nothing": lambda rng: (normals(rng, 200, 4), lambda X: 0 * X[:, 0], 1.0),
    "D11, skewed": skewed,
    "D13, correlated": correlated,
    "E2, letter": letter,
    "E3, confounded": confounded,
    "E4, kinks": kinks,
    "E5, counts": counts,
    "E6, bumpy": bumpy,
    "E7, humps": humps,
    "E10, one column": one,
}


def average_effects(X: FloatArray, f: Function) -> FloatArray:
    """Average the derivative over the rows, or the difference of a column of two values."""
    out = []
    for j in range(X.shape[1]):
        low, high = X.copy(), X.copy()
        if len(values := np.unique(X[:, j])) == 2:
            (low[:, j], high[:, j]), span = values, values[1] - values[0]
        else:
            low[:, j], high[:, j], span = X[:, j] - STEP, X[:, j] + STEP, 2 * STEP
        out.append(np.mean(f(high) - f(low)) / span)
    return np.array(out)


def designs(_: Path, whole: bool) -> Iterator[Case]:
    """Draw every design anew, four times (forty)."""
    for number, (name, draw) in enumerate(DESIGNS.items()):
        for replicate in range(40 if whole else 4):
            rng = np.random.default_rng([18, number, replicate])
            X, f, noise = draw(rng)
            mean = f(X)
            y = noise(rng, mean) if callable(noise) else mean + noise * rng.normal(size=len(mean))
            spread = X.std(axis=0)  # an effect counts per standard deviation of its column
            truth = average_effects(X, f)
            yield Case(name, {"X": X * 1.0 / spread, "y": y}, truth * spread, 100 / len(truth))
