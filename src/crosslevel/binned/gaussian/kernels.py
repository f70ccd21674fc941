"""Kernels: sums of terms, each a variance times the product of one correlation along every axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslevel.data.checks import check_positive
from crosslevel.errors import InputError, unknown_name
from crosslevel.numerics.integrals.correlations import CORRELATIONS, Correlation
from crosslevel.typing import FloatArray


@dataclass(frozen=True)
class Term:
    """A variance times a correlation along every axis; what is None is to be found, and white noise has no lengthscales."""

    correlation: Correlation
    variance: float | None
    lengthscales: tuple[float | None, ...]


@dataclass(frozen=True)
class Part:
    """A term at given hyperparameters: its variance, usual lengthscales (d,), 1 of white noise, and where their logarithms begin."""

    correlation: Correlation
    variance: float
    lengths: FloatArray
    place: int


@dataclass(frozen=True)
class Kernel:
    """A kernel over given axes, with its hyperparameters in a row.

    Attributes
    ----------
    terms : tuple of Term
    dimension : int

    Notes
    -----
    The hyperparameters are logarithms: of each term its variance, then its lengthscales.
    """

    terms: tuple[Term, ...]
    dimension: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the hyperparameters."""
        out = []
        labels = [t.correlation.name for t in self.terms]
        for i, (t, label) in enumerate(zip(self.terms, labels, strict=True)):
            mark = "" if len(labels) == 1 else f"{label}_" if labels.count(label) == 1 else f"{label}{i}_"
            out.append(f"{mark}variance")
            out += [
                f"{mark}lengthscale" + (f"_{axis}" if self.dimension > 1 else "") for axis in range(len(t.lengthscales))
            ]
        return tuple(out)

    @property
    def given(self) -> tuple[float | None, ...]:
        """Hyperparameters (not their logarithms) that were given; None where they are to be found."""
        return tuple(value for t in self.terms for value in (t.variance, *t.lengthscales))

    @property
    def has_features(self) -> bool:
        """Whether every term has a spectral density."""
        return all(term.correlation.has_length for term in self.terms)

    def require_features(self) -> None:
        """Refuse a kernel without features."""
        if not self.has_features:
            raise InputError(
                "solver='features' cannot be used: white noise has no spectral density. Use solver='dense'."
            )

    @property
    def axes(self) -> tuple[int | None, ...]:
        """Axis of each lengthscale; None for a variance."""
        return tuple(a for t in self.terms for a in (None, *range(len(t.lengthscales))))

    def split(self, logs: FloatArray) -> list[Part]:
        """Give the terms at these hyperparameters."""
        out, place = [], 0
        for t in self.terms:
            n = len(t.lengthscales)
            lengths = np.exp(logs[place + 1 : place + 1 + n]) if n else np.ones(self.dimension)
            out.append(Part(t.correlation, math.exp(logs[place]), lengths, place + 1))
            place += 1 + n
        return out

    def scale(self, logs: FloatArray) -> FloatArray:
        """Give the shortest usual lengthscale along each axis, (d,); infinite where there is none."""
        smooth = [part.lengths for part in self.split(logs) if part.correlation.has_length]
        return np.min([np.full(self.dimension, np.inf), *smooth], axis=0)


def read_kernel(text: Any, dimension: int, *, variance: float | None = None, lengthscale: Any = None) -> Kernel:
    """Read a name, or names joined by "+"; ``variance`` and ``lengthscale`` (one, or one per axis) are those of the only smooth term.

    Examples
    --------
    >>> read_kernel("eq + white", 2).names
    ('eq_variance', 'eq_lengthscale_0', 'eq_lengthscale_1', 'white_variance')
    >>> read_kernel("matern32", 1, variance=2.0).given
    (2.0, None)
    """
    if not isinstance(text, str):
        raise InputError(
            f"kernel={text!r} is no name; pass one of {', '.join(CORRELATIONS)}, or several as 'eq + white'."
        )
    names = [n.strip() for n in text.split("+")]
    for name in names:
        if name not in CORRELATIONS:
            raise unknown_name("kernel", name, CORRELATIONS, "kernel")
    lengths, variance = _lengths(lengthscale, dimension), _positive(variance, "variance")
    smooth = [i for i, name in enumerate(names) if name != "white"]
    place, *others_too = smooth or range(len(names))
    if others_too and not (variance is None and lengthscale is None):
        raise InputError(
            f"the kernel {text!r} has {1 + len(others_too)} terms, and variance= and lengthscale= are of one; leave them to be estimated."
        )
    if lengthscale is not None and not smooth:
        raise InputError(f"lengthscale={lengthscale!r} has no effect: the kernel {text!r} has none; leave it out.")
    terms = []
    for i, name in enumerate(names):
        own: tuple[float | None, ...] = () if name == "white" else lengths if i == place else (None,) * dimension
        terms.append(Term(Correlation(name), variance if i == place else None, own))
    return Kernel(tuple(terms), dimension)


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


def _lengths(lengthscale: Any, dimension: int) -> tuple[float | None, ...]:
    if not isinstance(lengthscale, Sequence | np.ndarray):
        return (_positive(lengthscale, "lengthscale"),) * dimension
    if len(lengthscale) != dimension:
        raise InputError(
            f"lengthscale has {len(lengthscale)} values for {dimension} dimension(s); pass one, or one per axis."
        )
    return tuple(_positive(x, "lengthscale") for x in lengthscale)
