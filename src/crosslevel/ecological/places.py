"""The table of places: totals, coordinates and groups, checked and matched with where people live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data import checks, frames, grouping
from crosslevel.data.fingerprint import fingerprint
from crosslevel.errors import InputError, listed

__all__ = ["Places", "Totals", "coordinates", "match", "read_places"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Totals:
    """What was counted in the places, as a chain of questions.

    Each is asked of those who said no to the one before; the first, when turnout is modelled, of everybody.

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

    def take(self, rows: IntArray) -> Totals:
        """Keep some places."""
        return Totals(self.outcomes, self.successes[:, rows], self.trials[:, rows], self.turnout)


@dataclass(frozen=True, eq=False)
class Places:
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

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: IntArray, notes: Sequence[str] = ()) -> Places:
        """Keep some places, in the order given."""
        return Places(
            self.table.take(pa.array(rows)),
            self.by,
            [self.keys[i] for i in rows],
            self.totals.take(rows),
            None if self.coords is None else self.coords[rows],
            self.coords_by,
            self.frame,
            self.fingerprint,
            (*self.notes, *notes),
        )

    def column(self, name: str, argument: str) -> list[object]:
        """Give a column of the caller's table, none missing."""
        groups = grouping.group_rows(self.table, name, argument)
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
) -> Places:
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
    table = frames.to_arrow(places, "places")
    frames.check_columns(table, [by], "by")
    grouping.check_unique(table, by, "places: by")
    names = table[by].to_pylist()
    totals = _totals(table, names, successes, trials, outcomes, population)
    where = None if coords is None else coordinates(table, coords, names)
    pair = None if coords is None else tuple(coords)
    found = Places(table, by, names, totals, where, pair, frames.frame_kind(places), fingerprint(table))
    asked = totals.trials[1 if totals.turnout and len(totals.trials) > 1 else 0] > 0
    if not asked.any():
        raise InputError(f"trials column {trials!r} is zero in every place; pass places with totals.")
    if not asked.all():
        lost = [names[i] for i in np.flatnonzero(~asked)]
        found = found.take(
            np.flatnonzero(asked), [f"{len(lost):,} place(s) without any trials were left out ({listed(lost)})."]
        )
    return found


def match(found: Places, keys: Sequence[object], weight: FloatArray, n_rows: IntArray, unmatched: str) -> Places:
    """Keep the places where people live, and refuse (or tell) what has no partner.

    Parameters
    ----------
    found : Places
    keys, weight, n_rows
        Where people live, how much they weigh and how many they are.
    unmatched : {"error", "drop"}
    """
    if unmatched not in ("error", "drop"):
        raise InputError(f"unmatched={unmatched!r} is neither 'error' nor 'drop'; pass one of them.")
    have, want = set(keys), set(found.keys)
    empty = [k for k in found.keys if k not in have]
    strange = [i for i, k in enumerate(keys) if k not in want]
    sentences = []
    if strange:
        part = float(weight[strange].sum() / weight.sum())
        sentences.append(
            f"{int(n_rows[strange].sum()):,} people ({100 * part:.2g} % of the weight) live in {len(strange):,} place(s) that "
            f"places lacks ({listed([keys[i] for i in strange])})"
        )
    if empty:
        sentences.append(f"{len(empty):,} place(s) have no people of positive weight ({listed(empty)})")
    if not sentences:
        return found
    if unmatched == "error" or len(empty) == len(found.keys):
        repair = (
            f"check that {found.by!r} has the same type and spelling in both tables"
            if len(empty) == len(found.keys)
            else "correct the keys, or pass unmatched='drop' to leave them out"
        )
        raise InputError(f"people and places do not match: {'; '.join(sentences)}. {repair[0].upper()}{repair[1:]}.")
    kept = np.array([i for i, k in enumerate(found.keys) if k in have], dtype=np.intp)
    return found.take(kept, [f"Left out: {'; '.join(sentences)}."])


def _totals(
    table: pa.Table,
    names: Sequence[object],
    successes: str | None,
    trials: str | None,
    outcomes: Sequence[str] | None,
    population: str | None,
) -> Totals:
    def counts(name: str, argument: str) -> FloatArray:
        values = frames.column(table, name, argument)
        return checks.check_counts(values, f"{argument} column {name!r}", 1, names)

    if outcomes is not None:
        if successes is not None:
            raise InputError(
                "successes and outcomes are both given; name one outcome in successes or several in outcomes."
            )
        chosen = list(grouping.as_names(outcomes, "outcomes"))
        parts = np.vstack([counts(name, "outcomes") for name in chosen])
        n = parts.sum(axis=0) if trials is None else counts(trials, "trials")
        checks.check_successes(parts.sum(axis=0), n, names)
        if np.allclose(parts.sum(axis=0), n, rtol=1e-12) and len(chosen) > 1:
            left = n - np.vstack([np.zeros_like(n), np.cumsum(parts[:-1], axis=0)])[:-1]
            k = parts[:-1]
        else:
            left = n - np.vstack([np.zeros_like(n), np.cumsum(parts, axis=0)])[:-1]
            k = parts
        left = np.maximum(left, k)
    else:
        if successes is None or trials is None:
            raise InputError("successes and trials are missing; name the columns of places that hold the counts.")
        chosen = [successes]
        first, n = checks.check_successes(counts(successes, "successes"), counts(trials, "trials"), names)
        k, left = first[None, :], n[None, :]
    if population is None:
        return Totals(tuple(chosen), k, left, False)
    everybody = counts(population, "population")
    over = n > everybody
    if over.any():
        i = int(np.argmax(over))
        raise InputError(
            f"trials exceed the population column {population!r} in {int(over.sum()):,} place(s), first in {names[i]!r} "
            f"({n[i]:g} > {everybody[i]:g}); check the two columns."
        )
    return Totals(tuple(chosen), np.vstack([n, k]), np.vstack([everybody, left]), True)


def coordinates(table: pa.Table, coords: Sequence[str], names: Sequence[object]) -> FloatArray:
    """Read the coordinates of places, (q, 2)."""
    pair = grouping.as_names(coords, "coords")
    if len(pair) != 2:
        raise InputError(f"coords={list(pair)!r} names {len(pair)} column(s); name two, longitude and latitude.")
    xy = [checks.check_finite(frames.column(table, c, "coords"), f"coords column {c!r}", 1, names) for c in pair]
    return np.column_stack(xy)
