"""Integrals of the squared-exponential kernel over bodies of tetrahedra: random points (Algorithm 1 of the paper) against the exact."""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from scipy.special import erf

EXTENT = 1.0
LENGTHSCALES = (0.2, 0.5, 1.0)


def tetrahedra() -> np.ndarray:
    """Cut the unit cube into six tetrahedra, (6, 4, 3)."""
    bodies = []
    for order in itertools.permutations(range(3)):
        corners = [np.zeros(3)]
        for axis in order:
            corners.append(corners[-1] + np.eye(3)[axis])
        bodies.append(corners)
    return np.array(bodies)


def random_points(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw points uniformly in the cube by way of its tetrahedra, which are of one volume, (n, 3)."""
    bodies = tetrahedra()
    weights = rng.dirichlet(np.ones(4), n)
    return np.einsum("nc,ncd->nd", weights, bodies[rng.integers(0, len(bodies), n)])


def exact(lengthscale: float, shift: np.ndarray) -> float:
    """Integrate exp(-|s - t|^2 / 2 l^2) over the cube and its shifted copy: a product over the axes."""

    def axis(gap: float) -> float:
        scaled = np.array([gap - EXTENT, gap, gap + EXTENT]) / (np.sqrt(2) * lengthscale)
        antiderivative = scaled * erf(scaled) + np.exp(-(scaled**2)) / np.sqrt(np.pi)
        return float(np.sqrt(np.pi) * lengthscale**2 * (antiderivative[0] - 2 * antiderivative[1] + antiderivative[2]))

    return float(np.prod([axis(gap) for gap in shift]))


def sampled(rng: np.random.Generator, n: int, lengthscale: float, shift: np.ndarray) -> tuple[float, float]:
    """Average the kernel and its derivative by the lengthscale over all pairs of n points in each body."""
    s, t = random_points(rng, n), random_points(rng, n) + shift
    squares = ((s[:, None] - t[None]) ** 2).sum(axis=-1)
    kernel = np.exp(-squares / (2 * lengthscale**2))
    return float(kernel.mean()), float((kernel * squares / lengthscale**3).mean())


def compare(lengthscale: float, n: int, repeats: int) -> tuple[float, float]:
    """Give root mean square relative errors of the integral and of its derivative, over the cube with itself and its neighbor."""
    errors = []
    for shift in (np.zeros(3), np.array([1.0, 0.0, 0.0])):
        step = 1e-4 * lengthscale
        value = exact(lengthscale, shift)
        slope = (exact(lengthscale + step, shift) - exact(lengthscale - step, shift)) / (2 * step)
        for seed in range(repeats):
            guess, gradient = sampled(np.random.default_rng([seed, n]), n, lengthscale, shift)
            errors.append((guess / value - 1, gradient / slope - 1))
    root = np.sqrt(np.mean(np.square(errors), axis=0))
    return float(root[0]), float(root[1])


def main(arguments: list[str] | None = None) -> int:
    """Print the relative errors by lengthscale and number of points."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    repeats = 4 if parser.parse_args(arguments).quick else 40
    print("lengthscale  points  integral  derivative")
    for lengthscale in LENGTHSCALES:
        for n in (50, 100, 400):
            value, slope = compare(lengthscale, n, repeats)
            print(f"{lengthscale:11.1f} {n:7d} {value:9.3f} {slope:11.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
