"""JAX in double precision, for as long as a ``with`` lasts: the process's own setting is never touched."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

__all__ = ["double_precision"]


def double_precision() -> AbstractContextManager[Any]:
    """Give the scope in which JAX makes 64-bit numbers.

    Newer versions of JAX have it at the top; older ones among what is experimental.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> with double_precision():
    ...     print(jnp.ones(1).dtype)
    float64
    """
    import jax

    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64

    return enable_x64()
