"""Words for codes: from a codebook in a frame, or from the labels in SPSS, Stata and SAS files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from crosslevel.data import frames
from crosslevel.errors import InputError, unknown_name

KINDS = {".sav": "read_sav", ".zsav": "read_sav", ".por": "read_por", ".dta": "read_dta", ".sas7bcat": "read_sas7bcat"}


class Codebook(dict[str, dict[Any, str]]):
    """Words for the codes of columns: ``labels=`` of tables, charts and reports takes what a table has of them."""


def read_labels(source: Any, columns: Sequence[str] = ("variable", "code", "label")) -> Codebook:
    """Read words for codes, for ``labels=`` of tables, charts and reports.

    Parameters
    ----------
    source : dataframe, path or str
        A frame with one row per column and code; or a file of SPSS (.sav, .zsav, .por), Stata (.dta) or SAS (.sas7bcat, whose names are
        those of formats), of which only the labels are read (``pip install 'crosslevel[readers]'``).
    columns : sequence of three str
        In a frame: the columns that hold the name of the variable, the code and the words.

    Returns
    -------
    Codebook
        Mapping of column to (mapping of code to words). It may have more columns and codes than a table has; a plain mapping may not.

    Examples
    --------
    >>> read_labels({"variable": ["sex", "sex"], "code": [1, 2], "label": ["men", "women"]})
    {'sex': {1: 'men', 2: 'women'}}
    """
    names: list[Any] = list(columns) if isinstance(columns, list | tuple) else [columns]
    if len(names) != 3 or not all(isinstance(name, str) for name in names):
        raise InputError(f"columns={columns!r} must be three names: of the variable, its code and its words.")
    if isinstance(source, str | os.PathLike):
        if names != ["variable", "code", "label"]:
            raise InputError(f"columns={names!r} cannot act on a file, whose labels have no columns; leave it out.")
        return Codebook({k: _words(k, list(v.items())) for k, v in _from_file(Path(source)).items() if v})
    table = frames.to_arrow(source, "source")
    frames.check_columns(table, names, "columns")
    rows: dict[str, list[tuple[Any, Any]]] = {}
    for variable, code, word in zip(*(table[n].to_pylist() for n in names), strict=True):
        if variable is None:
            raise InputError(f"source has a row without {names[0]!r} (code {code!r}); fill it in.")
        rows.setdefault(str(variable), []).append((code, word))
    return Codebook({k: _words(k, v) for k, v in rows.items()})


def _words(variable: str, pairs: Sequence[tuple[Any, Any]]) -> dict[Any, str]:
    out: dict[Any, str] = {}
    for code, word in pairs:
        if code is None or word is None or not str(word).strip():
            continue  # a code without words keeps its own
        if code in out and out[code] != str(word).strip():
            raise InputError(f"source calls {code!r} of {variable!r} both {out[code]!r} and {str(word)!r}; keep one.")
        out[code] = str(word).strip()
    return out


def _from_file(path: Path) -> dict[str, dict[Any, Any]]:
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise unknown_name("source", kind or str(path), list(KINDS), "kind of file")
    if not path.is_file():
        raise InputError(f"source={str(path)!r} is not a file.")
    if not find_spec("pyreadstat"):
        raise InputError(f"reading {kind} files needs pyreadstat; install it with pip install 'crosslevel[readers]'.")
    import pyreadstat

    given = {} if kind == ".sas7bcat" else {"metadataonly": True}
    try:
        _, about = getattr(pyreadstat, KINDS[kind])(str(path), **given)
    except (pyreadstat.ReadstatError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"source={str(path)!r} could not be read: {error}") from error
    found = about.value_labels if kind == ".sas7bcat" else about.variable_value_labels
    return {str(name): dict(words) for name, words in found.items()}
