"""The dense algebra of the exact way on a GPU, in double precision.

Only four things are large: the kernel, its eigenvectors, and products with either. They are made and stay on the device; what
comes back are thin matrices, so everything else is the same code as without a device. Double precision is switched on
inside these functions only, never for the whole process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from crosslevel.errors import InputError, MissingExtraError
from crosslevel.krls.spectrum import GaussianKernel, Spectrum
from crosslevel.numerics.nuts import double_precision
from crosslevel.typing import FloatArray, IntArray

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:  # pragma: no cover - the message is tested with a stub
    raise MissingExtraError(
        "backend='jax' needs jax; install it with pip install 'crosslevel[bayes]' (and jax[cuda12] for a GPU), or use "
        "backend='numpy'."
    ) from error

ROWS = 4096
"""Rows of the kernel, or of squared eigenvectors, made at once on the device."""
MATRICES = 7
"""Matrices of the size of the kernel that an eigendecomposition holds on the device."""


def device_name() -> str:
    """Name the device that is used."""
    return str(jax.devices()[0].device_kind)


@partial(jax.jit, static_argnames="rows")
def _kernel_times(points: Any, Z: Any, X: Any, s: Any, rows: int) -> Any:
    """Give K(points, Z) X; points have a multiple of ``rows`` rows."""
    norms = (Z * Z).sum(axis=1)

    def block(z: Any) -> Any:
        squared = (z * z).sum(axis=1)[:, None] + norms - 2.0 * jnp.matmul(z, Z.T, precision="highest")
        return jnp.matmul(jnp.exp(-jnp.maximum(squared, 0.0) / s), X, precision="highest")

    made = jax.lax.map(block, points.reshape(-1, rows, points.shape[1]))
    return made.reshape(len(points), X.shape[1])


@jax.jit
def _weighted_kernel(Z: Any, s: Any, root: Any) -> Any:
    """Give diag(root) K diag(root)."""
    norms = (Z * Z).sum(axis=1)
    squared = norms[:, None] + norms - 2.0 * jnp.matmul(Z, Z.T, precision="highest")
    K = jnp.exp(-jnp.maximum(squared, 0.0) / s)
    K = jnp.where(jnp.eye(len(Z), dtype=bool), 1.0, K)
    return K * root[:, None] * root


@partial(jax.jit, static_argnames="rows")
def _pass(Q: Any, start: Any, b: Any, x: Any, rows: int) -> tuple[Any, Any]:
    part = jax.lax.dynamic_slice_in_dim(Q, start, rows)
    return jnp.matmul(part, b, precision="highest"), jnp.matmul(part * part, x, precision="highest")


@dataclass(frozen=True)
class DeviceSpectrum(Spectrum):
    """Eigenvectors that stay on the device: ``Q`` is its array."""

    def project(self, X: FloatArray) -> FloatArray:
        """Give Q' X, (k, c)."""
        with double_precision():
            return np.asarray(jnp.matmul(self.Q.T, jnp.asarray(X), precision="highest"))

    def expand(self, b: FloatArray) -> FloatArray:
        """Give Q b, (U, c)."""
        with double_precision():
            return np.array(jnp.matmul(self.Q, jnp.asarray(b), precision="highest"))

    def rows(self, index: IntArray) -> FloatArray:
        """Give some rows of the eigenvectors, (..., k)."""
        with double_precision():
            return np.asarray(jnp.take(self.Q, jnp.asarray(index), axis=0))

    def passes(self, b: FloatArray, x: FloatArray) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Yield Q b and (Q o Q) x, a block of rows at a time."""
        U = len(self)
        size = min(ROWS, U)
        with double_precision():
            left, right = jnp.asarray(b), jnp.asarray(x)
        for start in range(0, U, size):
            first = min(start, U - size)  # the last block starts earlier, so that all have one shape
            with double_precision():
                moved, kept = _pass(self.Q, first, left, right, size)
                moved, kept = np.asarray(moved), np.asarray(kept)
            yield slice(start, min(start + size, U)), moved[start - first :], kept[start - first :]


@dataclass(frozen=True)
class DeviceKernel(GaussianKernel):
    """The kernel, multiplied on the device.

    Examples
    --------
    >>> here = GaussianKernel(np.array([[0.0], [1.0], [3.0]]), s=1.0)
    >>> there = DeviceKernel(here.Z, here.s)
    >>> bool(np.allclose(there.apply(np.eye(3)), here.apply(np.eye(3)), rtol=1e-12))
    True
    """

    def apply(self, X: FloatArray, at: FloatArray | None = None) -> FloatArray:
        """Multiply the kernel between the rows ``at`` (the data's own when None) and the data with X, (n, c)."""
        points = self.Z if at is None else at
        rows = min(ROWS, max(1, len(points)))
        padded = np.zeros((-(-len(points) // rows) * rows, points.shape[1]))
        padded[: len(points)] = points
        with double_precision():
            made = _kernel_times(jnp.asarray(padded), jnp.asarray(self.Z), jnp.asarray(X), float(self.s), rows)
            return np.asarray(made)[: len(points)]

    def without(self, columns: IntArray) -> GaussianKernel:
        """Give the factor of the kernel that the other columns make; the bandwidth stays."""
        return DeviceKernel(np.delete(self.Z, columns, axis=1), self.s)

    def decompose(self, m: FloatArray) -> DeviceSpectrum:
        """Find all eigenpairs of M^1/2 K M^1/2 on the device."""
        _check_device_memory(len(m))
        with double_precision():
            B = _weighted_kernel(jnp.asarray(self.Z), float(self.s), jnp.asarray(np.sqrt(m)))
            w, Q = jnp.linalg.eigh(B, symmetrize_input=False)
            del B
            return DeviceSpectrum(Q, np.maximum(np.asarray(w), 0.0))


def _check_device_memory(U: int) -> None:
    stats = jax.devices()[0].memory_stats() or {}
    free = stats.get("bytes_limit", 0) - stats.get("bytes_in_use", 0)
    needed = MATRICES * 8 * U * U
    if 0 < free < needed:
        raise InputError(
            f"X has {U:,} distinct rows, whose exact fit needs about {needed / 2**30:,.1f} GiB on the device; "
            f"{free / 2**30:,.1f} GiB are free there. Pass method='nystrom', or backend='numpy'."
        )
