"""``crosslevel demo``: the main job end to end on a nation whose truth is known."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosslevel import ecological
from crosslevel.data.fingerprint import fingerprint
from crosslevel.data.simulate import Nation, nation
from crosslevel.errors import FileError
from crosslevel.explorer import report
from crosslevel.results import Estimates, Provenance

__all__ = ["estimate_subgroups", "run"]

VARIABLES = ("sex", "age_group", "race", "education")
WORDS = {("sex", "1"): "men", ("sex", "2"): "women"}


def estimate_subgroups(world: Nation, variables: Sequence[str] = VARIABLES, seed: int | None = None) -> Estimates:
    """Estimate each subgroup's national vote from regional totals, with the truth and the baselines beside it.

    The estimate is the contextual R x C model, the best that this version has; the deterministic bounds, Goodman's
    regression and the neighbourhood model stand beside it.
    """
    dem, votes = (np.asarray(world.places[c], dtype=float) for c in ("dem", "votes"))
    outcomes = {"dem": dem, "other": votes - dem}
    columns: dict[str, list[Any]] = {}
    warnings: list[str] = []
    for variable in variables:
        groups, regions = ecological.group_counts(
            world.people, by="region", group=variable, places=world.places, total="votes", weight="weight"
        )
        fitted = ecological.rxc(groups, outcomes, units=regions)
        straight = ecological.goodman(groups, outcomes, units=regions)
        near = ecological.neighbourhood(groups, outcomes, units=regions)
        true = {str(r[variable]): r["rate"] for r in world.true_rates(by=variable, rollup="all").to_pylist()}
        rows = np.asarray(fitted["outcome"]) == "dem"
        levels = np.asarray(fitted["group"])[rows].tolist()
        part: dict[str, list[Any]] = {
            "variable": [variable] * len(levels),
            "subgroup": [WORDS.get((variable, v), v) for v in levels],
            **{
                c: fitted[c][rows].tolist()
                for c in ("estimate", "std_error", "conf_low", "conf_high", "lower", "upper")
            },
            "goodman": straight["estimate"][rows].tolist(),
            "neighbourhood": near["estimate"][rows].tolist(),
            "truth": [true[v] for v in levels],
        }
        for name, values in part.items():
            columns.setdefault(name, []).extend(values)
        warnings += [f"{variable}: {w}" for w in fitted.warnings]
    made = Estimates.build(
        columns,
        keys=("variable", "subgroup"),
        method="contextual R x C model (rxc)",
        level=0.95,
        interval=fitted.interval,
        provenance=Provenance.of(
            call="crosslevel demo",
            seed=seed,
            data={"people": fingerprint(world.people), "places": fingerprint(world.places)},
        ),
        diagnostics={"people": world.people.num_rows, "regions": world.places.num_rows},
        warnings=warnings,
        title="How each subgroup voted, from regional totals alone",
    )
    score = made.score()
    truth = made["truth"]
    error = {name: float(np.mean(np.abs(made[name] - truth))) for name in ("estimate", "goodman", "neighbourhood")}
    caution = (
        f"The truth is known here: {100 * (score['coverage'] or 0):.0f} % of the 95 % intervals contain it, and estimates are "
        f"{100 * error['estimate']:.0f} points off on average (Goodman {100 * error['goodman']:.0f}, neighbourhood "
        f"{100 * error['neighbourhood']:.0f}). This nation is harder than the tables the intervals were calibrated on: its "
        "minorities vote otherwise where they are many. The bounds (lower, upper) assume nothing and carry only the survey's noise."
    )
    return dataclasses.replace(made, diagnostics={**made.diagnostics, **score}, warnings=(caution, *made.warnings))


def run(regions: int, people: int, out: Path, seed: int, as_json: bool) -> None:
    """Simulate, estimate, print the table, write the report."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if out.exists() and not out.is_dir():
        raise FileError(f"out={str(out)!r} is a file; name a folder for the report.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"out={str(out)!r} cannot be made ({error.strerror}); name a folder you may write to."
        ) from error
    with console.status(f"Simulating {people:,} people in {regions:,} regions ..."):
        world = nation(regions, max(1, people // regions), random_state=seed)
    with console.status("Estimating subgroups ..."):
        found = estimate_subgroups(world, seed=seed)
    where = (out / "report.html").resolve()
    with console.status("Writing the report ..."):
        report(found, where, title="crosslevel demo: a nation of known truth", figures=_figures(world, found))
    if as_json:
        print(json.dumps({"report": str(where), "estimates": json.loads(found.to_json())}))
    else:
        print(found.summary())
        print(f"\nReport: {where}")


def _figures(world: Nation, found: Estimates) -> dict[str, Any]:
    from matplotlib.figure import Figure

    from crosslevel.plots import choropleth, style

    with style():
        picture, country = Figure(figsize=(9, 6.5)).add_subplot(), Figure(figsize=(10, 6)).add_subplot()
    share = {p["region"]: p["dem"] / p["votes"] for p in world.places.to_pylist() if p["votes"]}
    return {
        "Estimates with 95 % intervals, bounds, the naive neighbourhood value, and the truth": found.plot(ax=picture),
        "What is observed: the share voting dem in each region": choropleth(
            world.polygons, share, ax=country, label="share voting dem", vmin=0.0, vmax=1.0
        ),
    }
