"""What every verb does alike: read files, show progress, write answers into a folder, print tables or JSON."""

from __future__ import annotations

import dataclasses
import json
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pacsv

from crosslevel.cli.options import Given, Option, spelled
from crosslevel.data.atomic import whole_file
from crosslevel.data.expressions import read_expression
from crosslevel.data.frames import kind_of
from crosslevel.data.progress import draw_bar
from crosslevel.data.sql import Local, Spark, format_of, open_table, quoted
from crosslevel.data.text_numbers import read_text_numbers
from crosslevel.errors import CrosslevelWarning, FileError, InputError, unknown_name
from crosslevel.results import Estimates, save
from crosslevel.results.table import plain

if TYPE_CHECKING:
    from rich.console import Console

FILE_HELP = "Parquet, CSV or Arrow file, a folder or a quoted glob of files."
MODEL, REPORT = "model.crosslevel", "report.html"

INPUT = [
    Option(
        "text_numbers",
        help="Column of text to read as numbers, written as 1,234 or 45 % (0.45); repeat.",
        several=True,
        panel="Input",
    )
]
OUTPUT = [
    Option("out", "file", "Folder for the answers (.csv, and .crosslevel for cl.load) and the model.", panel="Output"),
    Option("report", "switch", "Write report.html into the folder.", panel="Output"),
    Option("as_json", "switch", "Print JSON on stdout, errors too.", panel="Output"),
]


class Job:
    """One run of a verb: the files it reads, its output folder, its console (stderr), and what it has written so far."""

    def __init__(self, given: Given, options: Sequence[Option] = (), arguments: Sequence[str] = ()) -> None:
        self.given, self.options, self.arguments = given, options, arguments
        self._seen: list[str] = []
        told = given.of("Output")
        self.out: Path | None = told.get("out")
        self.report, self.as_json = bool(told.get("report")), bool(told.get("as_json"))
        self.files: dict[str, str] = {}
        self._said: list[str] = []
        self._began = time.monotonic()
        if self.out is not None and self.out.exists() and not self.out.is_dir():
            raise FileError(f"--out {self.out} is a file; name a folder for the answer.")
        if self.report and self.out is None:
            raise InputError("--report needs a folder for the page; add --out.")

    @cached_property
    def console(self) -> Console:
        """Where progress goes: stderr."""
        from rich.console import Console

        return Console(stderr=True, highlight=False)

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """Print a line about the work on stderr."""
        self.console.print(text, markup=False, soft_wrap=True)

    @contextmanager
    def progress(self, what: str, unit: str = "people") -> Iterator[Callable[[int, int | None], None]]:
        """Show rows of people (or other units) done, how many a second and the time left; our warnings wait for the answer."""
        with quiet(), draw_bar(what, unit, self.console) as tell:
            yield tell

    def command(self, without: Sequence[str]) -> list[str]:
        """Give the arguments as they were written, less some options and their values."""
        kinds = {spelled(o.name): o.kind for o in self.options if o.name in without}
        kept, skip = [], False
        for word in self.arguments:
            name = word.partition("=")[0]
            if not skip and name not in kinds:
                kept.append(word)
            skip = not skip and name in kinds and kinds[name] != "switch" and "=" not in word
        return kept

    def inputs(self, without: Sequence[str] = ()) -> list[Path]:
        """Give the files that options name, less some."""
        named = [
            self.given[o.name]
            for o in self.options
            if o.kind == "file" and o.name in self.given and o.name not in without
        ]
        return [p for found in named for p in (found if isinstance(found, list | tuple) else [found])]

    def open(self, name: str) -> Local | Spark:
        """Open the file that an option names."""
        found = open_table(self.given[name], spelled(name))
        self._seen += found.schema.names
        return found

    def read(self, name: str, where: str | None = None, columns: Iterable[str] | None = None) -> pa.Table:
        """Read a file whole, columns of --text-numbers as numbers; refuse one without rows."""
        found = self.open(name)
        chosen = found.schema.names if columns is None else list(dict.fromkeys(columns))
        kept = "" if where is None else read_expression(where, "where", found.schema).sql
        table = found.answer(f"select {', '.join(map(quoted, chosen))} from people", kept)
        if table.num_rows == 0:
            raise InputError(f"{self.given[name]} has no rows" + (f" where {where}." if where else "."))
        for column in self.given.get("text_numbers", ()):
            if column in table.column_names and pa.types.is_string(table[column].type):
                at = table.column_names.index(column)
                table = table.set_column(at, column, read_text_numbers(table[column].combine_chunks(), column))
        return table

    def read_beside(self, name: str, by: str, people: pa.Schema) -> pa.Table:
        """Read the table that goes with people, both with the column of the option ``by``.

        Keys of a CSV file get the type they have among people, so that 1001 and '1001' are the same.
        """
        key, path = self.given[by], self.given[name]
        if key not in people.names:
            raise unknown_name(spelled(by), key, people.names)
        found = self.read(name)
        if key not in found.column_names:
            raise unknown_name(f"{spelled(by)} (in {path})", key, found.column_names)
        text = kind_of(people.field(key).type) == "text" and format_of(path) == "csv"
        if text and pa.types.is_integer(found[key].type):
            found = found.set_column(found.column_names.index(key), key, found[key].cast(pa.string()))
        return found

    def read_map(self, name: str) -> dict[str, Any]:
        """Read a map: GeoJSON with features, or TopoJSON."""
        path, option = self.given[name], spelled(name)
        if not path.is_file():
            raise FileError(f"{option} {path} does not exist; name a GeoJSON file.")
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise FileError(f"{option} {path} is not JSON ({error}); name a GeoJSON file.") from error
        if not isinstance(found, dict) or not (found.get("features") or found.get("objects")):
            raise FileError(
                f"{option} {path} is neither a GeoJSON FeatureCollection nor TopoJSON; name a map of the places."
            )
        return found

    def check_columns(self, **known: Sequence[str]) -> None:
        """Refuse a column that its file does not have, before any work is done; of --text-numbers, one that no file has."""
        asked = [(o, known[o.column_of]) for o in self.options if o.name in self.given and o.column_of in known]
        for option, columns in [*asked, *((o, self._seen) for o in INPUT if o.name in self.given)]:
            value = self.given[option.name]
            names = [n for v in value for n in (v if isinstance(v, tuple) else (v,))] if option.several else [value]
            for name in names:
                if name not in columns:
                    raise unknown_name(spelled(option.name), name, list(dict.fromkeys(columns)))

    def folder(self) -> Path | None:
        """Make the folder for the answer, if there is to be one."""
        if self.out is not None:
            try:
                self.out.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FileError(
                    f"--out {self.out} cannot be made ({error.strerror}); name a folder you may write to."
                ) from error
        return self.out

    def write(self, name: str, found: Estimates) -> None:
        """Write an answer twice: for ``cl.load``, and as CSV for everybody else."""
        out = self.folder()
        if out is not None:
            stem = free_name(file_stem(name), [Path(path).stem for path in self.files.values()])
            save(found, out / f"{stem}.crosslevel")
            with whole_file(out / f"{stem}.csv") as beside:
                pacsv.write_csv(found.table, beside)
            self.files |= {name: str(out / f"{stem}.crosslevel"), f"{name} (csv)": str(out / f"{stem}.csv")}

    def keep(self, name: str, thing: Any, file: str = MODEL) -> None:
        """Save a model, or anything else that ``cl.load`` reads."""
        out = self.folder()
        if out is not None:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", CrosslevelWarning)
                save(thing, out / file)
            self._said += [str(w.message) for w in said]
            self.files[name] = str(out / file)

    def write_answers(
        self,
        answers: Mapping[str, Estimates],
        *,
        model: Any = None,
        pages: Mapping[str, Any] | None = None,
        title: str | None = None,
        polygons: Mapping[str, Any] | None = None,
    ) -> None:
        """Write into the folder what is not there yet: the answers, the model, and the report of ``pages`` or of the answers."""
        for name, found in answers.items():
            if name not in self.files:
                self.write(name, found)
        if model is not None and "model" not in self.files:
            self.keep("model", model)
        if self.report and self.out is not None:
            from crosslevel.reports import report

            with quiet(), self.console.status("Writing the report ..."):
                shown = pages if pages is not None else {n.replace("-", " "): found for n, found in answers.items()}
                report(shown, self.out / REPORT, title=title, polygons=polygons)
            self.files["report"] = str(self.out / REPORT)

    def print(
        self,
        answers: Mapping[str, Estimates],
        *,
        fit: Mapping[str, Any] | None = None,
        warnings: Iterable[str] = (),
        hidden: Iterable[str] = (),
        max_rows: int | None = 20,
        text: str = "",
        **more: Any,
    ) -> None:
        """Print the answers, as tables or as JSON, and the files.

        Parameters
        ----------
        answers : mapping of name to Estimates
        fit : mapping, optional
            What the fit says of itself; the diagnostics of the first answer when not given.
        warnings : iterable of str
            Said before those of the answers.
        hidden : iterable of str
            Answers that are long and stand in a file: not printed as tables.
        max_rows : int or None
            Rows of a table that are printed.
        text : str
            Printed in place of the tables.
        **more
            Further entries of the JSON.
        """
        said = list(dict.fromkeys([*warnings, *self._said, *(w for found in answers.values() for w in found.warnings)]))
        if fit is None:
            fit = next(iter(answers.values())).diagnostics if answers else {}
        fit = plain(dict(fit), "fit")
        if self.as_json:
            told = {
                "answers": {name: _told(found) for name, found in answers.items()},
                **plain(more, "answer"),
                "fit": fit,
                "warnings": said,
                "seconds": round(self.seconds, 3),
                "files": self.files,
            }
            print(json.dumps(told, ensure_ascii=False, allow_nan=False, default=str))
            return
        short = {n: v for n, v in fit.items() if not isinstance(v, list | dict)}
        if short:
            print(f"Fit: {', '.join(f'{n} {_short(v)}' for n, v in short.items())}")
        for warning in said:
            print(f"Warning: {warning}")
        if text:
            print(f"\n{text}")
        for name, found in answers.items() if not text else ():
            if name not in hidden:
                print(f"\n{dataclasses.replace(found, warnings=(), diagnostics={}).summary(max_rows)}")
        if self.files:
            print()
        for name, path in self.files.items():
            print(f"{name:<28} {path}")


def _told(found: Estimates) -> dict[str, Any]:
    return {
        "title": found.title,
        "method": found.method,
        "keys": list(found.keys),
        "level": found.level,
        "interval": found.interval,
        "rows": found.table.to_pylist(),
    }


def _short(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep our warnings from being printed: they are carried in the answer and said once, with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        yield


def file_stem(*words: str) -> str:
    """Make a name for a file out of names of columns.

    Examples
    --------
    >>> file_stem("sex", "age group", "by", "region/county")
    'sex-age_group-by-region_county'
    """
    return "-".join(re.sub(r"[^\w.-]+", "_", word).strip("_.") or "_" for word in words)


def free_name(stem: str, taken: Iterable[str]) -> str:
    """Keep names of files apart that differ only in signs a file name cannot have, or in capitals.

    Examples
    --------
    >>> free_name("age_group", ["sex", "Age_group"])
    'age_group-2'
    """
    used = {name.casefold() for name in taken}
    return next(n for n in chain([stem], (f"{stem}-{i}" for i in count(2))) if n.casefold() not in used)
