"""Read and check what `KRLS.fit` and `predict` are given: tables and arrays, outcomes, weights, clusters.

A column of numbers or booleans stays as it is; with two values it is binary, and its effect is a first difference. A column of
text, of a categorical type, or of codes that are listed is a factor; with L levels it becomes L - 1 columns of zeros and ones.
The reference, which the others are compared with, is the level most rows have unless another is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.utils import column_or_1d
from sklearn.utils.validation import validate_data

from crosslevel.data import checks, frames
from crosslevel.data.cells import learn_table, read_codes, warn_outside
from crosslevel.data.checks import align_rows, row_keys
from crosslevel.data.columns import Category, Number
from crosslevel.data.frames import fingerprint
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.typing import BoolArray, FloatArray, IntArray

FEWEST_ROWS = 3
SMALLEST_SQUARES = 1e-280
"""Below this, sums of squares lose digits to underflow."""
ROUNDING = 64 * np.finfo(np.float64).eps
"""Range of a column, relative to its largest value, below which its values differ by rounding only."""


@dataclass(frozen=True, eq=False)
class Encoding:
    """The columns, in the order of the table; the first level of a factor is its reference.

    Examples
    --------
    >>> table = pa.table({"age": [20.0, 30.0, 50.0], "arm": ["b", "control", "a"]})
    >>> encoding = learn_encoding(table, reference={"arm": "control"})
    >>> encoding.names
    ('age', 'arm: a', 'arm: b')
    >>> encoding.encode(table).tolist()
    [[20.0, 0.0, 1.0], [30.0, 0.0, 0.0], [50.0, 1.0, 0.0]]
    """

    columns: tuple[Category | Number, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of the matrix."""
        return tuple(
            name
            for c in self.columns
            for name in ([c.name] if isinstance(c, Number) else [f"{c.name}: {label(v)}" for v in c.labels[1:]])
        )

    @property
    def factors(self) -> dict[str, tuple[Any, ...]]:
        """Levels of every factor, the reference first."""
        return {c.name: c.labels for c in self.columns if isinstance(c, Category)}

    def places(self) -> Iterator[tuple[Category | Number, IntArray]]:
        """Yield every column with its places in the matrix."""
        start = 0
        for c in self.columns:
            width = 1 if isinstance(c, Number) else len(c.levels) - 1
            yield c, np.arange(start, start + width)
            start += width

    def encode(self, table: pa.Table, argument: str = "X") -> FloatArray:
        """Make the matrix of a table, (n, P); NaN where a value is missing."""
        frames.check_columns(table, [c.name for c in self.columns], argument)
        parts = []
        for c in self.columns:
            if isinstance(c, Number):
                parts.append(frames.column(table, c.name, argument)[:, None])
                continue
            codes = read_codes(table, c, argument)
            dummies = (codes[:, None] == np.arange(1, len(c.levels))).astype(np.float64)
            dummies[codes < 0] = np.nan
            parts.append(dummies)
        return np.ascontiguousarray(np.concatenate(parts, axis=1))


def learn_encoding(
    table: pa.Table,
    categorical: Sequence[str] | None = None,
    reference: Mapping[str, Any] | None = None,
    used: BoolArray | None = None,
    weights: FloatArray | None = None,
) -> Encoding:
    """Decide what each column is, from the rows that are used; weights say how much each counts."""
    categorical = None if categorical is None else checks.read_list(categorical, "categorical")
    if reference is not None and not isinstance(reference, Mapping):
        raise InputError(f"reference={reference!r} is no mapping; pass the level by column, {{'arm': 'control'}}.")
    references = dict(reference or {})
    frames.check_columns(table, list(references), "reference")
    rows = table if used is None else table.filter(pa.array(used))
    counts = None if weights is None else weights[np.ones(len(weights), dtype=bool) if used is None else used]
    columns = tuple(
        _with_reference(c, references, rows, counts) if isinstance(c, Category) else c
        for c in learn_table(rows, categorical, "X", order="given")
    )
    return _check_encoding(Encoding(columns), references)


def _with_reference(
    column: Category, references: Mapping[str, Any], rows: pa.Table, counts: FloatArray | None
) -> Category:
    """Put the reference first among the levels: the one named, or the one most rows have (the first of several)."""
    levels = column.labels
    if len(levels) < 2:
        raise InputError(
            f"X: the factor {column.name!r} has {len(levels)} level(s) ({listed(levels)}) in the rows used; an effect needs two. "
            "Leave the column out."
        )
    most = int(np.argmax(np.bincount(read_codes(rows, column), counts, len(levels))))
    first = references.get(column.name, levels[most])
    if first not in levels:
        alike = [v for v in levels if str(first) in (str(v), label(v))]  # '1' for 1, as answers write it
        if len(alike) != 1:
            raise unknown_name(f"reference[{column.name!r}]", first, levels, "level")
        first = alike[0]
    order = sorted(range(len(levels)), key=lambda i: levels[i] != first)
    return Category(column.name, column.levels.take(pa.array(order)), has_null=False)


def _check_encoding(encoding: Encoding, references: Mapping[str, Any]) -> Encoding:
    """Refuse a reference among numbers, and a column that is called as the dummy of a factor is."""
    for name in references:
        if name not in encoding.factors:
            raise InputError(
                f"reference names {name!r}, a column of numbers; list it in categorical to make it a factor."
            )
    names = encoding.names
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise InputError(
            f"X: {listed(twice)} would name two columns, one of them a level of a factor; rename the other."
        )
    return encoding


def missing_rows(table: pa.Table) -> BoolArray:
    """Tell which rows have a missing value in some column, (n,)."""
    out = np.zeros(table.num_rows, dtype=bool)
    for name in table.column_names:
        out |= pc.is_null(table[name], nan_is_null=True).to_numpy()
    return out


def label(value: Any) -> str:
    """Write a level."""
    return value if isinstance(value, str) else f"{value:.10g}"


@dataclass(frozen=True)
class Inputs:
    """Checked inputs; the arrays hold the rows that are used.

    Attributes
    ----------
    X : (n_used, P)
    y : (n_used,)
    weights : (n_used,) or None
        Positive.
    cluster : (n_used,) or None
    used : (n,) bool
        Rows without missing values and with positive weight.
    encoding : Encoding
    frame : str
        The caller's kind of dataframe.
    data : dict
        Fingerprints of the inputs.
    keys : sequence or None
        The index of X, of all rows.
    """

    X: FloatArray
    y: FloatArray
    weights: FloatArray | None
    cluster: IntArray | None
    used: BoolArray
    encoding: Encoding
    frame: frames.FrameKind
    data: dict[str, str]
    keys: Sequence[Any] | None


def read_fit(estimator: Any, X: Any, y: Any, sample_weight: Any, cluster: Any) -> Inputs:
    """Check everything that a fit is given; the estimator says which columns are codes and what missing values do."""
    kind = frames.frame_kind(X) if frames.is_frame(X) else "pyarrow"
    keys, told = row_keys(X), {"y": y, "sample_weight": sample_weight, "cluster": cluster}
    checks.check_one_order({"X": X, **told})
    y, sample_weight, cluster = (align_rows(values, keys, name) for name, values in told.items())
    table = _as_table(estimator, X, reset=True)
    target = read_outcome(y, table.num_rows)
    gaps = missing_rows(table) | np.isnan(target)
    used = np.ones(len(target), dtype=bool)
    if gaps.any():
        if estimator.missing == "error":
            raise _missing_error(table, target, gaps)
        used &= ~gaps
    weights = None
    if sample_weight is not None:
        weights = checks.check_weights(np.asarray(checks.unmasked(sample_weight)), "sample_weight", len(target))
        weights = weights / weights.max()  # only ratios matter; their sums shall not overflow
        used &= weights > 0
    if used.sum() < FEWEST_ROWS:
        raise InputError(
            f"X has {int(used.sum())} usable row(s) (n_samples = {int(used.sum())}); a fit needs at least {FEWEST_ROWS}."
        )
    if frames.is_frame(X) or estimator.categorical or estimator.reference:
        encoding = learn_encoding(table, estimator.categorical, estimator.reference, used, weights)
    else:  # an array has numbers only
        encoding = Encoding(tuple(Number(n) for n in table.column_names))
    matrix = encoding.encode(table.filter(pa.array(used)))
    _check_finite(matrix, encoding, np.flatnonzero(used))
    _check_varies(matrix, target[used], encoding)
    return Inputs(
        X=matrix,
        y=target[used],
        weights=None if weights is None else weights[used],
        cluster=None if cluster is None else read_clusters(cluster, used),
        used=used,
        encoding=encoding,
        frame=kind,
        data={"X": fingerprint(table), "y": fingerprint(pa.table({"y": target}))},
        keys=range(len(keys)) if keys is not None and keys == list(range(len(keys))) else keys,
    )


def read_predict(estimator: Any, X: Any, encoding: Encoding, missing: str) -> tuple[FloatArray, BoolArray]:
    """Read new rows: the matrix of those without missing values, and which they are.

    The columns of a table are found by name, in any order; those that fit was not given are left alone.
    """
    table = _as_table(estimator, X, reset=False)
    if not frames.is_frame(X):
        table = table.rename_columns([c.name for c in encoding.columns])
    matrix = encoding.encode(table)
    whole: BoolArray = ~np.asarray(np.isnan(matrix).any(axis=1))
    if missing == "error" and not whole.all():
        raise _missing_error(table.select([c.name for c in encoding.columns]), np.zeros(len(matrix)), ~whole)
    _check_finite(matrix[whole], encoding, np.flatnonzero(whole))
    warn_outside(matrix, estimator._model.cells.X, encoding.names)
    return matrix[whole], whole


def rows_to_score(estimator: Any, X: Any, sample_weight: Any, gaps: BoolArray) -> tuple[BoolArray, FloatArray | None]:
    """Tell which rows are scored, and give their weights: ``missing="drop"`` leaves rows with gaps out, in X or y."""
    if gaps.all() or (gaps.any() and estimator.missing == "error"):
        raise InputError(
            f"{int(gaps.sum()):,} of {len(gaps):,} row(s) have a missing value (NaN) in y or X, the first is row {int(np.argmax(gaps)):,}; "
            "fill them in or drop these rows."
        )
    weight = align_rows(sample_weight, row_keys(X), "sample_weight")
    return ~gaps, None if weight is None else checks.check_weights(weight, "sample_weight", len(gaps))[~gaps]


def _as_table(estimator: Any, X: Any, *, reset: bool) -> pa.Table:
    """Read X as a table, keeping scikit-learn's checks of names and shapes."""
    if frames.is_frame(X):
        table = frames.to_arrow(X, "X")
        if table.num_columns == 0:
            raise InputError("X has no columns (0 feature(s)); pass at least one covariate.")
        if not reset:
            return table
        if isinstance(X, Mapping) or not hasattr(X, "shape"):  # what scikit-learn does for frames it knows
            estimator.feature_names_in_ = np.array(table.column_names, dtype=object)
            estimator.n_features_in_ = table.num_columns
        else:
            validate_data(estimator, X, skip_check_array=True)
        return table
    try:
        array = validate_data(estimator, checks.unmasked(X), dtype=np.float64, ensure_all_finite=False, reset=reset)
    except ValueError as error:
        if "could not convert" in str(error):
            checks.as_numbers(X, "X")  # says which cell is no number
        raise
    checks.as_numbers(X, "X")  # refuses dates
    names = getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(array.shape[1])])
    return pa.table({str(n): array[:, j] for j, n in enumerate(names)})


def read_outcome(y: Any, n: int) -> FloatArray:
    """Read a number for every row, (n,); NaN where it is missing."""
    if y is None:
        raise InputError("KRLS requires y to be passed, but the target y is None.")
    values = y.to_numpy() if isinstance(y, pa.ChunkedArray) else checks.unmasked(y)
    target = checks.as_numbers(column_or_1d(values, warn=True), "y", 1)
    if len(target) != n:
        raise InputError(f"y has {len(target):,} values for {n:,} rows of X; pass one per row.")
    if np.isinf(target).any():
        row = int(np.argmax(np.isinf(target)))
        raise InputError(
            f"Input y contains infinity or a value too large for dtype('float64'). It is {target[row]} in row {row:,}; drop "
            "such rows."
        )
    return target


def _missing_error(table: pa.Table, target: FloatArray, gaps: BoolArray) -> InputError:
    row = int(np.argmax(gaps))
    where = [n for n in table.column_names if missing_rows(table.select([n]).slice(row, 1))[0]] or ["y"]
    return InputError(
        f"{int(gaps.sum()):,} row(s) have a missing value (NaN), the first is row {row:,} in {listed(where)}; fill them in, drop "
        "them, or pass missing='drop' to leave them out and keep their place in the fitted values."
    )


def _check_finite(matrix: FloatArray, encoding: Encoding, rows: IntArray) -> None:
    bad = ~np.isfinite(matrix)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise InputError(
            f"X has {int(bad.sum()):,} infinite value(s) (inf), the first in row {rows[row]:,} of {encoding.names[column]!r}; "
            "drop these rows or cap the values."
        )


def _check_varies(matrix: FloatArray, target: FloatArray, encoding: Encoding) -> None:
    low, high = matrix.min(axis=0), matrix.max(axis=0)
    with np.errstate(over="ignore"):
        same = high - low <= ROUNDING * np.maximum(np.abs(low), np.abs(high))
    constant = [n for n, s in zip(encoding.names, same, strict=True) if s]
    if constant:
        raise InputError(
            f"X: {len(constant)} column(s) have one value in all rows used ({listed(constant)}), so they explain nothing; leave "
            "them out."
        )
    least, most = float(target.min()), float(target.max())
    if most == least or 0 < most / 2 - least / 2 <= ROUNDING * max(abs(least), abs(most)) / 2:
        raise InputError(f"y has one value or class in every row used ({target[0]:g}); there is nothing to explain.")
    for name, values in (("y", target), *zip((f"X: the column {n!r}" for n in encoding.names), matrix.T, strict=True)):
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.square(values - values.mean()).sum()
        if not SMALLEST_SQUARES < squares < np.inf:
            what = "small" if squares <= SMALLEST_SQUARES else "large"
            raise InputError(f"{name} is too {what} for its squares to be held; change its unit.")


def read_labels(values: Any, argument: str, n: int) -> pa.Table:
    """Read labels, one per row, as a table: the columns of a frame, or one column of an array."""
    one_column = len(getattr(values, "shape", ())) == 1 or isinstance(values, pa.Array | pa.ChunkedArray)
    if not one_column and frames.is_frame(values):
        table = frames.to_arrow(values, argument)
    else:
        name = getattr(values, "name", None)
        flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        table = frames.to_arrow({name if isinstance(name, str) and name else "group": flat}, argument)
    if table.num_rows != n:
        raise InputError(
            f"{argument} has {table.num_rows:,} labels for {n:,} rows that fit was given; pass one per row."
        )
    return table


def read_clusters(cluster: Any, used: BoolArray) -> IntArray:
    """Read the cluster of every used row, as codes."""
    table = read_labels(cluster, "cluster", len(used))
    if table.num_columns != 1:
        raise InputError(f"cluster has {table.num_columns:,} columns; pass one label per row.")
    gaps = missing_rows(table) & used
    if gaps.any():
        raise InputError(
            f"cluster is missing in {int(gaps.sum()):,} row(s), the first is row {int(np.argmax(gaps)):,}; drop these rows or "
            "give them a cluster."
        )
    groups = frames.group_rows(table.filter(pa.array(used)), table.column_names, "cluster")
    if len(groups) < 2:
        raise InputError("cluster has one label in all rows used; errors by cluster need at least two clusters.")
    return groups.codes.astype(np.intp)


def spread_rows(values: FloatArray, used: BoolArray) -> FloatArray:
    """Put the values of the used rows at their places, NaN elsewhere."""
    if used.all():
        return values
    out: FloatArray = np.full((len(used), *values.shape[1:]), np.nan)
    out[used] = values
    return out


def find_places(
    wanted: str | Sequence[str] | None, argument: str, names: Sequence[str], what: str = "column"
) -> list[int]:
    """Find names among those known; all of them when None is wanted."""
    chosen = list(names) if wanted is None else [wanted] if isinstance(wanted, str) else list(wanted)
    for name in chosen:
        if name not in names:
            raise unknown_name(argument, name, list(names), what)
    return [list(names).index(name) for name in chosen]
