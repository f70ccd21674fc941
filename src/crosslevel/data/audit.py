"""What is only suspicious in data, as one table; what is impossible is refused by the noun that holds it.

``audit(people, places)`` runs the fifteen tests of ``TESTS`` and gives a row for each thing found. A noun says in ``_sheet`` what its
columns are: features, keys, weights, counts and what these are parts of; the tests know nothing else of it. Tables are read by SQL where
they are, so that people need not fit in memory.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from crosslevel.data import columns, frames
from crosslevel.data.bags import Bags
from crosslevel.data.frames import kind_of
from crosslevel.data.people import People
from crosslevel.data.place_columns import GroupCounts
from crosslevel.data.places import LATITUDES, LONGITUDES, Places
from crosslevel.data.sql import CODE, quoted
from crosslevel.data.surveys import PublishedShares, Survey
from crosslevel.errors import InputError, listed
from crosslevel.typing import FloatArray

TESTS = {
    "shares": ("is in parts of one where counts are asked for", "multiply shares by what they are shares of"),
    "percent": ("is no larger than 100, as percent is", "divide percent by 100, and multiply by what it is a share of"),
    "missing code": ("is {}, far from all other values", "make it missing, if it is a code of missing values"),
    "total row": ("counts in the row of {} what other rows count together", "leave it out, and its people"),
    "total column": ("is the sum of {} in every row", "leave it out, or name it as the total"),
    "names alike": ("has names that differ by blanks, case or letters that look alike: {}", "write them alike"),
    "numbers as text": ("is text of numbers, but for {}", "make it numbers, or name it in categorical"),
    "column twice": ("holds the same values as {}", "leave one of them out"),
    "row number": ("numbers rows, or names the design of a sample", "leave it out of columns"),
    "overlap": ("counts more people than {}", "let every person stand in one group"),
    "weight": (
        "adds up to one, or counts rows that all differ",
        "weigh the people of a sample, or count places by GroupCounts",
    ),
    "one each": ("has one row in most places", "give records of people, or GroupCounts of places"),
    "survey code": ("is {}, as it is for nobody among people", "code the survey as people are coded"),
    "coordinates": ("names the latitude first, or holds it there", "name the longitude first: coords=('lon', 'lat')"),
    "unlike totals": (
        "weighs places unlike their totals: {} by people and by totals",
        "give weights that add up to the people of a place",
    ),
}
"""What each test finds, and what to do about it."""
DESIGN = re.compile(r"_?(?:sdmv|v)?(?:ststr|strata?|stratum|psu|secu|clusters?)(?:_?id|um)?", re.IGNORECASE)
ENDS, MOST_TIMES, MOST_LEVELS, FIRST_ROWS, FEWEST = 16, 1000, 1000, 20_000, 30
"""Values at each end of a column that are looked at, how often each counts, levels of text, rows that are compared, and the fewest rows
whose numbers may tell rows or places."""
FEW_NUMBERS, FEW_LEVELS, STRAY_SHARE = 100, 10, 0.1
WHOLE = 0.005
"""Largest difference between a whole and its shares that is rounding."""
MOST_APART, MOST_OFF, ENOUGH_PEOPLE = 0.3, 0.02, 0.9
"""Weights of places whose logarithms are so far from those of totals move a rate by so much; GroupCounts hold so many of the trials."""


@dataclass(frozen=True)
class Finding:
    """One thing that looks wrong.

    Attributes
    ----------
    test : str
        The test that found it, a name of ``TESTS``.
    where : str
        The noun and its column.
    n : int
        Rows, levels or places concerned.
    names : tuple
        What was found there.
    """

    test: str
    where: str
    n: int
    names: tuple[Any, ...] = ()

    @property
    def what(self) -> str:
        """Say what is odd."""
        return TESTS[self.test][0].format(listed(self.names, 3))

    @property
    def sentence(self) -> str:
        """Say it as a warning."""
        repair = TESTS[self.test][1]
        return f"{self.where} {self.what} ({self.n:,}). {repair[0].upper()}{repair[1:]}."


@dataclass(frozen=True, repr=False)
class Audit:
    """What the tests found, a row for each thing.

    Attributes
    ----------
    findings : tuple of Finding
    """

    findings: tuple[Finding, ...]

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def sentences(self) -> list[str]:
        """Say each finding as a warning."""
        return [one.sentence for one in self]

    def to_frame(self, kind: frames.FrameKind = "pyarrow") -> Any:
        """Give the findings as a dataframe: test, where, what, n, to_do."""
        names = ("test", "where", "what", "n", "to_do")
        rows = [(one.test, one.where, one.what, one.n, TESTS[one.test][1]) for one in self]
        schema = pa.schema([(name, pa.int64() if name == "n" else pa.string()) for name in names])
        return frames.from_arrow(
            pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema), kind
        )

    def __repr__(self) -> str:
        shown = [f"- {sentence}" for sentence in self.sentences[:ENDS]]
        shown += [f"- and {len(self) - ENDS:,} more; see to_frame()"] if len(self) > ENDS else []
        return "\n".join([f"{len(self)} findings by {len(TESTS)} tests of what looks wrong", *shown])


@dataclass(frozen=True, eq=False)
class Sheet:
    """A noun as the tests see it.

    Attributes
    ----------
    noun : str
    people : People
        Its table; ``features`` are the columns that models use, ``keys``, ``weight`` and ``where`` those of People.
    counts : tuple of tuple of str
        Columns of counts that add up to at most the whole.
    whole : str or None
        Column of what the counts are parts of.
    population : str or None
        Column of everybody.
    shared : bool
        Whether the counts may be shares of the whole.
    coords : tuple of str
    """

    noun: str
    people: People
    counts: tuple[tuple[str, ...], ...] = ()
    whole: str | None = None
    population: str | None = None
    shared: bool = False
    coords: tuple[str, ...] = ()

    def column(self, name: str) -> str:
        """Say where something was found."""
        return f"{self.noun}: {name!r}"

    @cached_property
    def table(self) -> pa.Table:
        """A table that is in memory."""
        return self.people.answer("select * from people")

    def numbers(self, name: str) -> FloatArray:
        """Read a column of numbers, in memory; missing ones are zero."""
        return np.nan_to_num(frames.column(self.table, name, self.noun), posinf=0.0, neginf=0.0)

    @cached_property
    def places(self) -> pa.Table:
        """Where rows are: key, people and weight of each place."""
        keys, w = ", ".join(map(quoted, self.people.keys)), self.people.weight_sql
        return self.people.answer(f"select {keys}, count(*) as n, sum({w}) as weight from people group by {keys}")

    def levels(self, name: str) -> dict[Any, int]:
        """Levels of a column, the first thousand, and how often each is there."""
        c = quoted(name)
        counted = f"select {c} as level, count(*) as n from people where {c} is not null group by {c}"
        table = self.people.answer(f"{counted} limit {MOST_LEVELS + 1}")
        return dict(zip(table["level"].to_pylist(), table["n"].to_pylist(), strict=True))

    @cached_property
    def texts(self) -> dict[str, dict[Any, int]]:
        """Features of text, with their levels."""
        kinds = {name: kind_of(self.people.schema.field(name).type) for name in self.people.features}
        return {name: self.levels(name) for name, kind in kinds.items() if kind == "text"}

    @cached_property
    def seen(self) -> dict[str, dict[str, Any]]:
        """Count, ends and sum of every column of numbers or text: of text the sum of its lengths."""
        more = [name for own in (*self.counts, (self.whole, self.people.weight)) for name in own if name is not None]
        names = [*dict.fromkeys((*self.people.features, *more))]
        kinds = {n: kind_of(self.people.schema.field(n).type) for n in names}
        names, asked = [n for n in names if kinds[n] in ("number", "text")], ["count(*) as n_rows"]
        for i, name in enumerate(names):
            c = quoted(name)
            size = c if kinds[name] == "number" else f"length({c})"
            asked += [f"count({c}) as n{i}, min({c}) as low{i}, max({c}) as high{i}"]
            asked += [f"sum(cast({size} as double)) as sum{i}"]
        row = self.people.answer(f"select {', '.join(asked)} from people").to_pylist()[0]
        return {
            name: {fact: row[f"{fact}{i}"] for fact in ("n", "low", "high", "sum")}
            | {"rows": row["n_rows"], "kind": kinds[name]}
            for i, name in enumerate(names)
            if row[f"n{i}"]
        }

    def only(self, expression: str, source: str = "people") -> Any:
        """Ask for one number."""
        return self.people.answer(f"select {expression} as n from {source}")["n"][0].as_py()

    def hold(self, condition: str, source: str = "people") -> int:
        """Count the rows of which a condition is true."""
        return int(self.only(f"count(case when {condition} then 1 end)", source))


@runtime_checkable
class Audited(Protocol):
    """A noun of one room, which says itself what its columns are."""

    def sheets(self) -> list[Sheet]:
        """Say what its columns are."""


def audit(*nouns: Any) -> Audit:
    """List what looks wrong in data: codes of missing values, totals among rows, names spelled in two ways, and the like.

    A fit warns of the same. Nothing of it is impossible, so nothing is refused and nothing is changed.

    Parameters
    ----------
    nouns : People, GroupCounts, Places, Survey, PublishedShares, Counts, Bags, dataframe or path
        Those that go into one fit belong in one call: a survey is compared with the people, and these with the totals.

    Returns
    -------
    Audit
        ``to_frame()`` gives a row for each thing found: the test, where, what, how many, what to do.

    Examples
    --------
    >>> import crosslevel as cl
    >>> people = cl.People({"town": ["a", "A ", "b"] * 20, "age": [30, 41, 999] * 20}, by="town")
    >>> cl.audit(people)
    2 findings by 15 tests of what looks wrong
    - people: 'age' is 999, far from all other values (20). Make it missing, if it is a code of missing values.
    - people: 'town' has names that differ by blanks, case or letters that look alike: 'A ', 'a' (2). Write them alike.
    """
    sheets = _sheets(nouns)
    found = [one for sheet in sheets for test in (_columns, _names, _rows, _counts) for one in test(sheet)]
    by_kind: defaultdict[str, list[Sheet]] = defaultdict(list)
    for sheet in sheets:
        by_kind[sheet.noun.split()[0]].append(sheet)
    for one, other, test in (
        ("groups", "places", _groups),
        ("survey", "people", _survey),
        ("people", "places", _unlike),
    ):
        found += [finding for a in by_kind[one] for b in by_kind[other] for finding in test(a, b)]
    return Audit(tuple(found))


def _sheets(nouns: Iterable[Any]) -> list[Sheet]:
    """Say of every noun what its columns are."""
    given = [one for noun in nouns for one in (noun if isinstance(noun, list | tuple) else [noun]) if one is not None]
    places = next((one for one in given if isinstance(one, Places)), None)
    found = []
    for one in given:
        if isinstance(one, People):
            found.append(Sheet("people", one))
        elif isinstance(one, Places):
            means = () if one.published is None else one.published.names
            found.append(_of_places("places", one.table, one, (*(one.covariates or ()), *means)))
        elif isinstance(one, GroupCounts):
            if places is None:
                raise InputError("GroupCounts name columns of places; pass these too: audit(groups, places).")
            groups = tuple(tuple(levels.values()) for levels in one.groups.values())
            table = People(places.table, by=places.by, columns=())
            whole = one.weight or places.population
            found.append(Sheet("groups", table, groups, whole, shared=one.weight is not None))
        elif isinstance(one, Audited):
            found += one.sheets()
        elif isinstance(one, Survey):
            roles = {one.outcome, *one.weights}
            columns = [n for n in one.table.column_names if n not in roles and n != one.by]
            weight = one.weights[0] if one.weights else None
            found.append(Sheet(f"survey {one.name!r}", People(one.table, by=one.by, weight=weight, columns=columns)))
        elif isinstance(one, PublishedShares):
            named = places or Places(one.table, by=one.subgroup)
            counted = {*(named.outcomes or ()), named.successes, named.trials} <= {*one.table.column_names, None}
            found += [_of_places("published shares", one.table, named)] if counted else []
        elif isinstance(one, Bags):
            values = one.values[:FIRST_ROWS] if one.stored else one.values
            table = pa.table({name: values[:, j] for j, name in enumerate(one.columns)})
            found.append(Sheet("bags", People(table, columns=one.columns)))
        else:
            found.append(Sheet("table", People(one)))
    return found


def _of_places(noun: str, table: pa.Table, places: Places, columns: Sequence[str] = ()) -> Sheet:
    parts = tuple(places.outcomes or ()) or ((places.successes,) if places.successes else ())
    by, population = (places.by, places.population) if noun == "places" else (None, None)
    people = People(table, by=by, columns=tuple(columns))
    coords = tuple(places.coords or ()) if noun == "places" else ()
    return Sheet(noun, people, (parts,) if parts else (), places.trials, population, coords=coords)


# columns ----------------------------------------------------------------------------------------------------------


def _columns(sheet: Sheet) -> Iterator[Finding]:
    """Look at every column by itself, then for columns that are given twice."""
    people, alike = sheet.people, defaultdict(list)
    for name, seen in sheet.seen.items():
        if seen["low"] != seen["high"] and seen["rows"] >= 3:
            alike[tuple(seen.values())].append(name)
        if name not in people.features or name in people.categorical:
            continue
        if DESIGN.fullmatch(name) or _numbers_rows(sheet, name, seen):
            yield Finding("row number", sheet.column(name), seen["rows"])
        elif seen["kind"] == "number":
            if codes := columns.missing_codes(_ends(people, name, seen)):
                n = sheet.hold(f"{quoted(name)} in ({', '.join(map(repr, codes))})")
                yield Finding("missing code", sheet.column(name), n, tuple(map(int, codes)))
        elif not pa.types.is_dictionary(people.table.stored.field(name).type):
            texts = sheet.texts[name]
            strange = [v for v in texts if not frames.NUMBER.fullmatch(v)]
            slips = len(texts) >= FEW_LEVELS and len(strange) < STRAY_SHARE * len(texts)
            if slips and not any(re.fullmatch(CODE, v) for v in texts):
                yield Finding("numbers as text", sheet.column(name), len(texts) - len(strange), tuple(strange))
    for names in alike.values():
        for one, other in combinations(names, 2):
            if not sheet.hold(f"{quoted(one)} is distinct from {quoted(other)}"):
                yield Finding("column twice", sheet.column(other), sheet.seen[one]["rows"], (one,))


def _numbers_rows(sheet: Sheet, name: str, seen: Mapping[str, Any]) -> bool:
    """Tell whether a column has another value in every row: whole numbers without a gap, or text."""
    if seen["n"] < seen["rows"] or seen["rows"] < FEWEST:
        return False
    if seen["kind"] == "number":
        every = seen["high"] - seen["low"] + 1 == seen["rows"]
        several = every and float(seen["low"]).is_integer()
    else:
        several = len(sheet.texts[name]) >= min(seen["rows"], MOST_LEVELS)
    return several and sheet.only(f"count(distinct {quoted(name)})") == seen["rows"]


def _ends(people: People, name: str, seen: Mapping[str, Any]) -> FloatArray:
    """Give the lowest and the highest values of a column, as often as they are there, if one of them may be a code."""
    if not columns.may_be_code(seen["low"], seen["high"]):
        return np.zeros(0)
    x = f"cast({quoted(name)} as double)"
    kinds = f"select {x} as x, count(*) as n from people where {x} is not null group by 1"
    low, high = (people.answer(f"{kinds} order by 1 {way} limit {ENDS}") for way in ("asc", "desc"))
    both = pa.concat_tables([low, high]).group_by("x").aggregate([("n", "max")])
    return np.repeat(both["x"].to_numpy(), np.minimum(both["n_max"].to_numpy(), MOST_TIMES))


def describe_codes(numbers: Mapping[str, FloatArray], noun: str) -> list[str]:
    """Say which columns of numbers, as a model of arrays holds them, look like codes of missing values."""
    said = []
    for name, x in numbers.items():
        if codes := columns.missing_codes(x):
            found = Finding("missing code", f"{noun}: {name!r}", int(np.isin(x, codes).sum()), tuple(map(int, codes)))
            said.append(found.sentence)
    return said


# names ------------------------------------------------------------------------------------------------------------


def _names(sheet: Sheet) -> Iterator[Finding]:
    """Look for names of places and levels that a reader would take for one."""
    written = dict(sheet.texts)
    if len(sheet.people.keys) == 1:
        own = sheet.places
        written |= {sheet.people.place: dict(zip(own.column(0).to_pylist(), own["n"].to_pylist(), strict=True))}
    for name, levels in written.items():
        if alike := columns.twins(levels):
            yield Finding("names alike", sheet.column(name), len(alike), tuple(alike))


# rows -------------------------------------------------------------------------------------------------------------


def _rows(sheet: Sheet) -> Iterator[Finding]:
    """Look at what rows and their weights stand for."""
    people, weight = sheet.people, sheet.people.weight
    if people.keys and sheet.noun == "people" and sheet.places.num_rows >= FEW_LEVELS:
        n = np.asarray(sheet.places["n"])
        if np.median(n) == 1:
            yield Finding("one each", sheet.column(people.keys[0]), int((n == 1).sum()))
    if weight is None or weight not in sheet.seen:
        return
    seen = sheet.seen[weight]
    if seen["rows"] > 1 and seen["low"] < 1 and abs(seen["sum"] - 1) < 1e-6:
        yield Finding("weight", sheet.column(weight), seen["rows"])
    few = all(_is_short(sheet, name) for name in people.features if name in sheet.seen)
    if seen["rows"] < FEWEST or not few or not 1 <= seen["low"] < seen["high"] or not float(seen["sum"]).is_integer():
        return
    w, columns = quoted(weight), ", ".join(map(quoted, (*people.keys, *people.features)))
    first = f"(select * from people limit {FIRST_ROWS}) people"
    fractions = sheet.hold(f"{w} <> floor({w})", first)
    kinds = sheet.only("count(*)", f"(select distinct {columns} from {first}) kinds") if columns else 0
    if not fractions and kinds == min(seen["rows"], FIRST_ROWS):
        yield Finding("weight", sheet.column(weight), seen["rows"])


def _is_short(sheet: Sheet, name: str) -> bool:
    """Tell whether a column has few values, as that of a table of counts has."""
    seen = sheet.seen[name]
    if seen["kind"] == "text":
        return len(sheet.texts[name]) <= FEW_NUMBERS
    return bool(seen["high"] - seen["low"] <= FEW_NUMBERS and float(seen["sum"]).is_integer())


# counts -----------------------------------------------------------------------------------------------------------


def _counts(sheet: Sheet) -> Iterator[Finding]:
    """Look at counts that add up to a whole, and at where places are."""
    if sheet.counts:
        whole = None if sheet.whole is None else sheet.numbers(sheet.whole)
        if sheet.population is not None and whole is not None:
            yield from _measured(sheet, (str(sheet.whole),), whole[None, :], sheet.numbers(sheet.population))
        every = [] if whole is None else [whole]
        for names in sheet.counts:
            parts = np.vstack([sheet.numbers(name) for name in names])
            every += list(parts)
            if not sheet.shared:
                yield from _measured(sheet, names, parts, None if sheet.noun in ("groups", "counts") else whole)
                over = 0 if whole is None else int((parts.sum(axis=0) > (1 + WHOLE) * whole).sum())
                if whole is not None and over > len(whole) / 2:
                    yield Finding("overlap", sheet.column(names[0]), over, (sheet.whole,))
            if (at := columns.total_column(parts.T)) is not None:
                others = tuple(name for name in names if name != names[at])
                yield Finding("total column", sheet.column(names[at]), parts.shape[1], others)
        found = np.column_stack(every)
        totals = (columns.total_rows(found) or columns.subtotal_rows(found)) if len(sheet.people.keys) == 1 else []
        if totals:
            keys = sheet.table[sheet.people.place].take(pa.array(totals)).to_pylist()
            yield Finding("total row", sheet.column(sheet.counts[0][0]), len(totals), tuple(keys))
    if len(sheet.coords) == 2:
        first, second = (name.casefold() for name in sheet.coords)
        degrees = first in LONGITUDES and second in LATITUDES
        far = degrees and np.abs(sheet.numbers(sheet.coords[1])).max(initial=0) > 90
        if far or (first in LATITUDES and second in LONGITUDES):
            yield Finding("coordinates", sheet.column(sheet.coords[0]), sheet.table.num_rows)


def _measured(sheet: Sheet, names: Sequence[str], parts: FloatArray, n: FloatArray | None) -> Iterator[Finding]:
    """Look for shares and percent in place of counts."""
    flags = any(pa.types.is_boolean(sheet.table[name].type) for name in names)
    if (test := columns.measure(parts, n, flags)) is not None:
        yield Finding(test, sheet.column(names[0]), parts.shape[1])


# one noun beside another ------------------------------------------------------------------------------------------


def _groups(groups: Sheet, places: Sheet) -> Iterator[Finding]:
    """Compare counts of groups with the trials of the same places."""
    if places.whole is None:
        return
    n = places.numbers(places.whole)
    for names in groups.counts:
        parts = np.vstack([groups.numbers(name) for name in names])
        for name, part in zip(names, parts, strict=True):
            if np.array_equal(part, n):
                yield Finding("column twice", groups.column(name), len(n), (places.whole,))
        people = parts.sum(axis=0) if groups.whole is None else groups.numbers(groups.whole)
        short = people < ENOUGH_PEOPLE * n
        if short.mean() > 0.5:
            i = int(np.argmax(short))
            said = (places.table[places.people.place][i].as_py(), float(people[i]), float(n[i]))
            yield Finding("unlike totals", groups.column(names[0]), int(short.sum()), said)


def _survey(sheet: Sheet, people: Sheet) -> Iterator[Finding]:
    """Look for codes of a survey that nobody among the people has."""
    for name in sorted({*people.texts, *people.people.categorical} & {*sheet.people.schema.names}):
        levels, known = sheet.levels(name), people.levels(name)
        strange = [v for v in levels if v not in known]
        if strange and 0 < len(known) <= MOST_LEVELS:
            yield Finding("survey code", sheet.column(name), sum(levels[v] for v in strange), tuple(strange))


def _unlike(people: Sheet, places: Sheet) -> Iterator[Finding]:
    """Compare where people live with the totals of places, and how both are called."""
    if people.people.keys != places.people.keys:
        return
    key, here = people.people.place, people.places
    weight = dict(zip(here.column(0).to_pylist(), here["weight"].to_pylist(), strict=True))
    keys = places.table[key].to_pylist()
    lone = [name for name in columns.twins({*weight, *keys}) if name not in weight or name not in keys]
    if lone:
        yield Finding("names alike", f"people and places: {key!r}", len(lone), tuple(lone))
    if not places.counts:
        return
    parts = np.vstack([places.numbers(name) for name in places.counts[0]])
    n = parts.sum(axis=0) if places.whole is None else places.numbers(places.whole)
    w = np.array([weight.get(one) or 0.0 for one in keys], dtype=np.float64)
    if places.population is not None:
        w = w * n / np.maximum(places.numbers(places.population), 1e-300)
    both = (w > 0) & (n > 0)
    w, n, parts = w[both], n[both], parts[:, both]
    if len(n) < FEW_LEVELS or np.log(w / n).std() <= MOST_APART:
        return
    rates, counted = (parts / n) @ w / w.sum(), parts.sum(axis=1) / n.sum()
    i = int(np.argmax(np.abs(rates - counted)))
    if abs(rates[i] - counted[i]) > MOST_OFF:
        said = (places.counts[0][i], round(float(rates[i]), 3), round(float(counted[i]), 3))
        yield Finding("unlike totals", people.column(people.people.weight or key), len(n), said)
