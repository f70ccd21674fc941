"""Learn from columns that are known for every person and resemble the hidden one.

Each such column is hidden in turn, fitted from its group means, and compared with the truth. Two things are learned. lambda_f, by which
share the slopes of a column f should shrink (or grow, when negative) for persons to be told apart best; half of it is applied, because
a hidden feature is never quite like the others. And kappa, by which intervals must be stretched to hold the truth. Borrowing goes
further: slopes move half-way to a_f + c_f beta_f, so that also the others' mean slopes count.

How much larger than sampling are errors? One variance that makes squared errors as large as they should be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import optimize, special

from crosslevel.data import checks, frames
from crosslevel.data.cells import Cells, sums
from crosslevel.errors import ConvergenceError, InputError, listed
from crosslevel.imputation.baselines import newton_logistic
from crosslevel.imputation.design import Design
from crosslevel.imputation.persons.model import Fit, Groups, Settings, fit_slopes, probabilities, sampling_variance
from crosslevel.imputation.persons.uncertainty import Members, mean_spread, share_interval
from crosslevel.typing import FloatArray, IntArray

FEWEST_LABELS = 5
GROUPS_FOR_SLOPES = 25
"""Groups from which on factors of slopes are learned: with fewer they gained next to nothing."""
FEWEST_CUTS = 20
HALF = 0.5
"""How much of what was learned is applied."""
FEWEST_PEOPLE = 100
"""People in a group of persons from which on it takes part in learning kappa."""


@dataclass(frozen=True, eq=False)
class Adjustment:
    """What was learned: beta_j becomes beta_j (1 - shrink_j) + add_j.

    Attributes
    ----------
    shrink, add : (K,)
        Already halved.
    kappa : float
    labels : int
        Columns it was learned from; 0 when nothing was.
    """

    shrink: FloatArray
    add: FloatArray
    kappa: float
    labels: int

    @property
    def df(self) -> float:
        """Degrees of freedom of Student's t: labels are few, and kappa is as uncertain."""
        return self.labels + 1.0 if self.labels else np.inf


@dataclass(frozen=True, eq=False)
class Case:
    """One column with a known truth, hidden.

    Attributes
    ----------
    members : Members
        Those that the hidden column has too; ``value`` is not used.
    yes : (M,)
        Weighted sum of the truth.
    mean : (P,)
    fit : Fit
    cut : (M,) int
        Groups of persons on which intervals are judged.
    naive, full : float
        Mean log-likelihood of the group means, and of a logistic regression on the truth itself.
    """

    members: Members
    yes: FloatArray
    mean: FloatArray
    fit: Fit
    cut: IntArray
    naive: float = field(default=np.nan)
    full: float = field(default=np.nan)


@dataclass(frozen=True)
class Left:
    """How a column fared when all was learned from the others.

    Attributes
    ----------
    lift : float
        Share of the way from naive to full information.
    plain : float
        The same without an adjustment.
    coverage : float
        Share of groups of persons whose 95 % interval holds the truth.
    """

    lift: float
    plain: float
    coverage: float


@dataclass(frozen=True, eq=False)
class Learned:
    """What similar columns taught.

    Attributes
    ----------
    names : tuple of str
        The columns.
    adjustments : dict of int to Adjustment
        By partition.
    left : dict of int to list of Left
        By partition, how each column fared when all was learned from the others.
    warnings : tuple of str
    """

    names: tuple[str, ...]
    adjustments: dict[int, Adjustment]
    left: dict[int, list[Left]]
    warnings: tuple[str, ...]


def learn_from(
    columns: Any,
    cells: Cells,
    weight: FloatArray | None,
    design: Design,
    settings: Settings,
    partitions: Mapping[int, int],
    *,
    borrow: bool,
) -> Learned:
    """Learn from columns, for every partition that a binary hidden feature uses, with its number of groups."""
    names, values = read_labels(columns, len(cells.pair))
    cut = _cuts(cells, design)
    adjustments, left, words = {}, {}, []
    for partition, P in partitions.items():
        cases = [hide(y, weight, partition, cells, design, settings, cut, P) for y in values]
        slopes = P >= GROUPS_FOR_SLOPES
        adjustments[partition] = learn(cases, design.owner, design.first, slopes=slopes, borrow=borrow)
        left[partition] = leave_one_out(cases, design.owner, design.first, slopes=slopes, borrow=borrow)
        lost = [n for n, one in zip(names, left[partition], strict=True) if one.lift < 0]
        if lost:
            words.append(
                f"{len(lost)} of {len(names)} columns, {listed(lost)}, lost to their group means when all was learned from the others: "
                "the columns are not alike, and the hidden feature may be as little like them."
            )
    if not adjustments:
        raise InputError("no hidden feature is binary; columns can teach about yes and no only.")
    return Learned(names, adjustments, left, tuple(words))


def read_labels(columns: Any, n: int) -> tuple[tuple[str, ...], list[FloatArray]]:
    """Read columns of 0 and 1, one row per person of the fit."""
    if frames.is_frame(columns):
        table = frames.to_arrow(columns, "columns")
        names = tuple(table.column_names)
        values = [frames.column(table, name, "columns") for name in names]
    else:
        array = checks.as_numbers(columns, "columns", 2)
        names = tuple(f"column {j}" for j in range(array.shape[1]))
        values = list(np.ascontiguousarray(array.T))
    if len(names) < FEWEST_LABELS:
        raise InputError(
            f"columns has {len(names)} column(s); at least {FEWEST_LABELS} similar ones are needed to learn from."
        )
    for name, v in zip(names, values, strict=True):
        if len(v) != n:
            raise InputError(
                f"columns has {len(v):,} rows for the {n:,} people of the fit; pass the same people in the same order."
            )
        if np.isnan(v).any() or not np.isin(v, (0.0, 1.0)).all():
            row = int(np.argmax(~np.isin(v, (0.0, 1.0))))
            raise InputError(f"columns: {name!r} is {v[row]} in row {row:,}; every value must be known, 0 or 1.")
        if v.min() == v.max():
            raise InputError(f"columns: {name!r} is {v[0]:g} for everybody; leave it out.")
    return names, values


def _cuts(cells: Cells, design: Design) -> IntArray:
    """Choose groups of persons on which intervals are judged: cells, or levels of one column where cells are small."""
    people = np.bincount(cells.pair_cell, cells.count, len(cells.X))
    if (people >= FEWEST_PEOPLE).sum() >= FEWEST_CUTS:
        return cells.pair_cell
    # every score of every cell contributes to the sum: twenty groups of equal size along it
    Z = design.matrix(cells.X)[:, design.first].sum(axis=1)
    order = np.argsort(Z, kind="stable")
    share = np.cumsum(people[order]) / people.sum()
    code = np.empty(len(Z), dtype=np.intp)
    code[order] = np.minimum((share * FEWEST_CUTS).astype(np.intp), FEWEST_CUTS - 1)
    return np.unique(code, return_inverse=True)[1].reshape(-1)[cells.pair_cell].astype(np.intp)


def hide(
    y: FloatArray,
    weight: FloatArray | None,
    partition: int,
    cells: Cells,
    design: Design,
    settings: Settings,
    cut: IntArray,
    P: int,
) -> Case:
    """Hide a known binary column: gather it, fit it from its own group means, and score naive and full information."""
    yes = sums(cells.pair, y if weight is None else y * weight, len(cells.count))
    group = cells.pair_group[:, partition]
    mean = sums(group, yes, P) / np.maximum(sums(group, cells.weight, P), 1e-300)
    Z = design.matrix(cells.X)
    _, n = cells.sizes(partition, P)
    groups = Groups(cells.shares(partition, P), mean, sampling_variance(mean, n))
    fit = fit_slopes(Z, design.reach, groups, n, replace(settings, n_restarts=0))
    by_cell = [sums(cells.pair_cell, v, len(cells.X)) for v in (yes, cells.weight)]
    theta = newton_logistic(Z, *by_cell)
    full = np.asarray(special.expit(theta[0] + Z @ theta[1:]))
    members = Members(
        Z[cells.pair_cell], group, cells.weight, cells.weight_squared, np.full(len(yes), np.nan), np.ones(P, dtype=bool)
    )
    return Case(
        members,
        yes,
        mean,
        fit,
        cut,
        naive=mean_log_likelihood(mean[group], yes, cells.weight),
        full=mean_log_likelihood(full, *by_cell),
    )


def mean_log_likelihood(p: FloatArray, yes: FloatArray, weight: FloatArray) -> float:
    """Give the mean log-likelihood of a person, from members' probabilities and weighted sums.

    Examples
    --------
    >>> round(mean_log_likelihood(np.array([0.5]), np.array([3.0]), np.array([10.0])), 4)
    -0.6931
    """
    return float((special.xlogy(yes, p) + special.xlog1py(weight - yes, -p)).sum() / weight.sum())


def adjust(beta: FloatArray, adjustment: Adjustment | None) -> FloatArray:
    """Apply what was learned to slopes.

    Examples
    --------
    >>> adjust(np.array([1.0]), Adjustment(np.array([0.2]), np.array([0.1]), 1.0, 5))
    array([0.9])
    """
    return beta if adjustment is None else beta * (1.0 - adjustment.shrink) + adjustment.add


def learn(
    cases: Sequence[Case], owner: IntArray, first: IntArray, *, slopes: bool = True, borrow: bool = False
) -> Adjustment:
    """Learn the adjustment from all cases together.

    Parameters
    ----------
    cases : sequence of Case
    owner : (K,) int
        Column each score comes from.
    first : (F,) int
        The linear score of each column.
    slopes : bool
        Whether lambda is learned; kappa always is.
    borrow : bool
        Whether the level a_f of slopes is, too.
    """
    K, F = len(owner), len(first)
    shrink, add = np.zeros(K), np.zeros(K)
    if slopes or borrow:
        bounds = [(-1.0, 1.0)] * F + [(-3.0, 3.0) if borrow else (0.0, 0.0)] * F
        found = optimize.minimize(
            _loss, np.zeros(2 * F), args=(cases, owner, first), jac=True, method="L-BFGS-B", bounds=bounds
        )
        shrink, add[first] = HALF * found.x[:F][owner], HALF * found.x[F:]
    plain = Adjustment(shrink, add, 1.0, len(cases))
    errors = [_errors(case, plain) for case in cases]
    e, v, V = (np.concatenate(part) for part in zip(*errors, strict=True))
    return Adjustment(shrink, add, float(np.sqrt(paule_mandel(e, v, V))), len(cases))


def leave_one_out(
    cases: Sequence[Case], owner: IntArray, first: IntArray, *, slopes: bool = True, borrow: bool = False
) -> list[Left]:
    """Judge every case with what the others teach."""
    out = []
    for i, case in enumerate(cases):
        others = [c for j, c in enumerate(cases) if j != i]
        adjustment = learn(others, owner, first, slopes=slopes, borrow=borrow)
        gap = max(case.full - case.naive, 1e-300)
        lift = (_likelihood(case, adjustment) - case.naive) / gap
        plain = (_likelihood(case, None) - case.naive) / gap
        out.append(Left(lift, plain, _coverage(case, adjustment)))
    return out


def _values(case: Case, beta: FloatArray) -> FloatArray:
    f = case.members.Z @ beta + case.fit.intercept
    return probabilities(f[None], case.members.group, case.members.weight, case.mean)[0][0]


def _likelihood(case: Case, adjustment: Adjustment | None) -> float:
    p = _values(case, adjust(case.fit.beta, adjustment))
    return mean_log_likelihood(p, case.yes, case.members.weight)


def _loss(x: FloatArray, cases: Sequence[Case], owner: IntArray, first: IntArray) -> tuple[float, FloatArray]:
    """Give minus the mean lift of slopes beta (1 - lambda) + a, and its gradient.

    Within a group truth and estimate add up to the same, so that the shift's own change drops out of the gradient.
    """
    F = len(first)
    value, gradient = 0.0, np.zeros(2 * F)
    for case in cases:
        beta = case.fit.beta * (1.0 - x[:F][owner])
        beta[first] += x[F:]
        p = _values(case, beta)
        w = case.members.weight
        scale = 1.0 / (max(case.full - case.naive, 1e-300) * len(cases))
        value -= scale * mean_log_likelihood(p, case.yes, w)
        slope = case.members.Z.T @ (case.yes - w * p) / w.sum()
        gradient[:F] += scale * np.bincount(owner, slope * case.fit.beta, F)
        gradient[F:] -= scale * slope[first]
    return value, gradient


def _spread(case: Case, adjustment: Adjustment) -> tuple[FloatArray, ...]:
    """Give truth, estimate and variances of the groups of persons that are large enough."""
    members = case.members
    p = _values(case, adjust(case.fit.beta, adjustment))
    n_cuts = int(case.cut.max()) + 1
    shifted = Members(members.Z, members.group, members.weight, members.weight_squared, p, members.known)
    found = mean_spread(shifted, case.cut, n_cuts, case.fit)
    effective = found.people**2 / np.maximum(np.bincount(case.cut, members.weight_squared, n_cuts), 1e-300)
    truth = np.bincount(case.cut, case.yes, n_cuts) / np.maximum(found.people, 1e-300)
    large = effective >= FEWEST_PEOPLE
    return tuple(a[large] for a in (truth, found.mean, found.model, found.chance, effective))


def _errors(case: Case, adjustment: Adjustment) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give errors of logits, the variance chance gives them, and that of the model."""
    truth, mean, model, chance, n = _spread(case, adjustment)
    inside = (truth * n + 0.5) / (n + 1.0)  # shares of none have a logit too
    error = special.logit(inside) - special.logit(np.clip(mean, 1e-12, 1.0 - 1e-12))
    return error, chance, model


def _coverage(case: Case, adjustment: Adjustment) -> float:
    truth, mean, model, chance, _ = _spread(case, adjustment)
    low, high = share_interval(mean, adjustment.kappa**2 * model, chance, 0.95, adjustment.df)
    return float(np.mean((low <= truth) & (truth <= high))) if len(truth) else np.nan


LARGEST = 1e12
"""A standard deviation of a million: beyond any error on the scale of rates or logits."""


def paule_mandel(error: FloatArray, variance: FloatArray, K: FloatArray, weight: FloatArray | None = None) -> float:
    """Find the variance t^2 >= 0 at which squared errors are as large as they should be (Paule & Mandel 1982).

    Solves sum w e^2 / (V + t^2 K) = sum w, and gives 0 where errors are already smaller than V allows. Errors that no t^2 up to
    ``LARGEST`` makes as large as they should be are refused.

    Parameters
    ----------
    error, variance, K : (m,)
        e, V and K.
    weight : (m,), optional

    Examples
    --------
    >>> round(paule_mandel(np.array([2.0, -2.0]), np.zeros(2), np.ones(2)), 6)
    4.0
    """
    w = np.ones_like(error) if weight is None else weight

    def excess(t2: float) -> float:
        with np.errstate(over="ignore"):
            return float((w * error**2 / np.maximum(variance + t2 * K, 1e-300)).sum() - w.sum())

    if excess(0.0) <= 0.0 and np.all(variance > 0):
        return 0.0
    low, high = 0.0, 1.0
    while not excess(high) <= 0.0:  # also where an error is no number
        if high > LARGEST:
            raise ConvergenceError(
                f"no variance up to {LARGEST:g} accounts for errors of up to {np.abs(error).max():g}: they are too large, or K, "
                f"which is {np.min(K):g} at least, adds nothing where they are. Leave out what is measured with such errors."
            )
        high *= 4.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return 0.5 * (low + high)
