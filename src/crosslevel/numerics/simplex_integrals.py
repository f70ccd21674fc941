"""Integrals over simplices of any dimension: exact for waves, by a cubature for anything else.

A simplex is its d + 1 corners. Its volume is |det[v_1 - v_0, ..., v_d - v_0]| / d! (Algorithm 1 of the paper prints v! for d!).
The integral of a wave is a divided difference of the exponential (Hermite and Genocchi),

    integral of exp(i k.x) = d! volume  exp[i k.v_0, ..., i k.v_d],

which is the corner entry of the exponential of a bidiagonal matrix (Opitz): no small denominators, equal phases allowed.

Fewer points for the same integrals: a cubature of thousands of points cut to as many as there are polynomials to keep.

A coast of a thousand corners needs a thousand triangles, but a function that is smooth over the whole polygon sees only its
moments. Tchakaloff's theorem: some of the points, with other positive weights, have the same moments; non-negative least
squares finds them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from crosslevel.numerics.compiled import njit
from crosslevel.typing import ComplexArray, FloatArray, Int64Array

JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy"}

TERMS = 16
"""Terms of the exponential's series after scaling to a norm of at most a half: exact to 1e-17."""


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule: the integral of g over region i is the sum of ``weight[q] g(x[q])`` over ``owner[q] == i``.

    Attributes
    ----------
    x : (q, d)
    weight : (q,)
    owner : (q,)
        Not decreasing.
    """

    x: FloatArray
    weight: FloatArray
    owner: Int64Array


def simplex_volumes(vertices: npt.ArrayLike) -> FloatArray:
    """Measure each simplex, (s,), from its corners (s, d + 1, d).

    Examples
    --------
    >>> simplex_volumes([[[0, 0], [1, 0], [0, 1]]])
    array([0.5])
    >>> simplex_volumes([[[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]]) * 6
    array([1.])
    """
    v = np.asarray(vertices, dtype=np.float64)
    return np.abs(np.linalg.det(v[:, 1:] - v[:, :1])) / math.factorial(v.shape[2])


def simplex_fourier(vertices: npt.ArrayLike, owner: npt.ArrayLike, n: int, k: npt.ArrayLike) -> ComplexArray:
    """Integrate exp(i k.x) over unions of simplices.

    Parameters
    ----------
    vertices : (s, d + 1, d)
    owner : (s,)
        Region of each simplex, 0 to n - 1.
    n : int
    k : (m, d)

    Returns
    -------
    (n, m)

    Examples
    --------
    >>> segment = [[[0.0], [1.0]]]
    >>> bool(np.isclose(simplex_fourier(segment, [0], 1, [[np.pi]])[0, 0], 2j / np.pi))
    True
    """
    v = np.ascontiguousarray(vertices, dtype=np.float64)
    frequencies = np.ascontiguousarray(k, dtype=np.float64).reshape(-1, v.shape[2])
    out = np.zeros((n, len(frequencies)), dtype=np.complex128)
    volumes = simplex_volumes(v) * math.factorial(v.shape[2])
    _fourier(v, volumes, np.ascontiguousarray(owner, dtype=np.int64), frequencies, out)
    return out


@njit(**JIT)
def _fourier(v: FloatArray, volumes: FloatArray, owner: Int64Array, frequencies: FloatArray, out: ComplexArray) -> None:
    size = v.shape[1]
    phases = np.empty(size)
    E, work = np.empty((size, size), dtype=np.complex128), np.empty((size, size), dtype=np.complex128)
    for s in range(len(v)):
        for j in range(len(frequencies)):
            middle = 0.0
            for a in range(size):
                phases[a] = 0.0
                for d in range(size - 1):
                    phases[a] += frequencies[j, d] * v[s, a, d]
                middle += phases[a] / size
            for a in range(size):
                phases[a] -= middle
            corner = _opitz(phases, E, work)
            out[owner[s], j] += volumes[s] * corner * complex(math.cos(middle), math.sin(middle))


@njit(**JIT)
def _opitz(phases: FloatArray, E: ComplexArray, work: ComplexArray) -> complex:
    """Give the divided difference of exp at i * phases, as the corner of exp of the bidiagonal matrix of these and ones."""
    size = len(phases)
    top = 1.0
    for a in range(size):
        top = max(top, abs(phases[a]))
    squarings = max(0, math.ceil(math.log2(top)) + 2)
    scale = 0.5**squarings
    # Horner: E = I + A (I + A/2 (I + A/3 ...)), A bidiagonal
    E[:] = 0.0
    for a in range(size):
        E[a, a] = 1.0
    for term in range(TERMS, 0, -1):
        for a in range(size):
            for b in range(a, size):
                value = complex(0.0, phases[a] * scale) * E[a, b]
                if a + 1 <= b:
                    value += scale * E[a + 1, b]
                work[a, b] = value / term
        for a in range(size):
            for b in range(a, size):
                E[a, b] = work[a, b]
            E[a, a] += 1.0
    for _ in range(squarings):
        for a in range(size):
            for b in range(a, size):
                value = complex(0.0, 0.0)
                for c in range(a, b + 1):
                    value += E[a, c] * E[c, b]
                work[a, b] = value
        for a in range(size):
            for b in range(a, size):
                E[a, b] = work[a, b]
    return E[0, size - 1]


@lru_cache(maxsize=64)
def conical_rule(dimension: int, n: int) -> tuple[FloatArray, FloatArray]:
    """Give the conical product rule on a simplex: shares of the corners (n^d, d + 1) and weights that sum to 1.

    Exact for polynomials of degree 2n - 1; all points lie inside and all weights are positive (Stroud 1971).

    Examples
    --------
    >>> shares, weight = conical_rule(2, 3)
    >>> bool(np.isclose(weight @ (shares[:, 1] ** 2 * shares[:, 2] ** 3), 2 * 2 * 6 / math.factorial(7)))
    True
    """
    from scipy.special import roots_jacobi

    shares, weight = np.ones((1, 1)), np.ones(1)
    for left in range(dimension, 0, -1):
        # of what is left, the share u goes to this corner; the rest has left - 1 dimensions, hence (1 - u)^(left - 1)
        nodes, w = roots_jacobi(n, left - 1, 0)
        u, w = 0.5 * (1.0 + nodes), w / w.sum()
        rest = shares[:, None, -1:]
        taken = np.concatenate([rest * u[None, :, None], rest * (1.0 - u)[None, :, None]], axis=2)
        before = np.broadcast_to(shares[:, None, :-1], (len(shares), n, shares.shape[1] - 1))
        shares = np.concatenate([before, taken], axis=2).reshape(len(shares) * n, -1)
        weight = (weight[:, None] * w).reshape(-1)
    shares.setflags(write=False)
    weight.setflags(write=False)
    return shares, weight


def split_simplices(vertices: FloatArray, owner: Int64Array, size: FloatArray) -> tuple[FloatArray, Int64Array]:
    """Halve the longest edge of every simplex until no edge is longer than ``size`` (d,), lengths measured in it.

    Examples
    --------
    >>> v, owner = split_simplices(np.array([[[0.0], [4.0]]]), np.array([0]), np.array([1.0]))
    >>> len(v), simplex_volumes(v).sum()
    (4, np.float64(4.0))
    """
    corners = vertices.shape[1]
    first, second = np.triu_indices(corners, 1)
    done_v, done_o = [], []
    v, own = vertices, owner
    while len(v):
        lengths = np.sqrt((((v[:, first] - v[:, second]) / size) ** 2).sum(axis=2))
        longest = lengths.argmax(axis=1)
        rows = np.arange(len(v))
        small = lengths[rows, longest] <= 1.0
        done_v.append(v[small])
        done_o.append(own[small])
        v, own, longest = v[~small], own[~small], longest[~small]
        rows = np.arange(len(v))
        a, b = first[longest], second[longest]
        middle = 0.5 * (v[rows, a] + v[rows, b])
        left, right = v.copy(), v.copy()
        left[rows, b], right[rows, a] = middle, middle
        v, own = np.concatenate([left, right]), np.concatenate([own, own])
    split, owners = np.concatenate(done_v), np.concatenate(done_o)
    order = np.argsort(owners, kind="stable")
    return split[order], owners[order]


def cubature(v: FloatArray, owner: Int64Array, n: int) -> Rule:
    """Make the conical rule on each simplex, n points per axis."""
    shares, w = conical_rule(v.shape[2], n)
    x = np.einsum("qc,scd->sqd", shares, v).reshape(-1, v.shape[2])
    return Rule(x, (simplex_volumes(v)[:, None] * w).reshape(-1), np.repeat(owner, len(w)))


MISFIT = 1e-11
"""Relative misfit of the moments beyond which a group of points is kept as it is."""


STEPS = ((0.05, 2), (0.2, 3), (1.0, 5))
"""Points per axis for simplices with edges up to this many lengthscales: each leaves an error below 1e-9 of a Gaussian's integral."""


MOST = 120
"""Moments beyond which least squares cost more than the points they save."""


def degree_needed(half_width: float, tolerance: float) -> int:
    """Give the degree at which polynomials match exp(-x^2 / 2) to ``tolerance`` over any interval of this half width.

    The Chebyshev coefficient of degree p is at most about 2 (h / 2)^p / sqrt(p!), since derivatives are at most 1.1 sqrt(p!).

    Examples
    --------
    >>> degree_needed(0.5, 1e-9), degree_needed(0.05, 1e-9)
    (10, 5)
    """
    degree = 1
    while 2.0 * (0.5 * half_width) ** (degree + 1) / math.sqrt(math.factorial(degree + 1)) > tolerance and degree < 30:
        degree += 1
    return degree


def compress(rule: Rule, scale: FloatArray, tolerance: float = 1e-9) -> Rule:
    """Cut a rule to few points per cell of side ``scale`` (d,), keeping every moment that a Gaussian of that width can see.

    Parameters
    ----------
    rule : Rule
        With positive weights.
    scale : (d,)
        The lengthscale of the functions to be integrated.
    tolerance : float
        Relative error of their integrals (for functions as smooth as a Gaussian).

    Returns
    -------
    Rule
        Its points are some of those of ``rule``; weights are positive and have the same sum in every region.

    Examples
    --------
    >>> x = np.linspace(0.0005, 0.9995, 1000)[:, None]
    >>> small = compress(Rule(x, np.full(1000, 1e-3), np.zeros(1000, dtype=np.int64)), np.array([1.0]))
    >>> len(small.x) < 15, bool(np.isclose(small.weight @ np.exp(-small.x[:, 0] ** 2 / 2), 0.8556243918921))
    (True, True)
    """
    cells = np.floor(rule.x / scale - (rule.x / scale).min(axis=0)).astype(np.int64)
    _, group = np.unique(np.column_stack([rule.owner, cells]), axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    kept, weights = [], []
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        chosen, weight = _fewer(rule.x[rows], rule.weight[rows], scale, tolerance)
        kept.append(rows[chosen])
        weights.append(weight)
    rows, weight = np.concatenate(kept), np.concatenate(weights)
    order = np.argsort(rule.owner[rows], kind="stable")
    rows, weight = rows[order], weight[order]
    return Rule(rule.x[rows], weight, rule.owner[rows])


def _fewer(
    x: FloatArray, weight: FloatArray, scale: FloatArray, tolerance: float
) -> tuple[npt.NDArray[np.intp], FloatArray]:
    low, high = x.min(axis=0), x.max(axis=0)
    half = np.maximum(0.5 * (high - low), 1e-12 * scale)
    degree = degree_needed(float((half / scale).max()), tolerance)
    powers = [p for p in product(range(degree + 1), repeat=x.shape[1]) if sum(p) <= degree]
    everything = np.arange(len(x))
    if len(x) <= len(powers) or len(powers) > MOST:
        return everything, weight
    u = (x - 0.5 * (low + high)) / half
    polynomials = np.cos(np.arange(degree + 1)[:, None, None] * np.arccos(np.clip(u, -1.0, 1.0)))  # (p, q, d)
    V = np.stack([np.prod([polynomials[p, :, d] for d, p in enumerate(power)], axis=0) for power in powers])
    target = V @ weight
    try:
        fewer, misfit = nnls(V, target, maxiter=20 * len(powers))
    except RuntimeError:
        return everything, weight
    if misfit > MISFIT * weight.sum():
        return everything, weight
    chosen = np.flatnonzero(fewer)
    return chosen, fewer[chosen] * (weight.sum() / fewer.sum())


def simplex_rule(vertices: FloatArray, owner: Int64Array, scale: FloatArray) -> Rule:
    """Make the points of bodies that are unions of simplices, for functions that change over ``scale`` (d,).

    Simplices are cut to the scale, get as many points as their size asks for, and the points of each cell of that size are cut to
    those that matter (:func:`compress`).

    Parameters
    ----------
    vertices : (s, d + 1, d)
    owner : (s,)
        Region of each simplex, not decreasing.
    scale : (d,)

    Examples
    --------
    >>> rule = simplex_rule(np.array([[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]), np.array([0]), np.array([5.0, 5.0]))
    >>> bool(np.isclose(rule.weight.sum(), 0.5)), len(rule.weight) < 30
    (True, True)
    """
    size = np.asarray(scale, dtype=np.float64) * np.ones(vertices.shape[2])
    small, own = split_simplices(vertices, owner, size)
    edges = (small[:, :, None] - small[:, None, :]) / size
    longest = np.sqrt((edges**2).sum(axis=-1)).max(axis=(1, 2))
    rules, floor = [], 0.0
    for top, n_axis in STEPS:
        rows = (longest > floor) & (longest <= top * (1 + 1e-9))
        floor = top * (1 + 1e-9)
        if rows.any():
            rules.append(cubature(small[rows], own[rows], n_axis))
    x, weight, who = (np.concatenate([getattr(r, name) for r in rules]) for name in ("x", "weight", "owner"))
    order = np.argsort(who, kind="stable")
    return compress(Rule(x[order], weight[order], who[order]), size)
