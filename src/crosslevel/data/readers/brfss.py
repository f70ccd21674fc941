"""The Behavioral Risk Factor Surveillance System (CDC): annual files in SAS transport format."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa

from crosslevel.data.batches.formats import find_files
from crosslevel.data.batches.sources import check_unpacked, damaged
from crosslevel.data.batches.stream import checked_columns
from crosslevel.data.frames import to_arrow
from crosslevel.errors import FileError, InputError, MissingExtraError, unknown_name

HEADER = b"HEADER RECORD*******LIB"
RECORD = 80
TINY = 1e-70  # some readers turn the zero of SAS into 5.4e-79


def read_brfss(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> pa.Table:
    """Read a BRFSS file.

    Parameters
    ----------
    path : path
        ``LLCP2016.XPT``, or the zip it comes in (whose member's name ends in a blank). The zip is unpacked into a
        temporary folder, about a gigabyte.
    columns : sequence of str, optional
        The columns to read; all by default.

    Returns
    -------
    pyarrow.Table
        Column names and codes are CDC's own. Numbers are float64, blanks are null. Codes that mean "don't know" or
        "refused" (7 and 9, 77 and 99, ... by question) are **not** recoded: look them up in the year's codebook and
        filter them, for example ``where="GENHLTH not in (7, 9)"``.

    Notes
    -----
    Needs pyreadstat (``pip install 'crosslevel[readers]'``) or pandas.

    Examples
    --------
    >>> import pandas, pyreadstat
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "LLCP2016.XPT"
    ...     small = pandas.DataFrame({"_STATE": [1.0, 2.0], "GENHLTH": [3.0, None], "SEX": [1.0, 9.0]})
    ...     pyreadstat.write_xport(small, str(file), file_format_version=5)
    ...     read_brfss(file, columns=["GENHLTH", "SEX"]).to_pylist()
    [{'GENHLTH': 3.0, 'SEX': 1.0}, {'GENHLTH': None, 'SEX': 9.0}]
    """
    columns = checked_columns(columns)
    files = find_files(_with_blank(path), {".xpt": None, ".xpt ": None, ".zip": None})
    if len(files) > 1:
        raise InputError(f"path={str(path)!r} stands for {len(files)} files; read BRFSS from one file at a time.")
    file = files[0]
    if file.suffix.casefold() != ".zip":
        return _read(file, str(file), columns)
    with tempfile.TemporaryDirectory() as folder:
        return _read(_unpacked(file, Path(folder)), str(file), columns)


def _with_blank(path: str | os.PathLike[str]) -> Path:
    """Find ``LLCP2016.XPT`` also where unzip kept the blank at the end of its name."""
    if not isinstance(path, str | os.PathLike):
        return path  # which find_files refuses
    plain = Path(path)
    blank = plain.with_name(f"{plain.name} ")
    return blank if not plain.exists() and blank.exists() else plain


def _unpacked(path: Path, folder: Path) -> Path:
    try:
        with zipfile.ZipFile(path) as archive:
            check_unpacked(path, archive)
            members = [n for n in archive.namelist() if n.strip().casefold().endswith(".xpt")]
            if len(members) != 1:
                raise FileError(
                    f"{path} holds {len(members)} .XPT files; one is expected. Unpack it and name the file."
                )
            target = folder / "brfss.xpt"
            with archive.open(members[0]) as packed, target.open("wb") as plain:
                shutil.copyfileobj(packed, plain, 1 << 20)
            return target
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise damaged(str(path), "a zip archive", error) from error


def _read(path: Path, name: str, columns: Sequence[str] | None) -> pa.Table:
    try:
        with path.open("rb") as handle:
            head, cut = handle.read(len(HEADER)), handle.seek(0, os.SEEK_END) % RECORD
    except OSError as error:
        raise damaged(name, "SAS transport (XPT)", error) from error
    if not head.startswith(HEADER):
        raise FileError(f"{name} is not in SAS transport format (XPT); get the XPT version from CDC.")
    if cut:
        raise FileError(
            f"{name} ends inside a record of {RECORD} bytes, so that people are missing; get it again from CDC."
        )
    if find_spec("pyreadstat"):
        table = _with_pyreadstat(path, name, columns)
    elif find_spec("pandas"):
        table = _with_pandas(path, name, columns)
    else:
        raise MissingExtraError(
            "reading XPT files needs pyreadstat; install it with pip install 'crosslevel[readers]'."
        )
    return pa.table({column: _cleaned(table[column]) for column in columns or table.column_names})


def _with_pyreadstat(path: Path, name: str, columns: Sequence[str] | None) -> pa.Table:
    import pyreadstat

    try:
        _, about = pyreadstat.read_xport(str(path), metadataonly=True, output_format="dict")
        _check(columns, about.column_names)
        values, _ = pyreadstat.read_xport(
            str(path), usecols=columns, output_format="dict", disable_datetime_conversion=True
        )
    except (pyreadstat.ReadstatError, OSError, UnicodeDecodeError) as error:
        raise damaged(name, "SAS transport (XPT)", error) from error
    return to_arrow({column: np.asarray(v) for column, v in values.items()}, name)


def _with_pandas(path: Path, name: str, columns: Sequence[str] | None) -> pa.Table:
    import pandas as pd

    try:
        table = to_arrow(pd.read_sas(path, format="xport", encoding="latin-1"), name)
    except (ValueError, OSError) as error:
        raise damaged(name, "SAS transport (XPT)", error) from error
    _check(columns, table.column_names)
    return table


def _check(columns: Sequence[str] | None, names: Sequence[str]) -> None:
    for column in columns or ():
        if column not in names:
            raise unknown_name("columns", column, names)


def _cleaned(column: pa.ChunkedArray) -> pa.Array:
    """Make missing values null, and the zero of SAS zero."""
    if not pa.types.is_floating(column.type):
        text = [value.rstrip() or None if isinstance(value, str) else None for value in column.to_pylist()]
        return pa.array(text, pa.string())
    numbers = column.to_numpy().astype(np.float64)
    numbers = np.where(np.abs(numbers) < TINY, 0.0, numbers)
    return pa.array(numbers, mask=np.isnan(numbers))
