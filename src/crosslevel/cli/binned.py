"""``crosslevel binned``: what lies behind bins and areas? Totals of new bins or areas, the model, a report."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.binned import BinnedCountGP, BinnedGP, Intervals
from crosslevel.cli.console import check_folder, check_report, make_folder, quietly, read_table, write_estimates
from crosslevel.data import frames
from crosslevel.errors import FileError, InputError, unknown_name
from crosslevel.reports import report
from crosslevel.results import Estimates, save
from crosslevel.typing import FloatArray

__all__ = ["Settings", "parse_bins", "run"]

MODEL, REPORT = "model.crosslevel", "report.html"

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_BIN = re.compile(rf"^\s*({_NUMBER})\s*(?:[-:–]\s*({_NUMBER}|inf)|\+)\s*$")


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line."""

    data: Path | None
    lower: str | None
    upper: str | None
    total: str | None
    mean: str | None
    sizes: str | None
    at: list[str]
    at_file: Path | None
    likelihood: str | None
    kernel: str
    pool: str | None
    trials: str | None
    exposure: str | None
    tail: float | None
    cell: float | None
    quantity: str | None
    polygons: Path | None
    value: str | None
    to: Path | None
    key: str | None
    to_key: str | None
    population: str | None
    level: float
    seed: int
    out: Path | None
    report: bool


@dataclass(frozen=True)
class Answer:
    """What is written: the table, the model where there is one, and pictures for the page."""

    found: Estimates
    model: BinnedGP | BinnedCountGP | None
    figures: dict[str, Any] | None
    words: str
    polygons: dict[str, Any] | None = None
    """The map of the areas, for the page."""


def parse_bins(texts: list[str]) -> tuple[FloatArray, FloatArray]:
    """Read bins such as 18-25 (from 18 up to 25), -5:5 and 85+.

    Examples
    --------
    >>> parse_bins(["18-25", "-5:5", "85+"])
    (array([18., -5., 85.]), array([25.,  5., inf]))
    """
    low, high = [], []
    for text in texts:
        found = _BIN.match(text)
        if found is None:
            raise InputError(
                f"--at {text!r} is not a bin; write its limits, such as --at 18-25, --at -5:5 or --at 85+."
            )
        low.append(float(found[1]))
        high.append(np.inf if found[2] is None else float(found[2]))
    return np.array(low), np.array(high)


def run(settings: Settings, as_json: bool) -> None:
    """Read, fit, write what was asked for, print the table."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    _check(settings)
    began = time.monotonic()
    answer = quietly(lambda: _areas(settings) if settings.polygons is not None else _bins(settings))
    console.print(f"{answer.words}; {time.monotonic() - began:,.1f} s", markup=False)
    files = _write(settings, answer)
    if as_json:
        print(json.dumps(_facts(answer, files, time.monotonic() - began), ensure_ascii=False, allow_nan=False))
        return
    print(answer.found.summary(None))
    for name, path in files.items():
        print(f"{name:<15} {path}")


def _check(s: Settings) -> None:
    """Tell the two forms apart and refuse halves of them."""
    check_folder(s.out)
    check_report(s.report, s.out)
    if s.polygons is None:
        if s.data is None:
            raise InputError(
                "name a file of bins (with --lower, --upper and --total), or --polygons with --value and --to."
            )
        for option, value in (("--lower", s.lower), ("--upper", s.upper), ("--total or --mean", s.total or s.mean)):
            if value is None:
                raise InputError(f"{option} is missing; name the column, as in --lower lo --upper hi --total n.")
        if s.total is not None and s.mean is not None:
            raise InputError("--total and --mean are both given; say what the numbers are with one of them.")
        for option, other in (("--value", s.value), ("--to", s.to), ("--population", s.population)):
            if other is not None:
                raise InputError(f"{option} belongs to --polygons, which is missing.")
        return
    if s.data is not None:
        raise InputError(f"{s.data} and --polygons are both given; the polygons' file holds the numbers (--value).")
    for option, other in (("--value", s.value), ("--to", s.to)):
        if other is None:
            raise InputError(f"--polygons needs {option}: --polygons areas.geojson --value n --to other.geojson.")
    wrong = {
        "--at": s.at,
        "--at-file": s.at_file,
        "--pool": s.pool,
        "--lower": s.lower,
        "--total": s.total,
        "--tail": s.tail,
    }
    for option, given in wrong.items():
        if given:
            raise InputError(f"{option} is for bins; --polygons takes --value, --to, --key, --to-key and --population.")


def _bins(s: Settings) -> Answer:
    assert s.data is not None
    assert s.lower is not None
    assert s.upper is not None
    table = read_table(s.data)
    if table.num_rows == 0:
        raise InputError(f"{s.data} has no rows.")
    y_name = s.total or s.mean
    asked = {"--lower": s.lower, "--upper": s.upper, "--total": s.total, "--mean": s.mean, "--sizes": s.sizes}
    asked |= {"--pool": s.pool, "--trials": s.trials, "--exposure": s.exposure}
    for option, name in asked.items():
        if name is not None and name not in table.column_names:
            raise unknown_name(option, name, table.column_names)
    likelihood = s.likelihood or (
        "gaussian" if s.mean is not None else "binomial" if s.trials is not None else "poisson"
    )
    regions = _intervals(table, s.lower, s.upper, s.tail)
    assert y_name is not None
    y = frames.column(table, y_name, "--total" if s.total else "--mean")
    numbers = {
        name: None if column is None else frames.column(table, column, f"--{name}")
        for name, column in (("sizes", s.sizes), ("trials", s.trials), ("exposure", s.exposure))
    }
    model: BinnedGP | BinnedCountGP
    if likelihood == "gaussian":
        for name in ("pool", "trials", "exposure", "tail", "cell"):
            if getattr(s, name) is not None:
                raise InputError(f"--{name} is for counts, and the likelihood is gaussian; leave it out.")
        quantity = "total" if s.total else "mean"
        model = BinnedGP(s.kernel, random_state=s.seed).fit(regions, y, quantity, numbers["sizes"])
    else:
        for name, given in (("mean", s.mean), ("sizes", s.sizes)):
            if given is not None:
                raise InputError(f"--{name} is for the gaussian likelihood, and counts are {likelihood}; leave it out.")
        pool = None if s.pool is None else {s.pool: table[s.pool].to_pylist()}
        model = BinnedCountGP(likelihood, s.kernel, random_state=s.seed).fit(
            regions, y, trials=numbers["trials"], exposure=numbers["exposure"], pool=pool, cell=s.cell, tail=s.tail
        )
    found = model.estimate(_targets(s), s.quantity, s.level)
    figures = _picture(s, model, found) if s.report else None
    return Answer(found, model, figures, f"{model.solver_[0].upper()}{model.solver_[1:]}")


def _picture(s: Settings, model: BinnedGP | BinnedCountGP, found: Estimates) -> dict[str, Any]:
    """Draw the histogram with its curve; of several areas, and of shares, the intervals."""
    from matplotlib.figure import Figure

    ax = Figure(figsize=(8, 4.5), layout="constrained").add_subplot()
    if s.pool is None and s.trials is None and s.exposure is None:
        return {"What was observed, and the curve behind it": model.plot(ax, level=s.level, xlabel=str(s.lower))}
    # the limits of the bins are keys here, not bounds of the estimates
    return {"Estimates with their intervals": found.plot("intervals", bounds=False)}


def _intervals(table: pa.Table, lower: str, upper: str, tail: float | None) -> Intervals:
    low, high = frames.column(table, lower, "--lower"), frames.column(table, upper, "--upper")
    if tail is not None:  # an empty upper limit is the usual way to write an open bin
        low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    return Intervals(low, high, open_ended=tail is not None)


def _targets(s: Settings) -> Intervals | None:
    if s.at and s.at_file is not None:
        raise InputError("--at and --at-file both name new bins; use one of them.")
    if s.at:
        return Intervals(*parse_bins(s.at), open_ended=s.tail is not None)
    if s.at_file is None:
        return None
    assert s.lower is not None
    assert s.upper is not None
    table = read_table(s.at_file)
    for option, name in (("--lower", s.lower), ("--upper", s.upper)):
        if name not in table.column_names:
            raise unknown_name(f"{option} (in {s.at_file})", name, table.column_names)
    return _intervals(table, s.lower, s.upper, s.tail)


def _areas(s: Settings) -> Answer:
    from crosslevel.binned import Polygons
    from crosslevel.binned.areas import shared_estimates

    assert s.polygons is not None
    assert s.to is not None
    assert s.value is not None
    source, target = _geojson(s.polygons, "--polygons"), _geojson(s.to, "--to")
    y = _property(source, s.value, "--value", s.polygons)
    large = _in_plane(Polygons, source, s.key)
    small = (
        Polygons(target, key=s.to_key or s.key, project=large)
        if large.plane.kind == "km"
        else Polygons(target, key=s.to_key or s.key)
    )
    if s.population is not None:
        if s.likelihood not in (None, "binomial"):
            raise InputError(
                f"--population shares counts out, which is binomial; --likelihood {s.likelihood} does not go with it."
            )
        found = shared_estimates(
            large, y, small, _property(target, s.population, "--population", s.to), level=s.level, random_state=s.seed
        )
        return Answer(
            found, None, _maps(s, found, small), f"{len(large):,} areas shared out to {len(small):,}", small.geojson()
        )
    if s.likelihood not in (None, "gaussian"):
        raise InputError(
            f"--likelihood {s.likelihood} of polygons needs the people of the small areas; name their property with --population, or "
            "use --likelihood gaussian."
        )
    quantity = s.quantity or "total"
    model = BinnedGP(s.kernel, random_state=s.seed).fit(large, y, quantity)
    found = model.estimate(small, quantity, s.level)
    said = f"{model.solver_[0].upper()}{model.solver_[1:]}"
    return Answer(found, model, _maps(s, found, small), said, small.geojson())


def _maps(s: Settings, found: Estimates, small: Any) -> dict[str, Any] | None:
    if not s.report:
        return None
    from matplotlib.figure import Figure

    from crosslevel.charts import estimate_pair

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, _ = estimate_pair(found, small.geojson(), by=found.keys[0], ax=list(figure.subplots(1, 2)), plane=True)
    return {"Estimates, and how sure they are": left}


def _in_plane(polygons: Any, source: dict[str, Any], key: str | None) -> Any:
    """Project degrees to kilometres, and take a plane as it is."""
    found = polygons(source, key=key)
    return polygons(source, key=key, project="local") if found.plane.kind == "degrees" else found


def _geojson(path: Path, option: str) -> dict[str, Any]:
    if not path.is_file():
        raise FileError(f"{option} {path} does not exist; name a GeoJSON file.")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileError(f"{option} {path} is not JSON ({error}); name a GeoJSON file.") from error
    if not isinstance(found, dict) or not isinstance(found.get("features"), list) or not found["features"]:
        raise FileError(f"{option} {path} is no GeoJSON FeatureCollection with features.")
    return found


def _property(source: dict[str, Any], name: str, option: str, path: Path) -> FloatArray:
    """Read a number of every feature."""
    values = []
    for i, feature in enumerate(source["features"]):
        known = feature.get("properties") or {}
        if name not in known:
            raise unknown_name(option, name, list(known), "property")
        value = known[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(
                f"{option}: feature {i} of {path} has {name}={value!r}, which is no number; fill it, or drop the feature."
            )
        values.append(float(value))
    return np.array(values)


def _write(s: Settings, answer: Answer) -> dict[str, str]:
    if s.out is None:
        return {}
    make_folder(s.out)
    files = write_estimates(answer.found, s.out, "estimates")
    if answer.model is not None:
        save(answer.model, s.out / MODEL)
        files["model"] = str(s.out / MODEL)
    if s.report:
        report({answer.found.title: _page(s, answer)}, s.out / REPORT, figures=answer.figures, polygons=answer.polygons)
        files["report"] = str(s.out / REPORT)
    return files


def _page(s: Settings, answer: Answer) -> Any:
    """Show bins with the curve behind them; of areas the table, which has their map."""
    if answer.model is None or answer.polygons is not None:
        return answer.found
    return [answer.found, *answer.model._report_tables(s.level).values()]


def _facts(answer: Answer, files: dict[str, str], seconds: float) -> dict[str, Any]:
    found = answer.found
    return {
        "estimates": found.table.to_pylist(),
        "keys": list(found.keys),
        "level": found.level,
        "interval": found.interval,
        "method": found.method,
        "fit": found.diagnostics,
        "warnings": list(found.warnings),
        "seconds": round(seconds, 3),
        "files": files,
    }
