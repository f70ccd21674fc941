"""The exceptions and warnings of crosslevel, and the words their messages share.

A message is a sentence that names the argument, the offending value (or bag, or file and row) and the repair.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

__all__ = [
    "ConvergenceError",
    "CrosslevelError",
    "CrosslevelWarning",
    "EngineError",
    "FileError",
    "InputError",
    "MissingExtraError",
    "TooManyKindsError",
    "listed",
    "nearest",
    "unknown_name",
]


class CrosslevelError(Exception):
    """Base of every error raised on purpose by crosslevel."""


class InputError(CrosslevelError, ValueError):
    """The caller passed something that cannot be answered; the message says what and how to repair it."""


class TooManyKindsError(InputError):
    """People are of more kinds than are held in memory."""


class FileError(CrosslevelError, ValueError):
    """A file is missing, empty, truncated, damaged or of a newer format than this version reads."""


class ConvergenceError(CrosslevelError, RuntimeError):
    """A fit did not converge, so no numbers are returned."""


class EngineError(CrosslevelError, RuntimeError):
    """The workers of an engine are lost, of another version, or could not compute a piece."""


class MissingExtraError(CrosslevelError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""


class CrosslevelWarning(UserWarning):
    """Something the reader of the numbers should know; also carried in the result itself."""


def listed(values: Iterable[object], limit: int = 5) -> str:
    """Say the first few values in a row: ``'a', 'b' and 3 more``.

    Examples
    --------
    >>> listed(["a", "b", "c"], limit=2)
    "'a', 'b' and 1 more"
    >>> listed([1, 2])
    '1, 2'
    """
    items = list(values)
    shown = ", ".join(repr(getattr(v, "item", lambda v=v: v)()) for v in items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit:,} more"


def nearest(name: object, choices: Iterable[object]) -> str:
    """Suggest the nearest name in a sentence's tail, or nothing.

    Examples
    --------
    >>> nearest("wieght", ["weight", "age"])
    " Did you mean 'weight'?"
    >>> nearest("zzz", ["weight", "age"])
    ''
    """
    names = [str(c) for c in choices]
    folded = {n.casefold(): n for n in reversed(names)}
    match = difflib.get_close_matches(str(name).casefold(), list(folded), n=1, cutoff=0.6)
    return f" Did you mean {folded[match[0]]!r}?" if match else ""


def unknown_name(argument: str, name: object, choices: Sequence[object], what: str = "column") -> InputError:
    """Make the error for a name that is not there, with the nearest one suggested.

    Examples
    --------
    >>> print(unknown_name("weight", "wt", ["wgt", "age"]))
    weight='wt' is not a column; the columns are 'wgt', 'age'. Did you mean 'wgt'?
    >>> print(unknown_name("arm", "1", [1, 2], "level"))
    arm='1' is not a level; the levels are 1, 2. Did you mean 1, without quotes?
    """
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    article = "an" if what[:1] in "aeio" else "a"
    twin = [c for c in choices if isinstance(name, str) and not isinstance(c, str) and str(c) == name]
    hint = f" Did you mean {listed(twin[:1])}, without quotes?" if twin else nearest(name, choices)
    return InputError(f"{argument}={name!r} is not {article} {what}; the {plural} are {listed(choices, 12)}.{hint}")
