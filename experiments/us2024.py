"""Who supported whom in 2024? The study of Flaxman, Wang and Smola (KDD 2015) on a current election. Prints; writes the guide page.

2,619,736 adult citizens of the 2024 American Community Survey in 998 regions, the two-party vote of each region, and the
vote of subgroups by sex, age, household income, race and education that follows from them under the paper's model.

    CROSSLEVEL_DATA=... python experiments/us2024.py               # the model, its cross-validation, the subgroups
    CROSSLEVEL_DATA=... python experiments/us2024.py --ablations   # and what each part of it does; writes the page and its maps
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.linalg
from us2024_data import (
    COLUMNS,
    SUBGROUPS,
    Remembering,
    all_subgroups,
    data_folder,
    lay,
    merge_counties,
    new_model,
    peak_memory,
    points,
    read_people,
    read_regions,
    region_of_county,
    votes_by_region,
)
from us2024_maps import draw_maps, read_map

from crosslevel.data.atomic import whole_file
from crosslevel.ecological import DistributionRegression
from crosslevel.errors import ConvergenceError, CrosslevelWarning
from crosslevel.results import Estimates
from crosslevel.typing import Progress

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "us2024.md"
FOLDS = 10
FEATURES = 2048
"""Scores over regions are those of 4,096, at half the memory and time."""
STATE = "st"
VOTES = {
    "by": "region",
    "weight": "weight",
    "successes": "votes_dem_2024",
    "trials": "votes",
    "coords": ("lon", "lat"),
    "columns": list(COLUMNS),
}
ABLATIONS: dict[str, dict[str, Any]] = {
    "4,096 features": {"n_features": 4096},
    "no nugget": {"nugget": False},
    "no field": {"spatial": None},
    "no field, no nugget": {"spatial": None, "nugget": False},
    "linear map": {"feature_map": "linear"},
    "linear map, no field": {"feature_map": "linear", "spatial": None},
    "linear map, no field, no nugget": {"feature_map": "linear", "spatial": None, "nugget": False},
    "fastfood map": {"feature_map": "fastfood"},
    "state effect": {"group": STATE},
    "the model, a state left out at a time": {"leave_out": STATE},
}
PAPER = {"effect_variance": "4.56", "spatial": "0.18", "length": "7.92 degrees", "nugget": "none", "group": "none"}
"""The hyperparameters of the paper, 837 regions of 2012."""
PAPER_SCORES = ("the paper, 2012", "2.5", "8.3", "−1.9", "not given")


@dataclass
class Clock:
    """How long each part took, in order: by the clock, and of the processors."""

    seconds: dict[str, float] = field(default_factory=dict)
    work: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Time what is done inside; a second time under the same name is added."""
        begun, worked = time.perf_counter(), time.process_time()
        yield
        self.add(name, time.perf_counter() - begun, time.process_time() - worked)

    def add(self, name: str, seconds: float, work: float) -> None:
        """Count these seconds under a name."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.work[name] = self.work.get(name, 0.0) + work


@dataclass(frozen=True)
class Study:
    """The main model and its answers.

    Attributes
    ----------
    model : DistributionRegression
    scores : Estimates
        Of cross-validation.
    answers : mapping of roll-up ("region", "st", "all") to Estimates
        Of all subgroups.
    clock : Clock
    passes : int
        Passes over the people for all answers.
    """

    model: DistributionRegression
    scores: Estimates
    answers: Mapping[str, Estimates]
    clock: Clock
    passes: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=FEATURES)
    parser.add_argument("--ablations", action="store_true", help="also the variants; writes the page")
    parser.add_argument(
        "--keep", type=Path, help="file that keeps the variants' scores, for a study in several sittings"
    )
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write (default docs/guide/us2024.md)")
    options = parser.parse_args()
    folder = data_folder()
    clock = Clock()
    with clock.time("reading people"):
        people = read_people(folder / "us2024" / "persons")
    places = read_regions(folder)
    study = run_study(people, places, clock, n_features=options.features)
    sections = [
        say(data_section(folder, people, places)),
        say(region_section(study)),
        say(subgroup_section(study.answers["all"], people, places)),
        say(state_section(study.answers[STATE])),
        say(time_section(study)),
    ]
    if options.ablations:
        rows = variants(people, places, options.features, options.keep)
        rows.insert(0, ["the model", *variant_row(study.model, study.scores)])
        sections.insert(2, say(ablation_section(rows)))
        sections.insert(5, map_section(study.answers["region"], folder, options.out))
        with whole_file(options.out) as beside:
            beside.write_text(page(sections), encoding="utf-8")


def say(text: str) -> str:
    print(text, "\n", flush=True)
    return text


def run_study(people: pa.Table, places: pa.Table, clock: Clock, **settings: Any) -> Study:
    """Fit, cross-validate, and ask for all subgroups by region, by state and for the nation."""
    marks = [time.process_time()] * 2
    model = fit(people, places, progress=lambda *_: marks.__setitem__(1, time.process_time()), **settings)
    clock.add("embedding of regions, two passes", model.seconds_["people"], marks[1] - marks[0])
    clock.add("fit", model.seconds_["fit"], time.process_time() - marks[1])
    with clock.time(f"cross-validation, {FOLDS} folds"):
        scores = model.cross_validate(FOLDS)
    keeper = Remembering(model.embedder_)
    model.embedder_ = keeper  # type: ignore[assignment]
    with clock.time("embedding of subgroups, one pass"):
        keeper.ask(people, by=["region"], subgroups=all_subgroups())
    answers = {}
    for rollup in ("region", STATE, "all"):
        with clock.time(f"{len(all_subgroups())} subgroups by {rollup}, embeddings given"):
            answers[rollup] = model.estimate(
                subgroups=all_subgroups(), rollup=None if rollup == "region" else rollup, n_draws=1000
            )
    return Study(model, scores, answers, clock, keeper.passes)


def fit(
    people: pa.Table, places: pa.Table, progress: Progress | None = None, **settings: Any
) -> DistributionRegression:
    """Fit one model to the votes of 2024."""
    model = new_model(**settings)
    named = {name: value for name, value in VOTES.items() if name != "coords" or model.spatial is not None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return model.fit(people, places, **named, progress=progress)


def data_section(folder: Path, people: pa.Table, places: pa.Table) -> str:
    """Say what is put together: people, counties, regions, votes, and that nothing is lost."""
    regions, raw = merge_counties(folder)
    sums, report = votes_by_region(folder, 2024)
    order = {r: i for i, r in enumerate(sums["region"].to_pylist())}
    same = all(
        sums[ours].to_pylist()[order[region]] == count
        for ours, theirs in (("votes_dem", "votes_dem_2024"), ("votes_gop", "votes_gop_2024"))
        for region, count in zip(places["region"].to_pylist(), places[theirs].to_pylist(), strict=True)
    )
    unmatched = sum(report.unmatched_totals.values())
    weight = np.sum(people["weight"].to_numpy()) / 1e6
    return f"""## People and regions

{people.num_rows:,} adult citizens ({weight:.1f} M by survey weights) of the American Community Survey 2024, who live in
{regions.right.num_rows:,} survey areas (PUMAs); votes of {regions.left.num_rows:,} counties. Areas and counties overlap: the
graph of the crosswalk has {raw:,} components, and {regions.n_regions:,} once Alaska, Connecticut and Washington (whose votes of 2024
are by other districts) are one place each and Kalawao is joined to Maui. {unmatched:,} votes and no person are left over;
the votes of both parties in every region are {"those" if same else "NOT those"} of the published table, to the vote.

Features: age, logarithm of household income (from $1,000 up), sex, race and ethnicity (5), education (6), tenure, naturalised,
disability. Group quarters have no household income and no tenure: a level of its own."""


def region_section(study: Study) -> str:
    """Score the prediction of regions, and set the hyperparameters beside the paper's."""
    said = study.scores.diagnostics
    h = study.model.hyperparameters_[0]
    rows = [
        ["this model", *scored(study.scores), points(said["rmse_national_mean"])],
        ["national mean", points(said["rmse_national_mean"], 2), *national(study.scores), ""],
        [PAPER_SCORES[0], PAPER_SCORES[1], PAPER_SCORES[3], PAPER_SCORES[4], PAPER_SCORES[2]],
    ]
    words = {
        "effect_variance": "composition, sx2",
        "spatial": "field, ss2",
        "length": "length of the field, l",
        "nugget": "nugget, t2",
    }
    learned = [
        [words[n], f"{getattr(h, n):,.0f} km" if n == "length" else f"{getattr(h, n):.3g}", PAPER[n]] for n in words
    ]
    return f"""## Regions predicted from other regions

{FOLDS} folds of regions, hyperparameters learned anew in each; the two-party share in points. Log density is of the observed
share, given the trials; its level cannot be compared with the paper's, whose definition is not given.

{lay(["", "RMSE", "mean log density", "95 % coverage", "RMSE, national mean"], rows)}

Hyperparameters of all regions together, in squared logits:

{lay(["", "here", "the paper"], learned)}

The paper's embedding is not centered and its features are others (3,251 columns), so its sx2 is not on the same scale. A degree
is 111 km north to south: its field is {7.92 * 111:,.0f} km long."""


def scored(found: Estimates) -> list[str]:
    said = found.diagnostics
    return [points(said["rmse"], 2), f"{said['mean_log_density']:.2f}", f"{said['coverage']:.3f}"]


def national(found: Estimates) -> list[str]:
    """Score the mean and spread of all regions as a normal prediction of each."""
    truth = found["truth"]
    error = truth - truth.mean()
    sd = error.std()
    density = -0.5 * np.log(2 * np.pi * sd**2) - 0.5 * np.mean((error / sd) ** 2)
    return [f"{density:.2f}", f"{np.mean(np.abs(error) < 1.96 * sd):.3f}"]


def ablation_section(rows: Sequence[Sequence[str]]) -> str:
    """Lay out the variants."""
    heading = ["", "RMSE", "log density", "95 % coverage", "log evidence", "sx2", "ss2", "l, km", "nugget sd, logits"]
    return f"""## What each part does

The same folds; the last line predicts every state from the other states.

{lay(heading, rows)}

Without the nugget, a region of a hundred thousand votes is taken as known to a tenth of a point: intervals do not cover, and the field
grows short to take the nugget's place. Without field and nugget the model is confidently wrong."""


def variants(people: pa.Table, places: pa.Table, n_features: int, keep: Path | None) -> list[list[str]]:
    """Fit and cross-validate every variant; those in the file ``keep`` are not done again."""
    done = json.loads(keep.read_text(encoding="utf-8")) if keep is not None and keep.exists() else {}
    for name, settings in ABLATIONS.items():
        if name in done:
            continue
        begun = time.perf_counter()
        size = {} if settings.get("feature_map") == "linear" else {"n_features": n_features}
        done[name] = variant(people, places, **size | settings)
        print(name, *done[name], f"{time.perf_counter() - begun:.0f} s", flush=True)
        if keep is not None:
            with whole_file(keep) as beside:
                beside.write_text(json.dumps(done), encoding="utf-8")
    return [[name, *done[name]] for name in ABLATIONS]


def variant(people: pa.Table, places: pa.Table, **settings: Any) -> list[str]:
    """Score one variant; dashes where it does not converge."""
    leave_out = settings.pop("leave_out", None)
    try:
        model = fit(people, places, **settings)
        return variant_row(
            model, model.cross_validate(**({"k": FOLDS} if leave_out is None else {"leave_out": leave_out}))
        )
    except ConvergenceError as error:
        print(error, flush=True)
        return ["–"] * 8


def variant_row(model: DistributionRegression, scores: Estimates) -> list[str]:
    h = model.hyperparameters_[0]
    terms = model.model_.terms
    return [
        *scored(scores),
        f"{model.log_evidence_:,.0f}",
        f"{h.effect_variance:.3g}",
        f"{h.spatial:.3g}" if "spatial" in terms.names else "",
        f"{h.length:,.0f}" if "length" in terms.names else "",
        f"{np.sqrt(h.nugget):.3f}" if "nugget" in terms.names else "",
    ]


def subgroup_section(found: Estimates, people: pa.Table, places: pa.Table) -> str:
    """Tell the nation's subgroups, with what the totals alone imply beside them."""
    index = {name: i for i, name in enumerate(found["subgroup"].tolist())}
    whole = float(np.sum(people["weight"].to_numpy()))
    rows, sums = [], []
    for question, groups in SUBGROUPS.items():
        at = [index[name] for name in groups]
        weight = found["population"][at]
        added = float(weight @ found["estimate"][at] / weight.sum())
        should = float(weight @ found["neighborhood"][at] / weight.sum())
        sums.append(f"{question} {points(added)} ({points(should)})")
        rows += [
            [
                f"{question}: {name}",
                points(found["population"][i] / whole),
                f"**{points(found['estimate'][i])}**",
                f"[{points(found['conf_low'][i])}, {points(found['conf_high'][i])}]",
                points(found["neighborhood"][i]),
                points(found["goodman"][i]),
                f"[{points(found['bound_low'][i], 0)}, {points(found['bound_high'][i], 0)}]",
                f"{found['distance'][i]:.1f}",
                f"{found['shift'][i]:.2f}",
            ]
            for name, i in zip(groups, at, strict=True)
        ]
    heading = [
        "",
        "% of people",
        "estimate",
        "95 % interval",
        "neighborhood",
        "Goodman",
        "bounds",
        "distance",
        "shift",
    ]
    return f"""## Subgroups of the nation

Democratic share of the two-party vote, in percent, if everybody voted: regions are weighted by the subgroup's people.

{lay(heading, rows)}

**A good score over regions says nothing about subgroups.** What was scored above is the total of a region, which is a mixture of
people like those of other regions; a subgroup's vector lies far from every region's (*distance*: 1 is that between neighboring
regions), and whether the young, or women, vote alike wherever they live cannot be seen in totals. **This regression is poor for
subgroups**: against the exit polls of 2012 and 2016 ({{doc}}`exit-polls`) it is no nearer than *neighborhood*, which lets everybody
vote like their region, for age and income, gets age the wrong way round, and the sexes in one of the two years; here, too, look
at the young and at graduates. Only race, by which places differ most, is learned. Read the estimates as what the paper's method
says, the intervals as what it claims, and the bounds as what is known. *Shift* is how far, in logits, draws were moved so that
a subgroup and the rest of its region add up to the region's total.

Each subgroup is set against all others of its region, so the answers of one question need not add up between them. Together they
give, and in brackets what the regions' totals say of the same people: {"; ".join(sums)}."""


def state_section(found: Estimates) -> str:
    """Tell the subgroups of every state."""
    names = list(all_subgroups())
    value = dict(zip(zip(found[STATE], found["subgroup"], strict=True), found["estimate"], strict=True))
    states = sorted(set(found[STATE].tolist()))
    rows = [[s, *(points(value.get((s, n), np.nan), 0) for n in names)] for s in states]
    return f"""## Subgroups by state

Estimates in percent; what is said above of the nation's holds here with more force.

{lay(["", *names], rows)}"""


def map_section(found: Estimates, folder: Path, out: Path) -> str:
    """Draw the subgroups of all regions, one picture for each question."""
    atlas = read_map(folder / "geometry" / "us-atlas_counties-albers-10m.json", region_of_county(folder))
    lines = []
    for question, groups in SUBGROUPS.items():
        panels = {}
        for name in groups:
            chosen = found.select(subgroup=name)
            panels[name] = dict(zip(chosen["region"].tolist(), chosen["estimate"].tolist(), strict=True))
        file = out.with_name(f"{out.stem}-{question.split()[0 if question != 'household income' else 1]}.png")
        draw_maps(file, atlas, panels, "Democratic share")
        lines.append(f"![By {question}, estimates by region]({file.name})")
    return "## Maps\n\nEstimates by region, blue Democratic; gray where the sample has nobody.\n\n" + "\n\n".join(lines)


def time_section(study: Study) -> str:
    """Say what it took, beside a decomposition anybody can repeat."""
    A = np.random.default_rng(0).normal(size=(2000, 2000))
    begun, worked = time.perf_counter(), time.process_time()
    scipy.linalg.eigh(A + A.T)
    yardstick, worked = time.perf_counter() - begun, time.process_time() - worked
    taken = study.clock.seconds
    work = study.clock.work
    rows = [[name, f"{taken[name]:.1f}", f"{work[name]:.1f}"] for name in taken]
    rows.append(["all of these", f"{sum(taken.values()):.1f}", f"{sum(work.values()):.1f}"])
    rows.append(["*yardstick: scipy.linalg.eigh, N = 2,000*", f"{yardstick:.1f}", f"{worked:.1f}"])
    slowest = max(work, key=lambda n: work[n])
    return f"""## Time and memory

{lay(["", "seconds", "of processor time"], rows)}

Peak memory {peak_memory():.2f} GB. All answers come from {study.passes} pass over the people. Most of the time goes to
{slowest}. Two threads; where other programs run, processor time is the better measure."""


def page(sections: Sequence[str]) -> str:
    body = "\n\n".join(sections)
    return f"""# The election of 2024

The study of Flaxman, Wang and Smola, *Who supported Obama in 2012?* (KDD 2015), on a current election and with the corrections
of {{doc}}`ecological-regression`.

{body}

Made by `python experiments/us2024.py --ablations`. Data: American Community Survey 2024 1-year PUMS (Census Bureau), Geocorr 2022
(Missouri Census Data Center), county votes of 2024 (tonmcg), boundaries us-atlas.
"""


if __name__ == "__main__":
    main()
