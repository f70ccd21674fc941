"""``crosslevel areas``: totals, means or rates of other areas, from those of some, with their margins of error."""

from __future__ import annotations

from typing import Any

from crosslevel.binned import Polygons, interpolate
from crosslevel.cli.binned import read_property
from crosslevel.cli.job import OUTPUT, Job, quiet
from crosslevel.cli.options import Given, Option, from_signature
from crosslevel.errors import InputError

EXAMPLES = (
    "crosslevel areas tracts.geojson wards.geojson --value homes --margin homes_moe --key geoid --target-key ward",
    "crosslevel areas tracts.geojson wards.geojson --value poverty --kind rate --population people",
    "crosslevel areas msoa.geojson lsoa.geojson --value n65 --population everybody --out run/ --report",
)
AREAS = "Areas"
Z90 = 1.6448536269514722
OPTIONS = [
    Option("source", "file", "GeoJSON of the areas whose values are known.", argument=True, required=True),
    Option("target", "file", "GeoJSON of the target areas.", argument=True, required=True),
    Option("value", help="Property of SOURCE: its totals, means or rates (--kind).", required=True, panel=AREAS),
    Option("std_error", help="Property of SOURCE: standard errors of the values.", panel=AREAS, excludes=("margin",)),
    Option("margin", help="Property of SOURCE: 90% margins of error, as the Census Bureau gives them.", panel=AREAS),
    Option(
        "population",
        help="Property of TARGET: its population, of which totals are a part (of SOURCE for means and rates); or 'similar', where targets "
        "were drawn to hold similar numbers of people.",
        panel=AREAS,
    ),
    Option("key", help="Property that names an area of SOURCE.", panel=AREAS),
    Option("target_key", help="The same for TARGET, if it differs.", panel=AREAS),
    *from_signature(interpolate, "Answer", skip=("source", "target", "values", "std_error", "population")),
    *OUTPUT,
]


def run(given: Given, job: Job) -> None:
    """Read both maps, interpolate, write what was asked for, print the table."""
    maps = {name: job.read_map(name) for name in ("source", "target")}
    similar = {"population": "similar"} if given.get("population") == "similar" else {}
    known: dict[str, Any] = similar | {
        name: read_property(maps[side], given[name], f"--{name.replace('_', '-')}", given[side])
        for name, side in (
            ("value", "source"),
            ("std_error", "source"),
            ("margin", "source"),
            ("population", "target" if given.get("kind", "total") == "total" else "source"),
        )
        if name in given and name not in similar
    }
    if "margin" in known:
        if (known["margin"] < 0).any():
            raise InputError(
                f"--margin has a negative margin of error, {known['margin'].min():g}; the Census Bureau writes codes such as -555555555 "
                "for what it does not publish. Replace them."
            )
        known["std_error"] = known.pop("margin") / Z90
    key = given.get("key")
    with quiet():  # degrees are projected below
        source: Any = Polygons(maps["source"], key=key)
    if source.plane.kind == "degrees":
        source = Polygons(maps["source"], key=key, project="local")
    project = source if source.plane.kind == "km" else None
    target = Polygons(maps["target"], key=given.get("target_key", key), project=project)
    with job.progress("Weighing scales", "fits") as bar:
        found = interpolate(source, target, known.pop("value"), **known, **given.of("Answer"), progress=bar)
    job.say(f"{len(source):,} areas carried over to {len(target):,}; {job.seconds:,.1f} s")
    job.write_answers(
        {"estimates": found}, model=None, pages={found.title: found}, title=found.title, polygons=target.geojson()
    )
    job.print({"estimates": found}, max_rows=None)
