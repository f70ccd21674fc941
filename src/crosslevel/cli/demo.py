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

from crosslevel import ecological
from crosslevel.cli.job import OUTPUT, Job, quiet
from crosslevel.cli.options import Given, Option
from crosslevel.data.frames import fingerprint
from crosslevel.data.simulate import Nation, nation
from crosslevel.ecological.confounding import SHIPPED
from crosslevel.ecological.persons.estimator import EcologicalInference
from crosslevel.errors import InputError
from crosslevel.results import Estimates, Provenance
from crosslevel.results.scores import coverage

__all__ = ["EXAMPLES", "OPTIONS", "Findings", "estimate_subgroups", "run"]

EXAMPLES = ("crosslevel demo", "crosslevel demo --regions 100 --people 50000 --seed 7 --out small/")
OPTIONS = [
    Option("regions", "whole", "Number of regions to simulate. Default: 300."),
    Option("people", "whole", "Number of people to simulate (a survey sample). Default: 300000."),
    Option("random_state", "whole", "Seed of all random numbers. Default: 0."),
    *(option for option in OUTPUT if option.name != "report"),
]

VARIABLES = ("sex", "age_group", "race", "education")
MAPPED = "sex"
"""The variable whose answers by region are drawn on a map."""
WORDS = {("sex", "1"): "men", ("sex", "2"): "women"}
DRAWS = 300
"""A third of the library's default: intervals are the same to a point."""
COLUMNS = (
    "variable", "subgroup", "estimate", "std_error", "conf_low", "conf_high", "truth", "coverage", "neighborhood", "goodman", "rxc",
    "bound_low", "bound_high",
)  # fmt: skip


@dataclass(frozen=True)
class Findings:
    """What the demo found.

    Attributes
    ----------
    national : Estimates
        A row for each subgroup, with the truth and the baselines beside it.
    by_region : Estimates
        Of the mapped variable, with the truth.
    """

    national: Estimates
    by_region: Estimates


def estimate_subgroups(world: Nation, variables: Sequence[str] = VARIABLES, seed: int = 0) -> Findings:
    """Estimate each subgroup's vote from people and regional totals, with the truth and the baselines beside it.

    Bounds, neighborhood model and Goodman's regression come with the answer; the contextual R x C model, which sees counts
    of one variable at a time and no people, is added.
    """
    model = EcologicalInference(categorical=["sex"], random_state=seed)
    named: dict[str, Any] = {"by": "region", "weight": "weight", "successes": "dem", "trials": "votes"}
    with quiet():
        model.fit(world.people, world.places, coords=("lon", "lat"), **named)
        parts = {variable: _asked(world, model, variable) for variable in variables}
    found, by_region = parts[MAPPED if MAPPED in parts else variables[0]]
    whole = pa.concat_tables([answer.table.select(COLUMNS) for answer, _ in parts.values()])
    made = Estimates.build(
        {name: whole[name] for name in COLUMNS},
        keys=("variable", "subgroup"),
        method=found.method,
        level=found.level,
        interval=found.interval,
        provenance=Provenance.of(
            call="crosslevel demo",
            seed=seed,
            data={"people": fingerprint(world.people), "places": fingerprint(world.places)},
        ),
        diagnostics=model.convergence_,
        title="How each subgroup voted, from people and regional totals",
    )
    score = made.score()
    return Findings(
        dataclasses.replace(made, diagnostics={**made.diagnostics, **score}, warnings=(_caution(made, score),)),
        dataclasses.replace(by_region, title=f"How each {MAPPED} voted in each region"),
    )


def _asked(world: Nation, model: EcologicalInference, variable: str) -> tuple[Estimates, Estimates]:
    """Ask about one variable: the nation and its regions, each with the truth; of the nation also how many regions' intervals hold."""
    told: dict[str, Any] = {"by": variable, "n_draws": DRAWS}
    found = model.estimate(**told, rollup="all").with_truth(world.true_rates(by=variable, rollup="all"), "rate")
    local = model.estimate(**told)
    real = {(r["region"], r[variable]): r["rate"] for r in world.true_rates(by=variable).to_pylist()}
    keys = zip(local["region"].tolist(), local[variable].tolist(), strict=True)
    local = local.with_columns(truth=[real[key] for key in keys])  # not all who live in a region are in the survey
    levels = found[variable].tolist()
    own = [local.select(**{variable: v}) for v in levels]
    contextual = _contextual(world, variable)
    return found.with_columns(
        variable=[variable] * len(levels),
        subgroup=[WORDS.get((variable, str(v)), str(v)) for v in levels],
        coverage=[coverage(e["conf_low"], e["conf_high"], e["truth"]) for e in own],
        rxc=[contextual[str(v)] for v in levels],
    ), local


def _contextual(world: Nation, variable: str) -> dict[str, float]:
    """Give each level's national rate by the contextual R x C model, from counts of this variable alone."""
    groups, regions = ecological.group_counts(
        world.people, by="region", group=variable, places=world.places, total="votes", weight="weight"
    )
    dem, votes = (np.asarray(world.places[c], dtype=float) for c in ("dem", "votes"))
    found = ecological.rxc(groups, {"dem": dem, "other": votes - dem}, units=regions)
    chosen = found.select(outcome="dem")
    return dict(zip(chosen["group"].tolist(), chosen["estimate"].tolist(), strict=True))


def _caution(made: Estimates, score: Mapping[str, Any]) -> str:
    error = {
        n: 100 * float(np.nanmean(np.abs(made[n] - made["truth"])))
        for n in ("estimate", "neighborhood", "goodman", "rxc")
    }
    inside = int(((made["conf_low"] <= made["truth"]) & (made["truth"] <= made["conf_high"])).sum())
    return (
        f"The truth is known here: {inside} of {len(made)} intervals contain it ({100 * float(score['coverage']):.0f} %, where "
        f"{100 * float(score['level']):.0f} % are promised), and estimates are {error['estimate']:.0f} points off on average (everybody "
        f"like their region {error['neighborhood']:.0f}, Goodman {error['goodman']:.0f}, rxc {error['rxc']:.0f}). A model takes a "
        "subgroup to behave alike wherever it lives. Totals cannot check that, and here it fails: where minorities are many, everybody "
        "votes otherwise. The intervals allow for as much of that as was measured on United States surveys "
        f"(tau = {SHIPPED.tau}); this nation "
        "was made harder. The bounds assume nothing and carry only the survey's noise. "
        "The column coverage tells which share of the regions' own intervals contain the subgroup's truth there."
    )


def run(given: Given, job: Job) -> None:
    """Simulate, estimate, print the table, write the report."""
    regions, people, seed = (given.get(n, v) for n, v in (("regions", 300), ("people", 300_000), ("random_state", 0)))
    for option, value, least in (("--regions", regions, 20), ("--people", people, 10_000)):
        if value < least:
            raise InputError(f"{option} {value} is too few to show anything; pass at least {least:,}.")
    job.out, job.report = job.out or Path("demo"), True
    job.folder()
    with job.console.status(f"Simulating {people:,} people in {regions:,} regions ..."):
        world = nation(regions, max(1, people // regions), random_state=seed)
    # matrices of a few hundred regions are too small to share among threads
    with (
        job.console.status("Fitting people and totals, and estimating subgroups ..."),
        threadpool_limits(1, user_api="blas"),
    ):
        found = estimate_subgroups(world, seed=seed)
    job.write_answers(
        {"demo": found.national},
        pages={"Men and women in each region": _in_words(world, found.by_region), "The nation": found.national},
        title="crosslevel demo: a nation of known truth",
        polygons=world.polygons,
    )
    job.print({"demo": found.national}, text=found.national.summary())


def _in_words(world: Nation, by_region: Estimates) -> Estimates:
    """Call men and women by name, and add what was observed: the share of everybody in the region."""
    share = {p["region"]: p["dem"] / p["votes"] if p["votes"] else None for p in world.places.to_pylist()}
    columns = {name: by_region.table[name] for name in by_region.table.column_names}
    columns[MAPPED] = [WORDS[MAPPED, str(v)] for v in by_region[MAPPED].tolist()]
    columns["observed"] = [share[region] for region in by_region["region"].tolist()]
    return dataclasses.replace(by_region, table=pa.table(columns))
