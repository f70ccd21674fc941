"""One question asked in places: the mode of its logits, its evidence with slopes, predictions and draws, on the smaller of two sides.

f = X w + r over the places asked, w ~ N(0, effect_variance I), r of :class:`crosslevel.ecological.collapsed.Spread`. At the mode of the
binomial posterior z = f + (successes - trials p) / W is seen with the variance 1 / W, W = trials p (1 - p), so that the evidence is that
of a linear model and Laplace's is

    log p(z) + sum W (z - f)^2 / 2 - sum log(W) / 2 + log p(successes | f).

With fewer columns of X than places the weights w are solved for, O(q k^2) and the cube of the cells; else X X' is part of the places'
covariance, O(q^3). Both are the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from crosslevel.ecological.collapsed import Cells, Spread, collapse, separate
from crosslevel.ecological.covariance import Hyperparameters, Moments, Terms, place_covariance, square_root
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.laplace import Binomial
from crosslevel.typing import FloatArray, IntArray

STEPS, HALVINGS, TOLERANCE = 100, 40, 1e-9
"""Newton steps, halvings of one, and the gradient at the mode relative to the counts."""
LEAST_CURVATURE = 1e-10
ROUNDING = 1e-15
"""Error of a log likelihood relative to the counts it adds up."""
LEAST_VARIANCE = 1e-12
"""Variance of weights that stands for none."""


@dataclass(frozen=True, eq=False)
class Mode:
    """The mode of f and what the approximation needs of it.

    Attributes
    ----------
    f : (n,)
    alpha : (n,)
        K^-1 f, which equals the likelihood's gradient at the mode.
    curvature : (n,)
        W, minus the second derivative of the log likelihood.
    log_evidence : float
        Laplace's approximation of log p(counts).
    iterations : int
    gradient : float
        Largest gradient of the posterior at f relative to the counts.
    """

    f: FloatArray
    alpha: FloatArray
    curvature: FloatArray
    log_evidence: float
    iterations: int
    gradient: float

    @property
    def noise(self) -> FloatArray:
        """Variance of counting, 1 / W."""
        return 1.0 / self.curvature

    @property
    def seen(self) -> FloatArray:
        """What is seen with that noise."""
        return self.f + self.alpha / self.curvature


@dataclass(frozen=True, eq=False)
class Point:
    """Hyperparameters that stand for a part of their posterior.

    Attributes
    ----------
    hyperparameters : Hyperparameters
    mode : Mode
        Of the latent values under them.
    weight : float
        Adds up to one over all points.
    """

    hyperparameters: Hyperparameters
    mode: Mode
    weight: float


@dataclass(frozen=True, eq=False)
class Design:
    """Places as questions are asked in them.

    Attributes
    ----------
    X : (q, k)
        Centered embeddings, along directions.
    terms : Terms
    """

    X: FloatArray
    terms: Terms

    @cached_property
    def gram(self) -> FloatArray | None:
        """X X' where places are no more than columns."""
        return self.X @ self.X.T if len(self.X) <= self.X.shape[1] else None

    @cached_property
    def cells(self) -> Cells:
        """Places of the same location and groups."""
        return collapse(self.terms)


class Question:
    """One question in the places where it was asked.

    Parameters
    ----------
    design : Design
    places : (n,) int
        Where it was asked.
    successes, trials : (q,)
    """

    def __init__(self, design: Design, places: IntArray, successes: FloatArray, trials: FloatArray) -> None:
        self.design, self.places, self.terms, self.X = design, places, design.terms, design.X[places]
        self.likelihood = Binomial(successes[places], trials[places])
        if design.gram is None:
            self.cells, self.linear = design.cells.observed(places), self.X
        else:
            whole = len(places) == len(design.X)
            gram = design.gram if whole else design.gram[np.ix_(places, places)]
            self.cells = separate(self.terms if whole else self.terms.take(places), gram)
            self.linear = np.zeros((len(places), 0))

    def mode(self, h: Hyperparameters, start: FloatArray | None = None) -> Mode:
        """Find the mode of f by damped Newton steps, from ``start`` or the counts."""
        return self._mode(h, start)[0]

    def evidence(self, h: Hyperparameters, start: FloatArray | None = None) -> tuple[Mode, FloatArray]:
        """Give the mode with its evidence, and the slopes of that by the logarithms of ``terms.names``."""
        mode, spread = self._mode(h, start)
        slope = spread.evidence(self.linear, mode.seen, self.likelihood.slopes(mode.f).third)[1]
        return mode, np.array([slope[name] for name in self.terms.names])

    def _mode(self, h: Hyperparameters, start: FloatArray | None) -> tuple[Mode, Spread]:
        f, spread = self.likelihood.start() if start is None else start, None
        alpha, height, h = np.zeros_like(f), -np.inf, _proper(h)
        for step in range(STEPS):
            told = self.likelihood.slopes(f)
            W = np.maximum(told.curvature, LEAST_CURVATURE)
            z, spread = f + told.first / W, Spread(self.cells, h, 1.0 / W, like=spread)
            off = float((np.abs(told.first - alpha) / (told.scale + 1.0)).max())
            if step and off < TOLERANCE:
                gaussian = spread.regression(self.linear, z)[2]
                value = gaussian + 0.5 * float(W @ (z - f) ** 2) - 0.5 * float(np.log(W).sum()) + told.value
                return Mode(f, told.first, W, value, step, off), spread
            # (K + 1 / W) (alpha + step) = z: errors are relative to the gradient, whatever the size of W
            left = told.first - alpha if step else W * z
            alpha_step = spread.told(self.linear, left / W)
            f_step = (left - alpha_step) / W - (0.0 if step else f)
            slack = 1e-9 * abs(height) + ROUNDING * float(told.scale.sum())
            for halving in range(HALVINGS):
                new, new_alpha = f + 0.5**halving * f_step, alpha + 0.5**halving * alpha_step
                value = self.likelihood.slopes(new).value - 0.5 * float(new_alpha @ new)
                if value >= height - slack:
                    break
            f, alpha, height = new, new_alpha, value
        raise ConvergenceError(
            f"the mode of {len(f):,} places was not found in {STEPS} steps (gradient {off:.1e} of the counts, allowed {TOLERANCE:.0e}); "
            "check the counts for errors, let the model have a nugget, or fix hyperparameters."
        )

    def predict(self, points: Sequence[Point], X: FloatArray, place: IntArray, terms: Terms | None = None) -> Moments:
        """Give mean and variance of the logits of parts over all points.

        Parameters
        ----------
        points : sequence of Point
        X : (m, k)
            As in the design.
        place : (m,) int
        terms : Terms, optional
            Over the places of the design and others.
        """
        terms = self.terms if terms is None else terms
        found = self._moments(points, X, place, terms) if self._few else self._solved(points, X, place, terms)
        each = list(found)
        weight = np.array([point.weight for point in points])
        means, variances = np.array([at.mean for at in each]), np.array([at.variance for at in each])
        mean = weight @ means
        return Moments(mean, weight @ (variances + (means - mean) ** 2))

    def draw(self, point: Point, n_draws: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw weights, (n_draws, k), and what belongs to the places, (n_draws, q), jointly; by Matheron's rule."""
        h, mode = _proper(point.hyperparameters), point.mode
        spread = Spread(self.cells, h, mode.noise)
        if not self._few:
            cells = self.design.cells
            return spread.draw(self.X, mode.seen, cells.index, self._rows(len(cells.index)), n_draws, rng)
        Ku = place_covariance(self.terms, h)
        u = rng.standard_normal((n_draws, len(Ku))) @ square_root(Ku).T
        w = np.sqrt(h.effect_variance) * rng.standard_normal((n_draws, self.X.shape[1]))
        shown = w @ self.X.T + u[:, self.places] + np.sqrt(mode.noise) * rng.standard_normal((n_draws, len(mode.f)))
        alpha = spread.solve((mode.seen - shown).T).T
        return w + h.effect_variance * (alpha @ self.X), u + alpha @ Ku[self.places]

    @property
    def _few(self) -> bool:
        return self.cells.gram is not None

    def _rows(self, n_places: int) -> IntArray:
        row = np.full(n_places, -1, dtype=np.intp)
        row[self.places] = np.arange(len(self.places))
        return row

    def _moments(self, points: Sequence[Point], X: FloatArray, place: IntArray, terms: Terms) -> list[Moments]:
        """Condition on the matrix of places."""
        found, gram, own = [], X @ self.X.T, np.einsum("ij,ij->i", X, X)
        for point in points:
            h, Ku = point.hyperparameters, place_covariance(terms, point.hyperparameters)
            C = h.effect_variance * gram + Ku[np.ix_(place, self.places)]
            spread = Spread(self.cells, h, point.mode.noise)
            V = linalg.solve_triangular(spread.top.L, C.T, lower=True, check_finite=False)
            left = h.effect_variance * own + np.diag(Ku)[place] - np.einsum("ij,ij->j", V, V)
            found.append(Moments(C @ spread.told(self.linear, point.mode.seen), np.maximum(left, 0.0)))
        return found

    def _solved(self, points: Sequence[Point], X: FloatArray, place: IntArray, terms: Terms) -> list[Moments]:
        """Solve for the weights."""
        cells = self.design.cells if terms is self.terms else collapse(terms)
        row, seen, found = self._rows(len(cells.index)), cells.observed(self.places), []
        for point in points:
            spread = Spread(seen, _proper(point.hyperparameters), point.mode.noise)
            found.append(spread.predict(self.X, point.mode.seen, X, cells.index[place], row[place]))
        return found


def _proper(h: Hyperparameters) -> Hyperparameters:
    """Let weights that have no variance have next to none."""
    return replace(h, effect_variance=max(h.effect_variance, LEAST_VARIANCE))
