"""Population and votes by voting district (VTD), as Dave's Redistricting publishes them (``vtd_data``).

Since version 4 each state has two zips, ``Demographic_Data_GA.v06.zip`` and ``Election_Data_GA.v06.zip``, with columns
``T_20_CENS_Total``, ``V_20_VAP_NH_White``, ``E_20_PRES_Dem``: kind, year, what was counted, whom.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from crosslevel.data.batches.delimited import CsvOptions, DelimitedSource
from crosslevel.data.batches.formats import ParquetSource, find_files
from crosslevel.data.batches.sources import Source
from crosslevel.data.batches.stream import Batches, checked_columns
from crosslevel.data.readers.acs_pums import entries
from crosslevel.data.signatures import checked
from crosslevel.errors import FileError, listed, unknown_name

ENDINGS = {".csv": None, ".csv.gz": None, ".zip": None, ".parquet": None}
KEY = "GEOID20"
DISTRICT = re.compile(r"\d{5}.+")
MOST = 2**53  # beyond it floats are not whole
COUNTS = re.compile(r"[TVE]_\d\d(-\d\d)?_\w+")


@checked
def read_vtd(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    columns: Sequence[str] | None = None,
    *,
    encoding: str = "utf-8",
) -> pa.Table:
    """Read population and votes by voting district.

    Parameters
    ----------
    path : path or list of paths
        A ``.csv`` (also ``.gz``), ``.zip`` or ``.parquet`` with the column ``GEOID20`` and counts; or a list of such
        files of the same districts, which are joined by ``GEOID20``, as those of population and of votes.
    columns : sequence of str, optional
        The columns to give; all by default.
    encoding : str
        The encoding of the CSV files.

    Returns
    -------
    pyarrow.Table
        One row per district, in the order of the first file. Names are the publisher's. ``GEOID20`` is text; counts
        (``T_...``, ``V_...``, ``E_...``) are whole numbers. Of the columns of voting-age population, only those of
        ``V_20_VAP_NH_...`` are mutually exclusive.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from crosslevel.data.simulate import vtd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "vtd_GA.csv"
    ...     simulated = vtd(30, path=file)
    ...     read_vtd(file, columns=["GEOID20", "E_20_PRES_Total"]).equals(simulated.select(["GEOID20", "E_20_PRES_Total"]))
    True
    """
    columns = checked_columns(columns)
    paths = [path] if isinstance(path, str) or not isinstance(path, Sequence) else list(path)
    sources = [source for one in paths for found in find_files(one, ENDINGS) for source in _sources(found, encoding)]
    if not sources:
        raise FileError("path=[] names no file; pass the file of a state, or those of its population and its votes.")
    known = dict.fromkeys(name for source in sources for name in source.schema.names)
    for name in columns or ():
        if name not in known:
            raise unknown_name("columns", name, list(known))
    joined, seen = _read(sources[0], columns), sources[0].name
    for source in sources[1:]:
        joined = _joined(joined, _read(source, columns), seen, source.name)
    return joined.select(columns or joined.column_names)


def _sources(path: Path, encoding: str) -> list[Source]:
    """Open the tables of a file; refuse one that is not of voting districts."""
    sources: list[Source] = []
    if path.suffix.casefold() == ".parquet":
        sources.append(ParquetSource(str(path)))
    else:
        options = CsvOptions({KEY: pa.string(), "Name": pa.string()}, encoding)
        sources += [DelimitedSource(entry.name, entry.opener, options) for entry in entries(path)]
    for source in sources:
        names = source.schema.names
        if KEY not in names or not any(COUNTS.fullmatch(name) for name in names):
            raise FileError(
                f"{source.name} has the columns {listed(names, 6)}, where {KEY} and counts such as V_20_VAP_Total or "
                "E_20_PRES_Dem are expected. Get the files Demographic_Data_... and Election_Data_... of version 4 or later, "
                "or rename the columns."
            )
    return sources


def _read(source: Source, columns: Sequence[str] | None) -> pa.Table:
    """Read a table; refuse districts without a code or with two rows, and counts that are not whole numbers."""
    wanted = [name for name in source.schema.names if columns is None or name in columns or name == KEY]
    table = Batches([source], wanted).to_table()
    if not (pa.types.is_string(table[KEY].type) or pa.types.is_large_string(table[KEY].type)):
        raise FileError(f"{source.name} has {KEY} as {table[KEY].type}, which loses zeros in front; write it as text.")
    codes = table[KEY].to_pylist()
    code, times = Counter(codes).most_common(1)[0] if codes else (None, 0)
    if None in codes or times != 1:
        what = "no rows" if not codes else f"the {KEY} {code!r} more than once" if times > 1 else f"a row without {KEY}"
        raise FileError(f"{source.name} has {what}; it needs one row per district.")
    for place, name in enumerate(table.column_names):
        if pa.types.is_large_string(table[name].type):
            table = table.set_column(place, name, table[name].cast(pa.string()))
        if COUNTS.fullmatch(name):
            table = table.set_column(place, name, _counts(table[name], name, source.name))
    other = [code for code in codes if not DISTRICT.fullmatch(code)]
    if other:
        raise FileError(
            f"{source.name} has {listed(other)} in {KEY}, where codes of districts begin with the five digits of state and "
            "county, and go on; drop rows of totals, and keep the column as text."
        )
    return table


def _counts(column: pa.ChunkedArray, name: str, file: str) -> pa.Array:
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        values = column.to_numpy().astype(float)
    else:
        values = np.array([float(text) if str(text).isdecimal() else np.nan for text in column.to_pylist()])
    wrong = np.flatnonzero(~((values >= 0) & (values == np.floor(values)) & (values <= MOST)))
    if len(wrong):
        raise FileError(
            f"{file} has {column[wrong[0]].as_py()!r} in column {name!r}, row {wrong[0] + 2:,}, where a whole number "
            "of at least 0 is expected; correct it, or drop the district."
        )
    return pa.array(values.astype(np.int64))


def _joined(left: pa.Table, right: pa.Table, first: str, second: str) -> pa.Table:
    """Put the columns of a second file of the same districts beside those of the first."""
    both = [name for name in right.column_names if name in left.column_names and COUNTS.fullmatch(name)]
    if both:
        raise FileError(f"{first} and {second} both have the column {both[0]!r}; pass one of the two files.")
    rows = {code: row for row, code in enumerate(right[KEY].to_pylist())}
    codes = left[KEY].to_pylist()
    alone = set(codes) ^ set(rows)
    if alone:
        raise FileError(
            f"{first} and {second} are not of the same districts: {len(alone):,} are in one of them only, {listed(sorted(alone))}. "
            "Pass files of one state and one version, and read each state on its own."
        )
    ordered = right.take(pa.array([rows[code] for code in codes], pa.int64()))
    for name in right.column_names:
        if name not in left.column_names:
            left = left.append_column(name, ordered[name])
    return left
