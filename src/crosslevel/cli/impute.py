"""``crosslevel impute``: what was each person's hidden value? Imputed columns, completed data sets, tables with intervals."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.cli.console import check_folder, check_report, quietly
from crosslevel.cli.imputed_files import draws_name, imputed_name, write_answer
from crosslevel.data.batches import Batches, open_batches
from crosslevel.data.checks import check_level
from crosslevel.errors import InputError, unknown_name
from crosslevel.imputation import CUDIA, CrossLevelImputer
from crosslevel.imputation.stacked_means import stack_means
from crosslevel.reports import report
from crosslevel.results import Estimates

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Settings", "parse_asks", "parse_numbers", "parse_pairs", "run"]

Given = tuple[pa.Table, pa.Table, pa.ChunkedArray | None]
"""X, partition and weight of the people."""

REPORT = "report.html"
METHODS = ("individual", "cudia")
MOST_LEVELS = 12
"""Columns of more values than this are continuous, and have no row for every value."""
DRAWS = 100
"""Draws behind an interval of ``cudia``."""
MOST_NAMES = 100
"""A column of text with more values than this is taken for a name of persons, unless it was asked for."""


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line."""

    people: Path
    means: Path
    partition: str
    hidden: list[str]
    columns: list[str]
    categorical: list[str]
    number: list[str]
    se: list[str]
    by: list[str]
    where: str | None
    weight: str | None
    method: str | None
    k: str | None
    algorithm: str | None
    missing: str | None
    m: int
    level: float
    seed: int
    out: Path | None
    report: bool = False

    @property
    def cudia(self) -> bool:
        """Whether clusters are wanted: by name, or because their number is given."""
        return self.method == "cudia" or (self.method is None and self.k is not None)


def parse_asks(texts: list[str]) -> list[tuple[str, ...]]:
    """Read what means are asked for: a column, or columns joined by ``*`` or a comma.

    Examples
    --------
    >>> parse_asks(["age", "age * sex"])
    [('age',), ('age', 'sex')]
    """
    found = [tuple(part.strip() for part in text.replace("*", ",").split(",")) for text in texts]
    for text, names in zip(texts, found, strict=True):
        if not all(names) or len(set(names)) < len(names):
            raise InputError(f"--by {text!r} does not name columns, each once; write for example --by 'age*sex'.")
    if len(set(found)) < len(found):
        raise InputError("--by asks the same question twice; ask each once.")
    return found


def parse_numbers(texts: list[str]) -> dict[str, float | None]:
    """Read hidden features that are numbers, with the standard deviation among persons where it is known.

    Examples
    --------
    >>> parse_numbers(["income", "bmi=5.5"])
    {'income': None, 'bmi': 5.5}
    """
    found: dict[str, float | None] = {}
    for text in texts:
        name, mark, sd = (part.strip() for part in text.rpartition("=")) if "=" in text else (text.strip(), "", "")
        try:
            found[name] = float(sd) if mark else None
        except ValueError:
            raise InputError(
                f"--number {text!r}: {sd!r} is not a standard deviation; write for example --number bmi=5.5, or --number bmi."
            ) from None
    return found


def parse_pairs(texts: list[str]) -> dict[str, str]:
    """Read which column of the means' file holds the standard errors of which mean.

    Examples
    --------
    >>> parse_pairs(["ill=ill_se"])
    {'ill': 'ill_se'}
    """
    found = {}
    for text in texts:
        name, mark, column = (part.strip() for part in text.partition("="))
        if not mark or not name or not column:
            raise InputError(f"--se {text!r} is not feature=column; write for example --se ill=ill_se.")
        found[name] = column
    return found


def run(settings: Settings, as_json: bool) -> None:
    """Read, fit, write what was asked for, print the tables."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    _check(settings)
    asks = parse_asks(settings.by)
    began = time.monotonic()
    stream = open_batches(settings.people, where=settings.where)
    means = _read_means(settings, stream)
    columns = _check_columns(settings, asks, stream.schema.names, means.column_names)
    others = [settings.partition] if settings.weight is None else [settings.partition, settings.weight]
    table = stream.select([*columns, *others]).to_table()
    if table.num_rows == 0:
        raise InputError(f"{settings.people} has no rows" + (f" where {settings.where}." if settings.where else "."))
    _check_names(settings, table, columns)
    weight = None if settings.weight is None else table[settings.weight]
    given: Given = (table.select(columns), table.select([settings.partition]), weight)
    model = quietly(lambda: _fitted(settings, given, means, console))
    console.print(f"Fitted; {time.monotonic() - began:,.1f} s", markup=False)
    shown = [c for c in columns if pc.count_distinct(table[c]).as_py() <= MOST_LEVELS]
    answers = quietly(lambda: _answers(model, given, asks, shown or [settings.partition], settings.level))
    files = {}
    if settings.out is not None:
        out, level = settings.out, settings.level
        # every table of clusters needs draws of its own, so that one nobody asked for is spared
        crossed = not asks and len(shown) > 1 and not settings.cudia
        cells = {"cells": quietly(lambda: means_by(model, given, shown, level))} if crossed else {}
        files = quietly(lambda: write_answer(out, model, stream, given, answers | cells, settings.m, level, console))
        if settings.report:
            files["report"] = str(quietly(lambda: _write_page(settings, out, model, given, answers if asks else {})))
    if as_json:
        facts = _facts(settings, model, answers, files, time.monotonic() - began)
        print(json.dumps(facts, ensure_ascii=False, allow_nan=False))
        return
    print("\n\n".join(found.summary(None) for found in answers.values()))
    for name, path in files.items():
        print(f"{name:<15} {path}")


def _check(s: Settings) -> None:
    check_folder(s.out)
    check_report(s.report, s.out)
    check_level(s.level)
    if s.method is not None and s.method not in METHODS:
        raise unknown_name("--method", s.method, METHODS, "method")
    if not s.cudia:
        for option, value in (("--k", s.k), ("--algorithm", s.algorithm)):
            if value is not None:
                raise InputError(
                    f"{option} is about clusters, which --method individual has not; pass --method cudia or leave it out."
                )
    elif s.missing is not None:
        raise InputError("--missing is for --method individual; cudia takes a missing value as what its cluster has.")
    if s.k is not None and s.k != "auto" and not s.k.isdecimal():
        raise InputError(f"--k {s.k!r} is neither 'auto' nor a whole number of clusters.")
    if s.m < 0:
        raise InputError(f"--m {s.m} is not a number of completed data sets; pass 0 for none, or 20.")
    for option, names in (("--impute", s.hidden), ("--columns", s.columns)):
        if len(set(names)) < len(names):
            raise InputError(f"{option} names {next(n for n in names if names.count(n) > 1)!r} twice; name each once.")
    for option, wanted in (("--number", parse_numbers(s.number)), ("--se", parse_pairs(s.se))):
        for name in wanted:
            if name not in s.hidden:
                raise unknown_name(option, name, s.hidden, "hidden feature (--impute)")


def _check_columns(s: Settings, asks: list[tuple[str, ...]], people: list[str], means: list[str]) -> list[str]:
    """Refuse what neither file has; give the columns of people that are used."""
    taken = [s.partition, *([] if s.weight is None else [s.weight]), *s.hidden]
    columns = s.columns or [n for n in people if n not in taken]
    of_people: dict[str, list[str]] = {"--columns": s.columns, "--weight": [] if s.weight is None else [s.weight]}
    of_means = {"--impute": s.hidden, "--se": list(parse_pairs(s.se).values())}
    known = {**dict.fromkeys(of_people, people), **dict.fromkeys(of_means, means)}
    known |= {"--categorical": columns, "--by": [*columns, s.partition]}
    wanted = of_people | of_means | {"--categorical": s.categorical, "--by": [n for ask in asks for n in ask]}
    for option, names in wanted.items():
        for name in names:
            if name not in known[option]:
                raise unknown_name(option, name, known[option])
    for name in s.columns:
        if name in taken:
            raise InputError(f"--columns names {name!r}, which is the partition, the weight or hidden; leave it out.")
    if not columns:
        raise InputError(f"{s.people} has no column beside {', '.join(taken)}; something must be known of each person.")
    for name in [imputed_name(n) for n in s.hidden]:
        if s.out is not None and name in people:
            raise InputError(f"{s.people} has a column {name!r} already, where the answer would stand; rename it.")
    return columns


def _check_names(s: Settings, table: pa.Table, columns: list[str]) -> None:
    """Refuse names and numbers of persons among columns that nobody asked for."""
    if s.columns:
        return
    for name in columns:
        kind = table[name].type
        distinct = pc.count_distinct(table[name]).as_py()
        text = not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))
        if distinct > MOST_NAMES and (text or (pa.types.is_integer(kind) and distinct == table.num_rows)):
            raise InputError(
                f"{name!r} has {distinct:,} different values among {table.num_rows:,} people, as if it named them; say with "
                "--columns, repeated, which columns are known of each person."
            )


def _read_means(s: Settings, people: Batches) -> pa.Table:
    """Read the means; groups of a CSV file as the type they have in people, so that 01 and '01' are the same group."""
    if s.partition not in people.schema.names:
        raise unknown_name("--partition", s.partition, people.schema.names)
    kind = people.schema.field(s.partition).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    found = open_batches(s.means)
    if s.partition not in found.schema.names:
        raise unknown_name(f"--partition (in {s.means})", s.partition, found.schema.names)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    delimited = s.means.name.removesuffix(".gz").endswith((".csv", ".tsv"))
    if text and delimited and pa.types.is_integer(found.schema.field(s.partition).type):
        found = open_batches(s.means, column_types={s.partition: pa.string()})
    return found.to_table()


def _fitted(s: Settings, given: Given, means: pa.Table, console: Console) -> CrossLevelImputer | CUDIA:
    numbers = parse_numbers(s.number)
    pairs = parse_pairs(s.se)
    published = means.select([s.partition, *s.hidden])
    errors = (
        None if not pairs else pa.table({s.partition: means[s.partition], **{n: means[c] for n, c in pairs.items()}})
    )
    words = "clusters of people" if s.cudia else "one model of persons"
    console.print(f"Fitting {words} to the means of {means.num_rows:,} groups: {len(given[0]):,} people", markup=False)
    X, partition, weight = given
    if not s.cudia:
        scale = {n: sd for n, sd in numbers.items() if sd is not None}
        link = CrossLevelImputer(
            family={n: "gaussian" if n in numbers else "bernoulli" for n in s.hidden},
            scale=scale or None,
            categorical=s.categorical or None,
            missing=s.missing or "error",
            random_state=s.seed,
        )
        return link.fit(X, partition, published, weight, errors)
    families: dict[str, str] = dict.fromkeys(s.categorical, "categorical") | dict.fromkeys(numbers, "gaussian")
    k = 5 if s.k is None else s.k if s.k == "auto" else int(s.k)
    model = CUDIA(k, s.algorithm or "mcem", families=families or "auto", random_state=s.seed)
    return model.fit(X, partition, published, weight, errors)


def _write_page(
    s: Settings, out: Path, model: CrossLevelImputer | CUDIA, given: Given, asked: dict[str, Estimates]
) -> Path:
    """Write the page: the means that were asked for, then all that the model tells."""
    name = f"{', '.join(s.hidden)} by {s.partition}"
    pages: dict[str, Any] = {f"Means by {ask}": found for ask, found in asked.items()}
    shown = [*model._report_tables(s.level).values()]
    if isinstance(model, CrossLevelImputer):
        shown.append(model.check_totals(s.level))
    report({**pages, name: shown}, out / REPORT, title=name)
    return out / REPORT


def _answers(
    model: CrossLevelImputer | CUDIA, given: Given, asks: list[tuple[str, ...]], shown: list[str], level: float
) -> dict[str, Estimates]:
    """Give the means that were asked for; by default those of every level of every column, in one table."""
    if asks:
        return {"-".join(ask): means_by(model, given, ask, level) for ask in asks}
    return {"levels": stack_means([means_by(model, given, [c], level) for c in shown], shown)}


def means_by(model: CrossLevelImputer | CUDIA, given: Given, by: Sequence[str], level: float) -> Estimates:
    """Give means of the hidden features in subgroups of these people."""
    if isinstance(model, CrossLevelImputer):
        return model.estimate(list(by), level=level)
    return model.estimate(list(by), *given, level=level, n_draws=DRAWS)


def _facts(
    s: Settings,
    model: CrossLevelImputer | CUDIA,
    answers: dict[str, Estimates],
    files: dict[str, str],
    seconds: float,
) -> dict[str, Any]:
    first = next(iter(answers.values()))
    return {
        "method": first.method,
        "groups": len(model.schema_.partitions[0]),
        "hidden": list(model.hidden_names_),
        "answers": {
            n: {"keys": list(e.keys), "interval": e.interval, "level": e.level, "rows": e.table.to_pylist()}
            for n, e in answers.items()
        },
        "fit": first.diagnostics,
        "warnings": list(first.warnings),
        "draws": {n: [draws_name(n, i, s.m) for i in range(s.m)] for n in s.hidden} if "draws" in files else {},
        "seconds": round(seconds, 3),
        "files": files,
    }
