"""People and places with totals, matched by the keys of where people live.

``match_places(places, keys, weight, n_rows, unmatched)`` keeps the places where people live, in the order of ``keys``, and refuses (or
names) what has no partner; ``check_people`` refuses people who are not those of the fit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crosslevel.data.totals import PlaceTotals
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.typing import FloatArray, IntArray

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
