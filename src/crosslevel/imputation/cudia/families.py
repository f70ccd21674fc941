"""Which family has each column of x. All are exponential families: a log density is ``statistics(x) @ natural(free)``.

Parameters of a family are a (K, q) array of free (unbounded) numbers, one row per cluster: means and logs of variances, logs of
rates, logits of shares. A missing value (NaN) has no statistics, so that its factor is integrated out. Densities are up to factors
that are the same in every cluster. The weak proper prior of each family is ``prior``, statistics of a few more observations, so that
an empty cluster has parameters and no variance is zero (no jitter of the data is needed).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from crosslevel.data.columns import Category, Number
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.typing import FloatArray

FAMILIES = ("gaussian", "categorical", "bernoulli", "poisson", "exponential", "multinomial")
FEW = 12
"""A column of whole numbers with at most this many values is taken as categorical unless said otherwise."""
MOST_VALUES = 1000
PSEUDO = 0.5
"""Prior observations of a rate, and of each level."""
VARIANCE_WEIGHT = 2.0
VARIANCE_SHARE = 0.1
"""The prior of a variance has the weight of 2 VARIANCE_WEIGHT observations at this share of the column's variance."""
MEAN_WEIGHT = 0.01


@dataclass(frozen=True, eq=False)
class _Family:
    """What families share. Of each is asked, for sums (K, m) of its statistics over weighted rows:

    ``natural(free)``, what multiplies the statistics, (K, m); ``slopes(sums, free)``, the gradient of ``sum(sums * natural(free))``;
    and with the prior among the sums ``peak(sums)``, the most probable parameters, and ``draw(sums, rng)``, those from their posterior.

    Attributes
    ----------
    name : str
        What tables call it.
    columns : tuple of int
        Its columns of X.
    prior : (m,)
    """

    name: str
    columns: tuple[int, ...]
    prior: FloatArray

    def statistics(self, X: FloatArray) -> sparse.csr_array:
        """Statistics of every row, (C, m)."""
        x = X[:, self.columns[0]]
        seen = np.isfinite(x)
        return sparse.csr_array(np.column_stack([seen, np.where(seen, x, 0.0)]))

    def describe(self, free: FloatArray) -> dict[str, FloatArray]:
        """Readable parameters, one array of (K,) per name."""
        return {self.name: np.exp(free[:, 0])}


@dataclass(frozen=True, eq=False)
class Gaussian(_Family):
    """A real number; free parameters (mean, log variance).

    Statistics are of the number minus ``center``, the mean of the column; the first two are both the number of people, of which the
    prior has another for the mean than for the variance.
    """

    center: float

    @property
    def variance(self) -> float:
        """Variance of the whole column."""
        return float(self.prior[3]) / (2.0 * VARIANCE_WEIGHT * VARIANCE_SHARE)

    def statistics(self, X: FloatArray) -> sparse.csr_array:
        """Number of people twice, their sum and their squares."""
        x = X[:, self.columns[0]]
        seen = np.isfinite(x)
        away = np.where(seen, x - self.center, 0.0)
        return sparse.csr_array(np.column_stack([seen, seen, away, away**2]))

    def natural(self, free: FloatArray) -> FloatArray:
        """Of the logarithm of the normal density."""
        away, precision = free[:, 0] - self.center, np.exp(-free[:, 1])
        level = -0.5 * (free[:, 1] + np.log(2 * np.pi))
        return np.column_stack([level, -0.5 * away**2 * precision, away * precision, -0.5 * precision])

    def slopes(self, sums: FloatArray, free: FloatArray) -> FloatArray:
        """In the mean and the log variance."""
        away, precision = free[:, 0] - self.center, np.exp(-free[:, 1])
        _, n, first, second = sums.T
        squares = second - 2.0 * away * first + n * away**2
        return np.column_stack([(first - n * away) * precision, 0.5 * (squares * precision - sums[:, 0])])

    def peak(self, sums: FloatArray) -> FloatArray:
        """Weighted mean and variance."""
        mean, squares = self._moments(sums)
        return np.column_stack([self.center + mean, np.log(squares / sums[:, 0])])

    def draw(self, sums: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Variance from its inverse gamma, then the mean."""
        mean, squares = self._moments(sums)
        var = 0.5 * squares / rng.gamma(0.5 * sums[:, 0] - 1.5)
        noise = rng.standard_normal(len(mean)) * np.sqrt(var / sums[:, 1])
        return np.column_stack([self.center + mean + noise, np.log(var)])

    def describe(self, free: FloatArray) -> dict[str, FloatArray]:
        """Mean and standard deviation."""
        return {self.name: free[:, 0], f"{self.name} sd": np.exp(0.5 * free[:, 1])}

    def _moments(self, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean = sums[:, 2] / sums[:, 1]
        return mean, sums[:, 3] - sums[:, 2] * mean


@dataclass(frozen=True, eq=False)
class Poisson(_Family):
    """A count; the free parameter is the log of its mean."""

    def natural(self, free: FloatArray) -> FloatArray:
        """Without log x!."""
        return np.column_stack([-np.exp(free), free])

    def slopes(self, sums: FloatArray, free: FloatArray) -> FloatArray:
        """In the log of the mean."""
        return sums[:, 1:] - sums[:, :1] * np.exp(free)

    def peak(self, sums: FloatArray) -> FloatArray:
        """Weighted mean."""
        return np.log(sums[:, 1:] / sums[:, :1])

    def draw(self, sums: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Mean from its gamma."""
        return np.log(rng.gamma(sums[:, 1:] + 0.5) / sums[:, :1])


@dataclass(frozen=True, eq=False)
class Exponential(Poisson):
    """A positive number with exponential distribution; the free parameter is the log of its mean."""

    def natural(self, free: FloatArray) -> FloatArray:
        """Of the logarithm of the exponential density."""
        return np.column_stack([-free, -np.exp(-free)])

    def slopes(self, sums: FloatArray, free: FloatArray) -> FloatArray:
        """In the log of the mean."""
        return sums[:, 1:] * np.exp(-free) - sums[:, :1]

    def draw(self, sums: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Mean from its inverse gamma."""
        return np.log(sums[:, 1:] / rng.gamma(sums[:, :1]))


@dataclass(frozen=True, eq=False)
class Levels(_Family):
    """One of several levels (coded 0, 1, .. in X), or counts in several columns; free parameters are logits.

    Attributes
    ----------
    levels : tuple of str
    values : tuple of float or None
        The values of a column of numbers that the levels stand for.
    """

    levels: tuple[str, ...]
    values: tuple[float, ...] | None = None

    def statistics(self, X: FloatArray) -> sparse.csr_array:
        """Which level each row has, or how many of each."""
        x = X[:, list(self.columns)]
        row = np.flatnonzero(np.isfinite(x).all(axis=1))
        if len(self.columns) > 1:
            whole = np.zeros(x.shape)
            whole[row] = x[row]
            return sparse.csr_array(whole)
        code = x[row, 0].astype(np.int64)
        return sparse.csr_array((np.ones(len(row)), (row, code)), shape=(len(x), len(self.levels)))

    def natural(self, free: FloatArray) -> FloatArray:
        """Log probability of each level."""
        return np.asarray(free - logsumexp(free, axis=1, keepdims=True))

    def slopes(self, sums: FloatArray, free: FloatArray) -> FloatArray:
        """In the logits."""
        return sums - sums.sum(axis=1, keepdims=True) * np.exp(self.natural(free))

    def peak(self, sums: FloatArray) -> FloatArray:
        """Shares of the levels, as logits of mean zero."""
        logits = np.log(np.maximum(sums, 1e-300))
        return logits - logits.mean(axis=1, keepdims=True)

    def draw(self, sums: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Shares from their Dirichlet."""
        return self.peak(rng.gamma(sums + 1.0))

    def describe(self, free: FloatArray) -> dict[str, FloatArray]:
        """Share of each level; of one column with two levels that of the second."""
        shares = np.exp(self.natural(free))
        first = int(len(self.columns) == 1 and len(self.levels) == 2)
        return {f"{self.name}: {level}": shares[:, v] for v, level in enumerate(self.levels) if v >= first}


Family = Gaussian | Poisson | Levels


def learn_families(
    X: FloatArray, count: FloatArray, columns: Sequence[Category | Number], families: Any
) -> tuple[Family, ...]:
    """Choose the family of every column.

    Parameters
    ----------
    X : (n, d)
    count : (n,)
        People of each row.
    columns : sequence of Category or Number
    families : "auto", one name for all, or mapping of column (or tuple of columns, for "multinomial") to a name

    Examples
    --------
    >>> X = np.array([[0.0, 1.5], [1.0, 2.5], [0.0, 0.1]])
    >>> found = learn_families(X, np.ones(3), [Number("sex"), Number("height")], "auto")
    >>> [type(f).__name__ for f in found]
    ['Levels', 'Gaussian']
    """
    names = [c.name for c in columns]
    if isinstance(families, str):
        families = {tuple(names): families}
    if not isinstance(families, Mapping):
        raise InputError(
            f"families={families!r} is neither a name nor a mapping of columns to names; pass 'auto' or a mapping."
        )
    alone, out = dict.fromkeys(names, "auto"), []
    for key, kind in families.items():
        members = (key,) if isinstance(key, str) else tuple(key)
        if kind not in ("auto", *FAMILIES):
            raise unknown_name("families", kind, ["auto", *FAMILIES], "family")
        for name in members:
            if name not in alone:
                raise unknown_name("families", name, list(alone))
        if kind != "multinomial":
            alone |= dict.fromkeys(members, kind)
            continue
        places = tuple(names.index(m) for m in members)
        if len(members) < 2 or np.nanmin(X[:, places]) < 0:
            raise InputError(f"families: a multinomial needs counts in several columns; {listed(members)} has none.")
        out.append(Levels(" + ".join(members), places, np.full(len(members), PSEUDO), members))
        alone = {n: k for n, k in alone.items() if n not in members}
    return (*out, *(_make(columns[j], j, X[:, j], count, alone[n]) for j, n in enumerate(names) if n in alone))


def _make(column: Category | Number, j: int, x: FloatArray, count: FloatArray, kind: str) -> Family:
    here = np.isfinite(x)
    seen, count = x[here], count[here]
    whole, text = bool((seen == np.rint(seen)).all()), isinstance(column, Category)
    values = np.unique(seen)
    if kind == "auto":
        kind = "categorical" if text or (whole and len(values) <= FEW) else "gaussian"
    reasons = {
        "it holds text": text and kind not in ("categorical", "bernoulli"),
        "it has negative values": kind in ("poisson", "exponential") and seen.min() < 0,
        "it has values that are no counts": kind == "poisson" and not whole,
        "it has not two different values": kind == "bernoulli" and len(values) != 2,
        f"it has {len(values):,} different values; group them": kind == "categorical" and len(values) > MOST_VALUES,
    }
    for why, bad in reasons.items():
        if bad:
            raise InputError(f"families: {column.name!r} cannot be {kind}: {why}. Choose another family.")
    center = float(np.average(seen, weights=count))
    if kind == "gaussian":
        squares = 2.0 * VARIANCE_WEIGHT * VARIANCE_SHARE * float(np.average((seen - center) ** 2, weights=count))
        prior = np.array([2.0 * VARIANCE_WEIGHT, MEAN_WEIGHT, 0.0, squares])
        return Gaussian(column.name, (j,), prior, center)
    if kind in ("poisson", "exponential"):
        make = Poisson if kind == "poisson" else Exponential
        return make(column.name, (j,), np.array([PSEUDO, PSEUDO * center]))
    if isinstance(column, Category):
        levels, known = tuple(str(v) for v in column.labels), None
    else:
        levels, known = tuple(f"{v:g}" for v in values), tuple(float(v) for v in values)
    return Levels(column.name, (j,), np.full(len(levels), PSEUDO), levels, known)


def recode(X: FloatArray, families: Sequence[Family], names: Sequence[str]) -> FloatArray:
    """Replace the values of columns with levels by the levels' numbers, (n, d).

    Examples
    --------
    >>> recode(np.array([[5.0], [1.0]]), [Levels("age", (0,), np.full(2, PSEUDO), ("1", "5"), (1.0, 5.0))], ["age"]).tolist()
    [[1.0], [0.0]]
    """
    out = X.copy()
    for family in families:
        if not isinstance(family, Levels) or family.values is None:
            continue
        j, known = family.columns[0], np.asarray(family.values)
        seen = np.isfinite(X[:, j])
        place = np.clip(np.searchsorted(known, X[seen, j]), 0, len(known) - 1)
        strange = known[place] != X[seen, j]
        if strange.any():
            value = X[seen, j][np.argmax(strange)]
            raise InputError(
                f"people: the column {names[j]!r} is {value:g} for somebody, a value the fit did not have; its values are "
                f"{listed(known.tolist(), 12)}. Recode it, or fit with families={{{names[j]!r}: 'gaussian'}}."
            )
        out[seen, j] = place
    return out
