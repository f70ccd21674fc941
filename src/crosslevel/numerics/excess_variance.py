"""How much larger than sampling are errors? One variance that makes squared errors as large as they should be."""

from __future__ import annotations

import numpy as np

from crosslevel.errors import ConvergenceError
from crosslevel.typing import FloatArray

__all__ = ["paule_mandel"]

LARGEST = 1e12
"""A standard deviation of a million: beyond any error on the scale of rates or logits."""


def paule_mandel(error: FloatArray, variance: FloatArray, K: FloatArray, weight: FloatArray | None = None) -> float:
    """Find the variance t^2 >= 0 at which squared errors are as large as they should be (Paule & Mandel 1982).

    Solves sum w e^2 / (V + t^2 K) = sum w, and gives 0 where errors are already smaller than V allows. Errors that no t^2 up to
    ``LARGEST`` makes as large as they should be are refused.

    Parameters
    ----------
    error, variance, K : (m,)
        e, V and K.
    weight : (m,), optional

    Examples
    --------
    >>> round(paule_mandel(np.array([2.0, -2.0]), np.zeros(2), np.ones(2)), 6)
    4.0
    """
    w = np.ones_like(error) if weight is None else weight

    def excess(t2: float) -> float:
        with np.errstate(over="ignore"):
            return float((w * error**2 / np.maximum(variance + t2 * K, 1e-300)).sum() - w.sum())

    if excess(0.0) <= 0.0 and np.all(variance > 0):
        return 0.0
    low, high = 0.0, 1.0
    while not excess(high) <= 0.0:  # also where an error is no number
        if high > LARGEST:
            raise ConvergenceError(
                f"no variance up to {LARGEST:g} accounts for errors of up to {np.abs(error).max():g}: they are too large, or K, "
                f"which is {np.min(K):g} at least, adds nothing where they are. Leave out what is measured with such errors."
            )
        high *= 4.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return 0.5 * (low + high)
