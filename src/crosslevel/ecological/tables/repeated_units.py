"""Units named more than once: rows pasted in again, which count people twice, told from parts of a unit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from crosslevel.ecological.tables.cleaning import Margins, Notes, check_choice
from crosslevel.errors import InputError, listed

Duplicates = Literal["error", "drop_identical", "sum"]

LARGE_UNIT = 100
"""People of a unit without a name beyond which another with the same counts in every column is likelier a copy than chance."""


@dataclass(frozen=True)
class Unrepeated:
    """Margins in which every unit stands once.

    Attributes
    ----------
    margins : Margins
    notes : tuple of str
        What was changed, or looks wrong.
    copies_summed : str
        The one of the notes that says that equal rows were added up; empty when none were.
    """

    margins: Margins
    notes: Notes = ()
    copies_summed: str = ""


def unrepeated(m: Margins, duplicates: Duplicates, named: bool = True) -> Unrepeated:
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
        return _without_names(m, duplicates)
    again = copies(m)
    if duplicates == "drop_identical":
        m, notes = _dropped(m, again)
        _refuse_repeated(m, "drop the identical rows from your table, and")
        return Unrepeated(m, notes)
    if duplicates == "error":
        if again.any():
            _refuse_copies(m, again)
        _refuse_repeated(m, "rename them, name units by several columns (county and precinct), or")
        return Unrepeated(m)
    return _summed(m, again)


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
    rows = np.ascontiguousarray(np.column_stack([m.X, m.T]) + 0.0)  # -0.0 is 0.0
    out = np.zeros(len(rows), dtype=np.bool_)
    for i, row in enumerate(rows):
        key = (m.units[i] if named else None, row.tobytes())
        out[i] = key in seen
        seen.add(key)
    return out


def _without_names(m: Margins, duplicates: Duplicates) -> Unrepeated:
    again = copies(m, named=False)
    if duplicates == "drop_identical":
        return Unrepeated(*_dropped(m, again))
    large = again & (m.X.sum(axis=1) > LARGE_UNIT)
    if not large.any():
        return Unrepeated(m)
    note = (
        f"{int(large.sum()):,} row(s) of more than {LARGE_UNIT} people are equal in all columns to a row above them (first row "
        f"{_first(m, large)}). If they were pasted in again, people count twice: name the units, or pass duplicates='drop_identical'."
    )
    return Unrepeated(m, (note,))


def _dropped(m: Margins, again: npt.NDArray[np.bool_]) -> tuple[Margins, Notes]:
    if not again.any():
        return m, ()
    people = m.X[again].sum()
    note = (
        f"{int(again.sum()):,} row(s) equal to another in all columns were left out, first {_first(m, again)}: {people:,.6g} people who "
        "would count again."
    )
    return m.rows(~again), (note,)


def _refuse_copies(m: Margins, again: npt.NDArray[np.bool_]) -> None:
    repeated, apart = _repeated(m), _repeated(m.rows(~again))
    text = (
        f"units names {len(repeated):,} unit(s) more than once ({listed(repeated)}); {int(again.sum()):,} of their rows are equal to "
        f"another in all columns (first {_first(m, again)}), as if pasted in again. Let unit_tables(..., duplicates='drop_identical') "
        "keep one of each"
    )
    if apart:
        text += f"; the rows of {len(apart):,} unit(s) differ ({listed(apart)}): rename these"
    raise InputError(f"{text}.")


def _refuse_repeated(m: Margins, repair: str) -> None:
    repeated = _repeated(m)
    if repeated:
        raise InputError(
            f"units names {len(repeated):,} unit(s) more than once ({listed(repeated)}), with rows that differ; {repair} let "
            "unit_tables(..., duplicates='sum') sum their rows."
        )


def _summed(m: Margins, again: npt.NDArray[np.bool_]) -> Unrepeated:
    repeated = _repeated(m)
    if not repeated:
        return Unrepeated(m)
    times = Counter(m.units)
    place = {u: k for k, u in enumerate(times)}
    code = np.array([place[u] for u in m.units])
    X, T = np.zeros((len(times), m.X.shape[1])), np.zeros((len(times), m.T.shape[1]))
    np.add.at(X, code, m.X)
    np.add.at(T, code, m.T)
    note = (
        f"{sum(times[u] for u in repeated):,} rows of {len(repeated):,} unit(s) named more than once were summed "
        f"({listed(repeated)})."
    )
    doubled = again & (m.X.sum(axis=1) > 0)
    warning = ""
    if doubled.any():
        warning = (
            f"duplicates='sum' added {int(doubled.sum()):,} row(s) that are equal to another of their unit in all columns (first "
            f"{_first(m, doubled)}): {m.X[doubled].sum():,.6g} people count again if these rows were pasted in twice. "
            "duplicates='drop_identical' keeps one of each."
        )
    return Unrepeated(
        replace(m, X=X, T=T, units=tuple(times)), (note, *([warning] if warning else [])), copies_summed=warning
    )


def _repeated(m: Margins) -> list[object]:
    return [u for u, k in Counter(m.units).items() if k > 1]


def _first(m: Margins, which: npt.NDArray[np.bool_]) -> str:
    return repr(m.units[int(np.argmax(which))])
