"""The covariance of cells as a matrix on jax's device, in double precision: what :class:`crosslevel.ecological.collapsed.Spread` asks for.

The matrix, its factor, the field and its derivative stay on the device; thin matrices come back.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np

from crosslevel.ecological.covariance import BIAS, Hyperparameters, Terms
from crosslevel.errors import ConvergenceError, MissingExtraError
from crosslevel.numerics.kernels import points_of
from crosslevel.numerics.nuts import double_precision
from crosslevel.typing import FloatArray

try:
    import jax
    import jax.numpy as jnp
    from jax.scipy.linalg import cho_solve
except ImportError as error:  # pragma: no cover - needs a place without jax
    raise MissingExtraError(
        "backend='jax' needs jax; install it with pip install 'crosslevel[bayes]' (and jax[cuda12] for a GPU), or use "
        "backend='numpy'."
    ) from error


@partial(jax.jit, static_argnames="kind")
def _field(points: Any, length: Any, kind: str) -> tuple[Any, Any]:
    """Give the Matern correlation of points, and its derivative by the logarithm of the length."""
    squared = sum((points[:, k, None] - points[None, :, k]) ** 2 for k in range(points.shape[1]))
    order = {"matern12": 1.0, "matern32": 3.0, "matern52": 5.0}[kind]
    t = jnp.sqrt(order * squared) / length
    decay = jnp.exp(-t)
    if kind == "matern12":
        return decay, t * decay
    if kind == "matern32":
        return (1.0 + t) * decay, t**2 * decay
    return (1.0 + t + t**2 / 3.0) * decay, t**2 * (1.0 + t) / 3.0 * decay


@jax.jit
def _factor(fields: Any, spatial: Any, groups: Any, variances: Any, diagonal: Any) -> Any:
    N = BIAS + jnp.diag(diagonal)
    N = N if fields is None else N + spatial * fields[0]
    for group, variance in zip(groups, variances, strict=True):
        N = N + variance * (group[:, None] == group[None, :])
    return jnp.linalg.cholesky(N)


@jax.jit
def _inverse(L: Any) -> Any:
    return cho_solve((L, True), jnp.eye(len(L)))


@jax.jit
def _slope(K: Any, inverse: Any, a: Any, T: Any, V: Any) -> Any:
    return 0.5 * (a @ (K @ a) - jnp.vdot(inverse, K) + jnp.einsum("ij,ik,jk->", T, K @ T, V))


class DeviceCells:
    """N = F + W^-1 of the cells on the device, factored.

    Parameters
    ----------
    terms : Terms
        Over the cells.
    h : Hyperparameters
    W : (c,)
    """

    def __init__(self, terms: Terms, h: Hyperparameters, W: FloatArray) -> None:
        self.h, self.names = h, [name for name, _ in terms.groupings]
        with double_precision():
            self.fields = None
            if terms.kind is not None and terms.coords is not None:
                self.fields = _field(jnp.asarray(points_of(terms.coords, terms.metric)), h.length, terms.kind)
            self.groups = [jnp.asarray(group) for _, group in terms.groupings]
            variances = [getattr(h, name) for name in self.names]
            self.L = _factor(self.fields, h.spatial, self.groups, variances, jnp.asarray(1.0 / W))
            self.half_log_det = float(jnp.log(jnp.diag(self.L)).sum())
        if not np.isfinite(self.half_log_det):
            raise ConvergenceError("the covariance of places cannot be factored; fix hyperparameters.")

    def solve(self, X: FloatArray) -> FloatArray:
        """Give N^-1 X."""
        with double_precision():
            return np.asarray(cho_solve((self.L, True), jnp.asarray(X)))

    @cached_property
    def inverse(self) -> Any:
        """N^-1, on the device."""
        with double_precision():
            return _inverse(self.L)

    def diagonal(self) -> FloatArray:
        """Give the diagonal of N^-1."""
        with double_precision():
            return np.asarray(jnp.diag(self.inverse))

    def slopes(self, a: FloatArray, T: FloatArray, V: FloatArray) -> dict[str, float]:
        """Give sum(M * dF) by the logarithm of each scale, M = (a a' - N^-1 + T V T') / 2."""
        out: dict[str, float] = {}
        with double_precision():
            given = (self.inverse, *(jnp.asarray(x) for x in (a, T, V)))
            for name, K in zip(("spatial", "length"), self.fields or (), strict=False):
                out[name] = self.h.spatial * float(_slope(K, *given))
            for name, group in zip(self.names, self.groups, strict=True):
                alike = (group[:, None] == group[None, :]).astype(float)
                out[name] = getattr(self.h, name) * float(_slope(alike, *given))
        return out
