"""Learn from columns that are known for every person and resemble the hidden one.

Each such column is hidden in turn, fitted from its group means, and compared with the truth. Two things are learnt. lambda_f, by which
share the slopes of a column f should shrink (or grow, when negative) for persons to be told apart best; half of it is applied, because
a hidden feature is never quite like the others. And kappa, by which intervals must be stretched to hold the truth. Borrowing goes
further: slopes move half-way to a_f + c_f beta_f, so that also the others' mean slopes count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import optimize, special

from crosslevel.imputation.persons.intervals import share_interval
from crosslevel.imputation.persons.model import LinkFit, probabilities
from crosslevel.imputation.persons.uncertainty import Members, mean_spread
from crosslevel.numerics.excess_variance import paule_mandel
from crosslevel.typing import FloatArray, IntArray

__all__ = ["Adjustment", "Case", "Left", "adjust", "learn", "leave_one_out", "mean_log_likelihood"]


HALF = 0.5
"""How much of what was learnt is applied."""
FEWEST_PEOPLE = 100
"""People in a group of persons from which on it takes part in learning kappa."""


@dataclass(frozen=True, eq=False)
class Adjustment:
    """What was learnt: beta_j becomes beta_j (1 - shrink_j) + add_j.

    Attributes
    ----------
    shrink, add : (K,)
        Already halved.
    kappa : float
    labels : int
        Columns it was learnt from; 0 when nothing was.
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
    fit : LinkFit
    cut : (M,) int
        Groups of persons on which intervals are judged.
    naive, full : float
        Mean log-likelihood of the group means, and of a logistic regression on the truth itself.
    """

    members: Members
    yes: FloatArray
    mean: FloatArray
    fit: LinkFit
    cut: IntArray
    naive: float = field(default=np.nan)
    full: float = field(default=np.nan)


@dataclass(frozen=True)
class Left:
    """How a column fared when all was learnt from the others.

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


def mean_log_likelihood(p: FloatArray, yes: FloatArray, weight: FloatArray) -> float:
    """Give the mean log-likelihood of a person, from members' probabilities and weighted sums.

    Examples
    --------
    >>> round(mean_log_likelihood(np.array([0.5]), np.array([3.0]), np.array([10.0])), 4)
    -0.6931
    """
    return float((special.xlogy(yes, p) + special.xlog1py(weight - yes, -p)).sum() / weight.sum())


def adjust(beta: FloatArray, adjustment: Adjustment | None) -> FloatArray:
    """Apply what was learnt to slopes.

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
        Whether lambda is learnt; kappa always is.
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
