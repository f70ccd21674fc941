"""Is a frequency matrix what the Gaussian kernel asks for? A battery that the true maps pass and each mutant fails.

The statistics are taken over many draws of one block of 32 frequencies in 32 dimensions, at differences x - y whose
kernel values span 0.04 to 0.98 and which include the two directions a Hadamard matrix could hide: the constant vector
and differences of two coordinates.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.linalg import hadamard

from crosslevel.numerics.features import make_map

D = 32
H = hadamard(D).astype(float)
Draw = Callable[[np.random.Generator], np.ndarray]


def differences() -> np.ndarray:
    v = np.random.default_rng(5).standard_normal((6, D))
    v *= np.array([0.2, 0.5, 0.9, 1.3, 1.8, 2.5])[:, None] / np.linalg.norm(v, axis=1, keepdims=True)
    constant = np.full(D, 1.3 / np.sqrt(D))
    two, apart = np.zeros(D), np.zeros(D)
    two[[0, 1]], apart[[3, 7]] = 1.3 / np.sqrt(2), (0.9, -0.9)
    return np.vstack([v, constant, two, apart])


@dataclass
class Battery:
    bias: float  # largest |z| of the mean kernel estimate
    excess: float  # largest mean squared error over that of independent Gaussian rows
    lengths: float  # variance of the squared row lengths within a draw, over that of chi-square
    shapes: float  # variance of the rows' kurtosis within a draw, over that of uniform directions

    def failures(self) -> set[str]:
        verdicts = {
            "bias": self.bias < 5,
            # FastFood's rows share G, which doubles the variance at most; 2.3 leaves room for the noise of the estimate
            "excess": self.excess < 2.3,
            "lengths": 0.8 < self.lengths < 1.25,
            "shapes": self.shapes > 0.5,
        }
        return {name for name, passed in verdicts.items() if not passed}


def kurtosis_spread(W: np.ndarray) -> float:
    unit = W / np.linalg.norm(W, axis=1, keepdims=True)
    return float((unit**4).sum(axis=1).var(ddof=1))


def battery(draw: Draw, n_draws: int = 800) -> Battery:
    rng = np.random.default_rng(11)
    delta = differences()
    k = np.exp(-(delta**2).sum(axis=1) / 2)
    assert k.min() < 0.05
    assert k.max() > 0.95
    draws = [draw(rng) for _ in range(n_draws)]
    estimates = np.array([np.cos(W @ delta.T).mean(axis=0) for W in draws])
    z = (estimates.mean(axis=0) - k) / (estimates.std(axis=0) / np.sqrt(n_draws))
    independent = (1 - k**2) ** 2 / (2 * len(draws[0]))
    uniform = np.mean([kurtosis_spread(rng.standard_normal((D, D))) for _ in range(n_draws)])
    return Battery(
        bias=float(np.abs(z).max()),
        excess=float((((estimates - k) ** 2).mean(axis=0) / independent).max()),
        lengths=float(np.mean([(W**2).sum(axis=1).var(ddof=1) for W in draws]) / (2 * D)),
        shapes=float(np.mean([kurtosis_spread(W) for W in draws]) / uniform),
    )


def signs(rng: np.random.Generator) -> np.ndarray:
    return rng.choice([-1.0, 1.0], D)


def fastfood(rng: np.random.Generator, mutant: str = "") -> np.ndarray:
    B = {"no signs": np.ones(D), "signs 0 and 1": rng.integers(0, 2, D)}.get(mutant, signs(rng))
    P = np.eye(D)[np.arange(D) if mutant == "no permutation" else rng.permutation(D)]
    G = rng.standard_normal(D)
    S = np.ones(D) if mutant == "no S" else np.sqrt(rng.chisquare(D, D))
    S = S if mutant in ("no S", "S not divided by |G|") else S / np.linalg.norm(G)
    root = 1.0 if mutant == "1/sqrt(d) forgotten" else np.sqrt(D)
    return np.diag(S) @ H @ np.diag(G) @ P @ H @ np.diag(B) / root


def sorf(rng: np.random.Generator, mutant: str = "") -> np.ndarray:
    D1, D2, D3 = signs(rng), signs(rng), signs(rng)
    if mutant == "no signs":
        D1 = D2 = D3 = np.ones(D)
    if mutant == "one sign vector three times":
        D2 = D3 = D1
    L = np.full(D, np.sqrt(D)) if mutant == "no chi lengths" else np.sqrt(rng.chisquare(D, D))
    root = D if mutant == "1/sqrt(d) forgotten" else D**1.5
    return np.diag(L) @ H @ np.diag(D1) @ H @ np.diag(D2) @ H @ np.diag(D3) / root


@pytest.mark.parametrize("name", ["rff", "fastfood", "sorf"])
def test_the_maps_follow_the_law(name: str) -> None:
    found = battery(lambda rng: 1.7 * make_map(name, D, 2 * D, 1.7, rng).frequencies())
    assert found.failures() == set(), found


@pytest.mark.parametrize("true", [fastfood, sorf])
def test_the_explicit_products_follow_the_law(true: Draw) -> None:
    found = battery(true)
    assert found.failures() == set(), found


@pytest.mark.parametrize(
    ("mutant", "caught_by"),
    [
        ("no S", "lengths"),
        ("S not divided by |G|", "bias"),
        ("no permutation", "shapes"),
        ("1/sqrt(d) forgotten", "bias"),
        ("no signs", "excess"),
        ("signs 0 and 1", "bias"),
    ],
)
def test_mutants_of_fastfood_fail(mutant: str, caught_by: str) -> None:
    found = battery(lambda rng: fastfood(rng, mutant))
    assert caught_by in found.failures(), found


@pytest.mark.parametrize(
    ("mutant", "caught_by"),
    [
        ("no chi lengths", "bias"),
        ("1/sqrt(d) forgotten", "bias"),
        ("no signs", "excess"),
        ("one sign vector three times", "bias"),
    ],
)
def test_mutants_of_sorf_fail(mutant: str, caught_by: str) -> None:
    found = battery(lambda rng: sorf(rng, mutant))
    assert caught_by in found.failures(), found


def test_a_constant_map_fails() -> None:
    assert battery(lambda rng: 1e-2 * rng.standard_normal((D, D))).failures() >= {"bias", "lengths"}
