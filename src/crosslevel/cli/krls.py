"""``crosslevel krls``: how does y respond to each x? A table of average effects, the model, a report."""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from crosslevel.cli.console import check_report
from crosslevel.cli.embed import parse_subgroups
from crosslevel.data import frames
from crosslevel.data.batches import open_batches
from crosslevel.errors import CrosslevelWarning, FileError, InputError, unknown_name
from crosslevel.krls import KRLS, KernelLogistic
from crosslevel.krls.table import effects_summary
from crosslevel.reports import bundle, report
from crosslevel.reports.pictures import pictures
from crosslevel.results import Estimates, save

__all__ = ["Settings", "parse_references", "run"]

EFFECTS, MODEL, REPORT = "effects.crosslevel", "model.crosslevel", "report.html"
LOSSES = ("squared", "logistic")


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line."""

    data: Path
    y: str
    x: list[str]
    cluster: str | None
    weight: str | None
    weights: str
    categorical: list[str]
    references: list[str]
    where: str | None
    by: list[str]
    subgroups: list[str]
    differences: bool
    level: float
    target: str
    rule: str
    inference: str
    method: str
    penalty: float | None
    bandwidth: str
    contrast: str
    missing: str
    loss: str
    out: Path | None
    report: bool = False

    @property
    def columns(self) -> list[str]:
        """Columns of the file that are needed."""
        others = [self.y, *self.x, self.cluster, self.weight, *self.by]
        return list(dict.fromkeys(name for name in others if name is not None))


def parse_references(texts: list[str]) -> dict[str, str]:
    """Read ``column=level`` pairs.

    Examples
    --------
    >>> parse_references(["arm=control"])
    {'arm': 'control'}
    """
    found = {}
    for text in texts:
        name, mark, level = (part.strip() for part in text.partition("="))
        if not mark or not name or not level:
            raise InputError(f"--reference {text!r} is not column=level; write for example --reference arm=control.")
        found[name] = level
    return found


def run(settings: Settings, as_json: bool) -> None:
    """Read, fit, write what was asked for, print the table."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    _check(settings)
    subgroups = parse_subgroups(settings.subgroups)
    began = time.monotonic()
    stream = open_batches(settings.data, where=settings.where)
    _check_columns(settings, stream.schema.names)
    table = stream.select(settings.columns).to_table()
    if table.num_rows == 0:
        raise InputError(f"{settings.data} has no rows" + (f" where {settings.where}." if settings.where else "."))
    console.print(f"Fitting {table.num_rows:,} rows, {len(settings.x):,} covariates", markup=False)
    model = _fitted(settings, table)
    console.print(f"{model.path_[0].upper()}{model.path_[1:]}; {time.monotonic() - began:,.1f} s", markup=False)
    by: Any = subgroups or (table.select(settings.by) if settings.by else None)
    found = model.effects(settings.level, settings.target, by, differences=settings.differences)
    groups = table.select(settings.by) if settings.by else None
    files = _write(settings, model, found, groups)
    if as_json:
        print(json.dumps(_facts(found, files, time.monotonic() - began), ensure_ascii=False, allow_nan=False))
        return
    print(effects_summary(found))
    for name, path in files.items():
        print(f"{name:<8} {path}")


def _check(settings: Settings) -> None:
    check_report(settings.report, settings.out)
    if settings.y in settings.x:
        raise InputError(f"--x {settings.y} is the outcome; a covariate must be another column.")
    if len(set(settings.x)) < len(settings.x):
        twice = next(n for n in settings.x if settings.x.count(n) > 1)
        raise InputError(f"--x names {twice!r} twice; name each covariate once.")
    if settings.by and settings.subgroups:
        raise InputError("--by and --subgroup both name groups; use one of them.")
    if settings.out is not None and settings.out.exists() and not settings.out.is_dir():
        raise FileError(f"out={str(settings.out)!r} is a file; name a folder for the answer.")


def _check_columns(settings: Settings, known: list[str]) -> None:
    one = {"--y": settings.y, "--cluster": settings.cluster, "--weight": settings.weight}
    several = {"--x": settings.x, "--by": settings.by}
    asked = [(option, n) for option, n in one.items() if n is not None]
    asked += [(option, n) for option, names in several.items() for n in names]
    for option, name in asked:
        if name not in known:
            raise unknown_name(option, name, known)


def _fitted(settings: Settings, table: pa.Table) -> KRLS | KernelLogistic:
    shared: dict[str, Any] = {
        "penalty": settings.penalty,
        "bandwidth": settings.bandwidth
        if settings.bandwidth in ("n_columns", "maxvar")
        else _number(settings.bandwidth),
        "contrast": settings.contrast,
        "categorical": settings.categorical or None,
        "reference": _typed(parse_references(settings.references), table) or None,
        "missing": settings.missing,
    }
    other = {n: getattr(settings, n) for n in ("rule", "inference", "method", "weights")}
    if settings.loss not in LOSSES:
        raise unknown_name("--loss", settings.loss, LOSSES, "choice")
    if settings.loss == "logistic":
        usual = KRLS().get_params()
        for name, value in other.items():
            if value != usual[name]:
                raise InputError(f"--{name} {value} has no effect with --loss logistic; leave it out.")
    model: KRLS | KernelLogistic = KernelLogistic(**shared) if settings.loss == "logistic" else KRLS(**shared, **other)
    y = frames.column(table, settings.y, "--y")
    weight = None if settings.weight is None else frames.column(table, settings.weight, "--weight")
    cluster = None if settings.cluster is None else table[settings.cluster]
    with warnings.catch_warnings():
        # they are carried in the answer, and said with it
        warnings.simplefilter("ignore", CrosslevelWarning)
        return model.fit(table.select(settings.x), y, sample_weight=weight, cluster=cluster)


def _typed(references: dict[str, str], table: pa.Table) -> dict[str, Any]:
    """Give levels of columns of numbers as numbers."""
    out: dict[str, Any] = {}
    for name, level in references.items():
        frames.check_columns(table, [name], "--reference")
        kind = table[name].type
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        try:
            out[name] = (int(level) if pa.types.is_integer(kind) else float(level)) if number else level
        except ValueError:
            raise InputError(
                f"--reference {name}={level}: {name!r} is a column of numbers; name one of them."
            ) from None
    return out


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--bandwidth {text!r} is neither 'n_columns' nor 'maxvar' nor a number.") from None


def _write(s: Settings, model: KRLS | KernelLogistic, found: Estimates, groups: pa.Table | None) -> dict[str, str]:
    out = s.out
    if out is None:
        return {}
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"out={str(out)!r} cannot be made ({error.strerror}); name another folder.") from error
    save(found, out / EFFECTS)
    save(model, out / MODEL)
    pages: dict[str, Any] = {}
    if len(found.keys) > 1:  # subgroups were asked for, and stand first
        pages[found.title] = found
    name = f"Effects on {s.y}"
    by_group = (
        [model.effects(s.level, by=groups.select([c])) for c in groups.column_names] if groups is not None else []
    )
    pages[name] = [*model._report_tables(s.level).values(), *by_group]
    # without the extra that draws charts the page has the picture of its table
    drawn = None if bundle.available() else pictures({found.title: found})
    report(pages, out / REPORT, title=name, figures=drawn)
    return {"effects": str(out / EFFECTS), "model": str(out / MODEL), "report": str(out / REPORT)}


def _facts(found: Estimates, files: dict[str, str], seconds: float) -> dict[str, Any]:
    return {
        "effects": found.table.to_pylist(),
        "keys": list(found.keys),
        "level": found.level,
        "interval": found.interval,
        "fit": found.diagnostics,
        "warnings": list(found.warnings),
        "seconds": round(seconds, 3),
        "files": files,
    }
