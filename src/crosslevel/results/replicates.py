"""Columns of replicate weights, by name or by what their names begin with."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from crosslevel.data import frames
from crosslevel.errors import InputError, listed

__all__ = ["replicate_names"]


def replicate_names(replicates: str | Sequence[str] | None, weight: str, table: pa.Table) -> list[str]:
    """Find the columns of replicate weights, in the order of their numbers; refuse one alone and numbers that are missing or there twice.

    Examples
    --------
    >>> replicate_names("w", "w", pa.table({"w": [1.0], "w2": [2.0], "w1": [0.0]}))
    ['w1', 'w2']
    """
    if not isinstance(replicates, str):
        names = list(frames.as_names(replicates or (), "replicates"))
        if len(names) < 2:
            raise InputError(f"replicates={names!r} is one column; pass all columns of replicate weights.")
        return names
    pattern = re.compile(re.escape(replicates) + r"_?0*(\d+)$", re.IGNORECASE)
    # a file may number the weight itself 0
    own = [n for n in table.column_names if n != weight and not table[n].equals(table[weight])]
    found = {int(m[1]): n for n in own if (m := pattern.match(n))}
    if len(found) < 2:
        raise InputError(
            f"replicates={replicates!r}: people has {len(found)} column(s) of that name and a number; its columns are "
            f"{listed(table.column_names)}."
        )
    gaps = [i for i in range(min(1, *found), max(found)) if i not in found]
    if gaps or len(found) < sum(bool(pattern.match(n)) for n in own):
        which = f"number {gaps[0]} is missing" if gaps else "a number stands there twice"
        raise InputError(
            f"replicates={replicates!r}: of {len(found)} columns, {found[min(found)]!r} to {found[max(found)]!r}, {which}; "
            "the variance needs all of them, each once. Pass their names."
        )
    return [found[i] for i in sorted(found)]
