"""Average effects of covariates in designs whose regression function is known.

The truth of a column is the mean over the drawn rows of the derivative of the function, or of its difference where the column has two
values. D are after the designs of an earlier study, E were written before any had been run. A design is text: columns, of which a later
one may name the earlier as x1, x2, ...; the mean of y; and y, given the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.cases import Case, FloatArray

STEP = 1e-5
SHORT = {"normal": "rng.normal(size=n)", "coin": "rng.integers(0, 2, n)", "wide": "rng.uniform(-2, 2, n)"}
NOISE, COIN = "mean + {} * rng.normal(size=n)", "(rng.random(n) < mean) * 1.0"
WORDS = {name: getattr(np, name) for name in ("sin", "cos", "tanh", "exp", "log1p", "abs", "where", "maximum")}
WORDS |= {"logistic": lambda t: 1 / (1 + np.exp(-t))}


@dataclass(frozen=True)
class Design:
    """How covariates and outcomes of ``n`` rows are drawn."""

    n: int
    columns: str
    mean: str
    y: str

    def covariates(self, rng: np.random.Generator) -> FloatArray:
        """Draw the columns, one after another."""
        drawn: list[FloatArray] = []
        for text in self.columns.split("; "):
            space = WORDS | {"rng": rng, "n": self.n} | {f"x{j}": x for j, x in enumerate(drawn, start=1)}
            drawn.append(np.asarray(eval(SHORT.get(text, text), space), dtype=float))
        return np.column_stack(drawn)

    def means(self, X: FloatArray) -> FloatArray:
        """Give the true means of rows."""
        space = WORDS | {f"x{j}": x for j, x in enumerate(X.T, start=1)}
        return np.broadcast_to(eval(self.mean, space), len(X)).astype(float)

    def outcomes(self, X: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw outcomes of rows."""
        space = WORDS | {"rng": rng, "n": self.n, "mean": self.means(X), "x1": X[:, 0]}
        return np.asarray(eval(self.y, space), dtype=float)


FOLLOWS = "; ".join(["normal", *(f".6 * x{j} + .8 * rng.normal(size=n)" for j in range(1, 5))])
SMOOTH = "sin(x1) + .5 * x2**2 + .6 * x1 * x3"
DESIGNS = {
    "D1, mixed": Design(
        150, "normal; normal; coin", "sin(1.5 * x1) + .5 * x2**2 + .8 * x3 + .4 * x3 * x1", NOISE.format(1)
    ),
    "D2, smooth": Design(200, "normal; normal; normal", SMOOTH, NOISE.format(0.7)),
    "D4, survey": Design(
        600,
        "rng.uniform(18, 90, n); normal; coin; rng.integers(1, 6, n); rng.integers(1, 8, n)",
        ".15 * (x1 - 54) / 20 - .1 * ((x1 - 54) / 20)**2 + .1 * x2 * x3 + .2 * x3 + .1 * (x4 - 3) + .08 * (x5 - 4)",
        NOISE.format(1),
    ),
    "D5, many columns": Design(
        300, "; ".join(["normal"] * 10), "sin(1.5 * x1) + .7 * x2 + .5 * x1 * x2", NOISE.format(1)
    ),
    "D6, unequal noise": Design(300, "normal; normal; normal", SMOOTH, NOISE.format("(.3 + .9 * abs(x1))")),
    "D8, lines": Design(200, "normal; normal; normal; normal", "x1 + .5 * x2 - .3 * x3", NOISE.format(1)),
    "D9, yes or no": Design(
        400, "normal; normal; normal; coin", "logistic(.8 * x1 - .5 * x1 * x2 + .3 * x3 + .7 * x4)", COIN
    ),
    "D10, nothing": Design(200, "normal; normal; normal; normal", "0 * x1", NOISE.format(1)),
    "D11, skewed": Design(
        300,
        "rng.exponential(size=n); rng.uniform(-1, 1, n); rng.uniform(0, 1, n)",
        "2 * log1p(x1) + exp(x2) + sin(2 * x3)",
        NOISE.format(0.7),
    ),
    "D13, correlated": Design(300, FOLLOWS, "sin(x1) + .5 * x2 * x3 + .4 * x4", "mean + .8 * rng.standard_t(3, n)"),
    "E2, letter": Design(
        800,
        "rng.random(n) < 1 / 6; rng.integers(18, 91, n); coin; rng.random(n) < .4",
        "logistic(-1.2 + .025 * (x2 - 50) + .1 * x3 + x4 + .6 * x1 * exp(-((x2 - 50) / 20)**2))",
        COIN,
    ),
    "E3, confounded": Design(
        400,
        "normal; .8 * x1 + .6 * rng.normal(size=n); rng.random(n) < logistic(x1 + .5 * x2)",
        "x3 * (1 + .5 * x1) + x1 + .5 * x2**2",
        NOISE.format(1),
    ),
    "E4, kinks": Design(
        300, "wide; wide; wide", "abs(x1) + maximum(x2, 0) - .5 * maximum(x3 - 1, 0)", NOISE.format(0.6)
    ),
    "E5, counts": Design(
        350, "normal; normal; coin", "exp(.5 + .4 * sin(2 * x1) + .2 * x2 + .3 * x3)", "rng.poisson(mean)"
    ),
    "E6, bumpy": Design(
        400,
        "normal; normal; normal; normal",
        "sin(2.5 * x1) + .5 * cos(2 * x2) + .4 * x3",
        "mean + rng.laplace(0, .5, n)",
    ),
    "E7, humps": Design(
        250,
        "where(rng.random(n) < .5, -1.5, 1.5) + .5 * rng.normal(size=n); .9 * x1 + .5 * rng.normal(size=n); normal",
        "x1 + tanh(x2) - .3 * x1 * x2",
        NOISE.format(0.8),
    ),
    "E10, one column": Design(100, "wide", "sin(2 * x1) + .5 * x1", NOISE.format(0.5)),
}


def average_effects(design: Design, X: FloatArray) -> FloatArray:
    """Average the derivative over the rows, or the difference of a column of two values."""
    out = []
    for j in range(X.shape[1]):
        low, high = X.copy(), X.copy()
        if len(values := np.unique(X[:, j])) == 2:
            (low[:, j], high[:, j]), span = values, values[1] - values[0]
        else:
            low[:, j], high[:, j], span = X[:, j] - STEP, X[:, j] + STEP, 2 * STEP
        out.append(np.mean(design.means(high) - design.means(low)) / span)
    return np.array(out)


def designs(_: Path, whole: bool) -> Iterator[Case]:
    """Draw every design anew, four times (forty)."""
    for number, (name, design) in enumerate(DESIGNS.items()):
        for replicate in range(40 if whole else 4):
            rng = np.random.default_rng([18, number, replicate])
            X = design.covariates(rng)
            spread = X.std(axis=0)  # an effect counts per standard deviation of its column
            given = {"X": X / spread, "y": design.outcomes(X, rng)}
            yield Case(name, given, average_effects(design, X) * spread, 100 / len(spread))
