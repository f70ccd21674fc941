"""``crosslevel demo``: the main job end to end on a nation whose truth is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from crosslevel.cli.job import OUTPUT, Job, quiet
from crosslevel.cli.options import Given, Option
from crosslevel.data.frames import fingerprint
from crosslevel.data.people import People
from crosslevel.data.places import Places
from crosslevel.data.simulate import Nation, nation
from crosslevel.data.simulate.population import LEVELS
from crosslevel.data.surveys import Survey
from crosslevel.ecological.persons.estimator import EcologicalInference
from crosslevel.errors import InputError
from crosslevel.results import Estimates, Provenance
from crosslevel.results.scores import scorecard

EXAMPLES = ("crosslevel demo", "crosslevel demo --regions 100 --people 50000 --seed 7 --out small/")
OPTIONS = [
    Option("regions", "whole", "Number of regions to simulate. Default: 300."),
    Option("people", "whole", "Number of people to simulate (a survey sample). Default: 300000."),
    Option("respondents", "whole", "Respondents of the survey used for the second estimate. Default: 2000."),
    Option("hard", "switch", "A stress test: contextual effects four times as large."),
    Option("random_state", "whole", "Seed of all random numbers. Default: 0."),
    *(option for option in OUTPUT if option.name != "report"),
]

HARD: dict[str, Any] = {"contextual": 1.0, "spatial": 0.35}
"""Four times the contextual effects of the default nation."""
VARIABLES = ("sex", "age_group", "race", "education")
COLUMNS = (*VARIABLES, "urban")
"""What the people, and the respondents, tell of themselves."""
MAPPED = "race"
"""The variable whose answers by region are drawn on a map."""
WORDS = {("sex", "1"): "men", ("sex", "2"): "women"}
DRAWS = 300
"""A third of the library's default: intervals are the same to a point."""
SHOWN = (
    "variable", "subgroup", "estimate", "std_error", "conf_low", "conf_high", "truth", "neighborhood", "goodman", "with_survey",
    "with_survey_low", "with_survey_high", "bound_low", "bound_high",
)  # fmt: skip


@dataclass(frozen=True)
class Findings:
    """What the demo found.

    Attributes
    ----------
    national : Estimates
        A row for each subgroup, with the truth, the baselines and the answer of totals and survey together beside it.
    by_region : Estimates
        Of the mapped variable, from totals and survey, with the truth.
    """

    national: Estimates
    by_region: Estimates


def estimate_subgroups(
    world: Nation, variables: Sequence[str] = VARIABLES, seed: int = 0, respondents: int = 2000
) -> Findings:
    """Estimate each subgroup's vote from people and regional totals, then with a survey, with truth and baselines beside it."""
    people = People(world.people, by="region", weight="weight", columns=COLUMNS, categorical=["sex"])
    places = Places(world.places, by="region", successes="dem", trials="votes", coords=("lon", "lat"))
    survey = Survey(world.survey(respondents, random_state=seed), outcome="voted_dem", by="region")
    model, both = (EcologicalInference(random_state=seed) for _ in range(2))
    with quiet():
        model.fit(people, places)
        both.fit(people, places, survey)
        parts = [_asked(world, model, both, variable) for variable in variables]
        mapped = MAPPED if MAPPED in variables else variables[0]
        by_region = both.estimate(by=mapped, n_draws=DRAWS)
    made = Estimates.build(
        {name: pa.concat_tables([part.table.select(SHOWN) for part in parts])[name] for name in SHOWN},
        keys=("variable", "subgroup"),
        method=parts[0].method,
        level=parts[0].level,
        interval=parts[0].interval,
        provenance=Provenance.of(
            call="crosslevel demo",
            seed=seed,
            data={"people": fingerprint(world.people), "places": fingerprint(world.places)},
        ),
        diagnostics=model.convergence_,
        title="How each subgroup voted, from people and regional totals",
    )
    low, high = made["with_survey_low"], made["with_survey_high"]
    scores = {"totals": made.score(), "survey": scorecard(made["with_survey"], low, high, made["truth"], made.level)}
    made = dataclasses.replace(
        made,
        diagnostics={**made.diagnostics, **scores["totals"]},
        warnings=(_learned(made, scores, respondents), CAREFUL),
    )
    real = {(r["region"], r[mapped]): r["rate"] for r in world.true_rates(by=mapped).to_pylist()}
    keys = zip(by_region["region"].tolist(), by_region[mapped].tolist(), strict=True)
    by_region = by_region.with_columns(truth=[real[key] for key in keys])  # not all who live there are in the survey
    return Findings(
        made, dataclasses.replace(by_region, title=f"How each {mapped} voted in each region, from totals and a survey")
    )


def _asked(world: Nation, model: EcologicalInference, both: EcologicalInference, variable: str) -> Estimates:
    """Ask both models about one variable."""
    asked: dict[str, Any] = {"by": variable, "n_draws": DRAWS, "rollup": "all"}
    found = model.estimate(**asked).with_truth(world.true_rates(by=variable, rollup="all"), "rate")
    helped, levels = both.estimate(**asked), found[variable].tolist()
    found = found.with_columns(
        variable=[variable] * len(levels),
        subgroup=[WORDS.get((variable, str(v)), str(v)) for v in levels],
        with_survey=helped["estimate"],
        with_survey_low=helped["conf_low"],
        with_survey_high=helped["conf_high"],
    )
    order = [levels.index(level) for level in LEVELS[variable]]
    return dataclasses.replace(found, table=found.table.take(pa.array(order)))


CAREFUL = (
    "Be careful: the model assumes that a subgroup behaves the same wherever it lives, which totals cannot check. The intervals allow "
    "for as much deviation as was measured on United States surveys; the bounds need no assumption."
)


def _learned(made: Estimates, scores: Mapping[str, Mapping[str, Any]], respondents: int) -> str:
    off = {n: 100 * float(np.nanmean(np.abs(made[n] - made["truth"]))) for n in ("neighborhood", "goodman")}
    mine, inside = ({k: s[name] for k, s in scores.items()} for name in ("mae", "coverage"))
    held = {k: round(len(made) * float(v)) for k, v in inside.items()}
    return (
        f"The truth is known here: estimates are {100 * float(mine['totals']):.1f} points off on average; giving everyone their "
        f"region's rate is {off['neighborhood']:.1f} off, Goodman's regression {off['goodman']:.0f}. {held['totals']} of {len(made)} "
        f"intervals contain the truth. With a survey of {respondents:,}: {100 * float(mine['survey']):.1f} points off, "
        f"{held['survey']} of {len(made)}."
    )


def run(given: Given, job: Job) -> None:
    """Simulate, estimate, print the table, write the report."""
    defaults = (("regions", 300), ("people", 300_000), ("respondents", 2000), ("random_state", 0))
    regions, people, respondents, seed = (given.get(name, value) for name, value in defaults)
    for option, value, least in (
        ("--regions", regions, 20),
        ("--people", people, 10_000),
        ("--respondents", respondents, 100),
    ):
        if value < least:
            raise InputError(f"{option} {value} is too few to show anything; pass at least {least:,}.")
    job.out, job.report = job.out or Path("demo"), True
    job.folder()
    with job.console.status(f"Simulating {people:,} people in {regions:,} regions ..."):
        world = nation(regions, max(1, people // regions), random_state=seed, **(HARD if given.get("hard") else {}))
    # matrices of a few hundred regions are too small to share among threads
    with (
        job.console.status("Fitting people, totals and survey, and estimating subgroups ..."),
        threadpool_limits(1, user_api="blas"),
    ):
        found = estimate_subgroups(world, seed=seed, respondents=respondents)
    job.write_answers(
        {"demo": found.national},
        pages={"The nation": found.national, f"By {MAPPED} in each region": found.by_region},
        title="crosslevel demo: a nation of known truth",
        polygons=world.polygons,
    )
    shown = found.national if job.as_json else dataclasses.replace(found.national, warnings=())  # said below the table
    job.print({"demo": shown}, fit=None if job.as_json else {}, text=_short_table(found.national))


def _short_table(made: Estimates) -> str:
    """Write the table in percent."""
    names = ("estimate", "conf_low", "conf_high", "truth", "neighborhood", "goodman", "with_survey")
    rows = [
        f"{'':24}{'estimate':>9}{'95 % interval':>16}{'truth':>8}{'like region':>13}{'Goodman':>9}{'with survey':>13}"
    ]
    for variable, subgroup, *values in zip(
        made["variable"], made["subgroup"], *(100 * made[n] for n in names), strict=True
    ):
        e, low, high, truth, near, goodman, helped = values
        rows.append(
            f"{variable:<11}{subgroup:<13}{e:>9.1f}{f'{low:.0f} to {high:.0f}':>16}{truth:>8.1f}{near:>13.1f}{goodman:>9.0f}{helped:>13.1f}"
        )
    return "\n".join(["Voted dem, percent", "", *rows, "", *made.warnings])
