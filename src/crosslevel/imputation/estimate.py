"""What both imputers share after a fit: reading new people, seeds of draws, subgroups and their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks, frames
from crosslevel.data.cells import warn_outside
from crosslevel.data.columns import Category
from crosslevel.data.people import People
from crosslevel.errors import InputError, unknown_name
from crosslevel.imputation.cells import Cells
from crosslevel.imputation.inputs import Rows, Schema, read_rows
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray, IntArray, RandomState


class Imputer(BaseEstimator):
    """An estimator of hidden features; its fit leaves ``schema_``, ``hidden_names_``, ``warnings_`` and the seed."""

    _allow_missing = True
    schema_: Schema
    hidden_names_: tuple[str, ...]
    warnings_: tuple[str, ...]
    _seed: int
    _data: dict[str, str]
    _frame: frames.FrameKind
    _shown: tuple[str, ...]
    """Columns of few values, by which means are shown where nobody asks for others."""

    def _without_people(self) -> dict[str, Any]:
        """Fitted values that take the place of those with single people, in a saved model and in a pickle."""
        return {}

    def _as_saved(self) -> Self:
        model = type(self)(**self.get_params(deep=False))
        model.__dict__.update(self.__dict__ | self._without_people())
        return model

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | self._without_people() if hasattr(self, "schema_") else state

    def _read(self, people: People) -> tuple[Rows, Cells]:
        """Read people one by one, who must look like those of the fit, and count those who are alike."""
        check_is_fitted(self, "schema_")
        rows = read_rows(people, self.schema_, allow_missing=self._allow_missing)
        fitted: Cells | None = getattr(self, "_cells", None)  # where the distinct rows of the fit are kept
        if fitted is not None:
            warn_outside(rows.X, fitted.X, self.schema_.names, argument="people")
        return rows, rows.cells

    def _named(self, values: FloatArray, kind: frames.FrameKind) -> Any:
        """Give values of people (n, d_u) as columns called after the hidden features."""
        return frames.from_arrow(pa.table(dict(zip(self.hidden_names_, values.T, strict=True))), kind)

    def _read_draws(self, n_draws: Any, random_state: RandomState) -> tuple[int, np.random.Generator]:
        """Check a number of draws, and give the random numbers: of the fit's seed where none is given."""
        seed = self._seed if random_state is None else checks.read_seed(random_state)
        return checks.check_whole(n_draws, "n_draws", 1), np.random.default_rng(seed)

    def _report_tables(self, level: float = 0.95) -> dict[str, Estimates]:
        """Give the tables of a report: clusters or slopes, whichever the model has."""
        return {name: getattr(self, name)(level) for name in ("clusters", "slopes") if hasattr(self, name)}

    def _provenance(self, call: str) -> Provenance:
        said = ", ".join(f"{k}={v!r}" for k, v in self.get_params(deep=False).items() if v is not None)
        return Provenance.of(
            call=f"{type(self).__name__}({said}).fit(people, places).{call}", seed=self._seed, data=self._data
        )

    def _describe(self) -> tuple[str, dict[str, Any], tuple[str, ...]]:
        """Method, diagnostics and warnings of every table of this model."""
        raise NotImplementedError

    def _tabulate(
        self,
        parts: Sequence[Mapping[str, Any]],
        keys: Sequence[str],
        level: float,
        interval: str,
        call: str,
        kind: str,
        draws: FloatArray | None = None,
    ) -> Estimates:
        """Put columns of every hidden feature below one another; a table without any error has no level."""
        columns = {n: np.concatenate([np.asarray(p[n], dtype=object) for p in parts]).tolist() for n in parts[0]}
        sure = any(v is not None and v == v for v in columns["conf_low"])
        method, diagnostics, warnings = self._describe()
        return Estimates.build(
            columns,
            keys=list(keys),
            method=method,
            level=level if sure else None,
            interval=interval if sure else "none",
            provenance=self._provenance(call),
            diagnostics=diagnostics,
            warnings=warnings,
            frame=self._frame,
            draws=draws,
            kind=kind,
        )


def subgroups(by: str | Sequence[str], cells: Cells, schema: Schema) -> tuple[IntArray, dict[str, list[Any]]]:
    """Cut pairs of cell and group by columns of X and partitions: the subgroup of each pair, and the keys of each subgroup."""
    names = [by] if isinstance(by, str) else checks.read_list(by, "by")
    if not names or len(set(names)) < len(names):
        raise InputError(f"by={by!r} must name at least one column, each once.")
    columns, partitions = schema.columns, schema.partitions
    known = [c.name for c in columns] + [p.name for p in partitions]
    codes, levels = [], []
    for name in names:
        if name not in known:
            raise unknown_name("by", name, known)
        position = known.index(name)
        if position < len(columns):
            column = columns[position]
            at, code = np.unique(cells.X[:, position], return_inverse=True)
            levels.append([_level(v, column.labels if isinstance(column, Category) else None) for v in at])
            codes.append(code.reshape(-1)[cells.pair_cell])
        else:
            levels.append(list(partitions[position - len(columns)].labels))
            codes.append(cells.pair_group[:, position - len(columns)])
    combined, code = np.unique(np.column_stack(codes), axis=0, return_inverse=True)
    keys = {name: [levels[j][i] for i in combined[:, j]] for j, name in enumerate(names)}
    return code.reshape(-1).astype(np.intp), keys


def _level(value: float, labels: tuple[Any, ...] | None) -> Any:
    if np.isnan(value):
        return None
    if labels is not None:
        return labels[int(value)]
    return int(value) if value == int(value) else float(value)


def naive_means(mean: FloatArray, group: IntArray, weight: FloatArray, cut: IntArray, n_cuts: int) -> FloatArray:
    """Give the mean of the published means of the people of each subgroup, (n_cuts,); NaN where none has one.

    Examples
    --------
    >>> naive_means(np.array([0.1, 0.5]), np.array([0, 1, 1]), np.ones(3), np.array([0, 0, 1]), 2)
    array([0.3, 0.5])
    """
    known = np.isfinite(mean)[group] * weight
    total = np.bincount(cut, known, n_cuts)
    sums = np.bincount(cut, known * np.where(np.isfinite(mean), mean, 0.0)[group], n_cuts)
    return np.divide(sums, total, out=np.full(n_cuts, np.nan), where=total > 0)


def stack_means(parts: Sequence[Estimates], columns: Sequence[str]) -> Estimates:
    """Put tables of means by one column each under one another: keys feature, column, value.

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> def means(**of): return Estimates.build({"feature": ["ill"], **of, "estimate": [0.1], "naive": [0.2], "people": [9]},
    ...     keys=["feature", *of], method="m", level=None, interval="none", provenance=Provenance.of(call="m()"))
    >>> stack_means([means(age=[30]), means(sex=["w"])], ["age", "sex"]).table.select(["column", "value"]).to_pylist()
    [{'column': 'age', 'value': '30'}, {'column': 'sex', 'value': 'w'}]
    """
    rows: list[dict[str, Any]] = []
    for column, part in zip(columns, parts, strict=True):
        keep = [n for n in part.table.column_names if n != column]
        for value, row in zip(part.table[column].to_pylist(), part.table.select(keep).to_pylist(), strict=True):
            rows.append({"column": column, "value": "missing" if value is None else str(value), **row})
    order = list(dict.fromkeys(row["feature"] for row in rows))
    rows.sort(key=lambda row: order.index(row["feature"]))
    first = parts[0]
    return Estimates.build(
        {n: [row[n] for row in rows] for n in rows[0]},
        keys=["feature", "column", "value"],
        kind="imputed",
        method=first.method,
        level=first.level,
        interval=first.interval,
        provenance=first.provenance,
        diagnostics=first.diagnostics,
        warnings=first.warnings,
        title="Means of the hidden features by what is known of people",
    )
