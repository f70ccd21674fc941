"""Read and check what an imputation is given: people, counted by distinct row and group where they are, and the published means.

``read_fit(people, places)`` gives everything a fit needs; ``count_cells`` counts other people by the columns of a fit; ``read_rows`` gives
people one by one, in their order.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data import frames
from crosslevel.data.audit import audit
from crosslevel.data.cells import learn_table, read_matrix, sums
from crosslevel.data.columns import Category, Number
from crosslevel.data.frames import fingerprint
from crosslevel.data.people import People
from crosslevel.data.people_columns import check_rows
from crosslevel.data.places import Places
from crosslevel.data.sql import quoted
from crosslevel.errors import CrosslevelWarning, InputError, listed
from crosslevel.imputation.cells import Cells, Kinds, count_kinds, gather
from crosslevel.imputation.design import MOST_LEVELS
from crosslevel.imputation.published import Partition, Published, check_range, read_means
from crosslevel.typing import FloatArray, IntArray

FEWEST_GROUPS = 20
"""Groups under which a fit says what to expect of it."""
FEWEST_REPEATS = 20
"""People beside the first of every group from which on a column that never differs among them is taken for a function of the group."""
UNSURE = (
    "The published means of {0} are taken as those of these very people (of='sample'), so intervals leave out their standard errors. Pass "
    "Means(..., of='population') where they are means of others."
)
FILL = "; drop them (where='{0} is not null') or fill the values in, or use a method that allows them (missing='mean')."


@dataclass(frozen=True)
class Schema:
    """What new people must look like: the columns and the partitions."""

    columns: tuple[Category | Number, ...]
    partitions: tuple[Partition, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are used."""
        return tuple(c.name for c in self.columns)

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the columns of the groups."""
        return tuple(p.name for p in self.partitions)


@dataclass(frozen=True, eq=False)
class Rows:
    """People one by one.

    Attributes
    ----------
    X : (n, d)
        Numbers, and codes of the levels of factors; NaN where missing.
    group : (n, L) int
        Group of each person in each partition.
    weight : (n,) or None
        None where everybody weighs the same.
    frame : str
        The caller's kind of dataframe.
    """

    X: FloatArray
    group: IntArray
    weight: FloatArray | None
    frame: frames.FrameKind

    @property
    def each(self) -> FloatArray:
        """Weight of everybody, (n,)."""
        return np.ones(len(self.X)) if self.weight is None else self.weight

    @property
    def cells(self) -> Cells:
        """The same people counted by distinct row and group, who know their pair."""
        return gather(self.X, self.group, self.weight)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Everything a fit is given, checked.

    Attributes
    ----------
    cells : Cells
        People by distinct row and group.
    schema : Schema
    published : tuple of Published
        One entry per hidden feature.
    rates : tuple of pyarrow.Table
        Known rates of subgroups.
    frame : str
        The caller's kind of dataframe.
    data : dict
        Fingerprints.
    warnings : tuple of str
        What was left out or looks odd, in sentences.
    """

    cells: Cells
    schema: Schema
    published: tuple[Published, ...]
    rates: tuple[pa.Table, ...]
    frame: frames.FrameKind
    data: dict[str, str]
    warnings: tuple[str, ...]

    @property
    def hidden(self) -> tuple[str, ...]:
        """Names of the hidden features."""
        return tuple(p.name for p in self.published)


def read_fit(people: People, places: Places | Sequence[Places], *, allow_missing: bool = False) -> Inputs:
    """Check everything that a fit is given, and count people.

    Parameters
    ----------
    people : People
        Columns nobody named are left out where they are hidden, have one value, or are a function of the group or another category.
    places : Places or sequence of Places
    allow_missing : bool
        Whether columns of people may have missing values.

    Examples
    --------
    >>> people = People({"age": [30, 41, 50, 62], "town": ["a", "a", "b", "b"]}, by="town")
    >>> given = read_fit(people, Places({"town": ["b", "a"], "ill": [0.5, 0.1]}, by="town", means="ill"))
    >>> given.hidden, given.published[0].mean.tolist(), given.schema.partitions[0].labels
    (('ill',), [0.1, 0.5], ('a', 'b'))
    """
    every = _check_nouns(people, places)
    hidden = [name for one in every for name in (one.published.names if one.published else ())]
    names = [name for name in people.features if people.columns is not None or name not in hidden]
    for name in hidden:
        if name in names:
            raise InputError(
                f"places has the mean of {name!r}, which is also one of the columns of people; leave it out of columns, or it would be "
                "used to impute itself."
            )
    if not names:
        raise InputError(f"people has no column beside {listed(people.keys)}; pass what is known of each person.")
    keys = tuple(one.by for one in every)
    check_rows(people)
    kinds = count_kinds(people, [*names, *keys])
    groups = [frames.group_rows(kinds.table, key, "by") for key in keys]
    partitions = tuple(Partition(key, tuple(g.keys.column(0).to_pylist())) for key, g in zip(keys, groups, strict=True))
    for p in partitions:
        if len(p) < 2:
            raise InputError(
                f"by={p.name!r} has one group, {p.labels[0]!r}; what differs between groups is all there is to learn from, so at least "
                "two are needed."
            )
    codes = np.column_stack([g.codes for g in groups]).astype(np.intp)
    found = read_means(every, partitions)
    coded = [n for n in names if n in people.categorical or pa.types.is_dictionary(people.table.stored.field(n).type)]
    columns = learn_table(kinds.table.select(names), coded or None, "people")
    X = _matrix(kinds.table, columns, kinds.count, "allow" if allow_missing else "error")
    chosen, left_out = _independent(people, X, codes, columns, partitions, kinds.count)
    schema = Schema(tuple(columns[j] for j in chosen), partitions)
    cells = _cells(X[:, chosen], codes, kinds)
    coded = [n for n in people.categorical if n in schema.names]
    doubts = audit(replace(people, data=people.table, columns=schema.names, categorical=coded), every).sentences
    told = {f"x{j}": x for j, x in enumerate(cells.X[cells.pair_cell].T)}
    told |= {f"group{j}": g for j, g in enumerate(cells.pair_group.T)} | {"people": cells.count}
    return Inputs(
        cells,
        schema,
        found[0],
        tuple(one.published.rates for one in every if one.published and one.published.rates is not None),
        _kind_of(people),
        {"people": fingerprint(told)} | {f"places by {one.by}": fingerprint(one.table) for one in every},
        (*left_out, *doubts, *found[1]),
    )


def _check_nouns(people: object, places: object) -> tuple[Places, ...]:
    """Refuse what is neither people nor places with means, and keys that do not match."""
    _check_people(people)
    assert isinstance(people, People)
    every = tuple(places) if isinstance(places, list | tuple) else (places,)
    for one in every:
        if not isinstance(one, Places) or one.published is None:
            what = "has no means" if isinstance(one, Places) else f"is a {type(one).__name__}"
            raise InputError(f"places {what}; pass crosslevel.Places(data, by=..., means=[...]), or a list of these.")
    keys = [one.by for one in every if isinstance(one, Places)]
    if not keys or len(set(keys)) < len(keys):
        raise InputError(f"places are by {listed(keys)}; pass one Places for each way in which people are divided.")
    if set(keys) != set(people.keys):
        raise InputError(
            f"people are by {listed(people.keys) or 'nothing'} and places by {listed(keys)}; name the same columns in both by="
        )
    return tuple(one for one in every if isinstance(one, Places))


def _check_people(people: object) -> None:
    if not isinstance(people, People):
        raise InputError(f"people is a {type(people).__name__}; pass crosslevel.People(data, by=...).")


def _kind_of(people: People) -> frames.FrameKind:
    return frames.frame_kind(people.data) if frames.is_frame(people.data) else "pyarrow"


def _matrix(table: pa.Table, columns: Sequence[Category | Number], count: FloatArray, missing: str) -> FloatArray:
    """Give columns as a matrix; say of how many people something is missing, where nothing may be."""
    for c in columns if missing == "error" else ():
        if table[c.name].null_count:
            gone = int(count[table[c.name].is_null().to_numpy()].sum())
            raise InputError(
                f"people: {c.name!r} is missing for {gone:,} of {int(count.sum()):,}{FILL.format(quoted(c.name))}"
            )
    return read_matrix(table, columns, "people", missing=missing)


def _cells(X: FloatArray, codes: IntArray, kinds: Kinds) -> Cells:
    """Count people, given as distinct rows with counts, by the columns of the model."""
    cells = gather(X, codes, kinds.weight)
    count, squares = (sums(cells.pair, v, len(cells.count)) for v in (kinds.count, kinds.weight_squared))
    return replace(cells.without_people(), count=count, weight_squared=squares)


def _independent(
    people: People,
    X: FloatArray,
    codes: IntArray,
    columns: Sequence[Category | Number],
    partitions: tuple[Partition, ...],
    count: FloatArray,
) -> tuple[list[int], list[str]]:
    """Choose the columns that tell people of a group apart; those that were named and do not are refused."""
    why = {
        c.name: "has one value for everybody"
        for c, values in zip(columns, X.T, strict=True)
        if np.fmin.reduce(values) == np.fmax.reduce(values)
    }
    varying = [j for j, c in enumerate(columns) if c.name not in why]
    of = _dependent(X[:, varying], codes, [columns[j] for j in varying], partitions, count)
    why |= {name: f"is a function of {other!r}" for name, other in of.items()}
    chosen = [j for j, c in enumerate(columns) if c.name not in why]
    if (people.columns is not None and why) or not chosen:
        raise InputError(
            f"people: {'; '.join(f'{n!r} {w}' for n, w in list(why.items())[:3])}, and so tells nobody apart that the rest does not. "
            "Leave it out of columns."
        )
    return chosen, [f"people: {name!r} {words} and was left out." for name, words in why.items()]


def _dependent(
    X: FloatArray,
    codes: IntArray,
    columns: Sequence[Category | Number],
    partitions: tuple[Partition, ...],
    count: FloatArray,
) -> dict[str, str]:
    """Find columns of few values that are a function of a partition, and categories that are one of another category."""
    factors = [j for j, c in enumerate(columns) if isinstance(c, Category)]
    levels = {columns[j].name: np.nan_to_num(X[:, j], nan=-1.0).astype(np.intp) + 1 for j in factors}
    groups = {p.name: codes[:, i] for i, p in enumerate(partitions)}
    found: dict[str, str] = {}
    for j, column in enumerate(columns):
        for other, of in (groups | (levels if j in factors else {})).items():
            # of two categories that say the same one is left out
            if other == column.name or other in found or column.name in found:
                continue
            # a continuous column of places tells how they differ
            if _is_function(X[:, j], of, count) and (j in factors or len(np.unique(X[:, j])) <= MOST_LEVELS):
                found[column.name] = other
    return found


def _is_function(values: FloatArray, of: IntArray, count: FloatArray) -> bool:
    """Tell whether equal ``of`` means equal values, among enough people for it to be no accident."""
    first = np.zeros(int(of.max()) + 1, dtype=np.intp)
    first[of[::-1]] = np.arange(len(of) - 1, -1, -1)
    if not np.array_equal(values[first[of]], values, equal_nan=True):
        return False
    again = count.copy()
    again[np.unique(first[of])] -= 1.0  # the others are people who could have shown otherwise
    return float(again.sum()) >= FEWEST_REPEATS and len(np.unique(values[again > 0])) > 1


def count_cells(people: People, schema: Schema, *, allow_missing: bool = False) -> Cells:
    """Count other people than those of the fit by its columns and groups."""
    _check_like(people, schema)
    check_rows(people)
    kinds = count_kinds(people, [*schema.names, *schema.keys])
    X = _matrix(kinds.table, schema.columns, kinds.count, "new" if allow_missing else "error")
    return _cells(X, _codes(kinds.table, schema, kinds.count), kinds)


def read_rows(people: People, schema: Schema, *, allow_missing: bool = False, grouped: bool = True) -> Rows:
    """Read people one by one, in their order; without ``grouped``, people of any group.

    Examples
    --------
    >>> people = People({"age": [30, 41, 50, 62], "town": ["a", "a", "b", "b"]}, by="town")
    >>> given = read_fit(people, Places({"town": ["b", "a"], "ill": [0.5, 0.1]}, by="town", means="ill"))
    >>> read_rows(People({"age": [20], "town": ["b"]}, by="town"), given.schema).group.tolist()
    [[1]]
    """
    wanted = schema if grouped else replace(schema, partitions=())
    _check_like(people, wanted)
    check_rows(people if grouped else replace(people, by=None))
    asked = [*map(quoted, (*wanted.names, *wanted.keys)), f"{people.weight_sql} as crosslevel_weight"]
    table = people.answer(f"select {', '.join(asked)} from people")
    one_each = np.ones(table.num_rows)
    X = _matrix(table, schema.columns, one_each, "new" if allow_missing else "error")
    codes = _codes(table, schema, one_each) if grouped else np.zeros((len(X), 1), dtype=np.intp)
    weight = None if people.weight is None else table["crosslevel_weight"].to_numpy()
    return Rows(X, codes, weight, _kind_of(people))


def _check_like(people: object, schema: Schema) -> None:
    """Refuse people without the columns of the fit, or in other groups than those of the fit."""
    _check_people(people)
    assert isinstance(people, People)
    frames.check_columns(people.schema.empty_table(), schema.names, "people")
    if not set(schema.keys) <= set(people.keys):
        raise InputError(
            f"people are by {listed(people.keys) or 'nothing'}; those of the fit are by {listed(schema.keys)}: name these columns in by=."
        )


def _codes(table: pa.Table, schema: Schema, count: FloatArray) -> IntArray:
    """Number the group of every row in every partition."""
    out = []
    for p in schema.partitions:
        own = np.asarray(pc.index_in(table[p.name], value_set=pa.array(list(p.labels))).fill_null(-1), dtype=np.intp)
        if (own < 0).any():
            first = table[p.name][int(np.argmax(own < 0))].as_py()
            raise InputError(
                f"people: {int(count[own < 0].sum()):,} person(s) are in a group of {p.name!r} without a published mean, the first in "
                f"{first!r}; leave these people out or fit with means of their group."
            )
        out.append(own)
    return np.column_stack(out)


def keep_inputs(model: Any, given: Inputs, seed: int) -> None:
    """Store on a fitted model what new people must look like, and where its data came from."""
    model.schema_, model.hidden_names_ = given.schema, given.hidden
    model._seed, model._data, model._frame = seed, given.data, given.frame
    few = [n for n, x in zip(given.schema.names, given.cells.X.T, strict=True) if len(np.unique(x)) <= MOST_LEVELS]
    model._shown = tuple(few) or given.schema.keys[:1]


def keep_warnings(model: Any, sentences: Sequence[str], stacklevel: int = 3) -> None:
    """Store warnings on a fitted model and emit them, from the line that called its method."""
    model.warnings_ = tuple(sentences)
    for sentence in model.warnings_:
        warnings.warn(sentence, CrosslevelWarning, stacklevel=stacklevel)


def read_range(given: Inputs, published: Published, repair: str = "") -> None:
    """Refuse published means that are no shares; ``repair`` ends the message."""
    try:
        check_range(published, given.schema.partitions[published.partition], 0.0, 1.0)
    except InputError as error:
        raise InputError(f"{error}{repair}") from None
