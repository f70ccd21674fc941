"""Fourier maps with an explicit frequency matrix: independent, orthogonal or quasi-random Gaussian rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from crosslevel.errors import InputError
from crosslevel.numerics.features.base import FourierMap
from crosslevel.numerics.hadamard import next_power_of_two
from crosslevel.typing import FloatArray

__all__ = ["DenseFourier", "draw_orthogonal", "draw_rff", "draw_sobol"]

# Sobol points on the edge of the unit cube would be infinite normals.
_EDGE = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class DenseFourier(FourierMap):
    """A Fourier map that stores its frequencies.

    Attributes
    ----------
    W : array (m, n_inputs)
        The frequencies, bandwidth included.
    """

    W: FloatArray

    def project(self, X: FloatArray) -> FloatArray:
        """Multiply rows by the frequencies: ``X @ W.T``, (n, m)."""
        return X @ self.W.T

    def frequencies(self) -> FloatArray:
        """Give a copy of W, (m, n_inputs)."""
        return self.W.copy()


def draw_rff(d: int, m: int, rng: np.random.Generator) -> FloatArray:
    """Draw m independent standard normal rows (Rahimi & Recht, 2007)."""
    return rng.standard_normal((m, d))


def draw_orthogonal(d: int, m: int, rng: np.random.Generator) -> FloatArray:
    """Draw blocks of d orthogonal rows with chi_d lengths (Yu et al., 2016): up to its sign each row is standard normal.

    The sign that the factorisation leaves on a row does not matter: it flips a sine in both phi(x) and phi(y).
    """
    blocks = []
    for start in range(0, m, d):
        rows = min(d, m - start)
        Q, _ = np.linalg.qr(rng.standard_normal((d, rows)))
        lengths = np.sqrt(rng.chisquare(d, size=rows))
        blocks.append((Q * lengths).T)
    return np.vstack(blocks)


def draw_sobol(d: int, m: int, rng: np.random.Generator) -> FloatArray:
    """Push scrambled Sobol points through the inverse normal distribution function (Avron et al., 2016)."""
    from scipy.stats import qmc  # half a second to import, for one map

    if d > qmc.Sobol.MAXDIM:
        raise InputError(
            f"n_inputs={d:,} is more than the {qmc.Sobol.MAXDIM:,} dimensions of the Sobol sequence; "
            "use feature_map='sorf' for so many columns."
        )
    # The sequence is balanced only in whole powers of two.
    points = qmc.Sobol(d, scramble=True, seed=rng).random(next_power_of_two(m))[:m]
    return np.asarray(ndtri(np.clip(points, _EDGE, 1 - _EDGE)), dtype=np.float64)
