"""CSV and TSV, plain or gzipped: one piece per file.

The types are inferred on the first block. A column whose numbers begin with zeros there (FIPS codes such as ``01001``)
is text, since as a number it would lose them, and so is one of whole numbers of more digits than an integer holds;
where such zeros first appear later, the file is refused with the remedy. Blanks and the usual marks for "no value" are
null, also in text columns.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from crosslevel.data.batches.sources import Part, Request, Source, damaged
from crosslevel.data.batches.stream import check_unique
from crosslevel.errors import FileError, InputError

BLOCK = 1 << 20  # bytes parsed at a time, and the stretch on which types are inferred
NULLS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "#N/A")
READ_ERRORS = (
    *(pa.ArrowException, OSError, EOFError, UnicodeError, csv.Error, zipfile.BadZipFile, zlib.error),
    RuntimeError,  # a zip's "encrypted", and unknown compression, which is a NotImplementedError
)
LEADING_ZERO = r"^\s*[+-]?0[0-9]"
WHOLE = r"^\s*[+-]?[0-9]+\s*$"
LONG = r"^\s*[+-]?[0-9]{19,}\s*$"  # int64 holds 18 digits, and some numbers of 19


@dataclass(frozen=True)
class CsvOptions:
    """How delimited text is read.

    Parameters
    ----------
    column_types : mapping of str to pyarrow.DataType
        Types that are said, not inferred.
    encoding : str
        The encoding of the file.
    delimiter : str
        What stands between two values.
    """

    column_types: Mapping[str, pa.DataType] = field(default_factory=dict)
    encoding: str = "utf-8"
    delimiter: str = ","

    def __post_init__(self) -> None:
        one = isinstance(self.delimiter, str) and len(self.delimiter) == 1 and self.delimiter.isascii()
        if not one or self.delimiter in '\r\n"':
            raise InputError(f"delimiter={self.delimiter!r} is not one ASCII character such as ',', ';', '|' or '\\t'.")


def column_type(name: str, kind: object) -> pa.DataType:
    """Read the type a caller named for a column: a pyarrow type or its name.

    Examples
    --------
    >>> column_type("fips", "string")
    DataType(string)
    """
    if isinstance(kind, pa.DataType):
        return kind
    try:
        return {"text": pa.string(), "number": pa.float64()}.get(str(kind)) or pa.type_for_alias(str(kind))
    except ValueError as error:
        raise InputError(
            f"column_types[{name!r}]={kind!r} is not a type; say for example 'string', 'int64', 'float64', 'bool' or 'date32'."
        ) from error


def column_types_of(given: Any) -> dict[str, pa.DataType]:
    """Read the types a caller named, by column.

    Examples
    --------
    >>> column_types_of({"fips": "string"})
    {'fips': DataType(string)}
    """
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f"column_types={given!r} is no mapping; pass the type by column, {{'fips': 'string'}}.")
    return {str(name): column_type(name, kind) for name, kind in (given or {}).items()}


def open_file(path: str) -> Callable[[], Any]:
    """Give a function that opens a file for reading bytes, unpacking ``.gz``."""
    return lambda: pa.input_stream(path, compression="gzip" if path.casefold().endswith(".gz") else None)


class DelimitedSource(Source):
    """A delimited text file, or a member of an archive.

    Parameters
    ----------
    name : str
        What messages call it.
    opener : callable
        Opens it anew for reading bytes.
    options : CsvOptions
        How it is read.
    keep_leading_zeros : bool
        Whether numbers that begin with zeros, or are longer than an integer, are text.
    """

    unit = "file"
    n_parts = 1

    def __init__(
        self,
        name: str,
        opener: Callable[[], IO[bytes]],
        options: CsvOptions | None = None,
        keep_leading_zeros: bool = True,
    ) -> None:
        self.name = name
        self._opener = opener
        self._options = options or CsvOptions()
        self._guard = keep_leading_zeros
        self._padded: set[str] = set()
        self.schema = self._inferred()
        if keep_leading_zeros:
            self._padded = self._codes()
            for column in self._padded:
                place = self.schema.get_field_index(column)
                self.schema = self.schema.set(place, pa.field(column, pa.string()))

    def as_text(self, column: str) -> bool:
        """Tell whether the column is whole numbers or codes, nobody having said its type."""
        kind = self.schema.field(column).type
        return column in self._padded or (pa.types.is_integer(kind) and column not in self._options.column_types)

    def parts(self, request: Request, start: int = 0) -> Iterator[Part]:
        """Give the file."""
        if start == 0:
            yield Part(0, None, self._read(request))

    def _read(self, request: Request) -> Iterator[pa.RecordBatch]:
        columns = request.schema.names
        if not columns:
            columns = self.schema.names[:1]  # rows are counted by their first column
        kinds = {f.name: f.type for f in request.schema}
        kinds |= {n: self.schema.field(n).type for n in columns if n not in kinds}
        guarded = [n for n in columns if self._guard and n not in self._options.column_types and _is_number(kinds[n])]
        with self._explained(), self._reading(columns, kinds | dict.fromkeys(guarded, pa.string())) as reader:
            row = 2  # the header is row 1
            for batch in reader:
                yield self._as_numbers(batch, guarded, kinds, row)
                row += batch.num_rows

    def _as_numbers(
        self, batch: pa.RecordBatch, guarded: list[str], kinds: Mapping[str, pa.DataType], row: int
    ) -> pa.RecordBatch:
        """Turn columns of numbers, read as text, into numbers; refuse zeros that would be lost."""
        for name in guarded:
            text = pc.utf8_trim_whitespace(batch.column(name))
            # most zeros are '0' or '0.5', and these tests are far cheaper than a regular expression
            zero = pc.and_(pc.starts_with(text, "0"), pc.greater(pc.binary_length(text), 1))
            zero = pc.and_not(zero, pc.starts_with(text, "0."))
            if pc.any(zero).as_py():
                padded = pc.and_(zero, pc.match_substring_regex(text, LEADING_ZERO))
                if pc.any(padded).as_py():
                    at = pc.index(padded, True).as_py()
                    raise FileError(
                        f"{self.name} has {text[at].as_py()!r} in column {name!r}, row {row + at:,}, whose leading zero would be "
                        f"lost: the numbers before it had none. If these are codes pass column_types={{{name!r}: 'string'}}, "
                        f"if they are numbers column_types={{{name!r}: '{self.schema.field(name).type}'}}."
                    )
            parsed = self._parsed(text, name, kinds[name], row)
            batch = batch.set_column(batch.schema.get_field_index(name), name, parsed)
        return batch

    def _parsed(self, text: pa.Array, name: str, kind: pa.DataType, row: int) -> pa.Array:
        try:
            return text.cast(kind)
        except pa.ArrowInvalid:
            for at, value in enumerate(text.to_pylist()):
                try:
                    pa.array([value]).cast(kind)
                except pa.ArrowInvalid:
                    raise self._wrong_value(name, str(kind), str(value), f"row {row + at:,}") from None
            raise

    @contextmanager
    def _reading(
        self, columns: list[str] | None, kinds: Mapping[str, pa.DataType]
    ) -> Iterator[pacsv.CSVStreamingReader]:
        with self._opener() as opened:
            handle = opened
            if _codec(self._options.encoding) not in ("utf-8", "ascii"):
                native = opened if isinstance(opened, pa.NativeFile) else pa.PythonFile(opened, mode="r")
                handle = pa.transcoding_input_stream(native, self._options.encoding, "utf-8")
            with pacsv.open_csv(
                handle,
                # without threads (the streaming reader has none to use anyway) messages tell the row
                read_options=pacsv.ReadOptions(block_size=BLOCK, use_threads=False),
                parse_options=pacsv.ParseOptions(delimiter=self._options.delimiter, newlines_in_values=True),
                convert_options=pacsv.ConvertOptions(
                    column_types=dict(kinds),
                    include_columns=columns,
                    null_values=list(NULLS),
                    strings_can_be_null=True,
                ),
            ) as reader:
                yield reader

    def _inferred(self) -> pa.Schema:
        with self._explained(), self._reading(None, self._options.column_types) as reader:
            schema = reader.schema
            names = schema.names  # decoded here, and nowhere before
        check_unique(self.name, names)
        unreadable = next((f.name for f in schema if pa.types.is_binary(f.type)), None)
        if unreadable is not None:
            raise _not_text(self.name, self._options, f"column {unreadable!r}")
        return schema

    def _codes(self) -> set[str]:
        """Name the columns that are numbers to Arrow and codes to people, by the first block."""
        numbers = [f.name for f in self.schema if _is_number(f.type) and f.name not in self._options.column_types]
        if not numbers:
            return set()
        with self._explained(), self._reading(numbers, dict.fromkeys(numbers, pa.string())) as reader:
            first = next(iter(reader), None)
        return set() if first is None else {n for n in numbers if _is_code(first.column(n), self.schema.field(n).type)}

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of the CSV reader into sentences."""
        try:
            yield
        except READ_ERRORS as error:
            raise self.explain(error) from error

    def explain(self, error: Exception) -> Exception:
        """Turn an error of the CSV reader into a sentence with file, row, column and repair."""
        text = str(error)
        row = re.search(r"Row #(\d+)", text)
        place = f"row {int(row[1]):,}" if row else "a row"
        if "Empty CSV file" in text:
            return FileError(f"{self.name} is empty; a header line with the column names is needed.")
        if ragged := re.search(r"Expected (\d+) columns, got (\d+)", text):
            return FileError(
                f"{self.name} has {ragged[2]} values in {place} and {ragged[1]} column names; each row needs as many "
                "values as the header. Look for unquoted delimiters, or pass the right delimiter."
            )
        if isinstance(error, UnicodeError):
            return _not_text(self.name, self._options, getattr(error, "reason", text))
        if "invalid UTF8" in text:
            return _not_text(self.name, self._options, place)
        if "straddling" in text:
            return FileError(
                f"{self.name} has a row of more than {BLOCK:,} bytes, probably a quote that is never closed; correct the file."
            )
        wrong = re.search(r"In CSV column #(\d+): .*?conversion error to (\S+): invalid value '(.*)'", text, re.DOTALL)
        if wrong:
            return self._wrong_value(
                header(self.name, self._opener, self._options)[int(wrong[1])], wrong[2], wrong[3], place
            )
        return damaged(self.name, "delimited text", error)

    def _wrong_value(self, column: str, kind: str, value: str, place: str) -> FileError:
        if column in self._options.column_types:
            return FileError(
                f"{self.name} has {value!r} in column {column!r}, {place}, which column_types says is {kind}; correct the "
                "value or say another type."
            )
        found = "blank" if kind == "null" else kind
        number = re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", value.strip())
        better = "float64" if number and not re.fullmatch(WHOLE, value) else "string"
        return FileError(
            f"{self.name} has {value!r} in column {column!r}, {place}, but the column was {found} in the first block, "
            f"where types are inferred; pass column_types={{{column!r}: {better!r}}}."
        )


def header(name: str, opener: Callable[[], IO[bytes]], options: CsvOptions) -> list[str]:
    """Read the column names of a delimited text, called ``name`` in messages."""
    _codec(options.encoding)
    try:
        with opener() as opened, io.TextIOWrapper(opened, options.encoding, newline="") as text:
            names = next(csv.reader(text, delimiter=options.delimiter), [])
    except UnicodeError as error:
        raise _not_text(name, options, "the header") from error
    except READ_ERRORS as error:
        raise damaged(name, "delimited text", error) from error
    return [column.removeprefix("\ufeff") for column in names]


def check_alike(name: str, columns: Sequence[str]) -> None:
    """Refuse columns of the file ``name`` that are called the same but for capitals and blanks."""
    seen: dict[str, str] = {}
    for column in columns:
        key = column.strip().casefold()
        if key in seen:
            raise FileError(
                f"{name} has the columns {seen[key]!r} and {column!r}, which are the same here but for capitals; rename or "
                "drop one of them."
            )
        seen[key] = column


def _not_text(name: str, options: CsvOptions, where: str) -> FileError:
    return FileError(
        f"{name} is not {options.encoding} text ({where}); say its encoding, for example encoding='latin-1'."
    )


def _is_code(text: pa.Array, kind: pa.DataType) -> bool:
    """Tell whether a column would lose, as numbers of this kind, something that was written: a zero or a digit."""
    if pc.any(pc.match_substring_regex(text, LEADING_ZERO)).as_py():
        return True
    if pa.types.is_integer(kind) or not pc.any(pc.match_substring_regex(text, LONG)).as_py():
        return False
    return bool(pc.all(pc.match_substring_regex(text, WHOLE)).as_py())


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _codec(encoding: str) -> str:
    try:
        found = codecs.lookup(encoding)
        if not found._is_text_encoding:  # such as rot13 and hex, which only codecs.open takes
            raise LookupError
        return found.name
    except (LookupError, TypeError, ValueError) as error:  # a null byte is a ValueError
        raise InputError(
            f"encoding={encoding!r} is not known; say for example 'utf-8', 'latin-1' or 'cp1252'."
        ) from error
