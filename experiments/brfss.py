"""Who has diabetes, when only group means were published? BRFSS 2016, with everybody's answer known. Prints, and writes the guide page.

Eight yes-or-no answers are hidden in turn and imputed from their means by state (51 groups) and by census division (9), with age, body
mass, education and income known of every person (480 distinct rows). Three questions:

1. How much of the way from the group mean to full information does each method go? (Setting A: an aggregated target.)
2. Do the intervals of the 480 cell means hold the truth?
3. Where is little to be had?

    CROSSLEVEL_DATA=... python experiments/brfss.py                          # half an hour
    CROSSLEVEL_DATA=... python experiments/brfss.py --methods link           # without CUDIA
    CROSSLEVEL_DATA=... python experiments/brfss.py --quick                  # diabetes and smoking only; writes no page
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from brfss_cudia import TWO_STAGES, cudia_methods, share_covered
from brfss_data import COLUMNS, LEVELS, OUTCOMES, Hidden, hidden, lay, read
from brfss_ecological import NAME as ECOLOGICAL
from brfss_ecological import Cells, single_columns
from imputation_scores import evaluate

from crosslevel.data.atomic import whole_file
from crosslevel.errors import CrosslevelError, CrosslevelWarning
from crosslevel.imputation.persons.estimator import CrossLevelImputer

FloatArray = npt.NDArray[np.float64]

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "brfss.md"
LARGE = 100  # people in a cell from which on its interval is judged
FURTHER = ("male", "obese", "college", "top income", "low income", "65 and over")
LINK = "CrossLevelImputer"
DRAWN = (LINK, "ecological logistic", TWO_STAGES, "CUDIA, joint: map")


@dataclass
class Scores:
    """What one method reached at one level; lists have one entry per outcome."""

    log_likelihood: list[float] = field(default_factory=list)
    gain: list[float] = field(default_factory=list)
    lift: list[float] = field(default_factory=list)
    auc: list[float] = field(default_factory=list)
    rmse: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, row: dict[str, Any], seconds: float) -> None:
        self.log_likelihood.append(row["estimate"])
        self.gain.append(row["gain"])
        self.lift.append(np.nan if row["lift"] is None else row["lift"])
        self.auc.append(row["auc"])
        self.rmse.append(row["rmse_cells"])
        self.seconds.append(seconds)


@dataclass(frozen=True)
class Cover:
    """Intervals of cell means of one outcome."""

    cells: float
    width: float
    one_way: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two outcomes; writes no page")
    parser.add_argument("--methods", default="link,ecological,cudia", help="comma-separated: link, ecological, cudia")
    parser.add_argument("--levels", default=",".join(LEVELS), help="only these; writes no page, and is for --keep")
    parser.add_argument(
        "--keep", type=Path, help="folder in which finished outcomes are kept, so that a run can be taken up again"
    )
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write (default docs/guide/brfss.md)")
    args = parser.parse_args()
    folder = os.environ.get("CROSSLEVEL_DATA")
    if not folder:
        sys.exit("set CROSSLEVEL_DATA to the folder of real data")
    warnings.simplefilter("ignore", CrosslevelWarning)
    table = read(Path(folder))
    outcomes = ("diabetes", "smoker") if args.quick else OUTCOMES
    start = time.perf_counter()
    if args.keep is not None:
        args.keep.mkdir(parents=True, exist_ok=True)
    made = methods(args.methods.split(","))
    found = {level: setting_a(table, level, outcomes, made, args.keep) for level in args.levels.split(",")}
    if args.levels != ",".join(LEVELS):
        return
    sections = [say(lifts(found, outcomes)), say(coverage(found, outcomes))]
    if not args.quick:
        sections.append(say(further(table)))
        if ECOLOGICAL in made:
            sections.append(say(single_columns(table)))
    print(f"\n{time.perf_counter() - start:.0f} s")
    if not args.quick:
        figure = args.out.with_suffix(".png")
        draw(found, outcomes, figure)
        with whole_file(args.out) as beside:
            beside.write_text(page(found, sections, figure.name), encoding="utf-8")


def say(text: str) -> str:
    print(text, flush=True)
    return text


def methods(chosen: Sequence[str]) -> dict[str, Callable[[], Any]]:
    """Name the methods and say how each is made: nothing is chosen with the truth."""
    out: dict[str, Callable[[], Any]] = {}
    if "link" in chosen:
        out[LINK] = CrossLevelImputer
        out["CrossLevelImputer, cautious (shrinkage_groups = 16)"] = partial(CrossLevelImputer, shrinkage_groups=16.0)
    if "ecological" in chosen:
        out[ECOLOGICAL] = Cells
    if "cudia" in chosen:
        out |= cudia_methods()
    return out


@dataclass
class Level:
    """Everything about one level of aggregation."""

    scores: dict[str, Scores] = field(default_factory=dict)
    cover: dict[str, list[Cover]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def setting_a(
    table: pa.Table,
    level: str,
    outcomes: Sequence[str],
    made: dict[str, Callable[[], Any]],
    keep: Path | None = None,
) -> Level:
    """Hide each outcome in turn, impute it from its group means, and score; with ``keep`` what was done before is read there."""
    out = Level()
    for outcome in outcomes:
        file = None if keep is None else keep / f"{level}-{outcome}.json"
        if file is not None and file.exists():
            found = json.loads(file.read_text())
        else:
            found = one_outcome(hidden(table, outcome, level), made)
            if file is not None:
                with whole_file(file) as beside:
                    beside.write_text(json.dumps(found), encoding="utf-8")
        for row in found["rows"]:
            out.scores.setdefault(row["method"], Scores()).add(row, found["seconds"].get(row["method"], np.nan))
        for name, numbers in found["cover"].items():
            out.cover.setdefault(name, []).append(Cover(*numbers))
        out.refused |= {f"{name}, {outcome}": words for name, words in found["refused"].items()}
        print(
            f"{level} {outcome}: " + ", ".join(f"{r['method']} {r['estimate']:.4f}" for r in found["rows"]), flush=True
        )
    return out


def one_outcome(data: Hidden, made: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Fit and score every method on one hidden outcome."""
    fitted, seconds, cover, refused = {}, {}, {}, {}
    for name, make in made.items():
        start = time.process_time()  # a shared machine says little by the clock on the wall
        try:
            model = make().fit(data.people, data.places)
            seconds[name] = time.process_time() - start
            fitted[name] = np.clip(model.transform(data.people)["hidden"].to_numpy(), 0.0, 1.0)
        except CrosslevelError as error:  # a method that refuses is reported, not repaired
            refused[name] = str(error)
            continue
        if name == LINK:
            cover[LINK] = covered(model, data)
        if name == TWO_STAGES:
            for words, place_sd in (("", "auto"), (", `place_sd=0`", 0.0)):
                model.set_params(place_sd=place_sd)
                cover[TWO_STAGES + words] = share_covered(model, data, LARGE)
    table = evaluate(data.table, data.level, data.y, fitted).to_frame("pyarrow")
    kept = ("method", "estimate", "gain", "lift", "auc", "rmse_cells")
    rows = table.select(list(kept)).to_pylist()
    return {"rows": rows, "seconds": seconds, "cover": cover, "refused": refused}


def covered(model: CrossLevelImputer, data: Hidden) -> tuple[float, float, float]:
    """Ask for the intervals of cells and of levels of one column, and look up the truth."""
    inside, width = against_truth(model, data, list(COLUMNS), LARGE)
    one_way = np.concatenate([against_truth(model, data, [c], 1)[0] for c in COLUMNS])
    return float(inside.mean()), float(width.mean()), float(one_way.mean())


def against_truth(model: CrossLevelImputer, data: Hidden, by: list[str], fewest: int) -> tuple[Any, FloatArray]:
    found = model.estimate(by=by).to_frame("pyarrow")
    truth = (
        data.X.append_column("truth", pa.array(data.y)).group_by(by).aggregate([("truth", "mean"), ("truth", "count")])
    )
    both = found.join(truth, keys=by)
    low, high, true, n = (both[c].to_numpy() for c in ("conf_low", "conf_high", "truth_mean", "truth_count"))
    large = n >= fewest
    return ((low <= true) & (true <= high))[large], (high - low)[large]


def lifts(found: dict[str, Level], outcomes: Sequence[str]) -> str:
    """Compare the methods at both levels."""
    said = (
        "`CUDIA` has its defaults, five clusters and nothing chosen; what two rules of choosing clusters and ridge by leave-one-out "
        "error give is in `studies/cudia_variants`."
    )
    lines = ["## Setting A: an aggregated target", "", said, ""]
    for level, result in found.items():
        rows = []
        for name, s in result.scores.items():
            worst = outcomes[int(np.nanargmin(s.lift))]
            # by gain, not by lift: where full information does not beat the group mean there is no lift, but still a loss
            whole = len(s.gain) == len(outcomes)
            losing = [o for o, g in zip(outcomes, s.gain, strict=True) if g < 0] if whole else ["not all fitted"]
            seconds = "" if np.isnan(s.seconds).all() else f"{np.nanmedian(s.seconds):.2f}"
            rows.append(
                [
                    f"**{name}**" if name == LINK else name,
                    f"{s.log_likelihood[0]:.4f}",
                    f"{100 * np.nanmean(s.lift):.0f}",
                    f"{100 * np.nanmin(s.lift):.0f} ({worst.replace('_', ' ')})",
                    f"{np.mean(s.auc):.3f}",
                    f"{100 * np.mean(s.rmse):.1f}",
                    ", ".join(losing).replace("_", " ") or "none",
                    seconds,
                ]
            )
        heading = [
            "",
            f"{outcomes[0]}, log-lik.",
            "lift, mean %",
            "lift, worst %",
            "AUC",
            "RMSE of cells",
            "loses to naive",
            "CPU s a fit",
        ]
        lines += [f"### By {level}", "", lay(heading, rows), ""]
        lines += [f"Refused: {name}: {why}" for name, why in result.refused.items()]
    return "\n".join(lines)


def coverage(found: dict[str, Level], outcomes: Sequence[str]) -> str:
    """Say how often 95 % intervals hold the truth."""
    rows = []
    for level, result in found.items():
        for name, cover in result.cover.items():
            cells = [c.cells for c in cover]
            worst = outcomes[int(np.argmin(cells))].replace("_", " ")
            rows.append(
                [
                    f"{name}, by {level}",
                    f"{100 * np.mean(cells):.1f}",
                    f"{100 * min(cells):.0f} ({worst})",
                    f"{100 * np.mean([c.width for c in cover]):.0f}",
                    f"{100 * np.mean([c.one_way for c in cover]):.1f}",
                ]
            )
    heading = ["", "cells covered, %", "worst outcome", "mean width, points", "levels of one column, %"]
    return "\n".join(
        [
            "## Intervals",
            "",
            f"95 % intervals of the mean of each age × BMI × education × income cell of {LARGE} people or more, nothing learned from "
            "any label; beside them those of the 19 levels of single columns. How `CrossLevelImputer` treats shares among few people "
            "(mid-p) was chosen after seeing coverage here: a normal logit held 94.8 and 91.3 % by state and division, the full "
            "binomial tail 98.8 and 95.3 %. CUDIA's intervals allow for places that differ for other reasons with the constants of "
            "`CrossLevelImputer` (`place_sd`), none of them set anew; with `place_sd=0` they take the clusters as known, and fail.",
            "",
            lay(heading, rows),
        ]
    )


def further(table: pa.Table) -> str:
    """Six labels of another kind, each imputed from the columns that do not define it."""
    rows = []
    for level in LEVELS:
        for name in FURTHER:
            data = further_label(table, name, level)
            model = CrossLevelImputer().fit(data.people, data.places)
            cautious = CrossLevelImputer(shrinkage_groups=16.0).fit(data.people, data.places)
            scored = evaluate(data.table, data.level, data.y, {"c = 32": model, "c = 16": cautious})
            by = {r["method"]: r for r in scored.to_frame("pyarrow").to_pylist()}
            gap = by["full information"]["estimate"] - by["naive group mean"]["estimate"]
            rows.append(
                [f"{name}, by {level}", f"{gap:.4f}", *(f"{100 * by[k]['lift']:.0f}" for k in ("c = 32", "c = 16"))]
            )
    return "\n".join(
        [
            "## Where little is to be had",
            "",
            "Labels of another kind. Where the columns say little about a person (the gap from naive to full information is small), the "
            "default can lose to the group mean; in nats these losses are small.",
            "",
            lay(["", "naive to full, nats", "lift %, c = 32", "lift %, c = 16"], rows),
        ]
    )


def further_label(table: pa.Table, name: str, level: str) -> Hidden:
    """Make a label of a column, and leave that column out."""
    source, yes = {
        "male": ("sex", (1,)),
        "obese": ("bmi_cat", (4,)),
        "college": ("education", (4,)),
        "top income": ("income", (5,)),
        "low income": ("income", (1,)),
        "65 and over": ("age_group", (6,)),
    }[name]
    whole = table.select(list(dict.fromkeys([level, *COLUMNS, source]))).drop_null()
    y = np.isin(whole[source].to_numpy(), yes).astype(np.float64)
    return Hidden(whole.select([c for c in COLUMNS if c != source]), whole.select([level]), y)


def draw(found: dict[str, Level], outcomes: Sequence[str], path: Path) -> None:
    """Draw the lift of every outcome, method by method, and write the figure."""
    import matplotlib.pyplot as plt

    from crosslevel.charts.style import CYCLE

    figure, axes = plt.subplots(1, len(found), figsize=(10, 4.2), sharey=True, layout="constrained")
    for ax, (level, result) in zip(axes, found.items(), strict=True):
        shown = {n: result.scores[n] for n in DRAWN if n in result.scores}
        for j, (name, s) in enumerate(shown.items()):
            lift = 100 * np.maximum(np.asarray(s.lift), -1.0)
            ax.plot(lift, np.arange(len(lift)) + 0.12 * j, "o", color=CYCLE[j % len(CYCLE)], label=name)
        ax.axvline(0, color="0.5", lw=0.8)
        ax.set_title(f"by {level}")
        ax.set_xlabel("lift, % of the way from group mean to full information")
        ax.set_yticks(range(len(outcomes)), [o.replace("_", " ") for o in outcomes])
    axes[0].invert_yaxis()
    axes[-1].legend(fontsize="small", loc="lower left")
    with whole_file(path) as beside:
        figure.savefig(beside, format="png", dpi=110)
    plt.close(figure)


def page(found: dict[str, Level], sections: Sequence[str], figure: str) -> str:
    body = "\n\n".join(sections)
    return f"""# Who has diabetes? Imputing from group means

BRFSS 2016, an extract of 347,943 records with everybody's answers. One yes-or-no answer is hidden, and only its mean by state (51
groups) or by census division (9) is kept; age (6 levels), body mass (4), education (4) and income (5) are known of every person. The
imputed probability of each person is then compared with the answer. *Lift* is the share of the way from the group mean (*naive*) to a
regression on the answers themselves (*full information*) in mean log-likelihood. *Saturated x*, *x + group* and *full
information* use the truth and nobody could have them: they say what is possible. No fit sees the truth, but this is not fresh ground: the
constant 32 of `CrossLevelImputer` was chosen with these outcomes and the six labels further down, and the two constants of the ecological
logistic regression come from a comparison on diabetes.

## With means of other people

In the tables further down, the group means are those of the very people that are imputed and scored, so that chance is shared: a state
that happens to have more old people in the sample happens to have more of what old people have. Here the people of every group are
halved at random, and each half is imputed from the means of the other half (*other people*), or from those of both (*everybody, the
sample among them*); its own answers are the truth. These are the figures to quote. Intervals are those of the first half's cells of 100
people or more.

<!-- disjoint -->
<!-- /disjoint -->

Made by `python experiments/brfss_disjoint.py`. **Withdrawn** until they are measured so: every figure of `CUDIA` and of
`EcologicalInference` in the tables below, and those of *where little is to be had*.
They compare methods on equal terms, all of which shared the same chance, and are no measure of what any of them reaches on its own.

![lift by outcome]({figure})

{body}

*Which to use.* `CrossLevelImputer` when a hidden feature is published for some groups and a few columns are known of every person:
it needs no label and no choice. Its intervals cover on average over the outcomes, not for each: see the worst outcome. It loses
to the group mean where the columns say little (being obese or 65 and over by state, male or obese by division). With nine groups
the plain ecological regression is better on four of the eight outcomes and level on diabetes, and loses on average and at its worst
(41 and 11 % against 45 and 34 %). `EcologicalInference`
answers questions about groups of people from many places; read person by person, from 9 or 51 places, it
takes what the shape of its link tells for more than it is worth and loses to the group mean on some outcomes. `CUDIA` when
clusters of persons are themselves of interest; its deterministic algorithm (*hard*) loses to the group mean by far.
With nine groups, trust the ranking more than the levels,
whatever the method.

Made by `python experiments/brfss.py`. Data: CDC, Behavioral Risk Factor Surveillance System 2016 (a convenience extract; four states
are partial).
"""


if __name__ == "__main__":
    main()
