"""Which rows belong to which subgroup, and how do effects differ between subgroups?

An average within a subgroup is the same functional as the average over all rows, with other row weights; so is a
difference between two subgroups, and their errors come from one joint covariance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse, stats

from crosslevel.data import frames
from crosslevel.data.columns import Category
from crosslevel.data.expressions import read_expression
from crosslevel.data.sql import mask_of
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.krls.effects import Effect
from crosslevel.krls.inference import Inference
from crosslevel.krls.model import Cells
from crosslevel.krls.reading import Encoding, read_labels
from crosslevel.typing import BoolArray, FloatArray, IntArray

MOST_GROUPS = 200
"""Each group takes a pass over the kernel."""


@dataclass(frozen=True)
class Subgroups:
    """Subgroups of the used rows; they may overlap.

    Attributes
    ----------
    keys : pyarrow.Table
        A row per subgroup.
    row, group : (K,)
        The pairs of used row and subgroup, sorted by row.
    columns : frozenset of str
        Covariates that define the subgroups.
    """

    keys: pa.Table
    row: IntArray
    group: IntArray
    columns: frozenset[str]

    def __len__(self) -> int:
        return int(self.keys.num_rows)

    @property
    def labels(self) -> list[str]:
        """One word per subgroup."""
        return [" · ".join(str(v) for v in row.values()) for row in self.keys.to_pylist()]


def everybody(n: int) -> Subgroups:
    """Give one group that holds all used rows."""
    return Subgroups(pa.table({"group": ["all"]}), np.arange(n), np.zeros(n, dtype=np.intp), frozenset())


def covariate_table(encoding: Encoding, X: FloatArray) -> pa.Table:
    """Turn rows of the matrix back into the columns of the caller's table; whole numbers become integers."""
    made: dict[str, pa.Array] = {}
    for column, places in encoding.places():
        own = X[:, places]
        if isinstance(column, Category):
            place = np.where(own.any(axis=1), own.argmax(axis=1) + 1, 0)
            made[column.name] = pa.array(list(column.labels)).take(pa.array(place))
        else:
            values = own[:, 0]
            whole = bool((values == np.round(values)).all() and np.abs(values).max(initial=0.0) < 2**53)
            made[column.name] = pa.array(values.astype(np.int64) if whole else values)
    return pa.table(made)


def read_groups(by: Any, encoding: Encoding, cells: Cells, used: BoolArray, reserved: Sequence[str]) -> Subgroups:
    """Read what defines the subgroups.

    Parameters
    ----------
    by : str, sequence of str, mapping of name to condition, frame or array
        Columns of X; conditions on them; labels, one per row that fit was given.
    encoding : Encoding
    cells : Cells
    used : (n,) bool
    reserved : sequence of str
        Names that the table of the answer needs for itself.
    """
    covariates = covariate_table(encoding, cells.X)
    names = covariates.column_names
    if isinstance(by, Mapping) and by and all(isinstance(q, str) for q in by.values()):
        return _by_condition(by, covariates, cells)
    listed_names = isinstance(by, list | tuple) and len(by) > 0 and all(isinstance(n, str) for n in by)
    if isinstance(by, str) or (listed_names and (len(by) != len(used) or set(by) <= set(names))):
        found = _by_column(by, covariates, cells)
    else:
        found = _by_label(by, used)
    if len(found) > MOST_GROUPS:
        raise InputError(
            f"by makes {len(found):,} groups, and at most {MOST_GROUPS} are compared; gather them, for example by "
            "by={'young': 'age < 40', 'old': 'age >= 40'}."
        )
    clash = [n for n in found.keys.column_names if n in reserved]
    if clash:
        raise InputError(f"by has the column {clash[0]!r}, a name that the table of effects uses itself; rename it.")
    return found


def _by_column(by: str | Sequence[str], covariates: pa.Table, cells: Cells) -> Subgroups:
    wanted = frames.as_names(by, "by")
    for name in wanted:
        if name not in covariates.column_names:
            error = unknown_name("by", name, covariates.column_names, "column")
            raise InputError(
                f"{error} For a condition pass a mapping, by={{'name': 'age >= 65'}}; for other columns their values, one per row."
            )
    groups = frames.group_rows(covariates, wanted, "by")
    code = groups.codes.astype(np.intp)[cells.row]
    return Subgroups(groups.keys, np.arange(len(code)), code, frozenset(wanted))


def _by_condition(by: Mapping[Any, str], covariates: pa.Table, cells: Cells) -> Subgroups:
    conditions = [read_expression(text, f"by[{name!r}]", covariates.schema) for name, text in by.items()]
    members = np.column_stack([mask_of(covariates, condition) for condition in conditions])[cells.row]
    for g, name in enumerate(by):
        if not members[:, g].any():
            raise InputError(f"by[{name!r}]: no row fulfils {by[name]!r}; correct the condition or leave it out.")
    keys = pa.table({"subgroup": [str(name) for name in by]})
    columns = [column for condition in conditions for column in condition.columns]
    row, group = np.nonzero(members)
    return Subgroups(keys, row, group, frozenset(columns))


def _by_label(by: Any, used: BoolArray) -> Subgroups:
    if not hasattr(by, "__len__") and not frames.is_frame(by):
        raise InputError(f"by={by!r} is neither a column of X nor labels; pass a name or labels.")
    table = read_labels(by, "by", len(used))
    groups = frames.group_rows(table.filter(pa.array(used)), table.column_names, "by")
    return Subgroups(groups.keys, np.arange(int(used.sum())), groups.codes.astype(np.intp), frozenset())


def row_weights(groups: Subgroups, cells: Cells) -> FloatArray:
    """Give the weight of every distinct row in the average of every group, (U, G)."""
    U, G = len(cells.m), len(groups)
    rho = np.bincount(cells.row[groups.row] * G + groups.group, cells.row_weight[groups.row], U * G).reshape(U, G)
    return rho / rho.sum(axis=0)


def spread(groups: Subgroups, cells: Cells, cluster: IntArray | None, pointwise: FloatArray) -> FloatArray:
    """Give the sampling covariance of averages of effects that differ between people, (E G, E G).

    Parameters
    ----------
    groups : Subgroups
    cells : Cells
    cluster : (n_used,) or None
    pointwise : (U, E)
        Effects at the distinct rows.
    """
    G, E = len(groups), pointwise.shape[1]
    row, group = groups.row, groups.group
    w, step = cells.row_weight[row], cells.row_step[row]
    mean = row_weights(groups, cells).T @ pointwise
    psi = (w / np.bincount(group, w, G)[group])[:, None] * (pointwise[cells.row[row]] - mean[group])
    if cluster is None:
        size = np.bincount(group, w / step, G)  # observations
        # an observation and its copies, of which each has the share w / step, are one draw
        psi *= np.sqrt(step / w * (size / np.maximum(size - 1.0, 1.0))[group])[:, None]
        unit, factor = row, 1.0
    else:
        unit = cluster[row]
        n_units = int(cluster.max()) + 1
        factor = n_units / (n_units - 1.0)
    # what every unit adds to every average; the pairs of one unit are added up
    place = np.arange(E)[:, None] * G + group
    pairs = (np.tile(unit, E), place.reshape(-1))
    added = sparse.csr_array((psi.T.reshape(-1), pairs), shape=(int(unit.max()) + 1, E * G))
    return factor * (added.T @ added).toarray()


def differences(found: Inference, E: int, G: int) -> tuple[Inference, list[tuple[int, int]]]:
    """Give all differences between groups, later less earlier, and the pairs (later, earlier) of each effect."""
    pairs = [(h, g) for g, h in combinations(range(G), 2)]
    D = np.zeros((len(pairs), G))
    for i, (h, g) in enumerate(pairs):
        D[i, h], D[i, g] = 1.0, -1.0
    every = np.kron(np.eye(E), D)
    made = replace(
        found,
        estimate=every @ found.estimate,
        plug_in=every @ found.plug_in,
        covariance=every @ found.covariance @ every.T,
    )
    return made, pairs


def p_equal(found: Inference, E: int, G: int) -> FloatArray:
    """Test for every effect whether it is the same in all groups, (E,): Wald, with F when there are clusters."""
    D = np.column_stack([-np.ones(G - 1), np.eye(G - 1)])
    out = np.full(E, np.nan)
    for e in range(E if G > 1 else 0):
        own = slice(e * G, (e + 1) * G)
        d, C = D @ found.estimate[own], D @ found.covariance[own, own] @ D.T
        rank = int(np.linalg.matrix_rank(C, hermitian=True))
        if rank == 0:
            continue
        wald = float(d @ np.linalg.pinv(C, hermitian=True) @ d)
        out[e] = stats.chi2.sf(wald, rank) if np.isinf(found.dof) else stats.f.sf(wald / rank, rank, found.dof)
    return out


def cut_on(groups: Subgroups, cells: Cells, x: FloatArray) -> bool:
    """Tell whether groups are slices of a covariate (given at the distinct rows): ranges that do not overlap."""
    if len(groups) < 2:
        return False
    values = x[cells.row[groups.row]]
    low, high = np.full(len(groups), np.inf), np.full(len(groups), -np.inf)
    np.minimum.at(low, groups.group, values)
    np.maximum.at(high, groups.group, values)
    order = np.argsort(low, kind="stable")
    return bool((high[order][:-1] < low[order][1:]).all())


def describe_slices(groups: Subgroups, cells: Cells, effects: Sequence[Effect], names: Sequence[str]) -> list[str]:
    """Say which effects are shown within slices of their own covariate."""
    slopes = [e for e in effects if e.switch is None]
    cut = [e.term for e in slopes if names[e.column] in groups.columns or cut_on(groups, cells, cells.X[:, e.column])]
    if not cut:
        return []
    return [
        f"the groups are slices of {listed(cut)}, whose own effect is then nearly that at a point: where it changes within "
        "about one standard deviation, its interval can fall short."
    ]
