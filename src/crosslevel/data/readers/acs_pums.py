"""Person records of the American Community Survey's Public Use Microdata Sample (Census Bureau).

The files are called ``psam_p01.csv`` (a state, by its code) or ``psam_pusa.csv``, ``psam_pusb.csv`` (the nation, in
parts), before 2017 ``ss16pal.csv`` or ``ss16pusa.csv``, and come in zips such as ``csv_pal.zip``, which are read without
being unpacked.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data.batches.delimited import (
    CsvOptions,
    DelimitedSource,
    check_alike,
    column_types_of,
    header,
    open_file,
)
from crosslevel.data.batches.formats import find_files
from crosslevel.data.batches.sources import Part, Request, Source, check_unpacked, damaged
from crosslevel.data.batches.stream import BATCH_SIZE, Batches
from crosslevel.data.queries import Query, read_query
from crosslevel.data.signatures import checked
from crosslevel.errors import FileError, InputError, unknown_name

ENDINGS = {".csv": None, ".csv.gz": None, ".zip": None}
CODES = re.compile(
    r"(?P<two>ST|STATE)|(?P<three>POWSP|MIGSP)\d*|(?P<four>INDP|OCCP)\d*|(?P<five>(MIG|POW)?PUMA)\d*"
    r"|(?P<any>RT|SERIALNO|NAICSP\d*|SOCP\d*)"
)
WIDTHS = {"two": 2, "three": 3, "four": 4, "five": 5, "any": 0}
PERSON_FILE = re.compile(r"(psam_p|ss\d\dp|csv_p)(?P<state>\d\d|[a-z]{2})[a-z]?\.(csv|csv\.gz|zip)", re.IGNORECASE)
HOUSING_FILE = re.compile(r"(psam_h|ss\d\dh|csv_h)\w*\.(csv|csv\.gz|zip)", re.IGNORECASE)


_POSTAL = (
    "AL AK . AZ AR CA . CO CT DE DC FL GA . HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH "
    "OK OR PA . RI SC SD TN TX UT VT VA . WA WV WI WY"
)
FIPS_OF_STATE = {
    **{postal: f"{number:02d}" for number, postal in enumerate(_POSTAL.split(), start=1) if postal != "."},
    "AS": "60",
    "GU": "66",
    "MP": "69",
    "PR": "72",
    "VI": "78",
}
"""FIPS state code of each postal code."""


@checked
def read_acs_pums(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    columns: Sequence[str] | None = None,
    where: str | Query | None = None,
    states: Sequence[str | int] | str | int | None = None,
    *,
    column_types: Mapping[str, object] | None = None,
    batch_size: int = BATCH_SIZE,
    encoding: str = "utf-8",
) -> Batches:
    """Open person records of ACS PUMS for streaming.

    Parameters
    ----------
    path : path or list of paths
        A ``.csv`` (also ``.gz``), a ``.zip`` with one or several inside, a folder of these, or a list. Files of
        households (``psam_h...``) beside them are passed over.
    columns : sequence of str, optional
        The columns to give; all by default.
    where : str or Query, optional
        The people to give, for example ``"AGEP >= 18 and CIT != 5"``.
    states : sequence, str or int, optional
        Only these, as postal codes or state codes: ``["AL", "06", 48]``. Files of other states are not opened.
    column_types : mapping, optional
        Types for columns that are read wrongly otherwise.
    batch_size : int
        The most rows of a batch.
    encoding : str
        The encoding of the files.

    Returns
    -------
    Batches
        One piece per file. Column names are in capitals. A blank means "not applicable" to the Census Bureau and stays
        null, which an embedding treats as a level of its own: those whom a question does not concern are told apart,
        not left out. Codes are text of fixed width, zeros in front: ``ST`` or ``STATE`` (2), ``PUMA`` (5), ``INDP`` and
        ``OCCP`` (4), ``SERIALNO``, ``NAICSP`` and ``SOCP`` as written. Weights (``PWGTP``, ``PWGTP1`` to ``PWGTP80``)
        and all else are whole numbers. For each ``PUMA`` column there is a further one that is unique in the nation:
        ``puma_id``, state and PUMA in 7 characters (``puma10_id`` for ``PUMA10``, and so on; null where the record
        belongs to another vintage of PUMAs, code -9).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "psam_p01.csv"
    ...     _ = file.write_text("RT,SERIALNO,PUMA,ST,PWGTP,AGEP,WKHP\\nP,2019HU01,100,1,25,17,\\nP,2019HU01,100,1,31,44,40\\n")
    ...     people = read_acs_pums(file, columns=["puma_id", "WKHP"]).to_table()
    >>> people.to_pylist()
    [{'puma_id': '0100100', 'WKHP': None}, {'puma_id': '0100100', 'WKHP': 40}]
    """
    wanted = None if states is None else state_codes(states)
    types = {name.upper(): kind for name, kind in column_types_of(column_types).items()}
    paths = [path] if isinstance(path, str) or not isinstance(path, Sequence) else list(path)
    files = [entry for one in paths for found in find_files(one, ENDINGS) for entry in entries(found)]
    persons = [file for file in files if not HOUSING_FILE.fullmatch(file.short)]
    _check_once(persons)
    if not persons:
        raise FileError(
            f"{paths[0] if paths else 'path'} holds no person records; download the person files (psam_p..., csv_p...)."
        )
    kept = [file for file in persons if wanted is None or _may_hold(file, wanted)]
    if not kept:
        raise InputError(f"states={sorted(wanted or ())!r} are in none of the files; the first is {persons[0].name}.")
    sources = [PumsSource(file.name, file.opener, types, encoding) for file in kept]
    for name in types:
        if not any(name in source.schema.names for source in sources):
            raise unknown_name("column_types", name, sources[0].schema.names)
    return Batches(sources, columns, _with_states(where, wanted, sources[0]), batch_size)


@dataclass(frozen=True)
class _Entry:
    """A file, or a member of an archive: full and short name, how to open it, and its size, unpacked."""

    name: str
    short: str
    opener: Callable[[], IO[bytes]]
    size: int


def _check_once(files: Sequence[_Entry]) -> None:
    """Refuse the same people twice, such as an archive beside what was unpacked from it."""
    seen: dict[tuple[str, int], _Entry] = {}
    for file in files:
        first = seen.setdefault((re.sub(r"\.gz$", "", file.short.casefold()), file.size), file)
        if first is not file:
            raise FileError(f"{first.name} and {file.name} are of one name and size: people count twice; pass one.")


def entries(path: Path) -> Iterator[_Entry]:
    """Give the file, or the CSV files of a zip."""
    if path.suffix.casefold() != ".zip":
        yield _Entry(str(path), path.name, open_file(str(path)), _size(path))
        return
    try:
        with zipfile.ZipFile(path) as archive:
            check_unpacked(path, archive)
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            members = sorted(n for n in sizes if n.casefold().endswith(".csv") and "__MACOSX" not in n)
    except (zipfile.BadZipFile, OSError, RuntimeError) as error:  # NotImplementedError is a RuntimeError
        raise damaged(str(path), "a zip archive", error) from error
    if not members:
        raise FileError(f"{path} holds no .csv file; is it the zip of the CSV version?")
    for member in members:
        yield _Entry(f"{path}:{member}", Path(member).name, _member(path, member), sizes[member])


def _size(path: Path) -> int:
    """Give the size of a file in bytes, unpacked: gzip writes it last."""
    if path.suffix.casefold() != ".gz":
        return path.stat().st_size
    with path.open("rb") as packed:
        packed.seek(max(path.stat().st_size - 4, 0))
        return int.from_bytes(packed.read(4), "little")


def _member(path: Path, member: str) -> Callable[[], IO[bytes]]:
    def opener() -> IO[bytes]:
        with zipfile.ZipFile(path) as archive:  # the member keeps the file open until it is closed itself
            return archive.open(member)

    return opener


def _may_hold(file: _Entry, wanted: set[str]) -> bool:
    """Tell whether a file may hold one of the states, by its name."""
    named = PERSON_FILE.fullmatch(file.short)
    if named is None or named["state"].casefold() == "us":
        return True
    return bool(state_codes([named["state"]], argument=file.name) & wanted)


def _with_states(where: str | Query | None, wanted: set[str] | None, first: Source) -> str | Query | None:
    if wanted is None:
        return where
    column = next((c for c in ("ST", "STATE") if c in first.schema.names), None)
    if column is None:
        raise FileError(
            f"{first.name} has no column ST or STATE, so states cannot be chosen from it; leave states out."
        )
    chosen = f"{column} in ({', '.join(repr(code) for code in sorted(wanted))})"
    return chosen if where is None else f"({read_query(where, 'where').text}) and {chosen}"


class PumsSource(Source):
    """One CSV file of person records, with codes as text and PUMA ids added."""

    unit = "file"
    n_parts = 1

    def __init__(
        self,
        name: str,
        opener: Callable[[], IO[bytes]],
        column_types: Mapping[str, pa.DataType],
        encoding: str = "utf-8",
    ) -> None:
        self.name = name
        written = header(name, opener, CsvOptions(encoding=encoding))
        check_alike(name, written)
        names = {column.upper(): column for column in written}  # before 2017 the replicate weights were pwgtp1..pwgtp80
        if written and "PWGTP" not in names:
            raise FileError(
                f"{name} has no column PWGTP, so it is not a file of ACS person records; household files are not read here."
            )
        self._widths = {c: _width(c) for c in names if _width(c) is not None and c not in column_types}
        types = {names[c]: pa.string() for c in self._widths}
        types |= {names[c]: kind for c, kind in column_types.items() if c in names}
        self._file = DelimitedSource(name, opener, CsvOptions(types, encoding), keep_leading_zeros=False)
        self._written = names
        state = next((c for c in ("ST", "STATE") if c in names), None)
        pumas = [c for c in names if re.fullmatch(r"PUMA\d*", c)] if state else []
        self._derived = {f"{c.lower()}_id": (str(state), c) for c in pumas}
        fields = [pa.field(c, _filled(self._file.schema.field(w).type)) for c, w in names.items()]
        self.schema = pa.schema([*fields, *(pa.field(c, pa.string()) for c in self._derived)])

    def parts(self, request: Request, start: int = 0) -> Iterator[Part]:
        """Give the file."""
        if start == 0:
            yield Part(0, None, self._read(request))

    def _read(self, request: Request) -> Iterator[pa.RecordBatch]:
        needed = {n: None for column in request.schema.names for n in self._derived.get(column, (column,))}
        fields = [
            pa.field(self._written[n], request.schema.field(n).type if n in request.schema.names else pa.string())
            for n in needed
        ]
        for part in self._file.parts(Request(pa.schema(fields), request.batch_size)):
            for batch in part.batches:
                yield self._finished(batch, list(needed), request.schema.names)

    def _finished(self, batch: pa.RecordBatch, needed: list[str], wanted: list[str]) -> pa.RecordBatch:
        columns = {}
        for name in needed:
            values = batch.column(self._written[name])
            width = self._widths.get(name)
            columns[name] = values if width is None else _padded(values, width)
        for name, (state, puma) in self._derived.items():
            if name in wanted:
                whole = pc.binary_join_element_wise(columns[state], columns[puma], "")
                other_vintage = pc.starts_with(columns[puma], "-")
                columns[name] = pc.if_else(other_vintage, pa.scalar(None, pa.string()), whole)
        return pa.RecordBatch.from_pydict({name: columns[name] for name in wanted})


def _width(column: str) -> int | None:
    """Give the width of a code, 0 for one that is kept as written, None for a number."""
    found = CODES.fullmatch(column)
    if found is None:
        return None
    return next(width for group, width in WIDTHS.items() if found[group])


def _filled(kind: pa.DataType) -> pa.DataType:
    """Take columns that are blank in the first block for whole numbers, as nearly all are."""
    return pa.int64() if pa.types.is_null(kind) else kind


def _padded(values: pa.Array, width: int) -> pa.Array:
    """Write codes with zeros in front: '1' and '1.0' (as other programs save them) as '01', '-9' as '-0009'."""
    text = pc.replace_substring_regex(values, r"\.0+$", "")
    if width == 0:
        return text
    negative = pc.binary_join_element_wise("-", pc.utf8_lpad(pc.utf8_ltrim(text, "-"), width - 1, "0"), "")
    padded = pc.if_else(pc.match_substring_regex(text, r"^[0-9]+$"), pc.utf8_lpad(text, width, "0"), text)
    return pc.if_else(pc.match_substring_regex(text, r"^-[0-9]+$"), negative, padded)


def state_codes(states: Sequence[str | int] | str | int, argument: str = "states") -> set[str]:
    """Read postal codes or state codes as two-digit state codes.

    Examples
    --------
    >>> sorted(state_codes(["al", 6, "48"]))
    ['01', '06', '48']
    """
    codes = set()
    for state in [states] if isinstance(states, str | int) else states:
        text = str(state).strip().upper()
        code = f"{int(text):02d}" if text.isdecimal() else FIPS_OF_STATE.get(text)
        if code not in FIPS_OF_STATE.values():
            raise unknown_name(argument, state, [*FIPS_OF_STATE], "state")
        codes.add(str(code))
    return codes
