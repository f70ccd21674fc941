"""One tile of rows on the device: from codes to features to sums over bags.

Everything is laid out (columns, rows): a permutation of columns then moves whole runs of rows, both factors of a
Hadamard transform are plain matrix products without transposition, and so is the sum over rows.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from scipy.linalg import hadamard as hadamard_matrix

from crosslevel.numerics.fused_jax.layout import Variant, split_parts

HIGHEST = "highest"


@dataclass(frozen=True)
class Spec:
    """What a program is compiled for, besides the shapes.

    Attributes
    ----------
    kind : {"structured", "fourier", "gaussian", "linear"}
    variant : Variant
    m : int
        Frequencies, landmarks, or columns.
    """

    kind: str
    variant: Variant
    m: int

    @property
    def n_features(self) -> int:
        """Length of the raw features."""
        return 2 * self.m if self.kind in ("structured", "fourier") else self.m


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


def cut(x, count):
    """Cut float32 into ``count`` bfloat16 parts that add up to it, 8 bits each."""
    parts = []
    for _ in range(count):
        # A plain cast there and back is optimized away; this rounding is not.
        part = lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)
        parts.append(part.astype(jnp.bfloat16))
        x = x - part
    return parts


def _times_signs(subscripts, H, x, how):
    """Multiply by a matrix of ±1 in one of the ways of ``Variant.product``, with float32 sums."""
    if how == "float16":
        return jnp.einsum(subscripts, H.astype(jnp.float16), x, preferred_element_type=jnp.float32)
    kind, count = split_parts(how)
    if kind == "bfloat16":
        signs = H.astype(jnp.bfloat16)
        parts = cut(x, count)
        return sum(jnp.einsum(subscripts, signs, part, preferred_element_type=jnp.float32) for part in parts)
    return jnp.einsum(subscripts, H, x, precision=how, preferred_element_type=jnp.float32)


def hadamard(x, how=HIGHEST, outputs=None):
    """Multiply axis 1 of x (n_blocks, D, rows) by the ±1 Hadamard matrix: two products with matrices of about sqrt(D).

    H_D = H_a (x) H_b, so entry (i, j) of the result is ``sum_k sum_l H_a[i, k] H_b[j, l] x[k, l]``. With ``outputs``
    only about that many first entries are computed: as many i as cover them.
    """
    n_blocks, width, rows = x.shape
    bits = width.bit_length() - 1
    a, b = 1 << (bits // 2), 1 << (bits - bits // 2)
    wanted = a if outputs is None else -(-outputs // b)
    outer = jnp.asarray(hadamard_matrix(a)[:wanted], dtype=jnp.float32)
    inner = jnp.asarray(hadamard_matrix(b), dtype=jnp.float32)
    y = _times_signs("ik,cklr->cilr", outer, x.reshape(n_blocks, a, b, rows), how)
    y = _times_signs("jl,cilr->cijr", inner, y.astype(x.dtype), how)
    return y.reshape(n_blocks, wanted * b, rows)


def project(spec, arrays, codes, reals):
    """Products of frequencies (or landmarks) and rows, (m, rows)."""
    if spec.kind == "structured":
        return _project_structured(spec, arrays, codes, reals)
    if spec.kind == "fourier":
        parts = arrays["parts"]
        x = encode(arrays, codes, dtype=parts[0].dtype)
        precision = HIGHEST if x.dtype == jnp.float32 else None
        z = jnp.matmul(arrays["of_reals"], reals, precision=HIGHEST)
        for part in parts:
            z = z + jnp.matmul(part, x, precision=precision, preferred_element_type=jnp.float32)
        return z * arrays["scale"]
    return jnp.matmul(arrays["U"], encode(arrays, codes, reals, arrays["U"].dtype), precision=HIGHEST)


def _project_structured(spec, arrays, codes, reals):
    variant = spec.variant
    signs, middle = arrays["signs"], arrays["middle"]
    n_blocks = len(signs)
    order = arrays.get("order")
    if variant.first == "float16":
        x = encode(arrays, codes, dtype=jnp.float16)[None] * signs.astype(jnp.float16)[:, :, None]
        # Whole numbers up to the number of codes, exact in float16 up to 2,048.
        y = permute(hadamard(x, "float16").astype(jnp.float16), order).astype(jnp.float32)
        y = y + jnp.einsum("cdk,kr->cdr", arrays["of_reals"], reals, precision=HIGHEST)
    else:
        x = encode(arrays, codes, reals)[None] * signs[:, :, None]
        y = permute(hadamard(x, variant.product), order)
    for s in range(middle.shape[1]):
        last = s == middle.shape[1] - 1
        outputs = spec.m if last and n_blocks == 1 else None
        y = hadamard(y * middle[:, s, :, None], variant.product, outputs)
    return y.reshape(-1, y.shape[-1])[: spec.m] * arrays["lengths"][:, None]


def permute(x, order):
    """Reorder axis 1 of x (n_blocks, D, rows) by ``order`` (n_blocks, D), where there is one."""
    return x if order is None else jax.vmap(lambda v, p: v[p])(x, order)


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


def sum_features(values, weights, members, n_slots, how):
    """Sum features (n_features, rows) over the slots their rows are members of, (n_slots, n_features)."""
    slots = jnp.arange(n_slots, dtype=members.dtype)
    belongs = (members.T[:, None, :] == slots[:, None]).sum(axis=0, dtype=jnp.int32)
    kind, count = split_parts(how)
    if kind == "bfloat16" and values.dtype == jnp.float32:
        ones = belongs.astype(jnp.bfloat16)
        parts = cut(values * weights, count)
        return sum(jnp.einsum("sr,fr->sf", ones, p, preferred_element_type=jnp.float32) for p in parts)
    return jnp.einsum("sr,fr->sf", belongs.astype(values.dtype) * weights, values, precision=HIGHEST)


@partial(jax.jit, static_argnames=("spec", "n_bags"))
def sum_tiles(spec, n_bags, arrays, codes, reals, weights, members, slots, used):
    """Sum the features of a packed piece over its bags, (n_bags, n_features), tile after tile; see ``layout.Packed``."""
    # The features of linear maps are unbounded reals: they take the plain product.
    how = spec.variant.sums if spec.kind in ("structured", "fourier") else "float32"

    def add_tile(t, sums):
        values = features(spec, arrays, codes[t].T, reals[t].T)
        part = sum_features(values, weights[t], members[t], slots.shape[1], how)
        return sums.at[slots[t]].add(part, mode="drop")

    return lax.fori_loop(0, used, add_tile, jnp.zeros((n_bags, spec.n_features), weights.dtype))
