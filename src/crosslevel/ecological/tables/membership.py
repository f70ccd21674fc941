"""Groups known only as probabilities: membership probabilities of people summed to units, and the error of the sums.

Person j of unit i belongs to group r with probability p_jr, given what predicts membership (a surname, an address). The sums
X_ir = sum_j p_jr are off from the counts for two reasons:

    V_i = sum_j w_j^2 (diag(p_j) - p_j p_j')        membership of each person, given the probabilities
    s^2 J_i J_i / 2                                 log odds that are off by s for everybody of a unit, to first order

with J_i = sum_j w_j (diag(p_j) - p_j p_j'), by which sums move with log probabilities; log odds between any two groups are off by s when
log probabilities are off by s / sqrt(2), each on its own. In the first the counts scatter around the sums (Berkson's error), and rates
fitted to the sums are not attenuated. In the second the sums scatter around the counts, and rates of groups are pulled toward each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from crosslevel.data import frames
from crosslevel.ecological.tables.raking import rake
from crosslevel.typing import FloatArray

__all__ = ["MembershipCounts", "membership_variance", "summed"]

DRAWS = 100


@dataclass(frozen=True)
class MembershipCounts:
    """Expected people of each group in each unit, and the covariance of the true counts around them.

    Attributes
    ----------
    counts : pyarrow.Table
        A column for each group.
    covariance : (2, n_units, n_groups, n_groups)
        Of the counts around the sums, and of the sums around the counts.
    people : int
        People behind the sums.
    calibration_sd : float
        By how much the log odds of membership may be off for everybody of a unit.
    frame : kind of dataframe to answer with.
    scaled : bool
        Whether the sums were brought to totals of the units.
    """

    counts: pa.Table
    covariance: FloatArray
    people: int
    calibration_sd: float
    frame: frames.FrameKind
    scaled: bool = False

    def to_frame(self) -> object:
        """Give the expected counts as a dataframe of the caller's kind."""
        return frames.from_arrow(self.counts, self.frame)

    @property
    def note(self) -> str:
        """What every answer from these sums says."""
        size = np.array([self.counts[n].to_numpy() for n in self.counts.column_names]).sum(axis=0)
        sd = np.sqrt(np.einsum("kirr->ir", self.covariance)) / np.where(size > 0, size, np.nan)[:, None]
        unlisted = (
            ", not that the people listed may differ from the rest of the totals they were scaled to"
            if self.scaled
            else ""
        )
        return (
            f"Groups are sums of membership probabilities of {self.people:,} people; the share of a group in a unit is known to "
            f"±{100 * float(np.nanmedian(sd)):.2g} % of the people (median standard deviation, log odds off by {self.calibration_sd:g}). "
            f"Only rxc carries this into its intervals{unlisted}. They hold if the probabilities are right on average. Weighting "
            "people's own outcomes by them instead is biased wherever the outcome depends on the group beyond what predicts membership."
        )


def summed(
    P: FloatArray, weight: FloatArray, code: np.typing.NDArray[np.int64], n: int, s: float
) -> tuple[FloatArray, FloatArray]:
    """Sum probabilities (n_people, R) to units: expected counts (n, R), and the two covariances (2, n, R, R).

    Examples
    --------
    >>> X, V = summed(np.array([[0.5, 0.5], [1.0, 0.0]]), np.ones(2), np.array([0, 0]), 1, 0.0)
    >>> X.tolist(), V.tolist()
    ([[1.5, 0.5]], [[[[0.25, -0.25], [-0.25, 0.25]]], [[[0.0, 0.0], [0.0, 0.0]]]])
    """
    R = P.shape[1]
    X = np.column_stack([np.bincount(code, weight * P[:, r], n) for r in range(R)]).astype(np.float64)
    V, J = np.empty((2, n, R, R))
    for r in range(R):
        for q in range(r, R):
            own = P[:, r] * ((r == q) - P[:, q])
            V[:, r, q] = V[:, q, r] = np.bincount(code, weight**2 * own, n)
            J[:, r, q] = J[:, q, r] = np.bincount(code, weight * own, n)
    return X, np.stack([V, s**2 / 2 * J @ J])


def drawn(X: FloatArray, V: FloatArray, z: FloatArray) -> FloatArray:
    """Move counts by errors of covariance V, made of normal numbers z (n, R); none negative, the same people in every unit."""
    values, vectors = np.linalg.eigh(V)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    counts = np.maximum(X + np.einsum("irq,iq->ir", root, z), 0.0)
    total = counts.sum(axis=1, keepdims=True)
    return np.divide(counts * X.sum(axis=1, keepdims=True), total, out=X.copy(), where=total > 0)


def membership_variance(
    cells: FloatArray, x: FloatArray, y: FloatArray, V: FloatArray, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Give the variance of shares that comes from the counts of the groups: of the district (R, C), and of units (n, R, C).

    Every draw of the counts is given the rates of the units and brought to both margins.

    Parameters
    ----------
    cells : (n, R, C)
        Estimated cells of the units.
    x : (n, R), y : (n, C)
        Expected counts of groups, and outcomes, with equal sums.
    V : (n, R, R)
        Covariance of the counts.
    seed : int
    """
    rng = np.random.default_rng(seed)
    rate = cells / np.where(x > 0, x, 1.0)[:, :, None] + 1e-9
    y = np.ascontiguousarray(y)
    whole = np.empty((DRAWS, *cells.shape[1:]))
    total, square = np.zeros(cells.shape), np.zeros(cells.shape)
    for s in range(DRAWS):
        counts = drawn(x, V, rng.standard_normal(x.shape))
        table = rate * counts[:, :, None]
        rake(table, counts, y, table.sum(axis=0), 0)
        share = table / np.where(counts > 0, counts, 1.0)[:, :, None]
        whole[s] = table.sum(axis=0) / counts.sum(axis=0)[:, None]
        total += share
        square += share**2
    return whole.var(axis=0), np.maximum(square / DRAWS - (total / DRAWS) ** 2, 0.0)
