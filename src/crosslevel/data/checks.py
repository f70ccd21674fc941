"""Refuse bad numbers with a sentence: non-finite values, bad weights, counts that cannot be; and names that do not match.

Each check of numbers returns the array it accepted, as contiguous float64, so a caller validates and converts in one line.

Names win: a pandas index (unless it only counts the rows, 0, 1, ...) and a key column are names. They are matched with the rows or groups
they belong to, and refused where they do not match; only what has no names is taken by position. An index that counts is names, too,
where the other side holds the same numbers in another order: that of a frame that was shuffled or sorted. ``align_rows(y, row_keys(X),
"y")`` puts what belongs to the rows of X in their order, ``align_groups(y, bags.keys, "y")`` one value per group.
"""

from __future__ import annotations

import inspect
import os
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from numbers import Integral, Real
from typing import Any, cast

import narwhals as nw
import numpy as np
import pyarrow as pa

from crosslevel.data import frames
from crosslevel.data.signatures import check_arguments
from crosslevel.errors import InputError, listed
from crosslevel.typing import AnyArray, FloatArray, IntArray, RandomState

LARGEST = 10**12
"""No count of anything here is larger; arrays of more entries do not exist."""
SQUARED_UNDER = 1e-150
LEAST_LEVEL = 0.01
"""Narrower intervals need not hold the estimate: it is a mean, and they are quantiles."""


def unmasked(values: Any) -> Any:
    """Give masked entries of an array, or of arrays in a list, as missing: NaN among numbers, None among others.

    NumPy and scikit-learn would read the value behind the mask.

    Examples
    --------
    >>> unmasked(np.ma.array([1, 999], mask=[False, True]))
    array([ 1., nan])
    """
    if isinstance(values, np.ma.MaskedArray):
        if not np.ma.is_masked(values):
            return values.data
        number, kept = values.dtype.kind in "biuf", values.dtype if values.dtype.kind in "mM" else object
        out = values.data.astype(np.float64 if number else kept)  # filled(None) would take a default for None
        out[np.ma.getmaskarray(values)] = np.nan if number else None
        return out
    if isinstance(values, list | tuple) and any(isinstance(v, np.ma.MaskedArray) for v in values):
        return [unmasked(v) for v in values]
    return values


def as_numbers(values: Any, argument: str, ndim: int | None = None) -> FloatArray:
    """Read an array of numbers, of ``ndim`` dimensions if given; masked entries are NaN."""
    values = unmasked(values)
    try:
        plain = np.asarray(values)
        array = None if np.iscomplexobj(plain) else np.ascontiguousarray(plain, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{argument} holds something that is not a number ({_first_stray(values) or error}); pass numbers only."
        ) from error
    if array is None:
        raise InputError(f"{argument} holds complex numbers; pass real ones.")
    entries = plain.flat if plain.dtype == object else plain.flat[:1]
    if any(isinstance(v, np.datetime64 | np.timedelta64) for v in entries):  # NumPy would count their units
        raise InputError(f"{argument} holds dates or lengths of time; pass numbers, for example days since a date.")
    if ndim is not None and np.ndim(values) != ndim:  # ascontiguousarray makes scalars 1-d
        raise InputError(f"{argument} has {np.ndim(values)} dimensions, shape {np.shape(values)}; it needs {ndim}.")
    return array


def _first_stray(values: Any) -> str:
    """Name the first entry that is no number, with its row; nothing where rows have different lengths."""
    for row, entry in enumerate(values if isinstance(values, list | tuple) or np.ndim(values) else np.ravel(values)):
        for value in entry if isinstance(entry, list | tuple | np.ndarray) else (entry,):
            try:
                float(value)
            except (TypeError, ValueError):
                return f"{value!r} in row {row:,}" if np.ndim(value) == 0 else ""
    return ""


def read_list(names: Any, argument: str) -> list[Any]:
    """Read several names or settings, refusing a bare name and what has no entries.

    Examples
    --------
    >>> read_list("age", "columns")
    Traceback (most recent call last):
    ...
    crosslevel.errors.InputError: columns='age' is one name; pass a list, columns=['age'].
    """
    if isinstance(names, str):
        raise InputError(f"{argument}={names!r} is one name; pass a list, {argument}=[{names!r}].")
    if not isinstance(names, Iterable) or getattr(names, "ndim", 1) == 0:
        raise InputError(f"{argument}={names!r} is no list; pass one, {argument}=[...].")
    return list(names)


def check_finite(
    values: Any, argument: str, ndim: int | None = None, rows: Sequence[object] | None = None
) -> FloatArray:
    """Refuse NaN and infinite values, naming the first."""
    array = as_numbers(values, argument, ndim)
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        row = f"row {where[0]}" if rows is None else f"{rows[where[0]]!r}"
        column = f", column {where[1]}" if len(where) > 1 else ""
        raise InputError(
            f"{argument} has {int(bad.sum()):,} missing or infinite value(s), the first ({array[where]}) in "
            f"{row}{column}; drop or fill these rows."
        )
    return array


def check_length(values: Sized, argument: str, n: int, what: str) -> None:
    """Refuse another number of values than there are things they are of.

    Examples
    --------
    >>> check_length([1.0, 2.0], "sizes", 3, "regions")
    Traceback (most recent call last):
    ...
    crosslevel.errors.InputError: sizes has 2 values for 3 regions; pass one for each.
    """
    if len(values) != n:
        raise InputError(f"{argument} has {len(values):,} values for {n:,} {what}; pass one for each.")


def check_weights(values: Any, argument: str = "weight", n: int | None = None) -> FloatArray:
    """Refuse weights that are missing, negative or all zero."""
    array = as_numbers(values, argument, 1)
    if n is not None and len(array) != n:
        raise InputError(f"{argument} has {len(array):,} values for {n:,} rows; pass one weight per row.")
    for bad, what in ((~np.isfinite(array), "missing or infinite"), (array < 0, "negative")):
        if bad.any():
            first = int(np.argmax(bad))
            raise InputError(
                f"{argument} has {int(bad.sum()):,} {what} value(s) (first in row {first:,}: {array[first]}); "
                "weights must be finite and >= 0. Drop these rows or pass no weights."
            )
    if len(array) and not array.any():
        raise InputError(
            f"{argument} is zero in every row; at least one weight must be positive. "
            "Pass no weights to count rows equally."
        )
    return array


def check_counts(
    values: Any, argument: str, ndim: int | None = None, rows: Sequence[object] | None = None
) -> FloatArray:
    """Refuse counts that are missing, infinite or negative (fractions are allowed: weighted counts have them)."""
    array = check_finite(values, argument, ndim, rows)
    if (array < 0).any():
        where = tuple(int(i) for i in np.argwhere(array < 0)[0])
        row = f"row {where[0]}" if rows is None else f"{rows[where[0]]!r}"
        raise InputError(f"{argument} has a negative count, {array[where]:g} in {row}; counts must be >= 0.")
    return array


def check_successes(successes: Any, trials: Any, rows: Sequence[object] | None = None) -> tuple[FloatArray, FloatArray]:
    """Refuse more successes than trials."""
    k = check_counts(successes, "successes", 1, rows)
    n = check_counts(trials, "trials", 1, rows)
    if k.shape != n.shape:
        raise InputError(f"successes has {len(k):,} values and trials {len(n):,}; pass one of each per place.")
    if (k > n).any():
        first = int(np.argmax(k > n))
        row = f"row {first}" if rows is None else f"{rows[first]!r}"
        raise InputError(
            f"successes exceed trials in {int((k > n).sum()):,} place(s), first in {row} ({k[first]:g} > "
            f"{n[first]:g}); check that the two columns are not swapped."
        )
    return k, n


def check_unique(table: pa.Table, by: str | Sequence[str], argument: str) -> frames.Groups:
    """Refuse a table in which two rows have the same key."""
    groups = frames.group_rows(table, by, argument)
    counts = np.bincount(groups.codes, minlength=len(groups))
    if (counts > 1).any():
        twice = frames.keys_of(groups.keys)[counts > 1]
        raise InputError(
            f"{argument}={by!r} is not unique: {len(twice):,} key(s) stand in several rows ({listed(twice)}); "
            "sum or drop the repeated rows first."
        )
    return groups


def check_between(value: object, argument: str, low: float, high: float) -> float:
    """Refuse what is no number, or one outside low to high.

    Examples
    --------
    >>> check_between(1, "context", -1, 2)
    1.0
    >>> check_between(3.5, "context", -1, 2)
    Traceback (most recent call last):
    ...
    crosslevel.errors.InputError: context=3.5 is not a number between -1 and 2; pass one.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= cast("Any", value) <= high:
        raise InputError(f"{argument}={value!r} is not a number between {low:g} and {high:g}; pass one.")
    size = abs(cast("Any", value))
    if 0 < size < SQUARED_UNDER or 1.0 / SQUARED_UNDER < size < np.inf:
        raise InputError(f"{argument}={value!r} has a square that no computer can hold; pass a number nearer to one.")
    return float(value)


def check_positive(value: object, argument: str) -> float:
    """Refuse what is no finite number above zero.

    Examples
    --------
    >>> check_positive(0, "ridge")
    Traceback (most recent call last):
    ...
    crosslevel.errors.InputError: ridge=0 is not a positive number; pass one.
    """
    number = cast("Any", value)  # not a float yet: whole numbers may be too large for one
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < number < np.inf:
        raise InputError(f"{argument}={value!r} is not a positive number; pass one.")
    return check_between(value, argument, 0.0, np.inf)


def check_flags(estimator: Any) -> None:
    """Refuse parameters of an estimator that are neither True nor False, where the default is one of these."""
    init = type(estimator).__init__
    for name, parameter in inspect.signature(init).parameters.items():
        if isinstance(parameter.default, bool) and not isinstance(getattr(estimator, name), bool):
            check_arguments(init, {name: getattr(estimator, name)})


def check_kind(value: Any, kind: type, argument: str, repair: str) -> None:
    """Refuse what is not of one of our own kinds.

    Examples
    --------
    >>> check_kind("a map", dict, "regions", "pass Polygons")
    Traceback (most recent call last):
    ...
    crosslevel.errors.InputError: regions is a str; pass Polygons.
    """
    if not isinstance(value, kind):
        raise InputError(f"{argument} is a {type(value).__name__}; {repair}.")


def check_whole(value: object, argument: str, least: int, most: int | None = None) -> int:
    """Refuse what is not a whole number from ``least`` to ``most``.

    Examples
    --------
    >>> check_whole(3, "n_draws", 1)
    3
    >>> check_whole(2.5, "n_draws", 1, 100)
    Traceback (most recent call last):
    ...
    crosslevel.errors.InputError: n_draws=2.5 is not a whole number from 1 to 100; pass one.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= (most or LARGEST):
        bounds = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise InputError(f"{argument}={value!r} is not a whole number {bounds}; pass one.")
    return int(value)


def check_level(level: float) -> float:
    """Refuse an interval level outside (0, 1)."""
    if isinstance(level, bool) or not isinstance(level, Real):
        raise InputError(f"level={level!r} is not a number; for 95 % intervals pass level=0.95.")
    if 0.0 < level < LEAST_LEVEL:
        raise InputError(
            f"level={level!r} makes intervals that may not hold their estimate; pass at least {LEAST_LEVEL}."
        )
    if not 0.0 < level < 1.0:
        hint = f" Did you mean {level / 100:g}?" if 1 < level < 100 else ""
        raise InputError(f"level={level!r} is not between 0 and 1; for 95 % intervals pass level=0.95.{hint}")
    return float(level)


def count_jobs(n_jobs: int | None) -> int:
    """Give the number of threads: all cores this process may use when not said."""
    if n_jobs is None or n_jobs == -1:
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity else os.cpu_count() or 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs < 1:
        raise InputError(f"n_jobs={n_jobs!r} is not a number of threads; pass 1 or more, or None for all cores.")
    return n_jobs


def read_seed(random_state: RandomState, argument: str = "random_state") -> int:
    """Give the one integer from which all random numbers of a call follow.

    Parameters
    ----------
    random_state : int, None, Generator or RandomState
        An integer is the seed itself; None takes a fresh one from the operating system; a generator is drawn from, and so
        moves on.

    Examples
    --------
    >>> read_seed(7), read_seed(np.random.default_rng(0)) == read_seed(np.random.default_rng(0))
    (7, True)
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**32))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**32, dtype=np.uint64))
    if isinstance(random_state, bool) or not isinstance(random_state, Integral) or random_state < 0:
        raise InputError(
            f"{argument}={random_state!r} is not a seed; pass a whole number of at least 0, None, or a NumPy generator."
        )
    return int(random_state)


def refuse_idle(estimator: Any, names: Sequence[str], because: str) -> None:
    """Refuse parameters that were set, as the constructor's defaults tell, but cannot act with the others given.

    ``because`` says why, and what would let them act: the tail of the message.

    Examples
    --------
    >>> class Model:
    ...     def __init__(self, method="exact", rank=None):
    ...         self.method, self.rank = method, rank
    >>> refuse_idle(Model(), ["rank"], "with method='exact'; use method='nystrom'")
    >>> refuse_idle(Model(rank=5), ["rank"], "with method='exact'; use method='nystrom'")
    Traceback (most recent call last):
    ...
    crosslevel.errors.InputError: rank=5 has no effect with method='exact'; use method='nystrom', or leave rank out.
    """
    refuse_idle_arguments(type(estimator).__init__, {name: getattr(estimator, name) for name in names}, because)


def refuse_idle_arguments(function: Callable[..., Any], given: Mapping[str, Any], because: str) -> None:
    """Refuse arguments of a function that were set but cannot act with the others given, as :func:`refuse_idle` does."""
    known = inspect.signature(function).parameters
    for name, value in given.items():
        default: Any = known[name].default if name in known else None  # a subclass may leave it out
        if value is not default and not (type(value) is type(default) and np.array_equal(value, default)):
            raise InputError(f"{name}={reprlib.repr(value)} has no effect {because}, or leave {name} out.")


def row_keys(values: object) -> list[Any] | None:
    """Give the index of a pandas frame or Series, or of the Series in a mapping; None for what has none.

    Examples
    --------
    >>> import pandas as pd
    >>> row_keys(pd.Series([0.5, 0.1], index=["b", "a"])), row_keys([0.5, 0.1])
    (['b', 'a'], None)
    """
    index = _index_of(values)
    return None if index is None else list(index.tolist())


def _index_of(values: object) -> Any:
    if isinstance(values, Mapping):
        found = (_index_of(column) for column in values.values() if hasattr(column, "iloc"))
        return next((index for index in found if index is not None), None)
    wrapped: Any = nw.from_native(cast("Any", values), pass_through=True, allow_series=True)
    return nw.maybe_get_index(wrapped) if isinstance(wrapped, nw.Series | nw.DataFrame) else None


def names_of(values: object) -> list[Any] | None:
    """Give the names that a Series or frame carries, or None: an index without a name that only counts the rows is none."""
    keys = row_keys(values)
    if keys is None or (keys == list(range(len(keys))) and _index_of(values).name is None):
        return None
    return keys


def align_rows(values: Any, keys: Sequence[Any] | AnyArray | None, argument: str) -> Any:
    """Put values that carry names in the order of the keys; leave those without names, or without keys to match, as they are.

    A pandas index that only counts the rows is matched with keys that are the same numbers in another order: those of a frame that was
    shuffled or sorted.

    Parameters
    ----------
    values : Series, frame, array or None
    keys : sequence or None
        The names of the rows the values belong to, for example ``row_keys(X)``.
    argument : str
        What the caller calls the values.

    Examples
    --------
    >>> import pandas as pd
    >>> align_rows(pd.Series(["left", "right"], index=["b", "a"]), ["a", "b"], "y").tolist()
    ['right', 'left']
    >>> align_rows(["left", "right"], ["a", "b"], "y")
    ['left', 'right']
    >>> align_rows(pd.Series(["left", "right"]), [1, 0], "y").tolist()
    ['right', 'left']
    """
    if keys is None:
        return values
    labels, known = names_of(values), _as_list(keys)
    if labels is None and _counts_in_another_order(known):
        count = row_keys(values)
        labels = count if count is not None and len(count) == len(known) else None
    return values if labels is None else take_rows(values, _match(labels, known, argument))


def check_one_order(given: Mapping[str, Any]) -> None:
    """Refuse values that carry the same index in different orders beside the first ones, which carry none and could follow either."""
    of, told = next(iter(given)), {name: k for name, values in given.items() if (k := row_keys(values)) is not None}
    for name, keys in () if of in told else told.items():
        first = next(iter(told))
        if keys != told[first] and Counter(map(str, keys)) == Counter(map(str, told[first])):
            raise InputError(
                f"{first} and {name} have the same index in different orders, and {of} has none to say which is right; pass all of "
                f"them with their index, or all as arrays in the order of {of}."
            )


def take_rows(values: Any, rows: Sequence[int] | IntArray) -> Any:
    """Give rows, by number, of what :func:`names_of` found names in."""
    if isinstance(values, Mapping):
        return {name: v.iloc[rows] if hasattr(v, "iloc") else np.asarray(v)[rows] for name, v in values.items()}
    return values.iloc[rows]


def _counts_in_another_order(keys: list[Any]) -> bool:
    """Tell whether keys are the numbers of the rows, 0 to n - 1, but not in their order."""
    count = list(range(len(keys)))
    return keys != count and all(type(k) is int for k in keys) and set(keys) == set(count)


def align_groups(values: Any, keys: Sequence[Any] | AnyArray | None, argument: str, key: str | None = None) -> Any:
    """Put one value per group in the order of the keys: a Series by its index, a frame of two columns by that of the keys.

    ``key`` names the key column; where it is not given, that is the one which holds the keys.

    Examples
    --------
    >>> align_groups({"town": ["b", "a"], "share": [0.5, 0.1]}, ["a", "b"], "y").tolist()
    [0.1, 0.5]
    """
    if keys is None or len(getattr(values, "shape", (0, 0))) != 2 or not frames.is_frame(values):
        return align_rows(values, keys, argument)
    table = frames.to_arrow(values, argument)
    if table.num_columns != 2:
        return align_rows(values, keys, argument)
    known = _as_list(keys)
    columns = {name: table[name].to_pylist() for name in table.column_names}
    holds = [name for name, found in columns.items() if name == key or set(found) == set(known)]
    if not holds:
        raise InputError(
            f"{argument} has the columns {listed(columns)}, and neither holds the names of the groups ({listed(known)}); pass a value for "
            "each group, or an array in their order."
        )
    (other,) = (name for name in columns if name != holds[0])
    return table[other].to_numpy()[_match(columns[holds[0]], known, argument)]


def _as_list(keys: Sequence[Any] | AnyArray | None) -> list[Any]:
    return keys.tolist() if isinstance(keys, np.ndarray) else list(keys or ())


def _match(labels: list[Any], keys: list[Any], argument: str) -> IntArray:
    """Find the place of every key among the labels; both must be the same names, each once (or the same row by row).

    Keys that only count (0, 1, ...) are matched with numbers; to other labels they are no names, and positions count.
    """
    counting = keys == list(range(len(keys)))
    if counting and set(plain := [str(v).removesuffix(".0") for v in labels]) == set(map(str, keys)):
        labels = list(map(int, plain))  # the same numbers, read as floats or text
    if labels == keys or (counting and not any(isinstance(v, int) for v in labels)):
        return np.arange(len(labels))
    for side, names in ((f"{argument} has", labels), (f"what {argument} belongs to has", keys)):
        twice = next((name for name, times in Counter(names).items() if times > 1), None)
        if twice is not None:
            raise InputError(
                f"{side} the name {twice!r} more than once in its index, so names cannot be matched; give every row its own, or pass "
                "an array in the right order."
            )
    row_of = {name: i for i, name in enumerate(labels)}
    odd = [k for k in keys if k not in row_of] + [v for v in labels if v not in set(keys)]
    if odd:
        raise InputError(
            f"{argument} is named by its index ({listed(labels, 3)}), which does not match what it belongs to ({listed(keys, 3)}): "
            f"{listed(odd)} on one side only. Give both the same names, or pass an array ({argument}.to_numpy()) in the right order."
        )
    return np.array([row_of[k] for k in keys], dtype=np.intp)
