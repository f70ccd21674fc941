"""One tile of rows on the device: from codes to features to sums over bags.

Everything is laid out (columns, rows): the products with frequencies and the sums over rows are then plain matrix products
without transposition.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

HIGHEST = "highest"
PARTS = 3
"""Parts of 8 bits that add up to a float32."""


@dataclass(frozen=True)
class Spec:
    """What a program is compiled for, besides the shapes.

    Attributes
    ----------
    kind : {"fourier", "gaussian", "linear"}
    halves : bool
        Whether products of Fourier features are made of half-precision parts, as matrix units do them well.
    m : int
        Frequencies, landmarks, or columns.
    """

    kind: str
    halves: bool
    m: int

    @property
    def n_features(self) -> int:
        """Length of the raw features."""
        return 2 * self.m if self.kind == "fourier" else self.m


def encode(arrays, codes, reals=None, dtype=jnp.float32):
    """Write the rows out, (positions, rows), by comparison: position p is 1 where the column that owns it holds p.

    Without reals their positions stay 0. ``arrays`` has for each position its ``owner`` among the columns of codes, the
    ``target`` to compare with (-2 where no code can point) and its ``real`` column (-1 for none).
    """
    hot = (codes[arrays["owner"]] == arrays["target"][:, None]).astype(dtype)
    if reals is None:
        return hot
    real = arrays["real"]
    return jnp.where((real >= 0)[:, None], reals[jnp.maximum(real, 0)].astype(dtype), hot)


def cut(x):
    """Cut float32 into three bfloat16 parts that add up to it, 8 bits each."""
    parts = []
    for _ in range(PARTS):
        # A plain cast there and back is optimized away; this rounding is not.
        part = lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)
        parts.append(part.astype(jnp.bfloat16))
        x = x - part
    return parts


def project(spec, arrays, codes, reals):
    """Products of frequencies (or landmarks) and rows, (m, rows)."""
    if spec.kind == "gaussian":
        return jnp.matmul(arrays["U"], encode(arrays, codes, reals, arrays["U"].dtype), precision=HIGHEST)
    # the ones of categories are exact in any precision
    x = encode(arrays, codes, dtype=arrays["parts"][0].dtype)
    z = jnp.matmul(arrays["of_reals"], reals, precision=HIGHEST)
    for part in arrays["parts"]:
        precision = None if spec.halves else HIGHEST
        z = z + jnp.matmul(part, x, precision=precision, preferred_element_type=jnp.float32)
    return z * arrays["scale"]


def features(spec, arrays, codes, reals):
    """Raw features of a tile, (n_features, rows): cosines and sines, kernel values, or the rows themselves."""
    if spec.kind == "linear":
        return encode(arrays, codes, reals)
    z = project(spec, arrays, codes, reals)
    if spec.kind == "gaussian":
        # |x|^2 = the number of codes + the squares of the reals
        square = (codes >= 0).sum(axis=0) + (reals.astype(z.dtype) ** 2).sum(axis=0)
        distance = jnp.maximum(square[None, :] + arrays["centers"][:, None] - 2.0 * z, 0.0)
        return jnp.exp(-arrays["gamma"] * distance)
    return jnp.concatenate([jnp.cos(z), jnp.sin(z)])


def sum_features(spec, values, weights, members, n_slots):
    """Sum features (n_features, rows) over the slots their rows are members of, (n_slots, n_features)."""
    slots = jnp.arange(n_slots, dtype=members.dtype)
    belongs = (members.T[:, None, :] == slots[:, None]).sum(axis=0, dtype=jnp.int32)
    if spec.kind == "fourier" and spec.halves:
        ones = belongs.astype(jnp.bfloat16)
        parts = cut(values * weights)
        return sum(jnp.einsum("sr,fr->sf", ones, p, preferred_element_type=jnp.float32) for p in parts)
    return jnp.einsum("sr,fr->sf", belongs.astype(values.dtype) * weights, values, precision=HIGHEST)


@partial(jax.jit, static_argnames=("spec", "n_bags"))
def sum_tiles(spec, n_bags, arrays, codes, reals, weights, members, slots, used):
    """Sum the features of a packed piece over its bags, (n_bags, n_features), tile after tile; see ``layout.Packed``."""

    def add_tile(t, sums):
        values = features(spec, arrays, codes[t].T, reals[t].T)
        part = sum_features(spec, values, weights[t], members[t], slots.shape[1])
        return sums.at[slots[t]].add(part, mode="drop")

    return lax.fori_loop(0, used, add_tile, jnp.zeros((n_bags, spec.n_features), weights.dtype))
