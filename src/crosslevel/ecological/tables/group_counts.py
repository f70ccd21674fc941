"""People counted by place and group, from a column of groups or from membership probabilities.

Groups known only as probabilities: membership probabilities of people summed to units, and the error of the sums.

Person j of unit i belongs to group r with probability p_jr, given what predicts membership (a surname, an address). The sums
X_ir = sum_j p_jr are off from the counts for two reasons:

    V_i = sum_j w_j^2 (diag(p_j) - p_j p_j')        membership of each person, given the probabilities
    s^2 J_i J_i / 2                                 log odds that are off by s for everybody of a unit, to first order

with J_i = sum_j w_j (diag(p_j) - p_j p_j'), by which sums move with log probabilities; log odds between any two groups are off by s when
log probabilities are off by s / sqrt(2), each on its own. In the first the counts scatter around the sums (Berkson's error), and rates
fitted to the sums are not attenuated. In the second the sums scatter around the counts, and rates of groups are pulled toward each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from crosslevel.data import checks, frames
from crosslevel.data.columns import check_squares
from crosslevel.ecological.tables.memberships import MembershipCounts
from crosslevel.ecological.tables.raking import rake
from crosslevel.errors import InputError, listed
from crosslevel.typing import FloatArray

ROUNDING = 0.005
"""How far the probabilities of a person may be from one in sum: that of a few columns rounded to three decimals."""

DRAWS = 100


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


def group_counts(
    people: object,
    *,
    by: str,
    group: str | None = None,
    places: object,
    total: str | None = None,
    weight: str | None = None,
    probabilities: Mapping[str, str] | Sequence[str] | None = None,
    calibration_sd: float = 0.0,
) -> MembershipCounts:
    """Estimate how many of each place's people belong to each group, from weighted people or from membership probabilities.

    The weighted share of each group among the place's people is multiplied by the place's total, so the rows add up to
    it. The shares carry the sampling error of the people.

    Parameters
    ----------
    people : dataframe
        One row per person, with columns ``by``, ``group`` (or ``probabilities``) and ``weight``.
    by : str
        The place column of both tables.
    group : str, optional
        The column of ``people`` whose values are the groups.
    places : dataframe
        One row per place.
    total : str, optional
        The column of ``places`` that the groups must add up to; not given, the weighted people themselves are counted.
    weight : str, optional
        Survey weights of the people.
    probabilities : sequence of str, or mapping of group to column, optional
        In place of ``group``, columns with the probability that a person belongs to each group, as made from surnames and
        addresses. Every row must add up to 1.
    calibration_sd : float, default 0
        With ``probabilities``: by how much, as a standard deviation, the log odds of membership may be off for everybody of a
        place, between any two groups; at most 1, since it is carried to first order. It cannot be learned from the sums; 0 takes the
        probabilities for calibrated in every place.

    Returns
    -------
    MembershipCounts
        For ``groups`` of :class:`crosslevel.Counts`, which matches it by the names of the places. From probabilities it also holds the
        covariance of the counts. ``to_frame()`` gives the places and their counts.

    Examples
    --------
    >>> people = {"place": ["a", "a", "b"], "sex": ["f", "m", "m"], "w": [1.0, 3.0, 1.0]}
    >>> places = {"place": ["b", "a"], "votes": [10, 100]}
    >>> found = group_counts(people, by="place", group="sex", places=places, total="votes", weight="w")
    >>> found.to_frame().to_pydict()
    {'place': ['b', 'a'], 'f': [0.0, 25.0], 'm': [10.0, 75.0]}
    >>> people |= {"f": [0.9, 0.2, 0.4], "m": [0.1, 0.8, 0.6]}
    >>> found = group_counts(people, by="place", probabilities=["f", "m"], places=places)
    >>> found.values.tolist(), found.covariance[0, 1, 0].round(3).tolist()
    ([[0.4, 0.6], [1.1, 0.9]], [0.25, -0.25])
    """
    persons, where = frames.to_arrow(people, "people"), frames.to_arrow(places, "places")
    checks.check_unique(where, by, "places: by")
    totals = None
    if total is not None:
        totals = checks.check_counts(frames.column(where, total, "total"), f"total column {total!r}", 1)
    frames.check_columns(persons, frames.as_names(by, "by"), "by")
    if (group is None) == (probabilities is None):
        raise InputError(f"group={group!r} and probabilities={probabilities!r}: pass one of the two.")
    n = persons.num_rows
    w = np.ones(n) if weight is None else checks.check_weights(frames.column(persons, weight, "weight"), "weight")
    s = checks.check_between(calibration_sd, "calibration_sd", 0.0, 1.0)
    if group is not None:
        checks.refuse_idle_arguments(group_counts, {"calibration_sd": s}, "without probabilities")
        frames.check_columns(persons, frames.as_names(group, "group"), "group")
        member = frames.group_rows(persons, group, "group")
        levels = [str(v) for v in member.keys[group].to_pylist()]
        P = np.eye(len(levels))[member.codes]
    else:
        assert probabilities is not None
        check_squares(w, f"weight={weight!r}")
        named, P = read_probabilities(persons, probabilities)
        levels = list(named)
    cells, keys = frames.group_rows(persons, by, "by"), where[by].to_pylist()
    row = {k: i for i, k in enumerate(keys)}
    strangers = sorted({k for k in cells.keys[by].to_pylist() if k not in row}, key=str)
    if strangers:
        raise InputError(
            f"people live in {len(strangers):,} place(s) that places lacks ({listed(strangers)}); add these rows to places "
            f"or drop their people. Keys must have the same type in both ({cells.keys[by].type} and {where[by].type})."
        )
    code = np.array([row[k] for k in cells.keys[by].to_pylist()], dtype=np.int64)[cells.codes]
    mass, V = summed(P, w, code, len(keys), s)
    size = mass.sum(axis=1)
    if (size <= 0).any():
        empty = [k for k, m in zip(keys, size, strict=True) if m <= 0]
        raise InputError(
            f"{len(empty):,} place(s) have no people ({listed(empty)}); drop them from places or add people."
        )
    factor = np.ones(len(keys)) if totals is None else totals / size
    counts = mass * factor[:, None]
    table = pa.table({name: counts[:, j] for j, name in enumerate(levels)})
    made = MembershipCounts(table, tuple(keys), by, frames.frame_kind(people))
    if group is not None:
        return made
    covariance = V * factor[None, :, None, None] ** 2
    return replace(made, covariance=covariance, note=_note(counts, covariance, n, s, totals is not None))


def _note(counts: FloatArray, covariance: FloatArray, people: int, s: float, scaled: bool) -> str:
    """Say what every answer from sums of probabilities says."""
    size = counts.sum(axis=1)
    sd = np.sqrt(np.einsum("kirr->ir", covariance)) / np.where(size > 0, size, np.nan)[:, None]
    unlisted = (
        ", not that the people listed may differ from the rest of the totals they were scaled to" if scaled else ""
    )
    return (
        f"Groups are sums of membership probabilities of {people:,} people; the share of a group in a unit is known to "
        f"±{100 * float(np.nanmedian(sd)):.2g} % of the people (median standard deviation, log odds off by {s:g}). "
        f"Only rxc carries this into its intervals{unlisted}. They hold if the probabilities are right on average. Weighting "
        "people's own outcomes by them instead is biased wherever the outcome depends on the group beyond what predicts membership."
    )


def read_probabilities(
    people: pa.Table, probabilities: Mapping[str, str] | Sequence[str]
) -> tuple[tuple[str, ...], FloatArray]:
    """Read membership probabilities: names of the groups, and (n_people, n_groups) with rows that add up to one.

    Examples
    --------
    >>> read_probabilities(pa.table({"a": [0.2, 1.0], "b": [0.8, 0.0]}), ["a", "b"])[1].tolist()
    [[0.2, 0.8], [1.0, 0.0]]
    """
    pairs = probabilities.items() if isinstance(probabilities, Mapping) else ((name, name) for name in probabilities)
    named = {str(group): column for group, column in pairs}
    if isinstance(probabilities, str) or len(named) < 2:
        raise InputError(
            f"probabilities={probabilities!r} names {len(named)} group(s); name the columns of at least two."
        )
    frames.check_columns(people, list(named.values()), "probabilities")
    P = np.column_stack([frames.column(people, column, "probabilities") for column in named.values()])
    bad = ~((P >= 0) & (P <= 1))
    if bad.any():
        i, j = (int(k) for k in np.argwhere(bad)[0])
        raise InputError(
            f"probabilities[{list(named)[j]!r}] has {P[i, j]:g} in row {i}; probabilities lie between 0 and 1."
        )
    off = np.abs(P.sum(axis=1) - 1) > ROUNDING
    if off.any():
        i = int(np.argmax(off))
        raise InputError(
            f"probabilities do not add up to 1 in {int(off.sum()):,} row(s), first in row {i}: {P[i].sum():.4g} ({listed(named)}); "
            "add the column of the other groups, or divide each row by its sum."
        )
    return tuple(named), P / P.sum(axis=1, keepdims=True)
