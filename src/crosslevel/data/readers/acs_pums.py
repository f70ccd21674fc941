"""Person records of the American Community Survey's Public Use Microdata Sample (Census Bureau).

The files are called ``psam_p01.csv`` (a state, by its code) or ``psam_pusa.csv``, ``psam_pusb.csv`` (the nation, in
parts), before 2017 ``ss16pal.csv`` or ``ss16pusa.csv``, and come in zips such as ``csv_pal.zip``, which are read without
being unpacked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from crosslevel.data.expressions import read_expression
from crosslevel.data.readers.archives import Entry, entries, opened, reading, size_of
from crosslevel.data.signatures import checked
from crosslevel.data.sql import MISSING_WORDS, check_names, find_files, mask_of
from crosslevel.errors import FileError, unknown_name

FORMATS = {".csv": "csv", ".csv.gz": "csv", ".zip": "csv"}
CODES = {
    r"ST|STATE": 2,
    r"(POWSP|MIGSP)\d*": 3,
    r"(INDP|OCCP)\d*": 4,
    r"(MIG|POW)?PUMA\d*": 5,
    r"RT|SERIALNO|NAICSP\d*|SOCP\d*": 0,
}
"""Columns of codes and how wide they are; 0 for as written."""
HOUSING_FILE = re.compile(r"(psam_h|ss\d\dh|csv_h)\w*\.(csv|csv\.gz|zip)", re.IGNORECASE)


@checked
def read_acs_pums(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    columns: Sequence[str] | None = None,
    where: str | None = None,
) -> pa.Table:
    """Read person records of ACS PUMS.

    Parameters
    ----------
    path : path or list of paths
        A ``.csv`` (also ``.gz``), a ``.zip`` with one or several inside, a folder of these, or a list. Files of
        households (``psam_h...``) beside them are passed over.
    columns : sequence of str, optional
        The columns to give; all by default.
    where : str, optional
        The people to give, for example ``"ST in ('01', '13') and AGEP >= 18 and CIT <> 5"``.

    Returns
    -------
    pyarrow.Table
        Column names are in capitals. A blank means "not applicable" to the Census Bureau and stays null. Codes are text
        of fixed width, zeros in front: ``ST`` or ``STATE`` (2), ``PUMA`` (5), ``INDP`` and ``OCCP`` (4), ``SERIALNO``,
        ``NAICSP`` and ``SOCP`` as written. Weights (``PWGTP``, ``PWGTP1`` to ``PWGTP80``) and all else are numbers. For
        each ``PUMA`` column there is a further one that is unique in the nation: ``puma_id``, state and PUMA in 7
        characters (``puma10_id`` for ``PUMA10``, and so on; null where the record belongs to another vintage of PUMAs,
        code -9).

    See Also
    --------
    crosslevel.People : takes the table, ``by="puma_id", weight="PWGTP", cluster="SERIALNO"``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "psam_p01.csv"
    ...     _ = file.write_text("RT,SERIALNO,PUMA,ST,PWGTP,AGEP,WKHP\\nP,2019HU01,100,1,25,17,\\nP,2019HU01,100,1,31,44,40\\n")
    ...     people = read_acs_pums(file, columns=["puma_id", "WKHP"])
    >>> people.to_pylist()
    [{'puma_id': '0100100', 'WKHP': None}, {'puma_id': '0100100', 'WKHP': 40}]
    """
    tables = [_read(file, columns, where) for file in person_files(path)]
    return pa.concat_tables(tables, promote_options="permissive")


def person_files(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Entry]:
    """List the files of persons, in archives or not; the same people twice are refused."""
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    found = [entry for file in find_files(paths, "path", FORMATS) for entry in entries(file, ".csv")]
    files: dict[tuple[str, int], Entry] = {}
    for file in found:
        if not HOUSING_FILE.fullmatch(file.name):
            first = files.setdefault((file.name.casefold().removesuffix(".gz"), size_of(file)), file)
            if first is not file:
                raise FileError(f"{first} and {file} are of one name and size: people count twice; pass one.")
    if not files:
        raise FileError(f"path={path!r} holds no person records; download the person files (psam_p..., csv_p...).")
    return list(files.values())


def names_of(file: Entry) -> dict[str, str]:
    """Give the columns of a file by their names in capitals: until 2016 replicate weights were pwgtp1 to pwgtp80."""
    with reading(file, "CSV"), opened(file) as handle:
        written = pyarrow.csv.open_csv(handle).schema.names
    check_names(written, str(file))
    names = {name.upper(): name for name in written}
    if "PWGTP" not in names:
        raise FileError(
            f"{file} has no column PWGTP, so it is not a file of ACS person records; household files are not read here."
        )
    return names


def _read(file: Entry, columns: Sequence[str] | None, where: str | None) -> pa.Table:
    """Read what is asked for of one file."""
    names = names_of(file)
    widths = {name: width for name in names for code, width in CODES.items() if re.fullmatch(code, name)}
    state = next((name for name in ("ST", "STATE") if name in names), None)
    pumas = {f"{name.lower()}_id": name for name in names if state and re.fullmatch(r"PUMA\d*", name)}
    kinds = {name: pa.string() if name in {*widths, *pumas} else pa.int64() for name in (*names, *pumas)}
    given = list(kinds) if columns is None else list(columns)
    for name in given:
        if name not in kinds:
            raise unknown_name("columns", name, list(kinds))
    condition = None if where is None else read_expression(where, "where", pa.schema(kinds))

    used = {*given, *(condition.columns if condition else ())}
    needed = {n for name in used for n in ((state, pumas[name]) if name in pumas else (name,))}
    options = pyarrow.csv.ConvertOptions(
        include_columns=[written for name, written in names.items() if name in needed],
        column_types={names[name]: pa.string() for name in widths},
        null_values=list(MISSING_WORDS),
        strings_can_be_null=True,
    )
    with reading(file, "CSV"), opened(file) as handle:
        table = pyarrow.csv.read_csv(handle, convert_options=options)
    found = {name.upper(): table[name] for name in table.column_names}
    found |= {n: values.cast(pa.int64()) for n, values in found.items() if pa.types.is_null(values.type)}
    found |= {name: _padded(found[name], width) for name, width in widths.items() if name in found}
    for name in used & {*pumas}:
        whole = pc.binary_join_element_wise(found[state], found[pumas[name]], "")
        found[name] = pc.if_else(pc.starts_with(found[pumas[name]], "-"), pa.scalar(None, pa.string()), whole)
    people = pa.table(found)
    if condition is not None:
        people = people.filter(pa.array(mask_of(people, condition)))
    return people.select(given)


def _padded(values: pa.ChunkedArray, width: int) -> pa.ChunkedArray:
    """Write codes with zeros in front: '1' and '1.0' (as other programs save them) as '01', '-9' as '-0009'."""
    text = pc.replace_substring_regex(values, r"\.0+$", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(text, "-"), max(width - 1, 0), "0")
    padded = pc.if_else(
        pc.starts_with(text, "-"), pc.binary_join_element_wise("-", digits, ""), pc.utf8_lpad(text, width, "0")
    )
    return pc.if_else(pc.match_substring_regex(text, r"^-?[0-9]+$"), padded, text) if width else text
