"""Population by single year of age and small area (Office for National Statistics, mid-year estimates).

The workbooks (``sapelsoasyoa20222024.xlsx`` and the like) have one sheet per year, or before 2021 one per sex, with a
title above the header. They are read as they are, without another package, or as a sheet saved as CSV.
"""

from __future__ import annotations

import csv
import functools
import io
import itertools
import os
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa

from crosslevel.data.batches.delimited import READ_ERRORS, CsvOptions, header, open_file
from crosslevel.data.batches.formats import find_files
from crosslevel.data.batches.sources import check_unpacked, damaged
from crosslevel.data.signatures import checked
from crosslevel.errors import CrosslevelWarning, FileError, InputError, listed, unknown_name

Row: TypeAlias = list[str]
OLDEST = 90
AGES = [*map(str, range(OLDEST)), f"{OLDEST}+"]
AGE = re.compile(r"(?:age[ _]?)?(?P<sex>[fm]?)(?P<age>\d{1,2})(?P<open>\+| and over)?")
SEXES = {"persons": "fm", "females": "f", "males": "m"}
LEVELS = ("area", "oa", "lsoa", "msoa", "ward", "lad", "la", "")  # rows are of the smallest area that a table names
GSS = re.compile(r"[EJKLMNSW]\d{8}")  # an area, also where nothing is published of it
WHOLES = re.compile(r"K\d{8}|[ENSW]92\d{6}|E1[0-3]\d{6}")  # countries, regions and counties, which hold other areas
FARTHEST = 1 << 14  # columns of a workbook
TITLE = 30  # rows above a table, at most
XML = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
LINK = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
EXPECTED = "a column of area codes ('LSOA 2021 Code'), one of 'All Ages' or 'Total', and ages 0 to 90+ or F0 to F90 and M0 to M90"


@checked
def read_ons_ages(
    path: str | os.PathLike[str], sheet: str | None = None, *, sex: str | None = None, encoding: str = "utf-8"
) -> pa.Table:
    """Read population by single year of age and area.

    Parameters
    ----------
    path : path
        The workbook (``.xlsx``), or one of its sheets saved as CSV (also ``.gz``). A title above and notes below the
        table are passed over.
    sheet : str, optional
        The sheet of a workbook; needed where more than one has a table of ages.
    sex : {"persons", "females", "males"}, optional
        Whom to count, in a table that has women and men apart, as columns (``F0``, ``M0``) or as rows (a column ``sex``).
        By default all persons, and the table as it is where it does not tell them apart.
    encoding : str
        The encoding of a CSV file.

    Returns
    -------
    pyarrow.Table
        One row per area: ``area_code``, ``area_name``, ``all_ages``, and counts by age, ``"0"`` to ``"89"`` and
        ``"90+"``, names that :meth:`crosslevel.Intervals.ages` reads. Ages add up to the published total, or the file is
        refused.

    Examples
    --------
    >>> import tempfile
    >>> from crosslevel.data.simulate import ons_ages
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "mid2022.csv"
    ...     _ = ons_ages(3, path=file)
    ...     read_ons_ages(file).column_names[:4], read_ons_ages(file, sex="females").num_rows
    (['area_code', 'area_name', 'all_ages', '0'], 3)
    """
    if sex is not None and sex not in SEXES:
        raise unknown_name("sex", sex, list(SEXES), "choice")
    files = find_files(path, {".csv": None, ".csv.gz": None, ".xlsx": None})
    if len(files) > 1:
        raise InputError(f"path={str(path)!r} stands for {len(files)} files; read ages from one file at a time.")
    workbook = files[0].suffix.casefold() == ".xlsx"
    if sheet is not None and not workbook:
        raise InputError(f"sheet={sheet!r} is for workbooks, and {files[0]} is a CSV file; leave it out.")
    found = _tables(files[0], _sheets(files[0], sheet) if workbook else {"": _lines(files[0], encoding)})
    if len(found) != 1:
        raise InputError(f"sheet=None, and {files[0]} has ages in {len(found)} sheets: {listed(found, 12)}; pass one.")
    name, layout = found.popitem()
    return _answer(f"{files[0]} ({name})" if workbook else str(files[0]), layout, sex)


@dataclass(frozen=True)
class _Layout:
    """Where a table of ages has what, and its rows: columns of ages by sex ("f", "m", or "" for one column per age)."""

    rows: Iterable[tuple[int, Row]]
    width: int
    ages: Mapping[str, list[int]]
    code: int
    total: int
    name: int | None
    sex: int | None


def _tables(file: Path, sheets: Mapping[str, Iterator[Row]]) -> dict[str, _Layout]:
    """Find the header in each sheet; refuse sheets of which none has one."""
    found, firsts = {}, []
    for sheet, rows in sheets.items():
        counted = enumerate(rows, start=1)
        for _, row in itertools.islice(counted, TITLE):
            layout = _layout(row, counted)
            if layout is not None:
                found[sheet] = layout
                break
            firsts += [cell for cell in row if cell]
    if not found:
        raise FileError(
            f"{file} has no table of ages in its first {TITLE} rows{f' (sheets {listed(sheets)})' if any(sheets) else ''}: it "
            f"{f'begins with {listed(firsts, 6)}' if firsts else 'is blank'}, where "
            f"{EXPECTED} are expected. Name the sheet or file of single years of age, or rename its columns."
        )
    return found


def _layout(row: Row, rows: Iterable[tuple[int, Row]]) -> _Layout | None:
    names = [cell.strip().casefold() for cell in row]
    place: dict[tuple[str, int], int] = {}
    for column, written in enumerate(names):
        if match := AGE.fullmatch(written):
            place.setdefault((match["sex"], int(match["age"])), column)
    ages = {
        sex: [place[sex, age] for age in range(OLDEST + 1)]
        for sex in ("", "f", "m")
        if all((sex, age) in place for age in range(OLDEST + 1))
    }
    total = next((c for c, n in enumerate(names) if n in ("all ages", "all_ages", "total")), None)
    code, name = (
        next(
            (c for level in LEVELS for c, n in enumerate(names) if re.fullmatch(rf"{level}[ _]*\d*[ _]*({w}).*", n)),
            None,
        )
        for w in ("code|cd", "name|nm")
    )
    if total is None or code is None or not (ages.keys() == {""} or ages.keys() == {"f", "m"}):
        return None
    return _Layout(rows, len(row), ages, code, total, name, names.index("sex") if "sex" in names else None)


def _answer(file: str, layout: _Layout, sex: str | None) -> pa.Table:
    """Read the areas of a table, for one sex."""
    if sex is not None and layout.sex is None and "" in layout.ages:
        raise InputError(
            f"sex={sex!r}, and {file} does not tell women and men apart; leave it out, or read their sheet."
        )
    names: dict[str, str | None] = {}
    found = []
    for number, short in layout.rows:
        row = [cell.strip() for cell in short] + [""] * (layout.width - len(short))
        noted = not any(row[column] for columns in layout.ages.values() for column in columns)
        noted = noted and not row[layout.total] and not GSS.fullmatch(row[layout.code])
        if noted or (layout.sex is not None and row[layout.sex].casefold() != (sex or "persons")):
            continue
        code = row[layout.code]
        if not code or code in names:
            what = f"the area {code!r} a second time" if code else "no area code"
            raise FileError(f"{file} has {what} in row {number:,}; drop the row.")
        names[code] = None if layout.name is None else row[layout.name]
        found.append(_counts(row, layout, f"{file}, row {number:,}"))
    if not found:
        raise FileError(
            f"{file} has no rows of {sex or 'persons'} below its header; check its column sex, or get it again."
        )
    wholes = [f"{name} ({code})" for code, name in names.items() if WHOLES.fullmatch(code)]
    if 0 < len(wholes) < len(names):
        warnings.warn(
            f"{file} has areas that hold others of its areas, so that people would be counted twice in sums: {listed(wholes)}. "
            "Drop them, or keep one level, before you add up.",
            CrosslevelWarning,
            stacklevel=3,
        )
    chosen = [k for k, part in enumerate(layout.ages) if part in SEXES[sex or "persons"]]  # "" is in every text
    counts = np.array(found, dtype=np.int64)[:, chosen].sum(axis=1)
    columns = {"area_code": pa.array(names, pa.string()), "area_name": pa.array(names.values(), pa.string())}
    columns["all_ages"] = pa.array(counts.sum(axis=1))
    return pa.table(columns | {age: pa.array(counts[:, k]) for k, age in enumerate(AGES)})


def _counts(row: Row, layout: _Layout, where: str) -> list[list[int]]:
    """Read the counts of an area by sex and age; refuse those that do not add up to the published total."""
    counts = [
        [_count(row[c], where, age) for c, age in zip(columns, AGES, strict=True)] for columns in layout.ages.values()
    ]
    total, added = _count(row[layout.total], where, "all ages"), sum(map(sum, counts))
    if added != total:
        raise FileError(
            f"{where}: {row[layout.code]} has {total:,} people of all ages, and its ages add up to {added:,}; correct it."
        )
    return counts


def _count(text: str, where: str, column: str) -> int:
    plain = re.sub(r"\.0+$", "", text)
    if not re.fullmatch(r"\d+|\d{1,3}(,\d{3})+", plain):
        raise FileError(f"{where}, age {column!r}: {text!r} is not a whole number; correct it, or get the file again.")
    return int(plain.replace(",", ""))


def _lines(path: Path, encoding: str) -> Iterator[Row]:
    opener = open_file(str(path))
    header(str(path), opener, CsvOptions(encoding=encoding))  # which refuses another encoding
    try:
        with opener() as opened, io.TextIOWrapper(opened, encoding, newline="") as text:
            yield from csv.reader(text)
    except READ_ERRORS as error:
        raise damaged(str(path), f"{encoding} text", error) from error


def _sheets(path: Path, wanted: str | None) -> dict[str, Iterator[Row]]:
    """Open the sheets of a workbook, or the one that is wanted."""
    try:
        with zipfile.ZipFile(path) as archive:
            check_unpacked(path, archive)
            links = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
            files = {link.get("Id"): str(link.get("Target")).removeprefix("/xl/") for link in links}
            book = ElementTree.fromstring(archive.read("xl/workbook.xml"))
            sheets = {str(s.get("name")): f"xl/{files[s.get(LINK)]}" for s in book.iter(f"{XML}sheet")}
            texts: list[str] = []
            if "xl/sharedStrings.xml" in archive.namelist():
                shared = ElementTree.fromstring(archive.read("xl/sharedStrings.xml"))
                texts = ["".join(t.text or "" for t in item.iter(f"{XML}t")) for item in shared.iter(f"{XML}si")]
    except (KeyError, ElementTree.ParseError, *READ_ERRORS) as error:
        raise damaged(str(path), "a workbook (xlsx)", error) from error
    if wanted is not None and wanted not in sheets:
        raise unknown_name("sheet", wanted, list(sheets), "sheet")
    return {name: _cells(path, file, texts) for name, file in sheets.items() if wanted in (None, name)}


def _cells(path: Path, file: str, texts: list[str]) -> Iterator[Row]:
    """Read a sheet row by row; cells that are not written are blank."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(file) as sheet:
            for _, row in ElementTree.iterparse(sheet):
                if row.tag != f"{XML}row":
                    continue
                cells: Row = []
                for cell in row.iter(f"{XML}c"):
                    column = _column(cell.get("r"), len(cells))
                    value = "".join(t.text or "" for t in cell.iter() if t.tag in (f"{XML}v", f"{XML}t"))
                    cells += [""] * (column - len(cells))
                    cells.append(texts[int(value)] if cell.get("t") == "s" and value else value)
                yield cells
                row.clear()
    except (KeyError, IndexError, ValueError, ElementTree.ParseError, *READ_ERRORS) as error:
        raise damaged(f"{path} ({file})", "a workbook (xlsx)", error) from error


def _column(reference: str | None, following: int) -> int:
    """Give the place of a cell from its reference: 0 for A12, 26 for AA12."""
    letters = re.sub(r"\d", "", reference or "")
    place = functools.reduce(lambda place, letter: 26 * place + ord(letter) - ord("A") + 1, letters, 0)
    if place > FARTHEST:
        raise ValueError(f"no sheet has a column {letters}")
    return place - 1 if letters else following
