"""Names of units, and people who would count twice.

People count twice in units named more than once (rows pasted in again, told from parts of a unit), and in totals that stand among the
units or among the columns they are totals of.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from crosslevel.data import checks
from crosslevel.data.totals import SAME_SUM, total_column, total_rows
from crosslevel.ecological.tables.cleaning import Margins, Notes, check_choice, sides
from crosslevel.ecological.tables.shares import SHARE_ROUNDING
from crosslevel.errors import InputError, listed
from crosslevel.typing import FloatArray

Duplicates = Literal["error", "drop_identical", "sum"]

LARGE_UNIT = 100
"""People of a unit without a name beyond which another with the same counts in every column is likelier a copy than chance."""

TOTAL_NAME = re.compile(r"total|gesamt|(?<![^\W_])((sub)?tot|sum|summe|all|overall|\w+-?wide)(?![^\W_])", re.IGNORECASE)
"""Names of units that say that they are a total."""


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
    m = _with_one_name(m)
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
    out = np.zeros(len(m.units), dtype=np.bool_)
    for i, row in enumerate(_rows(m)):
        key = (m.units[i] if named else None, row)
        out[i] = key in seen
        seen.add(key)
    return out


def _with_one_name(m: Margins) -> Margins:
    """Give equal rows whose names differ in white space only (in large units also in case) the name of the first of them."""
    first: dict[tuple[object, bytes], object] = {}
    names = []
    for u, row, n in zip(m.units, _rows(m), m.X.sum(axis=1), strict=True):
        plain = " ".join(u.split()) if isinstance(u, str) and n > 0 else u
        plain = plain.casefold() if isinstance(plain, str) and n > LARGE_UNIT else plain
        names.append(first.setdefault((plain, row), u))
    return replace(m, units=tuple(names))


def _rows(m: Margins) -> list[bytes]:
    return [row.tobytes() for row in np.column_stack([m.X, m.T]) + 0.0]  # -0.0 is 0.0


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
        f"another in all columns (first {_first(m, again)}), as if pasted in again (under names that may differ in blanks or case). "
        "Let unit_tables(..., duplicates='drop_identical') keep one of each"
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


def refuse_total_columns(m: Margins) -> None:
    """Refuse a column that is the sum of the others of its margin, and one that both margins have with the same values."""
    for argument, names, values in sides(m):
        found = total_column(values)
        if found is not None:
            raise InputError(
                f"{argument}: {names[found]!r} is the sum of the other columns in every unit, so that everybody counts twice; leave it out."
            )
        whole, *parts = sum_column(values)
        if parts:
            raise InputError(
                f"{argument}: {names[whole]!r} is the sum of {listed([names[j] for j in parts])} in every unit, so that their people "
                "count twice; leave it out, or leave these out."
            )
    for j, name in enumerate(m.groups):
        if name not in m.outcomes:
            continue
        x, t = m.X[:, j], m.T[:, m.outcomes.index(name)]
        known = np.isfinite(x)
        if np.array_equal(x, t, equal_nan=True) and known.sum() >= 3 and np.ptp(x[known]) > 0:
            raise InputError(
                f"groups and outcomes both have the column {name!r}, with the same values in every unit, so that it tells units and is "
                "neither a group nor an outcome; leave it out of both, and pass names of units as units=."
            )


def sum_column(counts: FloatArray) -> list[int]:
    """Find a column that is the sum of some others in every row, and name it and then these; of three rows with people, at least.

    Columns of few people, or of the same share in every row, may be such a sum by chance, and are left alone.

    Parameters
    ----------
    counts : (n_rows, n_columns)
        Rows with missing values are left out.

    Examples
    --------
    >>> import numpy as np
    >>> sum_column(np.array([[50.0, 10, 20, 30], [90, 5, 1, 6], [70, 70, 7, 77], [40, 11, 90, 101]]))
    [3, 1, 2]
    """
    known = counts[(counts > 0).any(axis=1) & np.isfinite(counts).all(axis=1)]
    share = known / known.sum(axis=1, keepdims=True)
    # the columns of the triangular factor add up where those of the counts do
    R: FloatArray = np.asarray(np.linalg.qr(known / known.max(initial=1.0), mode="r"))
    apart: list[int] = []
    for j in range(known.shape[1] if len(known) >= 3 else 0):
        slope = np.linalg.lstsq(R[:, apart], R[:, j])[0]
        relation = np.zeros(known.shape[1])
        relation[[*apart, j]] = [*np.round(slope), -1]
        relation *= 1 if (relation < 0).sum() == 1 else -1
        whole, parts = int(np.argmin(relation)), np.flatnonzero(relation == 1).tolist()
        adds_up = (
            np.abs(relation).sum() == 1 + len(parts) and (np.abs(known @ relation) <= SAME_SUM * known[:, whole]).all()
        )
        if adds_up and len(parts) > 1 and np.ptp(share[:, whole]) > SAME_SUM and known[:, whole].sum() > LARGE_UNIT:
            return [whole, *parts]
        if np.abs(R[:, apart] @ slope - R[:, j]).max() > SAME_SUM:
            apart.append(j)
    return [-1]


def refuse_total_unit(m: Margins, totals: Mapping[str, FloatArray] | None = None) -> None:
    """Refuse a unit that counts, in every group and outcome, what all others count together.

    Parameters
    ----------
    m : Margins
        In counts.
    totals : mapping of argument to (n_units,), optional
        What shares were multiplied by. Shares of a total are rounded: beside totals that add up, counts need do so within 2 %.
    """
    counts = np.column_stack([m.X, m.T])
    found = total_rows(counts)
    if totals:
        size, given = np.maximum(m.X.sum(axis=1), m.T.sum(axis=1)), np.column_stack(list(totals.values()))
        exact = (np.abs(2 * given - given.sum(axis=0)) <= SAME_SUM * given.sum(axis=0)).all(axis=1)
        near = np.abs(2 * counts - counts.sum(axis=0)).max(axis=1) <= SHARE_ROUNDING * size
        shares = counts[size > 0] / size[size > 0, None]
        if (
            len(shares) >= 3 and np.ptp(shares, axis=0).max() > 2 * SHARE_ROUNDING
        ):  # else one equal number makes all equal
            found += np.flatnonzero(exact & near & (size > 0)).tolist()
    if found:
        raise InputError(
            f"units: {m.units[found[0]]!r} counts in every group and outcome what the other units count together, so that everybody "
            "counts twice; leave its row out."
        )
    found = _subtotals(counts, m.units)
    if found:
        raise InputError(
            f"units: {listed([m.units[i] for i in found])}: by its counts in every group and outcome the sum of other units in a row, and "
            "by its name a total, so that people count twice; leave such rows out."
        )


def _subtotals(counts: FloatArray, units: Sequence[object]) -> list[int]:
    """Find the units that are called a total and count what others in a row count together: in small units two or more, beside it."""
    counts = np.nan_to_num(counts, posinf=0.0, neginf=0.0)
    called = np.array([isinstance(u, str) and TOTAL_NAME.search(u) is not None for u in units], dtype=np.bool_)
    other = ~called & counts.any(axis=1)
    sums = np.vstack([np.zeros(counts.shape[1]), counts[other].cumsum(axis=0)])
    people, start = sums.sum(axis=1), np.arange(len(sums))
    found = []
    for i in np.flatnonzero(called & counts.any(axis=1)).tolist():
        own, here = counts[i].sum(), other[:i].sum()
        end = np.minimum(np.searchsorted(people, people + own * (1 - SAME_SUM)), len(sums) - 1)
        same = (np.abs(sums[end] - sums - counts[i]) <= SAME_SUM * (sums[end] + 1)).all(axis=1)
        if (same & ((own > 2 * LARGE_UNIT) | ((end - start > 1) & ((end == here) | (start == here))))).any():
            found.append(i)
    return found


def refuse_subtotals(
    counts: tuple[FloatArray, FloatArray], units: Sequence[object], within: Sequence[object], argument: str
) -> None:
    """Refuse units that count what all others of the same county (or district) count together.

    Parameters
    ----------
    counts : (n_units, n_groups) and (n_units, n_outcomes)
    units, within : (n_units,)
        Names of the units, and of what each is a part of.
    argument : str
        What tells the parts.
    """
    found = [i for i in total_rows(np.column_stack(counts), within) if counts[0][i].sum() > LARGE_UNIT]
    if found:
        raise InputError(
            f"{argument}: {len(found):,} unit(s) count in every group and outcome what all others of {within[found[0]]!r} count together "
            f"({listed([units[i] for i in found])}), so that people count twice; leave these rows out."
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
