"""``crosslevel audit``: what looks wrong in people, places, a survey and published shares, before anything is fitted to them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import crosslevel as cl
from crosslevel.cli import ecological
from crosslevel.cli.job import INPUT, OUTPUT, Job
from crosslevel.cli.options import Given

EXAMPLES = (
    "crosslevel audit people.parquet places.csv --by region --weight w --successes dem --trials votes --lon lon --lat lat",
    "crosslevel audit people.csv --by county --categorical race --where 'age >= 18' --json",
    "crosslevel audit precincts.csv --by precinct --group-counts race=white:vap_white,black:vap_black --successes dem --trials votes",
)
SKIPPED, TABLES = ("unmatched", "margins"), ("places", "group_counts")
OPTIONS = [
    replace(option, required=option.name == "people", needs=("by",) if option.name in TABLES else option.needs)
    for option in ecological.OPTIONS
    if (option.panel == ecological.WHO or option.name in ("people", "places", "by", "lon", "lat"))
    and option.name not in SKIPPED
]
OPTIONS += [*INPUT, *(option for option in OUTPUT if option.name == "as_json")]


def run(given: Given, job: Job) -> None:
    """Read what the files say they hold, and print what the tests find."""
    nouns: list[Any] = []
    if "group_counts" in given:
        nouns.append(cl.GroupCounts(ecological.read_composition(given), given.get("weight")))
    else:
        nouns.append(ecological.describe_people(given, job))
    if "places" in given:
        nouns.append(ecological.describe_places(given, job, job.read("places")))
    found = cl.audit(*nouns, *ecological.describe_surveys(given, job))
    print(json.dumps({"findings": found.to_frame().to_pylist()}, indent=2) if job.as_json else found)
