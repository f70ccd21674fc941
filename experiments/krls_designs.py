"""Worlds with known effects, for the study of how often the intervals of KRLS hold the truth.

D1 to D15 are written after the descriptions of an earlier study; E1 to E10 were written down before any design had been run;
F1 to F3 are there to be hard for bands, and were written after their rule had been chosen on the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["DESIGNS", "HARDER", "Design", "World"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
Rng = np.random.Generator
Function = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class World:
    """One draw of covariates and the truth about them.

    Attributes
    ----------
    columns : mapping of name to (N,)
        Covariates; text makes a factor.
    f : callable
        True mean of y, from the matrix of the columns (dummies for a factor).
    noisy : callable
        Draws y, given a generator and the true means.
    cluster : (N,), optional
    """

    columns: dict[str, npt.NDArray[Any]]
    f: Function
    noisy: Callable[[Rng, FloatArray], FloatArray]
    cluster: IntArray | None = None


@dataclass(frozen=True)
class Design:
    """A kind of data: what the covariates, the function and the noise are, in words and as a function that draws them."""

    name: str
    covariates: str
    formula: str
    noise: str
    draw: Callable[[Rng], World]


def named(*columns: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Name columns x1, x2, ..."""
    return {f"x{j}": column for j, column in enumerate(columns, start=1)}


def normal(sd: float | FloatArray = 1.0) -> Callable[[Rng, FloatArray], FloatArray]:
    return lambda rng, mean: mean + sd * rng.normal(size=len(mean))


def bernoulli(rng: Rng, mean: FloatArray) -> FloatArray:
    return (rng.random(len(mean)) < mean).astype(np.float64)


def clustered(
    cluster: IntArray, icc: float, spread: FloatArray | float = 1.0
) -> Callable[[Rng, FloatArray], FloatArray]:
    """Draw noise of variance spread^2, of which the share icc is common to a cluster."""

    def noisy(rng: Rng, mean: FloatArray) -> FloatArray:
        shared = rng.normal(size=int(cluster.max()) + 1)[cluster]
        return mean + spread * (icc**0.5 * shared + (1 - icc) ** 0.5 * rng.normal(size=len(mean)))

    return noisy


def logistic(t: FloatArray) -> FloatArray:
    return 1.0 / (1.0 + np.exp(-t))


def coin(rng: Rng, n: int, p: float | FloatArray = 0.5) -> FloatArray:
    return (rng.random(n) < p).astype(np.float64)


# ---------------------------------------------------------------- the designs of the earlier study, after their descriptions


def d1(rng: Rng) -> World:
    x = rng.normal(size=(2, 150))
    return World(
        named(*x, coin(rng, 150)),
        lambda X: np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.8 * X[:, 2] + 0.4 * X[:, 2] * X[:, 0],
        normal(),
    )


def smooth(X: FloatArray) -> FloatArray:
    return np.sin(X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.6 * X[:, 0] * X[:, 2]


def d2(rng: Rng) -> World:
    return World(named(*rng.normal(size=(3, 200))), smooth, normal(0.7))


def d3(rng: Rng) -> World:
    n = 300

    def f(X: FloatArray) -> FloatArray:
        x1, x2, x3, b1, b2 = X.T
        return np.tanh(2 * x1) + 0.4 * b1 + 0.5 * b1 * x2 + 0.3 * x3 + 0.6 * b2 * np.sin(x3)

    return World(named(*rng.normal(size=(3, n)), coin(rng, n), coin(rng, n, 0.3)), f, normal())


def d4(rng: Rng) -> World:
    n = 600

    def f(X: FloatArray) -> FloatArray:
        age, income, woman, school, ideology = X.T
        a = (age - 54) / 20
        return 0.15 * a - 0.1 * a**2 + 0.1 * income * woman + 0.2 * woman + 0.1 * (school - 3) + 0.08 * (ideology - 4)

    columns = named(
        rng.uniform(18, 90, n),
        rng.normal(size=n),
        coin(rng, n),
        rng.integers(1, 6, n) * 1.0,
        rng.integers(1, 8, n) * 1.0,
    )
    return World(columns, f, normal())


def d5(rng: Rng) -> World:
    return World(
        named(*rng.normal(size=(10, 300))),
        lambda X: np.sin(1.5 * X[:, 0]) + 0.7 * X[:, 1] + 0.5 * X[:, 0] * X[:, 1],
        normal(),
    )


def d6(rng: Rng) -> World:
    x = rng.normal(size=(3, 300))
    return World(named(*x), smooth, normal(0.3 + 0.9 * np.abs(x[0])))


def d7(rng: Rng) -> World:
    cluster = np.repeat(np.arange(30), 10)
    return World(
        named(rng.normal(size=300), rng.normal(size=30)[cluster], coin(rng, 300)),
        lambda X: np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.4 * X[:, 2] + 0.3 * X[:, 1] * X[:, 2],
        clustered(cluster, 0.3),
        cluster,
    )


def d8(rng: Rng) -> World:
    return World(named(*rng.normal(size=(4, 200))), lambda X: X[:, 0] + 0.5 * X[:, 1] - 0.3 * X[:, 2], normal())


def d9(rng: Rng) -> World:
    return World(
        named(*rng.normal(size=(3, 400)), coin(rng, 400)),
        lambda X: logistic(0.8 * X[:, 0] - 0.5 * X[:, 0] * X[:, 1] + 0.3 * X[:, 2] + 0.7 * X[:, 3]),
        bernoulli,
    )


def d10(rng: Rng) -> World:
    return World(named(*rng.normal(size=(4, 200))), lambda X: 0.0 * X[:, 0], normal())


def d11(rng: Rng) -> World:
    return World(
        named(rng.exponential(size=300), rng.uniform(-1, 1, 300), rng.uniform(0, 1, 300)),
        lambda X: 2 * np.log1p(X[:, 0]) + np.exp(X[:, 1]) + np.sin(2 * X[:, 2]),
        normal(0.7),
    )


def d12(rng: Rng) -> World:
    cluster = np.repeat(np.arange(40), 8)
    treated = (rng.permutation(40) < 20).astype(float)[cluster]
    return World(
        named(treated, *rng.normal(size=(2, 320))),
        lambda X: 0.5 * X[:, 0] + 0.3 * X[:, 0] * X[:, 1] + np.tanh(X[:, 1]) + 0.2 * X[:, 2],
        clustered(cluster, 0.2),
        cluster,
    )


def d13(rng: Rng) -> World:
    root = np.linalg.cholesky(0.6 ** np.abs(np.subtract.outer(np.arange(5), np.arange(5))))
    return World(
        named(*(root @ rng.normal(size=(5, 300)))),
        lambda X: np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.4 * X[:, 3],
        lambda r, mean: mean + 0.8 * r.standard_t(3, len(mean)),
    )


def d14(rng: Rng) -> World:
    n, beta = 400, 0.3 * np.resize([1.0, -1.0, 0.0], 17)
    dummies = [coin(rng, n, p) for p in np.linspace(0.1, 0.5, 17)]
    return World(
        named(*rng.normal(size=(3, n)), *dummies),
        lambda X: np.sin(X[:, 0]) + 0.4 * X[:, 1] * X[:, 2] + X[:, 3:] @ beta + 0.4 * X[:, 0] * X[:, 19],
        normal(),
    )


def d15(rng: Rng) -> World:
    n = 800
    return World(
        named(rng.integers(2, 9, n) * 1.0, rng.integers(1, 6, n) * 1.0, coin(rng, n), rng.integers(1, 4, n) * 1.0),
        lambda X: logistic(-0.6 + 0.9 * np.sin(X[:, 0] / 2) + 0.3 * (X[:, 1] - 3) + 0.5 * X[:, 2] * (X[:, 3] - 2)),
        bernoulli,
    )


# ---------------------------------------------------------------- designs of our own, written down before the first run


def e1(rng: Rng) -> World:
    n, shift = 400, np.array([0.5, -0.4, 0.9, 0.0])
    level = rng.choice(list("abcde"), n, p=[0.4, 0.25, 0.15, 0.12, 0.08])
    return World(
        {"x1": rng.normal(size=n), "x2": rng.normal(size=n), "g": level},
        lambda X: np.sin(X[:, 0]) + 0.5 * X[:, 1] + (X[:, 2:] @ shift) * (1 + 0.5 * X[:, 0]),
        normal(),
    )


def e2(rng: Rng) -> World:
    n = 800

    def f(X: FloatArray) -> FloatArray:
        treated, age, woman, before = X.T
        return logistic(
            -1.2 + 0.025 * (age - 50) + 0.1 * woman + before + 0.6 * treated * np.exp(-(((age - 50) / 20) ** 2))
        )

    return World(
        named(coin(rng, n, 1 / 6), rng.integers(18, 91, n) * 1.0, coin(rng, n), coin(rng, n, 0.4)), f, bernoulli
    )


def e3(rng: Rng) -> World:
    n = 400
    x1 = rng.normal(size=n)
    x2 = 0.8 * x1 + 0.6 * rng.normal(size=n)
    return World(
        named(coin(rng, n, logistic(x1 + 0.5 * x2)), x1, x2),
        lambda X: X[:, 0] * (1 + 0.5 * X[:, 1]) + X[:, 1] + 0.5 * X[:, 2] ** 2,
        normal(),
    )


def e4(rng: Rng) -> World:
    return World(
        named(*rng.uniform(-2, 2, (3, 300))),
        lambda X: np.abs(X[:, 0]) + np.maximum(X[:, 1], 0) - 0.5 * np.maximum(X[:, 2] - 1, 0),
        normal(0.6),
    )


def e5(rng: Rng) -> World:
    return World(
        named(*rng.normal(size=(2, 350)), coin(rng, 350)),
        lambda X: np.exp(0.5 + 0.4 * np.sin(2 * X[:, 0]) + 0.2 * X[:, 1] + 0.3 * X[:, 2]),
        lambda r, mean: r.poisson(mean).astype(np.float64),
    )


def e6(rng: Rng) -> World:
    return World(
        named(*rng.normal(size=(4, 400))),
        lambda X: np.sin(2.5 * X[:, 0]) + 0.5 * np.cos(2 * X[:, 1]) + 0.4 * X[:, 2],
        lambda r, mean: mean + r.laplace(0, 0.5, len(mean)),
    )


def e7(rng: Rng) -> World:
    n = 250
    x1 = np.where(rng.random(n) < 0.5, -1.5, 1.5) + 0.5 * rng.normal(size=n)
    x2 = 0.9 * x1 + 0.5 * rng.normal(size=n)
    return World(
        named(x1, x2, rng.normal(size=n)), lambda X: X[:, 0] + np.tanh(X[:, 1]) - 0.3 * X[:, 0] * X[:, 1], normal(0.8)
    )


def e8(rng: Rng) -> World:
    cluster = np.repeat(np.arange(25), rng.integers(4, 29, 25))
    n = len(cluster)
    return World(
        named(coin(rng, n), rng.normal(size=n), rng.normal(size=25)[cluster]),
        lambda X: 0.5 * X[:, 0] * (1 + 0.5 * X[:, 2]) + np.sin(X[:, 1]) + 0.3 * X[:, 2],
        clustered(cluster, 0.25, rng.uniform(0.5, 1.5, 25)[cluster]),
        cluster,
    )


def e9(rng: Rng) -> World:
    cluster = np.repeat(np.arange(50), 6)
    x1 = rng.normal(size=300)

    def noisy(r: Rng, mean: FloatArray) -> FloatArray:
        level, slope = r.normal(size=(2, 50))
        return mean + 0.4 * level[cluster] + 0.4 * slope[cluster] * x1 + 0.8 * r.normal(size=300)

    return World(
        named(x1, rng.normal(size=300), coin(rng, 300)),
        lambda X: 0.6 * X[:, 0] + 0.5 * np.cos(X[:, 1]) + 0.4 * X[:, 2],
        noisy,
        cluster,
    )


def e10(rng: Rng) -> World:
    return World(named(rng.uniform(-2, 2, 100)), lambda X: np.sin(2 * X[:, 0]) + 0.5 * X[:, 0], normal(0.5))


# ---------------------------------------------------------------- hard for bands, written after their rule had been chosen


def f1(rng: Rng) -> World:
    return World(named(*rng.normal(size=(2, 200))), lambda X: np.sin(4 * X[:, 0]), normal(0.5))


def f2(rng: Rng) -> World:
    return World(named(*rng.normal(size=(3, 300))), lambda X: np.tanh(5 * X[:, 0]) + 0.5 * X[:, 1], normal(0.7))


def f3(rng: Rng) -> World:
    return World(
        named(*rng.normal(size=(3, 300))), lambda X: np.sin(2 * X[:, 0] * X[:, 1]) + 0.5 * X[:, 2], normal(0.5)
    )


DESIGNS = (
    Design("D1", "2 normal, 1 binary; N 150", "sin 1.5x₁ + .5x₂² + .8b + .4bx₁", "normal, 1", d1),
    Design("D2", "3 normal; N 200", "sin x₁ + .5x₂² + .6x₁x₃", "normal, .7", d2),
    Design(
        "D3", "3 normal, 2 binary (.5, .3); N 300", "tanh 2x₁ + .4b₁ + .5b₁x₂ + .3x₃ + .6b₂ sin x₃", "normal, 1", d3
    ),
    Design(
        "D4",
        "age 18–90, income normal, woman, school 1–5, ideology 1–7; N 600",
        "a = (age − 54)/20: .15a − .1a² + .1 income·woman + .2 woman + .1(school − 3) + .08(ideology − 4); R² about .1",
        "normal, 1",
        d4,
    ),
    Design("D5", "10 normal, 2 relevant; N 300", "sin 1.5x₁ + .7x₂ + .5x₁x₂", "normal, 1", d5),
    Design("D6", "3 normal; N 300", "as D2", "normal, .3 + .9|x₁|", d6),
    Design(
        "D7",
        "1 normal, 1 normal by cluster, 1 binary; 30 clusters of 10",
        "sin x₁ + .5x₂ + .4b + .3bx₂",
        "normal, 1, ICC .3",
        d7,
    ),
    Design("D8", "4 normal; N 200", "x₁ + .5x₂ − .3x₃", "normal, 1", d8),
    Design("D9", "3 normal, 1 binary; N 400", "logistic(.8x₁ − .5x₁x₂ + .3x₃ + .7b)", "binary y", d9),
    Design("D10", "4 normal; N 200", "0", "normal, 1", d10),
    Design(
        "D11",
        "exponential, uniform −1–1, uniform 0–1; N 300",
        "2 log(1 + x₁) + exp x₂ + sin 2x₃",
        "normal, .7",
        d11,
    ),
    Design(
        "D12",
        "treatment by cluster, 2 normal; 40 clusters of 8",
        "tanh x₁ + .2x₂ + T(.5 + .3x₁)",
        "normal, 1, ICC .2",
        d12,
    ),
    Design("D13", "5 normal, correlations .6^|i−j|; N 300", "sin x₁ + .5x₂x₃ + .4x₄", ".8 t(3)", d13),
    Design(
        "D14",
        "3 normal, 17 binary (.1 to .5); N 400",
        "sin x₁ + .4x₂x₃ + Σ βb, β = .3, −.3, 0, …, + .4x₁b₁₇",
        "normal, 1",
        d14,
    ),
    Design(
        "D15",
        "decade 2–8, school 1–5, woman, party 1–3, so with equal rows; N 800",
        "logistic(−.6 + .9 sin(decade/2) + .3(school − 3) + .5 woman(party − 2))",
        "binary y",
        d15,
    ),
    Design(
        "E1",
        "2 normal, a factor of five levels (.40 .25 .15 .12 .08); N 400",
        "sin x₁ + .5x₂ + γ(1 + .5x₁), γ = 0, .5, −.4, .9, 0",
        "normal, 1",
        e1,
    ),
    Design(
        "E2",
        "letter to 1 in 6, age in years 18–90, woman, voted before; N 800",
        "logistic(−1.2 + .025(age − 50) + .1 woman + before + .6 letter·exp(−((age − 50)/20)²))",
        "binary y",
        e2,
    ),
    Design(
        "E3",
        "treatment more likely for high x₁, x₂ (logistic x₁ + .5x₂), which correlate .8; N 400",
        "T(1 + .5x₁) + x₁ + .5x₂²",
        "normal, 1",
        e3,
    ),
    Design("E4", "3 uniform −2–2; N 300", "|x₁| + max(x₂, 0) − .5 max(x₃ − 1, 0): kinks", "normal, .6", e4),
    Design("E5", "2 normal, 1 binary; N 350", "exp(.5 + .4 sin 2x₁ + .2x₂ + .3b)", "Poisson y", e5),
    Design("E6", "4 normal; N 400", "sin 2.5x₁ + .5 cos 2x₂ + .4x₃: bumpy", "Laplace, sd .71", e6),
    Design(
        "E7",
        "x₁ with two humps at ±1.5, x₂ = .9x₁ + noise, 1 normal; N 250",
        "x₁ + tanh x₂ − .3x₁x₂",
        "normal, .8",
        e7,
    ),
    Design(
        "E8",
        "1 binary, 1 normal, 1 normal by cluster; 25 clusters of 4 to 28",
        ".5b(1 + .5x₂) + sin x₁ + .3x₂",
        "normal, .5 to 1.5 by cluster, ICC .25",
        e8,
    ),
    Design(
        "E9",
        "2 normal, 1 binary; 50 clusters of 6",
        ".6x₁ + .5 cos x₂ + .4b",
        "normal, .8; levels and slopes of x₁ that differ by cluster, sd .4",
        e9,
    ),
    Design("E10", "1 uniform −2–2; N 100", "sin 2x + .5x", "normal, .5", e10),
)

HARDER = (
    Design("F1", "2 normal; N 200", "sin 4x₁: waves", "normal, .5", f1),
    Design("F2", "3 normal; N 300", "tanh 5x₁ + .5x₂: nearly a step", "normal, .7", f2),
    Design("F3", "3 normal; N 300", "sin 2x₁x₂ + .5x₃", "normal, .5", f3),
)
