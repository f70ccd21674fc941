"""The fast Walsh–Hadamard transform, plain and readable: the reference for the interleaved kernel in ``fused``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = ["fwht", "next_power_of_two"]


def next_power_of_two(n: int) -> int:
    """Round up to a power of two: the padded width ``D`` of a structured map over ``n`` inputs.

    Examples
    --------
    >>> [next_power_of_two(n) for n in (1, 2, 3, 100, 3251)]
    [1, 2, 4, 128, 4096]
    """
    if n < 1:
        raise InputError(f"n={n!r} is not a positive width; pass at least 1.")
    return 1 << (int(n) - 1).bit_length()


def fwht(x: npt.ArrayLike) -> FloatArray:
    """Multiply the last axis by the Sylvester-ordered ±1 Hadamard matrix, without normalizing.

    Parameters
    ----------
    x : array (..., D), D a power of two
        Anything numeric; the leading axes are a batch.

    Returns
    -------
    array (..., D) of float64
        ``x @ H`` with ``H[i, j] = (-1) ** popcount(i & j)``. ``H`` is symmetric and ``H @ H = D I``,
        so applying the transform twice multiplies by ``D``.

    Examples
    --------
    >>> fwht([1.0, 2.0, 3.0, 4.0])
    array([10., -2., -4.,  0.])
    >>> fwht(fwht([1.0, 2.0, 3.0, 4.0])) / 4
    array([1., 2., 3., 4.])
    """
    y = np.array(x, dtype=np.float64)
    width = y.shape[-1] if y.ndim else 0
    if width < 1 or width & (width - 1):
        raise InputError(
            f"x has {width} entries along its last axis; the Hadamard transform needs a power of two. Pad it with zeros."
        )
    shape = y.shape
    half = 1
    while half < width:
        pairs = y.reshape(-1, width // (2 * half), 2, half)
        y = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
        half *= 2
    return y.reshape(shape)
