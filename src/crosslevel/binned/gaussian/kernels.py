"""Kernels as sums of products of correlations along the axes.

A kernel is a sum of terms; a term is a variance times one correlation per axis (a constant along axes that it does not name). Only
such kernels have exact integrals over boxes: the product of two correlations along the same axis has no known antiderivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crosslevel.data.checks import check_positive
from crosslevel.errors import InputError, unknown_name
from crosslevel.numerics.integrals.correlations import CORRELATIONS, Antiderivative, Correlation, correlation
from crosslevel.typing import FloatArray

__all__ = [
    "BoundKernel",
    "Kernel",
    "as_kernel",
    "constant",
    "eq",
    "matern12",
    "matern32",
    "matern52",
    "own",
    "read_number",
    "white",
]

PAPER = math.sqrt(2.0)
"""The paper's lengthscale over the usual one; see ``convention``."""
CONVENTIONS = ("usual", "paper")


@dataclass(frozen=True)
class Factor:
    """A correlation along one axis; ``axis`` None stands for every axis that the term does not name."""

    correlation: Correlation
    axis: int | None
    lengthscale: float | None


@dataclass(frozen=True)
class Term:
    """A variance (None: to be estimated) times factors; no factor makes a constant."""

    variance: float | None
    factors: tuple[Factor, ...]


@dataclass(frozen=True)
class Kernel:
    """A sum of terms. Kernels are added with ``+`` and multiplied, along different axes, with ``*``.

    Examples
    --------
    >>> k = eq(axis=0, lengthscale=2.0) * matern32(axis=1) + white(variance=0.1)
    >>> print(k)
    eq(0) * matern32(1) + white
    """

    terms: tuple[Term, ...]

    def __add__(self, other: Kernel) -> Kernel:
        return Kernel(self.terms + other.terms)

    def __mul__(self, other: Kernel) -> Kernel:
        return Kernel(tuple(_times(a, b) for a in self.terms for b in other.terms))

    def __str__(self) -> str:
        return " + ".join(_describe_term(t) for t in self.terms)

    def bind(
        self,
        dimension: int,
        *,
        variance: float | None = None,
        lengthscale: Any = None,
        convention: str = "usual",
    ) -> BoundKernel:
        """Lay the kernel out over the axes; see `BoundKernel`.

        ``variance`` and ``lengthscale`` (one, or one per axis) fill in where the kernel has none, and are refused where no term
        or more than one would take them.
        """
        terms = [_expand(t, dimension) for t in self.terms]
        lengths, variance = _lengths(lengthscale, dimension), _positive(variance, "variance")
        if variance is not None or lengthscale is not None:
            smooth = [i for i, t in enumerate(terms) if any(f.correlation.has_length for f in t.factors)]
            place, *others = smooth or range(len(terms))
            if others:
                raise InputError(
                    f"the kernel {self} has {1 + len(others)} terms; give each its own, as in "
                    "eq(variance=1.0, lengthscale=3.0) + matern12(variance=0.1, lengthscale=1.0), not variance= and lengthscale=."
                )
            own = terms[place]
            factors = tuple(_with_length(f, lengths) for f in own.factors)
            for name, idle in (("variance", own.variance is not None), ("lengthscale", factors == own.factors)):
                value = variance if name == "variance" else lengthscale
                if value is not None and idle:
                    raise InputError(
                        f"{name}={value!r} has no effect: the kernel {self} has its own, or none; leave it out."
                    )
            terms[place] = Term(variance if own.variance is None else own.variance, factors)
        return BoundKernel(tuple(terms), dimension, PAPER if convention == "paper" else 1.0)


@dataclass(frozen=True)
class BoundKernel:
    """A kernel over given axes, with its hyperparameters in a row.

    Attributes
    ----------
    terms : tuple of Term
    dimension : int
    stretch : float
        What lengthscales are divided by before use: sqrt(2) when they are the paper's.

    Notes
    -----
    The hyperparameters are logarithms: of each term its variance, then the lengthscales of its factors.
    """

    terms: tuple[Term, ...]
    dimension: int
    stretch: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the hyperparameters."""
        out = []
        labels = [_label(t) for t in self.terms]
        for i, (t, label) in enumerate(zip(self.terms, labels, strict=True)):
            mark = "" if len(labels) == 1 else f"{label}_" if labels.count(label) == 1 else f"{label}{i}_"
            out.append(f"{mark}variance")
            lengths = [f for f in t.factors if f.correlation.has_length]
            out += [f"{mark}lengthscale" + (f"_{f.axis}" if self.dimension > 1 else "") for f in lengths]
        return tuple(out)

    @property
    def given(self) -> tuple[float | None, ...]:
        """Hyperparameters (not their logarithms) that were given; None where they are to be found."""
        out: list[float | None] = []
        for t in self.terms:
            out.append(t.variance)
            out += [f.lengthscale for f in t.factors if f.correlation.has_length]
        return tuple(out)

    @property
    def axes(self) -> tuple[int | None, ...]:
        """Axis of each lengthscale; None for a variance."""
        return tuple(a for t in self.terms for a in (None, *(f.axis for f in t.factors if f.correlation.has_length)))

    def split(self, logs: FloatArray) -> list[tuple[float, list[tuple[Factor, float, int]]]]:
        """Give of each term the variance and, per factor, its usual lengthscale and the place of its logarithm (-1: none)."""
        out, place = [], 0
        for t in self.terms:
            variance = math.exp(logs[place])
            place += 1
            rows: list[tuple[Factor, float, int]] = []
            for f in t.factors:
                if f.correlation.has_length:
                    rows.append((f, math.exp(logs[place]) / self.stretch, place))
                    place += 1
                else:
                    rows.append((f, 1.0, -1))
            out.append((variance, rows))
        return out

    def scale(self, logs: FloatArray) -> FloatArray:
        """Give the shortest usual lengthscale along each axis, (d,); infinite where there is none."""
        out = np.full(self.dimension, np.inf)
        for _, factors in self.split(logs):
            for f, length, place in factors:
                if place >= 0 and f.axis is not None:
                    out[f.axis] = min(out[f.axis], length)
        return out


def eq(axis: int | None = None, *, variance: float | None = None, lengthscale: float | None = None) -> Kernel:
    """Make the squared-exponential kernel exp(-r^2 / (2 lengthscale^2)), along one axis or all.

    Examples
    --------
    >>> print(eq())
    eq
    """
    return _one("eq", axis, variance, lengthscale)


def matern12(axis: int | None = None, *, variance: float | None = None, lengthscale: float | None = None) -> Kernel:
    """Make the exponential kernel, along one axis or all."""
    return _one("matern12", axis, variance, lengthscale)


def matern32(axis: int | None = None, *, variance: float | None = None, lengthscale: float | None = None) -> Kernel:
    """Make the Matern 3/2 kernel, along one axis or all."""
    return _one("matern32", axis, variance, lengthscale)


def matern52(axis: int | None = None, *, variance: float | None = None, lengthscale: float | None = None) -> Kernel:
    """Make the Matern 5/2 kernel, along one axis or all."""
    return _one("matern52", axis, variance, lengthscale)


def white(axis: int | None = None, *, variance: float | None = None) -> Kernel:
    """Make white noise in space: regions covary by the volume they share, points hold none."""
    return _one("white", axis, variance, None)


def constant(*, variance: float | None = None) -> Kernel:
    """Make an unknown level that is the same everywhere."""
    return Kernel((Term(_positive(variance, "variance"), ()),))


def own(
    H: Callable[[FloatArray], FloatArray] | Antiderivative,
    axis: int | None = None,
    *,
    variance: float | None = None,
    lengthscale: float | None = None,
) -> Kernel:
    """Make a kernel of a double antiderivative; see `crosslevel.numerics.integrals.correlations.Antiderivative`.

    Examples
    --------
    >>> print(own(lambda r: r + np.exp(-r)))
    own
    """
    known = H if isinstance(H, Antiderivative) else Antiderivative(H)
    factor = Factor(known, axis, _positive(lengthscale, "lengthscale"))
    return Kernel((Term(_positive(variance, "variance"), (factor,)),))


def as_kernel(kernel: Any) -> Kernel:
    """Take a kernel as it is, and read a name or a sum of names.

    Examples
    --------
    >>> print(as_kernel("eq + white"))
    eq + white
    """
    if isinstance(kernel, Kernel):
        return kernel
    if not isinstance(kernel, str):
        raise InputError(f"kernel={kernel!r} is neither a name nor a kernel; pass 'eq', 'eq + white' or kernels.eq().")
    names = [n.strip() for n in kernel.split("+")]
    out: Kernel | None = None
    for name in names:
        if name not in (*CORRELATIONS, "constant"):
            raise unknown_name("kernel", name, (*CORRELATIONS, "constant"), "kernel")
        one = constant() if name == "constant" else _one(name, None, None, None)
        out = one if out is None else out + one
    assert out is not None
    return out


def _one(name: str, axis: int | None, variance: float | None, lengthscale: float | None) -> Kernel:
    factor = Factor(correlation(name), axis, _positive(lengthscale, "lengthscale"))
    return Kernel((Term(_positive(variance, "variance"), (factor,)),))


def read_number(value: Any, argument: str) -> float | None:
    """Read a finite number; None stays None."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise InputError(f"{argument}={value!r} is not a number; pass one, or None to have it estimated.")
    return number


def _positive(value: Any, argument: str) -> float | None:
    number = read_number(value, argument)
    if number is not None and number <= 0:
        raise InputError(f"{argument}={value!r} is not a positive number; pass one, or None to have it estimated.")
    return None if number is None else check_positive(number, argument)


def _lengths(lengthscale: Any, dimension: int) -> list[float | None]:
    if lengthscale is None:
        return [None] * dimension
    if isinstance(lengthscale, Sequence | np.ndarray):
        if len(lengthscale) != dimension:
            raise InputError(
                f"lengthscale has {len(lengthscale)} values for {dimension} dimension(s); pass one, or one per axis."
            )
        return [_positive(x, "lengthscale") for x in lengthscale]
    return [_positive(lengthscale, "lengthscale")] * dimension


def _with_length(factor: Factor, lengths: Sequence[float | None]) -> Factor:
    if factor.lengthscale is not None or not factor.correlation.has_length:
        return factor
    return replace(factor, lengthscale=lengths[factor.axis or 0])


def _times(a: Term, b: Term) -> Term:
    shared = {f.axis for f in a.factors} & {f.axis for f in b.factors}
    if shared:
        where = "all axes" if None in shared else f"axis {sorted(x for x in shared if x is not None)[0]}"
        raise InputError(
            f"two kernels along {where} were multiplied; such a product has no exact integral. Multiply kernels along different "
            "axes, eq(axis=0) * matern32(axis=1), or give the product's own H with kernels.own()."
        )
    given = [v for v in (a.variance, b.variance) if v is not None]
    return Term(math.prod(given) if given else None, a.factors + b.factors)


def _expand(term: Term, dimension: int) -> Term:
    named = {f.axis for f in term.factors if f.axis is not None}
    for axis in named:
        if not 0 <= axis < dimension:
            raise InputError(f"the kernel names axis {axis}; the regions have axes 0 to {dimension - 1}.")
    out: list[Factor] = []
    for f in term.factors:
        rest = [a for a in range(dimension) if a not in named]
        out += [f] if f.axis is not None else [replace(f, axis=a) for a in rest]
    return Term(term.variance, tuple(sorted(out, key=lambda f: f.axis or 0)))


def _describe_term(term: Term) -> str:
    if not term.factors:
        return "constant"
    return " * ".join(f.correlation.name + ("" if f.axis is None else f"({f.axis})") for f in term.factors)


def _label(term: Term) -> str:
    return "constant" if not term.factors else "_".join(dict.fromkeys(f.correlation.name for f in term.factors))
