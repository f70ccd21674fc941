"""People counted by place and group, from a column of groups or from membership probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data import checks, frames
from crosslevel.data.cells import read_probabilities
from crosslevel.data.columns import check_squares
from crosslevel.ecological.tables.membership import MembershipCounts, summed
from crosslevel.errors import InputError, listed

__all__ = ["group_counts"]


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
) -> tuple[Any, tuple[object, ...]]:
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
    counts : dataframe or MembershipCounts
        Places x groups, in the order of ``places``; of the same kind as ``people``. From probabilities, an object for
        :func:`unit_tables` that also holds the covariance of the counts (``to_frame()`` gives the counts).
    keys : tuple
        The places' names, in that order.

    Examples
    --------
    >>> people = {"place": ["a", "a", "b"], "sex": ["f", "m", "m"], "w": [1.0, 3.0, 1.0]}
    >>> places = {"place": ["b", "a"], "votes": [10, 100]}
    >>> counts, keys = group_counts(people, by="place", group="sex", places=places, total="votes", weight="w")
    >>> keys, counts.to_pydict()
    (('b', 'a'), {'f': [0.0, 25.0], 'm': [10.0, 75.0]})
    >>> people |= {"f": [0.9, 0.2, 0.4], "m": [0.1, 0.8, 0.6]}
    >>> counts, keys = group_counts(people, by="place", probabilities=["f", "m"], places=places)
    >>> counts.to_frame().to_pydict(), counts.covariance[0, 1, 0].round(3).tolist()
    ({'f': [0.4, 1.1], 'm': [0.6, 0.9]}, [0.25, -0.25])
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
    kind = frames.frame_kind(people)
    if group is not None:
        return frames.from_arrow(table, kind), tuple(keys)
    return MembershipCounts(table, V * factor[None, :, None, None] ** 2, n, s, kind, totals is not None), tuple(keys)
