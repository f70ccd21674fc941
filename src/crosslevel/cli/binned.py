"""``crosslevel binned``: what lies behind bins and areas? Totals of new bins or areas, the model, a report."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.binned import BinnedCountGP, BinnedGP, Intervals, Polygons
from crosslevel.cli.job import FILE_HELP, INPUT, OUTPUT, Job, quiet
from crosslevel.cli.options import Given, Option, check_known, from_classes, from_signature, spelled
from crosslevel.data import frames
from crosslevel.errors import InputError, unknown_name
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

EXAMPLES = (
    "crosslevel binned ages.csv --age-groups age --total n --ages 18-25 --ages 85+ --tail 5",
    "crosslevel binned --polygons areas.geojson --value n --to other.geojson --out run/ --report",
)
BINS, AREAS = "Bins of one axis", "Areas"
MODELS: dict[str, Any] = {"counts": BinnedCountGP, "gaussian": BinnedGP}
FITS = {name: cls.fit for name, cls in MODELS.items()}
COLUMNS = {"sizes": "column", "std_error": "column", "trials": "column", "pool": "column"}
OF_BINS = [
    Option("lower", help="Column of lower limits.", panel=BINS, column_of="data", needs=("upper",)),
    Option(
        "upper",
        help="Column of upper limits; ages 0 to 9 are 0 and 10.",
        panel=BINS,
        column_of="data",
        needs=("lower",),
    ),
    Option(
        "age_groups",
        help="Column of age groups, both ends included (18-25, 85+, under 5), instead of --lower and --upper.",
        panel=BINS,
        column_of="data",
    ),
    Option("total", help="Column of counts or totals.", panel=BINS, column_of="data"),
    Option("mean_of", help="Column of means, instead of totals.", panel=BINS, column_of="data"),
    Option("ages", help="New ages, both ends included: 18-25, 30, 85+ or 'under 5'; repeat.", several=True, panel=BINS),
    Option("single_years", "switch", "Every single year of age that the bins cover.", panel=BINS),
    Option(
        "at", help="A new bin by its limits, 18-25 (18 to under 25), -5:5 or 85+; repeat.", several=True, panel=BINS
    ),
    Option("at_file", "file", "Table of new bins, with the same columns of limits.", panel=BINS),
    *from_classes(
        FITS,
        "Fit",
        "model",
        skip=("regions", "y", "quantity"),
        kinds={**COLUMNS, "cell": "number"},
        columns=dict.fromkeys(COLUMNS, "data"),
    ),
]
OF_AREAS = [
    Option("value", help="Property of the areas: the known value.", panel=AREAS),
    Option("to", "file", "GeoJSON of the target areas.", panel=AREAS),
    Option("key", help="Property that names an area.", panel=AREAS),
    Option("to_key", help="The same for --to, if it differs.", panel=AREAS),
]
WHICH = "Counts of people or events, or any totals and means. Default: counts for --total."
ONE_OF = (
    ("lower", "age_groups"),
    ("upper", "age_groups"),
    ("total", "mean_of"),
    ("ages", "single_years", "at", "at_file"),
)
"""Several ways to say one thing."""
OPTIONS = [
    Option("data", "file", f"Bins, a row each: {FILE_HELP}", argument=True, excludes=("polygons",)),
    *(
        replace(o, excludes=("polygons", *(n for ways in ONE_OF if o.name in ways for n in ways if n != o.name)))
        for o in OF_BINS
    ),
    Option("polygons", "file", "GeoJSON of areas, instead of bins.", panel=AREAS, needs=("value", "to")),
    *(replace(o, needs=("polygons",)) for o in OF_AREAS),
    Option("model", help=WHICH, choices=tuple(MODELS)),
    *from_classes(MODELS, "Model", "model", kinds={"kernel": "text", "lengthscale": "value"}),
    *from_signature(BinnedGP.estimate, "Answer", skip=("regions",)),
    *(replace(o, excludes=("polygons",)) for o in INPUT),
    *OUTPUT,
]

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_BIN = re.compile(rf"^\s*({_NUMBER})\s*(?:[-:–]\s*({_NUMBER}|inf)|\+)\s*$")


def run(given: Given, job: Job) -> None:
    """Read, fit, write what was asked for, print the table."""
    if not {"data", "polygons"} & set(given):
        raise InputError(
            "name a file of bins (with --lower, --upper and --total), or --polygons with --value and --to."
        )
    if "data" in given and not {"lower", "age_groups"} & set(given):
        raise InputError("the limits are missing; name their columns, --lower lo --upper hi, or that of --age-groups.")
    if "data" in given and not {"total", "mean_of"} & set(given):
        raise InputError("one of --total and --mean-of is needed: it names the column and says what its numbers are.")
    with quiet():
        found, model, polygons = _areas(given, job) if "polygons" in given else _bins(given, job)
    job.say(f"{model.solver_[0].upper()}{model.solver_[1:]}; {job.seconds:,.1f} s")
    pages = {found.title: found} | ({} if polygons is not None else {"The curve behind the bins": model})
    job.write_answers({"estimates": found}, model=model, pages=pages, title=found.title, polygons=polygons)
    job.print({"estimates": found}, max_rows=None)


def _bins(given: Given, job: Job) -> tuple[Estimates, Any, None]:
    table = job.read("data")
    job.check_columns(data=table.column_names)
    name = "total" if "total" in given else "mean_of"
    tail = given.get("tail")
    regions = _intervals(table, given, tail)
    extras = given.of("Fit") | {"regions": regions, "y": frames.column(table, given[name], spelled(name))}
    extras |= {n: frames.column(table, extras[n], spelled(n)) for n in COLUMNS if n in extras and n != "pool"}
    if "pool" in extras:
        extras["pool"] = {extras["pool"]: table[extras["pool"]].to_pylist()}
    chosen = given.get("model", "counts" if name == "total" else "gaussian")
    if chosen == "gaussian":
        extras["quantity"] = "total" if name == "total" else "mean"
    elif name != "total":
        raise InputError("--mean-of names means, and --model counts takes counts; use --total, or --model gaussian.")
    if "trials" in extras and "likelihood" not in given:
        given["likelihood"] = "binomial"
    check_known(MODELS, chosen, given.of("Model"), "model")
    check_known(FITS, chosen, extras, "model")
    with job.progress("Fitting bins", "portions" if chosen == "counts" else "evaluations") as bar:
        model = MODELS[chosen](**given.of("Model")).fit(**extras, progress=bar)
    return model.estimate(_targets(given, job, tail, regions), **given.of("Answer")), model, None


def _intervals(table: pa.Table, given: Given, tail: float | None) -> Intervals:
    if "age_groups" in given:
        return Intervals.ages(table[given["age_groups"]].to_pylist())
    low, high = (frames.column(table, given[n], spelled(n)) for n in ("lower", "upper"))
    return Intervals(low, high, open_ended=tail is not None)


def _targets(given: Given, job: Job, tail: float | None, regions: Intervals) -> Intervals | None:
    if "ages" in given:
        return Intervals.ages(given["ages"])
    if "single_years" in given:
        return regions.years()
    if "at" in given:
        return Intervals(*parse_bins(given["at"]), open_ended=tail is not None)
    if "at_file" not in given:
        return None
    table = job.read("at_file")
    for name in ("lower", "upper", "age_groups"):
        if name in given and given[name] not in table.column_names:
            raise unknown_name(f"{spelled(name)} (in {given['at_file']})", given[name], table.column_names)
    return _intervals(table, given, tail)


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
                f"--at {text!r} is not a bin; write its limits, such as --at 18-25, --at -5:5 or --at 85+, or ages as --ages 18-25."
            )
        low.append(float(found[1]))
        high.append(np.inf if found[2] is None else float(found[2]))
    return np.array(low), np.array(high)


def _areas(given: Given, job: Job) -> tuple[Estimates, Any, dict[str, Any]]:
    source, target = job.read_map("polygons"), job.read_map("to")
    y = read_property(source, given["value"], "--value", given["polygons"])
    key, to_key = given.get("key"), given.get("to_key", given.get("key"))
    large: Any = Polygons(source, key=key)
    if large.plane.kind == "degrees":
        large = Polygons(source, key=key, project="local")
    small = Polygons(target, key=to_key, project=large) if large.plane.kind == "km" else Polygons(target, key=to_key)
    parameters, level = given.of("Model"), {n: v for n, v in given.of("Answer").items() if n == "level"}
    if given.get("model", "gaussian") != "gaussian":
        raise InputError(
            "--model counts is of bins; counts of areas are carried over to others by crosslevel areas, with their --population."
        )
    quantity = given.get("quantity", "total")
    check_known(MODELS, "gaussian", parameters, "model")
    model = BinnedGP(**parameters).fit(large, y, quantity)
    return model.estimate(small, quantity, **level), model, small.geojson()


def read_property(source: dict[str, Any], name: str, option: str, path: Path) -> FloatArray:
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
