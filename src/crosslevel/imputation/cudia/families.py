"""Which family has each column of x, how its values become what the family reads, and the families of numbers.

One small class per family, all with the same questions; those of levels are in ``levels.py``.

Parameters of a family are a (K, q) array of free (unbounded) numbers, one row per cluster: means and logs of variances, logs of
rates, logits of shares. ``X`` is the (C, d) array of distinct rows; a NaN is a missing value, whose factor is integrated out, that
is, left out. Densities are up to factors that are the same in every cluster. Each family carries a weak proper prior, so that an
empty cluster has parameters and no variance is zero (no jitter of the data is needed).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from crosslevel.data.columns import Category, Number
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.imputation.cudia.levels import Categorical, Multinomial, Ordinal, ordinal_cuts
from crosslevel.typing import FloatArray

FAMILIES = ("gaussian", "categorical", "bernoulli", "poisson", "exponential", "multinomial", "ordinal")
FEW = 12
"""A column of whole numbers with at most this many values is taken as categorical unless said otherwise."""
PSEUDO = 0.5
"""Prior observations of a rate."""
VARIANCE_WEIGHT = 2.0
VARIANCE_SHARE = 0.1
"""The prior of a variance has the weight of 2 VARIANCE_WEIGHT observations at this share of the column's variance."""
MEAN_WEIGHT = 0.01


class Family(Protocol):
    """What is asked of a family; W is (C, K), weights of the rows in each cluster."""

    @property
    def name(self) -> str:
        """What tables call it."""

    @property
    def n_free(self) -> int:
        """Free parameters per cluster."""

    def log_density(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Log density of every row in every cluster, (C, K)."""

    def gradient(self, free: FloatArray, X: FloatArray, G: FloatArray) -> FloatArray:
        """Gradient of sum(G * log_density), (K, q)."""

    def log_prior(self, free: FloatArray) -> tuple[float, FloatArray]:
        """Log prior and its gradient (K, q)."""

    def maximize(self, W: FloatArray, X: FloatArray, free: FloatArray | None) -> FloatArray:
        """Most probable parameters of weighted rows."""

    def draw(self, W: FloatArray, X: FloatArray, free: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Parameters drawn from their posterior given weighted rows."""

    def describe(self, free: FloatArray) -> dict[str, FloatArray]:
        """Readable parameters, one array of (K,) per name."""


@dataclass(frozen=True)
class Gaussian:
    """A real number; free parameters (mean, log variance).

    Attributes
    ----------
    name : str
    column : int
        Its place in X.
    center, variance : float
        Of the whole column, for the prior.
    """

    name: str
    column: int
    center: float
    variance: float
    n_free: int = 2

    def log_density(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Log density of every row in every cluster, (C, K)."""
        x, seen = _seen(X, self.column)
        mean, log_var = free[:, 0], free[:, 1]
        squares = (x[:, None] - mean) ** 2 * np.exp(-log_var)
        return -0.5 * seen[:, None] * (squares + log_var + np.log(2 * np.pi))

    def gradient(self, free: FloatArray, X: FloatArray, G: FloatArray) -> FloatArray:
        """Gradient of sum(G * log_density), (K, 2)."""
        x, seen = _seen(X, self.column)
        z = x[:, None] - free[:, 0]
        precision = np.exp(-free[:, 1])
        weights = G * seen[:, None]
        by_mean = (weights * z).sum(axis=0) * precision
        by_log_var = 0.5 * ((weights * z**2).sum(axis=0) * precision - weights.sum(axis=0))
        return np.column_stack([by_mean, by_log_var])

    def log_prior(self, free: FloatArray) -> tuple[float, FloatArray]:
        """Inverse-gamma penalty on the variance, and a weak normal prior of the mean around that of the column."""
        z, precision = free[:, 0] - self.center, np.exp(-free[:, 1])
        b0 = VARIANCE_WEIGHT * VARIANCE_SHARE * self.variance
        away = b0 + 0.5 * MEAN_WEIGHT * z**2
        value = -VARIANCE_WEIGHT * free[:, 1] - away * precision
        slopes = np.column_stack([-MEAN_WEIGHT * z * precision, away * precision - VARIANCE_WEIGHT])
        return float(value.sum()), slopes

    def _posterior(self, W: FloatArray, X: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        x, seen = _seen(X, self.column)
        weights = W * seen[:, None]
        n = weights.sum(axis=0)
        mean = (MEAN_WEIGHT * self.center + x @ weights) / (MEAN_WEIGHT + n)
        squares = np.einsum("ck,ck->k", weights, (x[:, None] - mean) ** 2) + MEAN_WEIGHT * (mean - self.center) ** 2
        return n, mean, VARIANCE_WEIGHT * VARIANCE_SHARE * self.variance + 0.5 * squares

    def maximize(self, W: FloatArray, X: FloatArray, free: FloatArray | None) -> FloatArray:
        """Weighted mean and variance, with the prior."""
        n, mean, scale = self._posterior(W, X)
        return np.column_stack([mean, np.log(scale / (VARIANCE_WEIGHT + 0.5 * n))])

    def draw(self, W: FloatArray, X: FloatArray, free: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Variance from its inverse gamma, then the mean."""
        n, mean, scale = self._posterior(W, X)
        var = scale / rng.gamma(VARIANCE_WEIGHT + 0.5 * n - 1.5)
        return np.column_stack([mean + rng.standard_normal(len(n)) * np.sqrt(var / (MEAN_WEIGHT + n)), np.log(var)])

    def describe(self, free: FloatArray) -> dict[str, FloatArray]:
        """Mean and standard deviation."""
        return {self.name: free[:, 0], f"{self.name} sd": np.exp(0.5 * free[:, 1])}


@dataclass(frozen=True)
class _Positive:
    """A number above zero; the free parameter is the log of its mean."""

    name: str
    column: int
    center: float
    n_free: int = 1

    def _sums(self, W: FloatArray, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        x, seen = _seen(X, self.column)
        return seen @ W, x @ W

    def maximize(self, W: FloatArray, X: FloatArray, free: FloatArray | None) -> FloatArray:
        """Weighted mean, with the prior."""
        n, total = self._sums(W, X)
        return np.log((total + PSEUDO * self.center) / (n + PSEUDO))[:, None]

    def describe(self, free: FloatArray) -> dict[str, FloatArray]:
        """Its mean."""
        return {self.name: np.exp(free[:, 0])}


@dataclass(frozen=True)
class Poisson(_Positive):
    """A count; the free parameter is the log of its mean."""

    def log_density(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Log density of every row in every cluster, without log x!, (C, K)."""
        x, seen = _seen(X, self.column)
        return seen[:, None] * (x[:, None] * free[:, 0] - np.exp(free[:, 0]))

    def gradient(self, free: FloatArray, X: FloatArray, G: FloatArray) -> FloatArray:
        """Gradient of sum(G * log_density), (K, 1)."""
        n, total = self._sums(G, X)
        return (total - n * np.exp(free[:, 0]))[:, None]

    def log_prior(self, free: FloatArray) -> tuple[float, FloatArray]:
        """PSEUDO observations at the column's mean."""
        value = PSEUDO * (self.center * free[:, 0] - np.exp(free[:, 0]))
        return float(value.sum()), PSEUDO * (self.center - np.exp(free))

    def draw(self, W: FloatArray, X: FloatArray, free: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Mean from its gamma."""
        n, total = self._sums(W, X)
        return np.log(rng.gamma(total + PSEUDO * self.center + 0.5) / (n + PSEUDO))[:, None]


@dataclass(frozen=True)
class Exponential(_Positive):
    """A positive number with exponential distribution; the free parameter is the log of its mean."""

    def log_density(self, free: FloatArray, X: FloatArray) -> FloatArray:
        """Log density of every row in every cluster, (C, K)."""
        x, seen = _seen(X, self.column)
        return -seen[:, None] * (x[:, None] * np.exp(-free[:, 0]) + free[:, 0])

    def gradient(self, free: FloatArray, X: FloatArray, G: FloatArray) -> FloatArray:
        """Gradient of sum(G * log_density), (K, 1)."""
        n, total = self._sums(G, X)
        return (total * np.exp(-free[:, 0]) - n)[:, None]

    def log_prior(self, free: FloatArray) -> tuple[float, FloatArray]:
        """PSEUDO observations at the column's mean."""
        value = -PSEUDO * (self.center * np.exp(-free) + free)
        return float(value.sum()), PSEUDO * (self.center * np.exp(-free) - 1.0)

    def draw(self, W: FloatArray, X: FloatArray, free: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Mean from its inverse gamma."""
        n, total = self._sums(W, X)
        return np.log((total + PSEUDO * self.center) / rng.gamma(n + PSEUDO))[:, None]


def _seen(X: FloatArray, column: int) -> tuple[FloatArray, FloatArray]:
    x = X[:, column]
    seen = np.isfinite(x)
    return np.where(seen, x, 0.0), seen.astype(np.float64)


@dataclass(frozen=True)
class Reading:
    """Families of the columns, and the values that become levels.

    Attributes
    ----------
    families : tuple of Family
    values : tuple of (tuple of float or None)
        For each column of X the values that levels 0, 1, .. stand for; None for numbers.
    """

    families: tuple[Family, ...]
    values: tuple[tuple[float, ...] | None, ...]


def learn_families(X: FloatArray, columns: Sequence[Category | Number], families: Any) -> Reading:
    """Choose the family of every column.

    Parameters
    ----------
    X : (n, d)
    columns : sequence of Category or Number
    families : "auto", one name for all, or mapping of column (or tuple of columns, for "multinomial") to a name

    Examples
    --------
    >>> X = np.array([[0.0, 1.5], [1.0, 2.5], [0.0, 0.1]])
    >>> found = learn_families(X, [Number("sex"), Number("height")], "auto")
    >>> [type(f).__name__ for f in found.families]
    ['Categorical', 'Gaussian']
    """
    names = [c.name for c in columns]
    chosen, joint = _read_choice(families, names)
    out: list[Family] = []
    values: list[tuple[float, ...] | None] = [None] * len(columns)
    for members in joint:
        places = tuple(names.index(m) for m in members)
        part = X[:, list(places)]
        _refuse(bool(np.nanmin(part) < 0), names[places[0]], "multinomial", "negative values; it needs counts")
        out.append(Multinomial(" + ".join(members), places, tuple(members)))
    taken = {m for members in joint for m in members}
    for j, column in enumerate(columns):
        if column.name in taken:
            continue
        x = X[:, j]
        kind = chosen.get(column.name, "auto")
        if kind == "auto":
            kind = _guess(x, column)
        if isinstance(column, Category) and kind not in ("categorical", "bernoulli", "ordinal"):
            raise InputError(
                f"families: {column.name!r} holds text, which cannot be {kind}; choose 'categorical' or 'ordinal'."
            )
        family, values[j] = _make(kind, x, column, j)
        out.append(family)
    return Reading(tuple(out), tuple(values))


def _read_choice(families: Any, names: Sequence[str]) -> tuple[dict[str, str], list[tuple[str, ...]]]:
    if isinstance(families, str):
        if families != "auto" and families not in FAMILIES:
            raise unknown_name("families", families, ["auto", *FAMILIES], "family")
        if families == "multinomial":
            return {}, [tuple(names)]
        return dict.fromkeys(names, families), []
    if not isinstance(families, Mapping):
        raise InputError(
            f"families={families!r} is neither a name nor a mapping of columns to names; pass 'auto' or a mapping."
        )
    chosen: dict[str, str] = {}
    joint: list[tuple[str, ...]] = []
    for key, kind in families.items():
        if kind not in ("auto", *FAMILIES):
            raise unknown_name(f"families[{key!r}]", kind, ["auto", *FAMILIES], "family")
        for name in [key] if isinstance(key, str) else list(key):
            if name not in names:
                raise unknown_name("families", name, list(names))
        if kind == "multinomial":
            members = (key,) if isinstance(key, str) else tuple(key)
            if len(members) < 2:
                raise InputError(
                    f"families: a multinomial needs several columns of counts; {key!r} is one. Pass a tuple of names."
                )
            joint.append(members)
        else:
            for name in [key] if isinstance(key, str) else list(key):
                chosen[name] = kind
    return chosen, joint


def _guess(x: FloatArray, column: Category | Number) -> str:
    if isinstance(column, Category):
        return "categorical"
    seen = x[np.isfinite(x)]
    if (seen == np.rint(seen)).all() and len(np.unique(seen[: 10 * FEW + 1000])) <= FEW and len(np.unique(seen)) <= FEW:
        return "categorical"
    return "gaussian"


def _make(kind: str, x: FloatArray, column: Category | Number, j: int) -> tuple[Family, tuple[float, ...] | None]:
    seen = x[np.isfinite(x)]
    if kind == "gaussian":
        return Gaussian(column.name, j, float(seen.mean()), float(seen.var())), None
    if kind == "poisson":
        _refuse(bool((seen < 0).any() or (seen != np.rint(seen)).any()), column.name, kind, "values that are no counts")
        return Poisson(column.name, j, float(seen.mean())), None
    if kind == "exponential":
        _refuse(bool((seen < 0).any()), column.name, kind, "negative values")
        return Exponential(column.name, j, float(seen.mean())), None
    values, counts = np.unique(seen, return_counts=True)
    if kind == "bernoulli" and len(values) != 2:
        _refuse(True, column.name, kind, f"{len(values)} different values; it needs two")
    if kind != "bernoulli" and len(values) > max(1000, FEW):
        _refuse(True, column.name, kind, f"{len(values):,} different values; group them")
    if isinstance(column, Category):
        levels, own = tuple(str(v) for v in column.labels), None
        counts = np.bincount(seen.astype(np.int64), minlength=len(levels))
    else:
        levels, own = tuple(f"{v:g}" for v in values), tuple(float(v) for v in values)
    if kind == "ordinal":
        if len(levels) < 2:
            _refuse(True, column.name, kind, "one level")
        return Ordinal(column.name, j, levels, ordinal_cuts(counts.astype(np.float64))), own
    return Categorical(column.name, j, levels), own


def _refuse(bad: bool, name: str, kind: str, why: str) -> None:
    if bad:
        raise InputError(f"families: {name!r} cannot be {kind}: it has {why}. Choose another family.")


def recode(X: FloatArray, reading: Reading, names: Sequence[str]) -> FloatArray:
    """Replace the values of columns with levels by the levels' numbers, (n, d).

    Examples
    --------
    >>> reading = Reading((Categorical("age", 0, ("1", "5")),), ((1.0, 5.0),))
    >>> recode(np.array([[5.0], [1.0]]), reading, ["age"]).ravel().tolist()
    [1.0, 0.0]
    """
    out = X.copy()
    for j, values in enumerate(reading.values):
        if values is None:
            continue
        known = np.asarray(values)
        seen = np.isfinite(X[:, j])
        place = np.clip(np.searchsorted(known, X[seen, j]), 0, len(known) - 1)
        strange = known[place] != X[seen, j]
        if strange.any():
            value = X[seen, j][np.argmax(strange)]
            raise InputError(
                f"X: the column {names[j]!r} is {value:g} for somebody, a value the fit did not have; its values are "
                f"{listed(values, 12)}. Recode it, or fit with families={{{names[j]!r}: 'gaussian'}}."
            )
        out[seen, j] = place
    return out
