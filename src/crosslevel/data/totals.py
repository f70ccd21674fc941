"""Places with their totals, matched with the people who live there by key.

How ecological inference uses it: ``places = read_places(frame, by, successes, trials, coords=..., outcomes=..., population=...)``
checks counts and coordinates; ``match_places(places, keys, weight, n_rows, unmatched)`` keeps the places where people live, in the
order of ``keys``, and refuses (or names) what has no partner; ``check_people`` refuses people who are not those of the fit;
``read_counts`` and ``chain`` read the counts of any table (a survey, evidence) the same way. Means published by group are read in
:mod:`crosslevel.data.published`; counts of groups and outcomes by unit, with their repairs, are the tables' own
(:mod:`crosslevel.ecological`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from crosslevel.data import checks, frames
from crosslevel.data.frames import fingerprint
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.typing import FloatArray, IntArray

SAME = 1e-5
"""Relative difference of two sums of the same weights that is rounding, of single precision too."""


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
