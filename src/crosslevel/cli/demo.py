"""``crosslevel demo``: the main job end to end on a nation whose truth is known."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from threadpoolctl import threadpool_limits

from crosslevel import ecological
from crosslevel.cli.console import make_folder, quietly
from crosslevel.data.fingerprint import fingerprint
from crosslevel.data.simulate import Nation, nation
from crosslevel.ecological.persons.estimator import EcologicalInference
from crosslevel.reports import report
from crosslevel.reports.bundle import available
from crosslevel.results import Estimates, Provenance
from crosslevel.results.scores import coverage

__all__ = ["Findings", "estimate_subgroups", "run"]

VARIABLES = ("sex", "age_group", "race", "education")
MAPPED = "sex"
"""The variable whose answers by region are drawn on a map."""
WORDS = {("sex", "1"): "men", ("sex", "2"): "women"}
DRAWS = 300
"""A third of the library's default: intervals are the same to a point."""
INTERVAL = ("estimate", "std_error", "conf_low", "conf_high")
BASELINES = ("neighborhood", "goodman")
BOUNDS = ("bound_low", "bound_high")


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
    quietly(
        lambda: model.fit(
            world.people,
            world.places,
            by="region",
            weight="weight",
            successes="dem",
            trials="votes",
            coords=("lon", "lat"),
        )
    )
    parts = {variable: _asked(world, model, variable) for variable in variables}
    found, by_region = parts[MAPPED if MAPPED in parts else variables[0]][1:]
    columns = {name: [v for part, _, _ in parts.values() for v in part[name]] for name in parts[variables[0]][0]}
    made = Estimates.build(
        columns,
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


def _asked(
    world: Nation, model: EcologicalInference, variable: str
) -> tuple[dict[str, list[Any]], Estimates, Estimates]:
    """Ask about one variable: the columns of the table, the national answer, and that of the regions with its truth."""
    found = quietly(lambda: model.estimate(by=variable, rollup="all", n_draws=DRAWS))
    local = quietly(lambda: model.estimate(by=variable, n_draws=DRAWS))
    real = {(r["region"], r[variable]): r["rate"] for r in world.true_rates(by=variable).to_pylist()}
    keys = zip(local["region"].tolist(), local[variable].tolist(), strict=True)
    local = local.with_columns(truth=np.array([real[key] for key in keys]))
    national = {r[variable]: r["rate"] for r in world.true_rates(by=variable, rollup="all").to_pylist()}
    contextual = _contextual(world, variable)
    levels = found[variable].tolist()
    columns: dict[str, list[Any]] = {
        "variable": [variable] * len(levels),
        "subgroup": [WORDS.get((variable, str(v)), str(v)) for v in levels],
        **{name: found[name].tolist() for name in INTERVAL},
        "truth": [national[v] for v in levels],
        "coverage": [_covered(local.select(**{variable: v})) for v in levels],
        **{name: found[name].tolist() for name in BASELINES},
        "rxc": [contextual[str(v)] for v in levels],
        **{name: found[name].tolist() for name in BOUNDS},
    }
    return columns, found, local


def _contextual(world: Nation, variable: str) -> dict[str, float]:
    """Give each level's national rate by the contextual R x C model, from counts of this variable alone."""
    groups, regions = ecological.group_counts(
        world.people, by="region", group=variable, places=world.places, total="votes", weight="weight"
    )
    dem, votes = (np.asarray(world.places[c], dtype=float) for c in ("dem", "votes"))
    found = quietly(lambda: ecological.rxc(groups, {"dem": dem, "other": votes - dem}, units=regions))
    chosen = found.select(outcome="dem")
    return dict(zip(chosen["group"].tolist(), chosen["estimate"].tolist(), strict=True))


def _covered(local: Estimates) -> float:
    return coverage(local["conf_low"], local["conf_high"], local["truth"])


def _caution(made: Estimates, score: Mapping[str, Any]) -> str:
    error = {n: _points(made[n] - made["truth"]) for n in ("estimate", "neighborhood", "goodman", "rxc")}
    inside = int(((made["conf_low"] <= made["truth"]) & (made["truth"] <= made["conf_high"])).sum())
    return (
        f"The truth is known here: {inside} of {len(made)} intervals contain it ({100 * float(score['coverage']):.0f} %, where "
        f"{100 * float(score['level']):.0f} % are promised), and estimates are {error['estimate']:.0f} points off on average (everybody "
        f"like their region {error['neighborhood']:.0f}, Goodman {error['goodman']:.0f}, rxc {error['rxc']:.0f}). A model takes a "
        "subgroup to behave alike wherever it lives. Totals cannot check that, and here it fails: where minorities are many, everybody "
        "votes otherwise. The intervals allow for as much of that as was measured on United States surveys (tau = 0.31); this nation "
        "was made harder. The bounds assume nothing and carry only the survey's noise. "
        "The column coverage tells which share of the regions' own intervals contain the subgroup's truth there."
    )


def _points(difference: npt.NDArray[np.float64]) -> float:
    return 100 * float(np.nanmean(np.abs(difference)))


def run(regions: int, people: int, out: Path, seed: int, as_json: bool) -> None:
    """Simulate, estimate, print the table, write the report."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    make_folder(out)
    with console.status(f"Simulating {people:,} people in {regions:,} regions ..."):
        world = nation(regions, max(1, people // regions), random_state=seed)
    # matrices of a few hundred regions are too small to share among threads
    with (
        console.status("Learning from people and totals, and asking about subgroups ..."),
        threadpool_limits(1, user_api="blas"),
    ):
        found = estimate_subgroups(world, seed=seed)
    where = (out / "report.html").resolve()
    with console.status("Writing the report ..."):
        report(
            {"Men and women in each region": _in_words(world, found.by_region), "The nation": found.national},
            where,
            title="crosslevel demo: a nation of known truth",
            figures=None if available() else _figures(world, found),
            polygons=world.polygons,
        )
    if as_json:
        print(json.dumps({"report": str(where), "estimates": json.loads(found.national.to_json())}))
    else:
        print(found.national.summary())
        print(f"\nReport: {where}")


def _in_words(world: Nation, by_region: Estimates) -> Estimates:
    """Call men and women by name, and add what was observed: the share of everybody in the region."""
    share = {p["region"]: p["dem"] / p["votes"] if p["votes"] else None for p in world.places.to_pylist()}
    columns = {name: by_region.table[name] for name in by_region.table.column_names}
    columns[MAPPED] = [WORDS[MAPPED, str(v)] for v in by_region[MAPPED].tolist()]
    columns["observed"] = [share[region] for region in by_region["region"].tolist()]
    return dataclasses.replace(by_region, table=pa.table(columns))


def _figures(world: Nation, found: Findings) -> dict[str, Any]:
    from matplotlib.figure import Figure

    from crosslevel.charts import choropleth, estimate_map, intervals, style

    with style():
        picture = Figure(figsize=(9, 6.5)).add_subplot()
        observed, guessed, real = (Figure(figsize=(10, 6)).add_subplot() for _ in range(3))
    share = {p["region"]: p["dem"] / p["votes"] for p in world.places.to_pylist() if p["votes"]}
    scale: dict[str, Any] = {"vmin": 0.2, "vmax": 0.8}
    women: dict[str, Any] = {"select": {MAPPED: 2}, **scale}
    intervals(found.national, picture, baselines=[*BASELINES, "rxc"])
    choropleth(world.polygons, share, observed, label="share voting dem", **scale)
    estimate_map(found.by_region, world.polygons, ax=guessed, label="share of women voting dem", **women)
    estimate_map(found.by_region, world.polygons, column="truth", ax=real, label="share of women voting dem", **women)
    guessed.set_title("Women, estimated", loc="left")
    real.set_title("Women, the truth", loc="left")
    return {
        "Estimates with 95 % intervals, bounds, baselines, and the truth": picture,
        "What is observed: the share voting dem in each region": observed,
        "What is asked: how women voted in each region, estimated": guessed,
        "What is true: how women voted in each region": real,
    }
