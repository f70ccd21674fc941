"""The Behavioral Risk Factor Surveillance System (CDC): annual files in SAS transport format."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data.readers.archives import entries, opened, reading
from crosslevel.data.signatures import checked
from crosslevel.data.sql import find_files
from crosslevel.errors import FileError, InputError, MissingExtraError, unknown_name

FORMATS = dict.fromkeys((".xpt", ".xpt ", ".zip"), "xpt")
HEADER, RECORD = b"HEADER RECORD*******LIB", 80
TINY = 1e-70  # some readers turn the zero of SAS into 5.4e-79


@checked
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
    Needs pyreadstat (``pip install 'crosslevel[readers]'``).

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
    plain = Path(path)
    blank = plain.with_name(f"{plain.name} ")  # as unzip leaves it
    files = find_files([blank if blank.exists() and not plain.exists() else plain], "path", FORMATS)
    found = [entry for file in files for entry in entries(file, ".xpt")]
    if len(found) != 1:
        raise InputError(f"path={str(path)!r} stands for {len(found)} files; read BRFSS from one file at a time.")
    if files[0].suffix.casefold() != ".zip":
        return _read(files[0], str(found[0]), columns)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "brfss.xpt"
        with reading(found[0], "a zip archive"), opened(found[0]) as packed, target.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked, 1 << 20)
        return _read(target, str(found[0]), columns)


def _read(path: Path, name: str, columns: Sequence[str] | None) -> pa.Table:
    try:
        import pyreadstat
    except ImportError as error:
        raise MissingExtraError("reading XPT files needs pyreadstat; pip install 'crosslevel[readers]'.") from error
    with reading(name, "SAS transport (XPT)", pyreadstat.ReadstatError):
        with path.open("rb") as handle:
            head, cut = handle.read(len(HEADER)), handle.seek(0, os.SEEK_END) % RECORD
        if head != HEADER:
            raise FileError(f"{name} is not in SAS transport format (XPT); get the XPT version from CDC.")
        if cut:
            raise FileError(
                f"{name} ends inside a record of {RECORD} bytes: people are missing; get it again from CDC."
            )
        kinds = pyreadstat.read_xport(str(path), metadataonly=True, output_format="dict")[1].readstat_variable_types
        for column in columns or ():
            if column not in kinds:
                raise unknown_name("columns", column, list(kinds))
        values, _ = pyreadstat.read_xport(
            str(path), usecols=columns, output_format="dict", disable_datetime_conversion=True
        )
    return pa.table({column: _cleaned(values[column], kinds[column]) for column in columns or kinds})


def _cleaned(values: Sequence[object], kind: str) -> pa.Array:
    """Make missing values null, and the zero of SAS zero."""
    if kind == "string":
        text = pc.utf8_rtrim_whitespace(pa.array(values, pa.string(), from_pandas=True))
        return pc.if_else(pc.equal(text, ""), None, text)
    numbers = pa.array(values, pa.float64(), from_pandas=True)
    return pc.if_else(pc.less(pc.abs(numbers), TINY), 0.0, numbers)
