"""Shares and percentages brought to counts: each margin by its own total, and only where it adds up to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from crosslevel.ecological.tables.cleaning import MARGIN_TOLERANCE, Margins, Notes, off_balance, sides
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

SHARE_ROUNDING = 0.02
"""The most that rounding can be taken for, of a whole of one: four options to the nearest percent."""

FINEST = 6
"""Decimals beyond which numbers are taken for not rounded."""


def in_counts(m: Margins, leave_rest: bool = False) -> tuple[Margins, Notes]:
    """Multiply shares by their totals; without them, refuse what looks like shares.

    ``leave_rest``: whether shares of the common total may add up to less than one, since the rest gets a place later.
    """
    _refuse_shares(m)
    for argument, total in m.totals.items():
        if len(total) and not total.any():
            raise InputError(f"{argument} is zero in every unit; pass the people of each.")
    notes: list[str] = []
    found, full = {}, []
    for (argument, _, values), by in zip(sides(m), (m.total_groups, m.total_outcomes), strict=True):
        found[argument] = values
        if by is not None:
            name = "total" if m.one_total else f"total_{argument}"
            found[argument], said = _multiplied(values, by, (argument, name), m.units, leave_rest and m.one_total)
            notes += said
            full += [bool(said) and bool(np.allclose(found[argument].sum(axis=1), by))]
    if m.one_total and full == [True, True]:
        notes.append(
            "Groups and outcomes were both taken for shares of total, so that everybody has an outcome. If outcomes are shares of "
            "the votes cast, pass total_groups and total_outcomes in its place."
        )
    return replace(m, X=found["groups"], T=found["outcomes"], total_groups=None, total_outcomes=None), tuple(notes)


def rounding_of(values: FloatArray, whole: float) -> float:
    """Tell how far rows may be from their whole by rounding: half of the last decimal for each column, 2 % at most.

    Examples
    --------
    >>> import numpy as np
    >>> round(rounding_of(np.array([[33.3, 33.3, 33.3]]), 100.0), 6), round(rounding_of(np.array([[0.33, 0.67]]), 1.0), 6)
    (0.15, 0.01)
    """
    for decimals in range(FINEST + 1):
        scaled = values * 10.0**decimals
        if np.abs(scaled - np.round(scaled)).max(initial=0) <= 1e-6:
            break
    return float(min(values.shape[1] * 0.5 * 10.0**-decimals, SHARE_ROUNDING * whole)) + 1e-9 * whole


def measure(values: FloatArray) -> str:
    """Tell what a margin is measured in, by its looks: ``counts``, ``shares`` or ``percentages``.

    Examples
    --------
    >>> import numpy as np
    >>> measure(np.array([[0.3, 0.7], [0.5, 0.5]])), measure(np.array([[12.5, 87.5], [40, 60]]))
    ('shares', 'percentages')
    >>> measure(np.array([[1.0, 0.0], [0.0, 1.0]]))
    'counts'
    """
    rows = values.sum(axis=1)
    if not (values % 1).any():
        return "counts"  # ones and zeros are units of one person
    if values.max() <= 1:
        return "shares"
    filled = rows[rows > 0]
    return "percentages" if len(filled) > 1 and np.abs(filled - 100).max() <= 1 else "counts"


def _refuse_shares(m: Margins) -> None:
    given = {"groups": m.total_groups, "outcomes": m.total_outcomes}
    bare = {argument: values for argument, _, values in sides(m) if given[argument] is None}
    kinds = {argument: measure(values) for argument, values in bare.items()}
    wrong = {argument: kind for argument, kind in kinds.items() if kind != "counts"}
    agree = not m.totals and not off_balance(m).any()
    # one margin of percentages whose other margin counts 100 whole people is a table of counts: expected ones, say
    if not wrong or (agree and "percentages" in wrong.values() and len(wrong) == 1):
        return
    kind = next(iter(wrong.values()))
    sums = np.concatenate([bare[argument].sum(axis=1) for argument in wrong])
    looks = "every row adds up to 100" if kind == "percentages" else "every row adds up to 1"
    if kind == "shares" and not np.allclose(sums[sums > 0], 1, atol=SHARE_ROUNDING):
        looks = "no value is above 1"
    total = f"total_{next(iter(wrong))}" if m.totals else "total"
    raise InputError(
        f"{' and '.join(wrong)} {'are' if len(set(wrong.values())) == 1 else 'look like'} {kind} ({looks}); pass counts: multiply "
        f"each row by its unit's people, or let unit_tables(..., {total}=people) do so. Where groups and outcomes are shares of two "
        "totals, pass total_groups and total_outcomes. (Counts in thousands: multiply by 1000.)"
    )


def _multiplied(
    values: FloatArray, total: FloatArray, arguments: tuple[str, str], units: tuple[object, ...], leave_rest: bool
) -> tuple[FloatArray, Notes]:
    """Multiply the shares of one margin by its total; counts that add up to it stay as they are."""
    argument, name = arguments
    rows = values.sum(axis=1)
    off = np.abs(rows - total) > MARGIN_TOLERANCE * np.maximum(rows, total)
    if not off.any():
        return values, ()
    filled = rows[rows > 0]
    if values.max() <= 1 and (rows.max() <= 1 + SHARE_ROUNDING or total.max() > values.shape[1]):
        whole, kind = 1.0, "shares"
    elif len(filled) and abs(float(np.median(filled)) - 100) <= 100 * SHARE_ROUNDING and values.max() <= 100:
        whole, kind = 100.0, "percentages"
    else:
        raise InputError(
            f"{argument} are neither shares (rows up to 1) nor percentages (rows of 100) nor counts that add up to {name}, first in "
            f"{_first(off, units, rows, total)}; pass shares with {name}, or counts without it."
        )
    rounding = rounding_of(values, whole)
    near = np.abs(rows - whole) <= rounding
    wrong = ~near & (total > 0)
    if leave_rest and kind == "shares":
        wrong &= rows > whole
    if wrong.any():
        _refuse_sums(arguments, kind, wrong, (rows, total), units, whole, rounding)
    share = values / whole
    share[near] /= share[near].sum(axis=1, keepdims=True)
    worst = 100 / whole * float(np.abs(rows[near] - whole).max(initial=0))
    tail = f"; rows off by rounding (up to {worst:.2g} %) were brought to it" if worst > 1e-6 else ""
    by = "the people of each unit" if name == "total" else name
    return share * total[:, None], (f"{argument} were {kind}: multiplied by {by}{tail}.",)


def _refuse_sums(
    arguments: tuple[str, str],
    kind: str,
    wrong: npt.NDArray[np.bool_],
    sums: tuple[FloatArray, FloatArray],
    units: tuple[object, ...],
    whole: float,
    rounding: float,
) -> None:
    argument, name = arguments
    rows, total = sums
    i = int(np.argmax(wrong))
    raise InputError(
        f"{argument} are {kind} that do not add up to {name} in {int(wrong.sum()):,} of {len(wrong):,} unit(s), first in {units[i]!r}: "
        f"its columns add up to {rows[i]:.6g}, not {whole:g} ({rows[i] / whole * total[i]:,.10g} of {total[i]:,.10g}), and rounding "
        f"explains {rounding:.2g} at most. Name the missing columns (for example 'other'), or pass the total that these are shares of."
    )


def _first(off: npt.NDArray[np.bool_], units: tuple[object, ...], rows: FloatArray, total: FloatArray) -> str:
    i = int(np.argmax(off))
    return f"{units[i]!r} ({rows[i]:,.10g} against {total[i]:,.10g})"
