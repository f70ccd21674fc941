"""``Places``: totals and means by place, and what else is known of places; ``Means``: how means were made.

``read_places`` checks counts and coordinates; ``read_counts`` and ``chain`` read the counts of any table (a survey, evidence) the same
way. ``match_places`` keeps the places where people live, in the order of their keys, and refuses (or names) what has no partner;
``check_people`` refuses people who are not those of the fit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data import checks, frames
from crosslevel.data.checks import read_list
from crosslevel.data.frames import fingerprint
from crosslevel.data.sql import open_table
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Totals:
    """What was counted in the places, as a chain of questions.

    Each is asked of those who said no to the one before; the first, when turnout is modeled, of everybody.

    Attributes
    ----------
    outcomes : tuple of str
        Names of the outcomes whose shares are asked for.
    successes, trials : (n_stages, q)
        Yes and all, of each question in each place.
    turnout : bool
        Whether the first question is "voted?"; then the others are asked of those who did.
    """

    outcomes: tuple[str, ...]
    successes: FloatArray
    trials: FloatArray
    turnout: bool

    @property
    def questions(self) -> tuple[str, ...]:
        """Name of each question: turnout, then the outcomes."""
        return ("turnout", *self.outcomes)[0 if self.turnout else 1 :][: len(self.trials)]

    @property
    def exhaustive(self) -> bool:
        """Whether the outcomes add up to the trials, so that the last one needs no question."""
        return len(self.trials) - self.turnout < len(self.outcomes)

    def take(self, rows: IntArray) -> Totals:
        """Keep some places."""
        return Totals(self.outcomes, self.successes[:, rows], self.trials[:, rows], self.turnout)


@dataclass(frozen=True, eq=False)
class PlaceTotals:
    """Places with totals.

    Attributes
    ----------
    table : pyarrow.Table
        The caller's columns, one row per place.
    by : str
        Column of keys.
    keys : list
    totals : Totals
    coords : (q, 2) or None
    coords_by : tuple of str or None
        Their columns.
    frame : the caller's kind of dataframe.
    fingerprint : str
    notes : tuple of str
        What was left out.
    left_out : tuple
        Keys of places without any trials.
    """

    table: pa.Table
    by: str
    keys: list[object]
    totals: Totals
    coords: FloatArray | None
    coords_by: tuple[str, ...] | None
    frame: frames.FrameKind
    fingerprint: str
    notes: tuple[str, ...] = ()
    left_out: tuple[object, ...] = ()

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: IntArray, notes: Sequence[str] = ()) -> PlaceTotals:
        """Keep some places, in the order given."""
        return replace(
            self,
            table=self.table.take(pa.array(rows)),
            keys=[self.keys[i] for i in rows],
            totals=self.totals.take(rows),
            coords=None if self.coords is None else self.coords[rows],
            notes=(*self.notes, *notes),
        )

    def column(self, name: str, argument: str) -> list[object]:
        """Give a column of the caller's table, none missing."""
        groups = frames.group_rows(self.table, name, argument)
        found = groups.keys[name].to_pylist()
        return [found[c] for c in groups.codes]


def read_places(
    places: object,
    by: str,
    successes: str | None,
    trials: str | None,
    *,
    coords: Sequence[str] | None = None,
    outcomes: Sequence[str] | None = None,
    population: str | None = None,
) -> PlaceTotals:
    """Check the table of places.

    Parameters
    ----------
    places : dataframe
        One row per place.
    by : str
        Column that names the place, as in people.
    successes, trials : str
        Columns of counts.
    coords : two column names, optional
        Longitude and latitude.
    outcomes : sequence of column names, optional
        Several outcomes in place of ``successes``; they add up to at most ``trials``.
    population : str, optional
        Column of everybody who could have been among the trials.

    Examples
    --------
    >>> found = read_places({"town": ["a", "b"], "yes": [3, 5], "all": [9, 9]}, "town", "yes", "all")
    >>> found.totals.successes.tolist()
    [[3.0, 5.0]]
    """
    if not isinstance(by, str):
        raise InputError(f"by={by!r} is not a column name; name the one column that says where somebody lives.")
    table = frames.to_arrow(places, "places")
    if not table.num_rows:
        raise InputError("places has no rows; pass one row per place, with its totals.")
    frames.check_columns(table, [by], "by")
    checks.check_unique(table, by, "places: by")
    names = table[by].to_pylist()
    totals = _totals(table, names, successes, trials, outcomes, population)
    asked = totals.trials[1 if totals.turnout else 0] > 0
    if not asked.any():
        raise InputError("nothing was counted: the trials are zero in every place; pass places with totals.")
    found = PlaceTotals(table, by, names, totals, None, None, frames.frame_kind(places), fingerprint(table))
    if not asked.all():
        lost = tuple(names[i] for i in np.flatnonzero(~asked))
        note = f"{len(lost):,} place(s) without any trials were left out ({listed(lost)})."
        found = replace(found.take(np.flatnonzero(asked), [note]), left_out=lost)
    if coords is None:
        return found
    return replace(found, coords=coordinates(found.table, coords, found.keys), coords_by=tuple(coords))


def _totals(
    table: pa.Table,
    names: Sequence[object],
    successes: str | None,
    trials: str | None,
    outcomes: Sequence[str] | None,
    population: str | None,
) -> Totals:
    chosen, parts, n = read_counts(table, names, successes, trials, outcomes)
    exhaustive = len(chosen) > 1 and np.allclose(parts.sum(axis=0), n, rtol=1e-12)
    k, left = chain(parts, n, exhaustive)
    if population is None:
        return Totals(chosen, k, left, False)
    everybody = _counts(table, population, "population", names)
    over = n > everybody
    if over.any():
        i = int(np.argmax(over))
        raise InputError(
            f"trials exceed the population column {population!r} in {int(over.sum()):,} place(s), first in {names[i]!r} "
            f"({n[i]:g} > {everybody[i]:g}); check the two columns."
        )
    return Totals(chosen, np.vstack([n, k]), np.vstack([everybody, left]), True)


def read_counts(
    table: pa.Table,
    names: Sequence[object] | None,
    successes: str | None,
    trials: str | None,
    outcomes: Sequence[str] | None,
) -> tuple[tuple[str, ...], FloatArray, FloatArray]:
    """Read counts of outcomes and how many they are of: names, (n_outcomes, n_rows), (n_rows,)."""
    if outcomes is None:
        if successes is None or trials is None:
            raise InputError("successes and trials are missing; name the columns of places that hold the counts.")
        k, n = checks.check_successes(
            _counts(table, successes, "successes", names), _counts(table, trials, "trials", names), names
        )
        return (successes,), k[None, :], n
    if successes is not None:
        raise InputError("successes and outcomes are both given; name one outcome in successes or several in outcomes.")
    chosen = frames.as_names(outcomes, "outcomes")
    if len(chosen) == 1 and trials is None:
        raise InputError(f"outcomes={list(chosen)!r} is one outcome, of how many? Name the column in trials.")
    parts = np.vstack([_counts(table, name, "outcomes", names) for name in chosen])
    n = parts.sum(axis=0) if trials is None else _counts(table, trials, "trials", names)
    checks.check_successes(parts.sum(axis=0), n, names)
    return chosen, parts, n


def chain(parts: FloatArray, n: FloatArray, exhaustive: bool) -> tuple[FloatArray, FloatArray]:
    """Turn counts of outcomes into questions, each asked of those who said no to the ones before: successes and trials.

    Parameters
    ----------
    parts : (n_outcomes, q)
    n : (q,)
    exhaustive : bool
        Whether the outcomes add up to n; the last then needs no question.

    Examples
    --------
    >>> k, left = chain(np.array([[3.0], [2.0], [5.0]]), np.array([10.0]), True)
    >>> k.tolist(), left.tolist()
    ([[3.0], [2.0]], [[10.0], [7.0]])
    """
    k = parts[:-1] if exhaustive else parts
    left = n - np.vstack([np.zeros_like(n), np.cumsum(k, axis=0)])[:-1]
    return k, np.maximum(left, k)


def _counts(table: pa.Table, name: str, argument: str, names: Sequence[object] | None) -> FloatArray:
    counts = checks.check_counts(frames.column(table, name, argument), f"{argument} column {name!r}", 1, names)
    if (counts > 2.0**53).any():
        raise InputError(
            f"{argument} column {name!r} has {counts.max():g}; beyond {2.0**53:.1g} a count cannot be told from the next one."
        )
    return counts


def coordinates(table: pa.Table, coords: Sequence[str], names: Sequence[object]) -> FloatArray:
    """Read the coordinates of places, (q, 2)."""
    pair = frames.as_names(coords, "coords")
    if len(pair) != 2:
        raise InputError(f"coords={list(pair)!r} names {len(pair)} column(s); name two, longitude and latitude.")
    xy = [checks.check_finite(frames.column(table, c, "coords"), f"coords column {c!r}", 1, names) for c in pair]
    return np.column_stack(xy)


LONGITUDES, LATITUDES = ("lon", "lng", "long", "longitude"), ("lat", "latitude")
"""Names of columns that are degrees on the sphere; any other two are distances in a plane."""
SAMPLE, POPULATION = "sample", "population"


def read_table(data: Any, argument: str) -> pa.Table:
    """Read a table that fits in memory: a frame, or a file."""
    if isinstance(data, str | os.PathLike):
        return open_table(data, argument).answer("select * from people")
    return frames.to_arrow(data, argument)


@dataclass(frozen=True, eq=False, repr=False)
class Means:
    """Means of hidden features in columns of places: how sure they are, and whose.

    Parameters
    ----------
    columns : str or sequence of str
        Columns of places, each called as the hidden feature. An empty mean is allowed.
    se : mapping of column to column of its standard errors, optional
        The less sure a mean, the less is learned from it.
    known_rates : dataframe or path, optional
        Means of the hidden features in subgroups of all people, such as national rates by age: columns of people that define the
        subgroups, a column per hidden feature and, where known, its standard error as ``<feature>_se`` (that of as many people as are
        here when not given). Slopes follow them as far as they are sure, and intervals narrow.
    of : {"sample", "population"}, default "sample"
        Whether the means were computed on the people that are given, and are kept as published; or on others or on all of a population,
        and move with their errors in draws and intervals.

    Examples
    --------
    >>> Means("ill", se={"ill": "ill_se"}, of="population")
    Means('ill', se={'ill': 'ill_se'}, of='population')
    """

    columns: str | Sequence[str]
    se: Mapping[str, str] | None = None
    known_rates: Any = None
    of: str = SAMPLE

    def __post_init__(self) -> None:
        if self.se is not None and not isinstance(self.se, Mapping):
            raise InputError(
                f"se={self.se!r} is no mapping; name the column of errors of each mean, {{'ill': 'ill_se'}}."
            )
        for name in self.errors:
            if name not in self.names:
                raise unknown_name("se", name, list(self.names))
        if self.of not in (SAMPLE, POPULATION):
            raise unknown_name("of", self.of, (SAMPLE, POPULATION), "choice")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The hidden features."""
        return frames.as_names(self.columns, "means")

    @property
    def errors(self) -> dict[str, str]:
        """Column of the standard errors of each feature that has some."""
        return dict(self.se or {})

    @cached_property
    def rates(self) -> pa.Table | None:
        """The known rates of subgroups."""
        return None if self.known_rates is None else read_table(self.known_rates, "known_rates")

    def __repr__(self) -> str:
        said = (
            [listed(self.names)]
            + [f"se={self.errors}"] * bool(self.se)
            + ["known_rates"] * (self.known_rates is not None)
        )
        return f"Means({', '.join([*said, f'of={self.of!r}'])})"


@dataclass(frozen=True, eq=False, repr=False)
class Places:
    """Places with what was counted there: one row for each.

    Parameters
    ----------
    data : dataframe or path
    by : str
        Column that names the place.
    successes, trials : str, optional
        Columns of counts: how many did it, of how many. Places without trials are left out.
    outcomes : sequence of str, optional
        Several outcomes, columns of counts, in place of ``successes``; ``trials`` is their sum unless given.
    means : str, sequence of str, or Means, optional
        Columns of means of features that are hidden in people, for the imputers.
    coords : two column names, optional
        Where the place is. Columns called longitude and latitude (``lon``, ``lng``, ``long``; ``lat``) are degrees, and distances are
        chords of the sphere in kilometers; others are distances in a plane.
    population : str, optional
        Column of everybody who could have been among the trials. Turnout is then modeled too.
    margins : dataframe or path, optional
        Exact counts of columns of people by place, as a census has them: the key of the place and a column for every level, called
        ``column=level`` (``sex=1``, ``sex=2``). The people of each place are raked to them.
    covariates : sequence of str, optional
        Columns that act on everybody in a place: numbers, or text.

    Examples
    --------
    >>> towns = {"town": ["a", "b"], "yes": [3, 5], "all": [9, 9], "lon": [0.1, 0.2], "lat": [50.0, 50.1]}
    >>> Places(towns, by="town", successes="yes", trials="all", coords=("lon", "lat"))
    Places(2 rows by 'town': successes='yes', trials='all', coords=('lon', 'lat'))
    """

    data: Any
    by: str
    successes: str | None = None
    trials: str | None = None
    outcomes: Sequence[str] | None = None
    means: str | Sequence[str] | Means | None = None
    coords: Sequence[str] | None = None
    population: str | None = None
    margins: Any = None
    covariates: Sequence[str] | None = None
    table: pa.Table = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", read_table(self.data, "places"))
        for argument in ("by", "successes", "trials", "population"):
            name = getattr(self, argument)
            if name is None and argument != "by":
                continue
            if not isinstance(name, str):
                raise InputError(f"{argument}={name!r} is not a column name; names are text here.")
            frames.check_columns(self.table, [name], argument)
        for argument in ("outcomes", "coords", "covariates"):
            names = read_list(getattr(self, argument) or (), argument)
            frames.check_columns(self.table, list(names), argument)
        if self.published is not None:
            frames.check_columns(self.table, [*self.published.names, *self.published.errors.values()], "means")
            if self.by in self.published.names:
                raise InputError(f"means names {self.by!r}, which names the place; a column has one role.")
        if self.coords is not None and len(self.coords) != 2:
            raise InputError(f"coords={tuple(self.coords)!r} must name two columns, such as ('lon', 'lat').")

    @property
    def metric(self) -> str:
        """Whether coordinates are degrees on the sphere, or distances in a plane."""
        names = [name.casefold() for name in self.coords or ("", "")]
        return "sphere" if names[0] in LONGITUDES and names[1] in LATITUDES else "plane"

    def read(self) -> PlaceTotals:
        """Check the counts and coordinates."""
        found = read_places(
            self.table,
            self.by,
            self.successes,
            self.trials,
            coords=self.coords,
            outcomes=self.outcomes,
            population=self.population,
        )
        return replace(found, frame=frames.frame_kind(self.data) if frames.is_frame(self.data) else "pyarrow")

    @cached_property
    def published(self) -> Means | None:
        """The means, and how they were made."""
        return self.means if self.means is None or isinstance(self.means, Means) else Means(self.means)

    @cached_property
    def margins_table(self) -> pa.Table | None:
        """The counts that people are raked to."""
        return None if self.margins is None else read_table(self.margins, "margins")

    def roles(self) -> dict[str, Any]:
        """Give what each column means, all that is not data."""
        names = ("by", "successes", "trials", "outcomes", "coords", "population", "covariates")
        given = {name: getattr(self, name) for name in names}
        return {n: list(v) if isinstance(v, list | tuple) else v for n, v in given.items() if v is not None}

    def __repr__(self) -> str:
        said = [f"{n}={tuple(v) if isinstance(v, list) else v!r}" for n, v in self.roles().items() if n != "by"]
        said += [] if self.published is None else [f"means={listed(self.published.names)}"]
        said += ["margins"] * (self.margins is not None)
        return f"Places({self.table.num_rows:,} rows by {self.by!r}: {', '.join(said)})"


def read_by_key(
    table: pa.Table, keys: Sequence[Any], argument: str, *, key: str, repair: str = ""
) -> tuple[dict[str, FloatArray], tuple[Any, ...]]:
    """Read one row of numbers for each key; also gives the keys that were not asked for.

    Parameters
    ----------
    table : pyarrow.Table
        With the column ``key``, every key once.
    keys : sequence
    argument : str
        What the caller calls the table.
    key : str
    repair : str
        What to do about keys without a row; the tail of the message.

    Examples
    --------
    >>> read_by_key(pa.table({"town": ["b", "a", "c"], "ill": [0.5, 0.1, 0.9]}), ["a", "b"], "places", key="town")
    ({'ill': array([0.1, 0.5])}, ('c',))
    """
    frames.check_columns(table, [key], argument)
    there = checks.check_unique(table.select([key]), key, argument)
    groups = there.keys.column(0).to_pylist()
    row_of = {groups[code]: row for row, code in enumerate(there.codes)}
    missing = [k for k in keys if k not in row_of]
    if missing:
        kinds = f" ({key!r} holds {groups[0]!r} where {keys[0]!r} is asked for)" if len(missing) == len(keys) else ""
        raise InputError(
            f"{argument} has no row for {len(missing):,} group(s): {listed(missing)}{kinds}; add them"
            f"{repair or ', or leave these groups out'}."
        )
    rows = np.array([row_of[k] for k in keys], dtype=np.intp)
    names = [n for n in table.column_names if n != key]
    if not names:
        raise InputError(f"{argument} has no column beside the key {key!r}; add a column of numbers.")
    known = set(keys)
    spare = tuple(k for k in groups if k not in known)
    return {n: frames.column(table, n, argument)[rows] for n in names}, spare


SAME = 1e-5
"""Relative difference of two sums of the same weights that is rounding, of single precision too."""


def match_places(
    found: PlaceTotals, keys: Sequence[object], weight: FloatArray, n_rows: IntArray, unmatched: str
) -> PlaceTotals:
    """Keep the places where people live, in the order of ``keys``, and refuse (or tell) what has no partner.

    Parameters
    ----------
    found : PlaceTotals
    keys, weight, n_rows
        Where people live, how much they weigh and how many they are.
    unmatched : {"error", "drop"}
    """
    if unmatched not in ("error", "drop"):
        raise unknown_name("unmatched", unmatched, ["error", "drop"], "choice")
    number = {key: i for i, key in enumerate(found.keys)}
    have, known = set(keys), {*found.keys, *found.left_out}
    empty = [key for key in found.keys if key not in have]
    strange = [i for i, key in enumerate(keys) if key not in known]
    sentences = []
    if strange:
        part = float(weight[strange].sum() / weight.sum())
        sentences.append(
            f"{int(n_rows[strange].sum()):,} people ({_percent(part)} of the weight) live in {len(strange):,} place(s) that "
            f"places lacks ({listed([keys[i] for i in strange])})"
        )
    if empty:
        n = found.totals.trials[1 if found.totals.turnout else 0]
        part = float(n[[number[key] for key in empty]].sum() / n.sum())
        sentences.append(
            f"{len(empty):,} place(s) ({_percent(part)} of the trials) have no people of positive weight ({listed(empty)})"
        )
    kept = np.array([number[key] for key in keys if key in number], dtype=np.intp)
    if not sentences:
        return found.take(kept)
    if unmatched == "error" or not len(kept):
        raise InputError(
            f"people and places do not match: {'; '.join(sentences)}. {_repair(found, keys, bool(len(kept)))}"
        )
    return found.take(kept, [f"Left out: {'; '.join(sentences)}."])


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %" if part >= 0.1 else f"{100 * part:.2g} %"


def _repair(found: PlaceTotals, keys: Sequence[object], some: bool) -> str:
    """Say what to do about keys that do not match; a difference of type is the usual cause."""
    kinds = [sorted({type(k).__name__ for k in side}) for side in (keys, found.keys)]
    alike = {str(k).lstrip("0") for k in keys} & {str(k).lstrip("0") for k in found.keys}
    if not some and alike and kinds[0] != kinds[1]:
        return (
            f"{found.by!r} is {kinds[0][0]} in people ({keys[0]!r}) and {kinds[1][0]} in places ({found.keys[0]!r}); make it one "
            "type in both, for example text."
        )
    if not some and alike:
        return f"{found.by!r} is {keys[0]!r} in people and {found.keys[0]!r} in places; write leading zeros in both or in neither."
    if not some:
        return f"Check that by={found.by!r} is the right column, spelled alike in both tables."
    return "Correct the keys, or pass unmatched='drop' to leave them out."


def check_people(keys: Sequence[object], weight: FloatArray, places: PlaceTotals, whole: FloatArray) -> None:
    """Refuse people who are not those of the fit: the parts of a place would not be parts of what was fitted.

    Parameters
    ----------
    keys, weight : (m,)
        Place and weight of bags that hold everybody once.
    places : PlaceTotals
    whole : (q,)
        Weight of each place in the fit.
    """
    number = {key: i for i, key in enumerate(places.keys)}
    inside = [i for i, key in enumerate(keys) if key in number]
    now = np.bincount([number[keys[i]] for i in inside], weights=weight[inside], minlength=len(whole))
    wrong = np.abs(now - whole) > SAME * whole
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InputError(
            f"people are not those of fit: in {int(wrong.sum()):,} place(s) they weigh something else, first in {places.keys[i]!r} "
            f"({now[i]:g}, and {whole[i]:g} in fit). Pass the same people, or fit again."
        )
