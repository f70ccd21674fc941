"""Do the two arms of a comparison hold people who are alike? Who has neighbors in the other arm, and weights of those who do.

An effect of a binary column or of a level of a factor compares two arms at the same values of all other covariates. Where an arm has
nobody with such values the answer comes from the shape of the kernel alone. A *neighbor* is a row of the other arm that differs by
at most one standard deviation (that inside the arms) per covariate, as a root mean square over the others. Overlap weights are
e (1 - e), e the probability of the one arm given the other covariates (Li, Morgan and Zaslavsky 2018): the average is then over
people who might be in either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.spatial import KDTree

from crosslevel.errors import listed
from crosslevel.krls.effects import Effect
from crosslevel.krls.model import Fit, fit
from crosslevel.typing import FloatArray, IntArray

MOST_ALONE = 0.1
"""Share of people without neighbors in the other arm from which on a fit says so."""
MOST_ASKED = 2_000
"""Distinct rows of an arm that are looked up among those of the other."""
DRAWS = 20_000


class Alone(NamedTuple):
    """Weight of both arms, and the share of each that has no neighbor in the other."""

    n_high: float
    n_low: float
    high: float
    low: float

    @property
    def share(self) -> float:
        """Share of both arms together."""
        return (self.n_high * self.high + self.n_low * self.low) / (self.n_high + self.n_low)


def arm_of(effect: Effect, Z: FloatArray) -> IntArray:
    """Tell the arm of every distinct row, (U,): 1 for the level of the effect, 0 for its reference, -1 for any other.

    A column of numbers has a derivative, and no arms.
    """
    if effect.switch is None:
        return np.full(len(Z), -1)
    level = effect.switch.levels(Z)
    return np.where(level == effect.high, 1, np.where(level == effect.low, 0, -1))


def _others(effect: Effect, Z: FloatArray) -> FloatArray:
    """Give the covariates beside those of the effect."""
    assert effect.switch is not None
    return np.delete(Z, effect.switch.columns, axis=1)


def alone(effect: Effect, Z: FloatArray, m: FloatArray) -> Alone:
    """Count who has no neighbor in the other arm.

    Parameters
    ----------
    effect : Effect
        Of a binary column or a level.
    Z : (U, P)
        Distinct rows, standardized.
    m : (U,)
        Weight of each.
    """
    arm, rest = arm_of(effect, Z), _others(effect, Z)
    rows = [np.flatnonzero(arm == a) for a in (1, 0)]
    # in units of the spread inside the arms: distance between them must not make them look alike
    centered = np.concatenate([rest[r] - np.average(rest[r], axis=0, weights=m[r]) for r in rows if len(r)])
    weight = np.concatenate([m[r] for r in rows])
    rest = rest / np.maximum(np.sqrt(weight @ centered**2 / weight.sum()), 1e-6)
    found = []
    for own, other in (rows, rows[::-1]):
        asked = own[:: max(1, len(own) // MOST_ASKED)]
        if not len(other) or not len(asked):
            found.append(1.0)
            continue
        far, _ = KDTree(rest[other]).query(rest[asked]) if rest.shape[1] else (np.zeros(len(asked)), None)
        found.append(float(np.average(far > np.sqrt(max(rest.shape[1], 1)), weights=m[asked])))
    return Alone(float(m[rows[0]].sum()), float(m[rows[1]].sum()), *found)


def describe_overlap(effects: Sequence[Effect], Z: FloatArray, m: FloatArray) -> list[str]:
    """Say which effects compare people who have nobody like them in the other arm."""
    shares = {e.term: alone(e, Z, m).share for e in effects if e.switch is not None}
    far = {term: s for term, s in shares.items() if s > MOST_ALONE}
    if not far:
        return []
    worst = max(far, key=lambda term: far[term])
    return [
        f"the groups of {listed(list(far))} overlap little: {100 * far[worst]:.0f} % of the people compared by {worst!r} have nobody in "
        "the other group within one standard deviation per covariate, and their effect is extrapolated; see overlap(), and "
        "effects(target='overlap') for those who have."
    ]


def overlap_weights(effect: Effect, model: Fit) -> FloatArray:
    """Give the weight of every distinct row in the average over people who might be in either arm, (U,), adding up to one.

    e is a kernel ridge regression of the arm on the other covariates, its penalty by leave-one-out, cut to [0, 1].
    """
    cells = model.cells
    arm, rest = arm_of(effect, model.kernel.Z), _others(effect, cells.X)
    rows = np.flatnonzero(arm >= 0)
    rest = rest[rows][:, np.ptp(rest[rows], axis=0) > 0]
    treated = arm[rows].astype(np.float64)
    e = np.full(len(rows), np.average(treated, weights=cells.m[rows]))
    if rest.shape[1]:
        found = fit(
            rest, treated, cells.m[rows], None, penalty=None, bandwidth="n_columns", rule="loo", method="auto",
            survey=False, rank=None, backend="numpy", seed=0,
        )  # fmt: skip
        e = np.clip((found.solution.fitted * found.y_sd + found.y_mean)[found.cells.row], 0.0, 1.0)
    out = np.zeros(len(arm))
    out[rows] = cells.m[rows] * e * (1.0 - e)
    return out / max(out.sum(), 1e-300)


def group_by_rank(values: FloatArray, n_groups: int, rng: np.random.Generator) -> IntArray:
    """Number equal parts of the rows from the smallest values to the largest; ties are broken by chance.

    Examples
    --------
    >>> group_by_rank(np.array([0.3, 0.1, 0.9, 0.5]), 2, np.random.default_rng(0)).tolist()
    [1, 1, 2, 2]
    """
    order = np.lexsort((rng.random(len(values)), values))
    out = np.empty(len(values), dtype=np.intp)
    out[order] = 1 + np.arange(len(values)) * n_groups // len(values)
    return out


def joint_critical(covariance: FloatArray, level: float, seed: int) -> float:
    """Give the number of standard errors that holds all estimates at once with probability ``level``.

    Examples
    --------
    >>> round(joint_critical(np.eye(5), 0.95, 0), 1)
    2.6
    """
    sd = np.sqrt(np.diag(covariance))
    draws = np.random.default_rng(seed).multivariate_normal(
        np.zeros(len(sd)), covariance / np.outer(sd, sd), DRAWS, check_valid="ignore", method="eigh"
    )
    return float(np.quantile(np.abs(draws).max(axis=1), level))
