"""Bags of people: the ``X`` of every estimator whose ``y`` has one entry per group.

A :class:`Bags` is a sequence of bags that scikit-learn can split: ``len``, ``shape`` and integer, slice, mask and
array indexing (also ``bags[index, ...]``) work as on an array whose rows are bags.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data import checks, frames
from crosslevel.data.checks import align_rows, row_keys
from crosslevel.data.members import MemberColumn, encode_members, learn_members
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError, listed
from crosslevel.typing import AnyArray, FloatArray, Int64Array


@dataclass(frozen=True, eq=False)
class Bag:
    """The people of one group.

    Attributes
    ----------
    values : (n_people, n_columns) float64
    weights : (n_people,) float64
    key : object
        The group's name.
    """

    values: FloatArray
    weights: FloatArray
    key: object

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        return np.array(self.values, dtype=dtype, copy=copy)


@checked
class Bags:
    """A ragged sequence of bags of weighted people.

    Parameters
    ----------
    values : (n_people, n_columns) array
        The people of all bags, bag after bag. A memory map of floats of any precision (``numpy.load(path, mmap_mode="r")``), or an
        object that is indexed like one, stays where it is: estimators read it a block at a time and check it as it passes.
    offsets : (n_bags + 1,) integers
        Bag ``i`` holds the rows ``offsets[i]:offsets[i + 1]``. Every bag has at least one row.
    weights : (n_people,) array, optional
        Survey weights; all ones when not given. Every bag needs a positive total.
    keys : sequence, optional
        One name per bag; ``0 .. n_bags - 1`` when not given.
    columns : sequence of str, optional
        Names of the columns.

    Attributes
    ----------
    stored : bool
        Whether the people are read from a memory map, block by block, rather than held as float64.
    sizes : (n_bags,) int64
        Number of people in each bag.
    effective_sizes : (n_bags,) float64
        Kish's effective number of people, (sum of weights)^2 / (sum of squared weights).

    See Also
    --------
    Bags.from_frame : from a table with a group column.
    Bags.from_list : from one array per bag.

    Examples
    --------
    >>> bags = Bags([[1.0], [3.0], [5.0]], offsets=[0, 2, 3], keys=["a", "b"])
    >>> len(bags), bags.sizes.tolist(), bags[1].key
    (2, [2, 1], 'b')
    >>> bags.mean().ravel().tolist()
    [2.0, 5.0]
    """

    def __init__(
        self,
        values: npt.ArrayLike,
        offsets: npt.ArrayLike,
        *,
        weights: npt.ArrayLike | None = None,
        keys: Sequence[object] | AnyArray | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        self.encoding: tuple[tuple[MemberColumn, ...], str] | None = None
        people = _check_stored(values) if _is_stored(values) else checks.check_finite(values, "values", 2)
        bounds = _check_offsets(offsets, len(people))
        n = len(bounds) - 1
        self.keys = _check_keys(keys, n)
        if columns is not None and len(columns) != people.shape[1]:
            raise InputError(f"columns has {len(columns)} names for {people.shape[1]} columns; name each column.")
        self.columns = tuple(columns) if columns is not None else tuple(f"x{j}" for j in range(people.shape[1]))
        if len(set(self.columns)) < len(self.columns):
            raise InputError(f"columns={list(self.columns)!r} names a column twice; give each its own name.")
        self.offsets = _frozen(bounds)
        self.values = people if _is_stored(people) else _frozen(_own(people, values))
        weights = align_rows(weights, row_keys(values), "weights")
        given = np.ones(len(people)) if weights is None else checks.check_weights(weights, "weights", len(people))
        self.weights = _frozen(_own(given, weights))
        totals = self._sum(self.weights)
        if not (totals > 0).all():
            raise InputError(
                f"weights are all zero in {int((totals <= 0).sum()):,} bag(s) ({listed(self.keys[totals <= 0])}); "
                "a bag needs a positive total weight. Drop these bags."
            )

    @classmethod
    @checked
    def from_frame(
        cls,
        people: object,
        by: str | Sequence[str],
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        *,
        categorical: Sequence[str] | None = None,
        missing: str | None = None,
        like: Bags | None = None,
    ) -> Bags:
        """Group the rows of a table into bags, in sorted order of their keys.

        Parameters
        ----------
        people : dataframe
            One row per person.
        by : str or sequence of str
            The column(s) that name the group.
        columns : sequence of str, optional
            Columns to keep; all but ``by`` and ``weight`` when not given. Text becomes a column of 0 and 1 for each level.
        weight : str, optional
            The column of survey weights.
        categorical : sequence of str, optional
            Columns of numbers that are codes.
        missing : {"error", "drop", "indicate"}, default "error"
            What to do with missing values: refuse them, leave these people out, or put the mean in their place beside a column that
            says so (of text, a level of its own).
        like : Bags, optional
            Bags of another table whose columns, levels, means and treatment of missing values are used again: those of fit, for bags
            to predict.

        Examples
        --------
        >>> people = {"region": ["b", "a", "b"], "age": [30, 41, 50], "w": [2.0, 1.0, 2.0]}
        >>> bags = Bags.from_frame(people, by="region", weight="w")
        >>> bags.keys.tolist(), bags.columns, bags.effective_sizes.tolist()
        (['a', 'b'], ('age',), [1.0, 2.0])
        """
        table = frames.to_arrow(people, "people")
        if table.num_rows == 0:
            raise InputError("people has no rows; pass at least one person.")
        names = frames.as_names(by, "by")
        groups = frames.group_rows(table, names)
        if weight in names:
            raise InputError(f"weight={weight!r} is also the group key in by; name another column.")
        used = {*names, weight}
        if like is not None:
            given = {"columns": columns, "categorical": categorical, "missing": missing}
            idle = [name for name, value in given.items() if value is not None]
            if idle or like.encoding is None:
                what = f"{idle[0]}={given[idle[0]]!r} cannot act" if idle else "there are no columns to repeat"
                raise InputError(
                    f"{what} with like=, bags made by from_frame whose columns are used again; leave one of the two out."
                )
            columns = [c.name for c in like.encoding[0]]
        chosen = tuple(columns) if columns is not None else tuple(c for c in table.column_names if c not in used)
        if not chosen:
            raise InputError("columns is empty; name at least one column of people.")
        for name in chosen:
            if name in used:
                raise InputError(f"columns names {name!r}, which is also the group key or the weight; leave it out.")
        encoding = (
            (learn_members(table, chosen, categorical, missing or "error"), missing or "error")
            if like is None
            else like.encoding
        )
        assert encoding is not None  # for the type
        members, whole = encode_members(table, *encoding)
        if not whole.all():
            gone = np.bincount(groups.codes[whole], minlength=len(groups)) == 0
            if gone.any():
                names_of_gone = frames.keys_of(groups.keys)[gone].tolist()
                raise InputError(
                    f"missing='drop' leaves nobody in {int(gone.sum()):,} bag(s) ({listed(names_of_gone)}); drop these bags and their "
                    "labels, or use missing='indicate'."
                )
            return cls.from_frame(
                table.filter(pa.array(whole)), by, columns, weight, categorical=categorical, missing=missing, like=like
            )
        order = np.argsort(groups.codes, kind="stable")
        values = members[order]
        weights = None
        if weight is not None:
            weights = checks.check_weights(frames.column(table, weight, "weight"), f"weight column {weight!r}")[order]
        sizes = np.bincount(groups.codes, minlength=len(groups))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        inputs = [name for column in encoding[0] for name in column.names]
        made = cls(values, offsets, weights=weights, keys=frames.keys_of(groups.keys), columns=inputs)
        made.encoding = encoding
        return made

    @classmethod
    @checked
    def from_list(
        cls,
        bags: Iterable[npt.ArrayLike],
        weights: Iterable[npt.ArrayLike] | None = None,
        keys: Sequence[object] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Bags:
        """Make bags from one array or frame per bag; a 1-D array is a bag of people with one column.

        The columns of frames are matched by their names, and a Series of weights with its bag by the index.

        Examples
        --------
        >>> Bags.from_list([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]]).sizes.tolist()
        [1, 2]
        """
        bags = list(bags)
        parts = [checks.as_numbers(bag, f"bags[{i}]") for i, bag in enumerate(bags)]
        parts = [p[:, None] if p.ndim == 1 else p for p in parts]
        if not parts:
            raise InputError("bags is empty; pass at least one bag.")
        widths = {p.shape[1:] for p in parts}
        if any(p.ndim != 2 for p in parts) or len(widths) > 1:
            odd = next(i for i, p in enumerate(parts) if p.ndim != 2 or p.shape[1:] != parts[0].shape[1:])
            raise InputError(
                f"bags[{odd}] has shape {parts[odd].shape} where bags[0] has {parts[0].shape}; every bag is "
                "people x columns with the same columns."
            )
        named = [getattr(bag, "column_names", getattr(bag, "columns", None)) for bag in bags]
        first = next((list(own) for own in named if own is not None), [])
        for i, own in enumerate(list(first if own is None else own) for own in named):
            if set(own) != set(first):
                raise InputError(
                    f"bags[{i}] has the columns {listed(own)}, and others {listed(first)}; name all alike."
                )
            parts[i] = parts[i] if own == first else parts[i][:, [own.index(name) for name in first]]
        if columns is None and not any(own is None for own in named) and all(isinstance(name, str) for name in first):
            columns = first or None
        offsets = np.concatenate([[0], np.cumsum([len(p) for p in parts])])
        joined = None
        if weights is not None:
            rows = dict(enumerate(map(row_keys, bags)))
            told = [align_rows(w, rows.get(i), f"weights[{i}]") for i, w in enumerate(weights)]
            pieces = [checks.as_numbers(w, f"weights[{i}]", 1) for i, w in enumerate(told)]
            if [len(w) for w in pieces] != [len(p) for p in parts]:
                raise InputError(
                    "weights must have one array per bag and one weight per person; their lengths differ from bags."
                )
            joined = np.concatenate(pieces)
        return cls(np.concatenate(parts), offsets, weights=joined, keys=keys, columns=columns)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """Number of bags, number of columns."""
        return len(self), int(self.values.shape[1])

    @property
    def stored(self) -> bool:
        """Whether the people are read from a memory map, block by block."""
        return _is_stored(self.values)

    @property
    def sizes(self) -> Int64Array:
        """Number of people in each bag."""
        return np.diff(self.offsets)

    @property
    def effective_sizes(self) -> FloatArray:
        """Kish's effective number of people in each bag."""
        w = self.weights / np.repeat(
            np.maximum.reduceat(self.weights, self.offsets[:-1]), self.sizes
        )  # w^2 may overflow
        return self._sum(w) ** 2 / self._sum(w**2)

    def mean(self, features: npt.ArrayLike | None = None) -> FloatArray:
        """Average over each bag's people by weight: of the values, or of ``features`` with one row per person."""
        rows = self._people() if features is None else checks.check_finite(features, "features")
        if len(rows) != len(self.weights):
            raise InputError(
                f"features has {len(rows):,} rows for {len(self.weights):,} people; pass one row per person."
            )
        total = self._sum(self.weights)
        wide = (slice(None), *(None,) * (rows.ndim - 1))
        return self._sum(rows * self.weights[wide]) / total[wide]

    def _people(self) -> FloatArray:
        """Give everybody as float64, in memory."""
        return checks.check_finite(self.values[:], "values") if self.stored else self.values

    def _sum(self, rows: FloatArray) -> FloatArray:
        return np.add.reduceat(rows, self.offsets[:-1], axis=0)

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> Bag: ...
    @overload
    def __getitem__(self, index: Any) -> Bags: ...
    def __getitem__(self, index: Any) -> Bag | Bags:
        if isinstance(index, tuple):
            index = _drop_ellipsis(index)
        if isinstance(index, int | np.integer):
            i = range(len(self))[index]
            rows = slice(self.offsets[i], self.offsets[i + 1])
            people = checks.check_finite(self.values[rows], "values") if self.stored else self.values[rows]
            return Bag(people, self.weights[rows], self.keys[i : i + 1].tolist()[0])
        chosen = np.arange(len(self))[index]
        if chosen.ndim != 1:
            raise IndexError(
                f"Bags are indexed along one axis, by an integer, a slice, a mask or a list; got {index!r}."
            )
        return self._take(chosen)

    def _take(self, chosen: Int64Array) -> Bags:
        """Copy the chosen bags, which were checked when ``self`` was made; stored people stay where they are."""
        sizes = self.sizes[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.repeat(self.offsets[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
        out = object.__new__(Bags)
        out.values = _Rows.of(self.values, rows) if self.stored else _frozen(self.values[rows])
        out.weights = _frozen(self.weights[rows])
        out.offsets, out.keys, out.columns = _frozen(offsets), _frozen(self.keys[chosen]), self.columns
        out.encoding = self.encoding
        return out

    def __iter__(self) -> Iterator[Bag]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bags):
            return NotImplemented
        return self.columns == other.columns and all(
            np.array_equal(getattr(self, name)[:], getattr(other, name)[:])
            for name in ("keys", "offsets", "values", "weights")
        )

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise TypeError(
            "Bags are ragged and have no array form; use bags.mean() for one row per bag or bags.values for people."
        )

    def __repr__(self) -> str:
        n, d = self.shape
        return (
            f"Bags({n:,} bags, {len(self.weights):,} people, {d} columns; .sizes, .mean() or fit an estimator on them)"
        )


class _Rows:
    """Some rows of a memory map, gathered only when a slice of them is read."""

    ndim = 2

    def __init__(self, source: Any, rows: Int64Array) -> None:
        self.source, self.rows = source, rows
        self.shape, self.dtype = (len(rows), int(source.shape[1])), source.dtype

    @classmethod
    def of(cls, values: Any, rows: Int64Array) -> Any:
        """Choose rows of a memory map, or among rows that were chosen before."""
        return cls(values.source, values.rows[rows]) if isinstance(values, cls) else cls(values, rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> AnyArray:
        return np.asarray(self.source[self.rows[index]])


def as_bags(X: object, argument: str = "X") -> Bags:
    """Read what an estimator was given as bags; a 2-D array or numeric table is bags of one.

    Examples
    --------
    >>> as_bags([[1.0, 2.0], [3.0, 4.0]]).sizes.tolist()
    [1, 1]
    """
    if isinstance(X, Bags):
        return X
    if isinstance(X, list | tuple) and X and np.ndim(X[0]) == 2:
        return Bags.from_list(X)
    if frames.is_frame(X):
        table = frames.to_arrow(X, argument)
        X = np.column_stack([_numbers(table, name) for name in table.column_names])
    rows = checks.check_finite(X, argument, 2)
    if len(rows) == 0:
        raise InputError(f"{argument} is empty, with shape {rows.shape}; pass at least one bag.")
    return Bags(rows, np.arange(len(rows) + 1))


def _is_stored(values: Any) -> bool:
    """Tell a memory map, or what is indexed like one without being an array, from values to be copied."""
    if isinstance(values, np.ndarray):
        return isinstance(values, np.memmap)
    return hasattr(values, "shape") and hasattr(values, "dtype") and not hasattr(values, "__array__")


def _check_stored(values: Any) -> Any:
    if len(values.shape) != 2 or np.dtype(values.dtype).kind != "f":
        raise InputError(
            f"values is a memory map of {values.dtype} of shape {tuple(values.shape)}; pass a 2-D one of floats, people x columns."
        )
    return values


def _numbers(table: pa.Table, name: str) -> FloatArray:
    return checks.check_finite(frames.column(table, name, "columns"), f"column {name!r}")


def _check_offsets(offsets: npt.ArrayLike, n_rows: int) -> Int64Array:
    array = np.asarray(offsets)
    if array.ndim != 1 or len(array) < 2 or not np.issubdtype(array.dtype, np.integer):
        raise InputError(
            f"offsets must be a 1-D array of at least 2 integers, not {array.dtype} of shape {array.shape}."
        )
    if array[0] != 0 or array[-1] != n_rows:
        raise InputError(
            f"offsets run from {array[0]} to {array[-1]}; they must run from 0 to {n_rows:,}, the number of people."
        )
    empty = np.flatnonzero(np.diff(array) <= 0)
    if len(empty):
        raise InputError(
            f"offsets leave {len(empty):,} bag(s) empty (first: bag {empty[0]}); every bag needs at least one person. "
            "Drop empty bags."
        )
    return array.astype(np.int64)


def _check_keys(keys: Sequence[object] | AnyArray | None, n: int) -> AnyArray:
    if keys is None:
        return _frozen(np.arange(n))
    listed_keys = list(keys)
    try:
        hash(tuple(listed_keys))
    except TypeError as error:
        raise InputError(
            f"keys holds something that cannot be a name ({error}); pass text, numbers or tuples of these."
        ) from error
    if len(listed_keys) != n:
        raise InputError(f"keys has {len(listed_keys):,} names for {n:,} bags; name each bag once.")
    if len(set(listed_keys)) < n:
        twice = next(k for k, times in Counter(listed_keys).items() if times > 1)
        raise InputError(f"keys holds {twice!r} more than once; every bag needs its own name.")
    if len({type(k) for k in listed_keys}) > 1 or any(isinstance(k, tuple) for k in listed_keys):
        out = np.empty(n, dtype=object)
        out[:] = listed_keys
        return _frozen(out)
    return _frozen(np.array(keys))


def _drop_ellipsis(index: tuple[Any, ...]) -> Any:
    rest = [i for i in index if i is not Ellipsis]
    if len(rest) != 1:
        raise IndexError(f"Bags have one axis to index, the bags; got {len(rest)} indices. Index .values for columns.")
    return rest[0]


def _own(array: AnyArray, given: object) -> AnyArray:
    """Copy an array that is still the caller's: what was checked must not change."""
    return array.copy() if isinstance(given, np.ndarray) and np.shares_memory(array, given) else array


def _frozen(array: AnyArray) -> AnyArray:
    """Give a read-only view: a bag estimator must not see its data change under it."""
    view = array.view()
    view.flags.writeable = False
    return view
