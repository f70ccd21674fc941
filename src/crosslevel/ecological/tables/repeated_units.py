"""Names of units, and people who would count twice: in units named more than once, and in totals that stand among what they add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from crosslevel.data import checks
from crosslevel.data.patterns import total_column, total_rows
from crosslevel.ecological.tables.cleaning import Margins, Notes, check_choice, sides
from crosslevel.errors import InputError, listed

Duplicates = Literal["error", "drop_identical", "sum"]


def unrepeated(m: Margins, duplicates: Duplicates, named: bool = True) -> tuple[Margins, Notes]:
    """Treat units named more than once: refuse them, keep one of identical rows, or sum their rows.

    Parameters
    ----------
    m : Margins
        In counts.
    duplicates : {"error", "drop_identical", "sum"}
    named : bool, default True
        Whether the caller named the units. Where not, rows that are equal in all columns count as identical.
    """
    check_choice("duplicates", duplicates, ("error", "drop_identical", "sum"))
    if not named:
        return _dropped(m, copies(m, named=False)) if duplicates == "drop_identical" else (m, ())
    again = copies(m)
    if duplicates == "sum":
        return _summed(m, again)
    notes: Notes = ()
    if duplicates == "drop_identical":
        m, notes = _dropped(m, again)
    repeated = _repeated(m)
    if repeated:
        equal = (
            f"{int(again.sum()):,} of their rows are equal to another in all columns"
            if again.any()
            else "their rows differ"
        )
        raise InputError(
            f"units names {len(repeated):,} unit(s) more than once ({listed(repeated)}); {equal}. Rename them, name units by several "
            "columns (county and precinct), or pass unit_tables(..., duplicates='drop_identical') to keep one of equal rows, "
            "duplicates='sum' to sum the rows of a unit."
        )
    return m, notes


def copies(m: Margins, named: bool = True) -> npt.NDArray[np.bool_]:
    """Tell which rows are equal, in name and in all columns, to a row above them.

    Examples
    --------
    >>> import numpy as np
    >>> m = Margins(np.array([[1.0, 2], [3, 4], [1, 2]]), np.array([[3.0, 0], [7, 0], [3, 0]]), ("g", "h"), ("y", "n"), ("a", "b", "a"))
    >>> copies(m).tolist()
    [False, False, True]
    """
    seen: set[tuple[object, bytes]] = set()
    out = np.zeros(len(m.units), dtype=np.bool_)
    for i, row in enumerate(np.column_stack([m.X, m.T]) + 0.0):  # -0.0 is 0.0
        key = (m.units[i] if named else None, row.tobytes())
        out[i] = key in seen
        seen.add(key)
    return out


def _dropped(m: Margins, again: npt.NDArray[np.bool_]) -> tuple[Margins, Notes]:
    if not again.any():
        return m, ()
    people = m.X[again].sum()
    note = (
        f"{int(again.sum()):,} row(s) equal to another in all columns were left out, first {m.units[int(np.argmax(again))]!r}: "
        f"{people:,.6g} people who would count again."
    )
    return m.rows(~again), (note,)


def _summed(m: Margins, again: npt.NDArray[np.bool_]) -> tuple[Margins, Notes]:
    repeated = _repeated(m)
    if not repeated:
        return m, ()
    times = Counter(m.units)
    place = {u: k for k, u in enumerate(times)}
    code = np.array([place[u] for u in m.units])
    X, T = np.zeros((len(times), m.X.shape[1])), np.zeros((len(times), m.T.shape[1]))
    np.add.at(X, code, m.X)
    np.add.at(T, code, m.T)
    note = (
        f"{sum(times[u] for u in repeated):,} rows of {len(repeated):,} unit(s) named more than once were summed "
        f"({listed(repeated)}); {int(again.sum()):,} of them are equal to another in all columns."
    )
    return replace(m, X=X, T=T, units=tuple(times)), (note,)


def _repeated(m: Margins) -> list[object]:
    return [u for u, k in Counter(m.units).items() if k > 1]


def refuse_totals(m: Margins) -> None:
    """Refuse a column that is the sum of the others of its margin, and a unit that is the sum of all others."""
    for argument, names, values in sides(m):
        found = total_column(values)
        if found is not None:
            raise InputError(
                f"{argument}: {names[found]!r} is the sum of the other columns in every unit, so that everybody counts twice; leave it out."
            )
    rows = total_rows(np.column_stack([m.X, m.T]))
    if rows:
        raise InputError(
            f"units: {m.units[rows[0]]!r} counts in every group and outcome what the other units count together, so that everybody "
            "counts twice; leave its row out."
        )


def unit_names(units: Sequence[object] | None, n: int) -> tuple[object, ...]:
    """Name every row, by ``units`` or by number; names may repeat."""
    if units is None:
        return tuple(range(n))
    if isinstance(units, str) or not isinstance(units, Iterable):
        raise InputError(f"units={units!r} is not a sequence of names; pass one name per row of groups.")
    given = list(getattr(units, "to_pylist", lambda: units)())  # of pyarrow
    if len(given) != n:
        raise InputError(f"units has {len(given):,} names for {n:,} rows of groups; name each unit once.")
    names = tuple(getattr(u, "item", lambda u=u: u)() for u in given)
    if any(isinstance(u, tuple | list | dict | set) for u in names):
        raise InputError(
            "units holds names of several parts; join them to one text each, for example 'county/precinct'."
        )
    if len({isinstance(u, str) for u in names if u is not None}) > 1:
        raise InputError("units mixes texts and numbers, so '1' and 1 could not be told apart; make all names text.")
    gone = [i for i, u in enumerate(names) if u is None or u != u]
    if gone:
        raise InputError(f"units has {len(gone):,} missing name(s), the first in row {gone[0]:,}; name each unit.")
    return names


def refuse_other_order(names: tuple[object, ...], index: list[object]) -> None:
    """Refuse names that the index gives to other rows; numbers in an index may be what a filter left, and mean nothing."""
    if not index or tuple(index) == names:
        return
    known = set(index)
    texts = [i for i, name in enumerate(names) if isinstance(name, str) and name in known and index[i] != name]
    if texts or Counter(index) == Counter(names):
        i = texts[0] if texts else next(i for i, name in enumerate(names) if index[i] != name)
        raise InputError(
            f"units names row {i:,} {names[i]!r}, which the index of groups names {index[i]!r}, and has the same names in another order; "
            "leave units out, or pass them in the order of the rows of groups."
        )


def row_names(values: object, groups: object, units: Sequence[object]) -> Sequence[object] | None:
    """Choose the names of the rows of groups by which a Series or frame is matched: those of the index, or else those of the units."""
    labels, keys = set(checks.names_of(values) or ()), checks.row_keys(groups)
    if labels & set(checks.names_of(groups) or ()) or not units or (labels != set(units) and labels == set(keys or ())):
        return keys
    return units if labels & set(units) or all(isinstance(label, str) for label in labels) else keys
