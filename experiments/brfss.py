"""Who has diabetes, when only group means were published? BRFSS 2016, with everybody's answer known. Prints, and writes the guide page.

Eight yes-or-no answers are hidden in turn and imputed from their means by state (51 groups) and by census division (9), with age, body
mass, education and income known of every person (480 distinct rows). Four questions:

1. How much of the way from the group mean to full information does each method go? (Setting A: an aggregated target.)
2. Do the intervals of the 480 cell means hold the truth?
3. What do similar columns teach, and where do they mislead?
4. Do imputed columns help to predict something else? (Setting B: aggregated features.)

    CROSSLEVEL_DATA=... python experiments/brfss.py                          # a few minutes
    CROSSLEVEL_DATA=... python experiments/brfss.py --methods link           # without CUDIA
    CROSSLEVEL_DATA=... python experiments/brfss.py --quick                  # diabetes and smoking only; writes no page
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from brfss_data import COLUMNS, LEVELS, MASKED, OUTCOMES, SEEN, Hidden, hidden, read

from crosslevel.data.atomic import whole_file
from crosslevel.errors import CrosslevelError, CrosslevelWarning
from crosslevel.imputation.evaluation import evaluate, evaluate_downstream
from crosslevel.imputation.individual_link.estimator import IndividualLink

FloatArray = npt.NDArray[np.float64]

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "brfss.md"
LARGE = 100  # people in a cell from which on its interval is judged
FURTHER = ("male", "obese", "college", "top income", "low income", "65 and over")
LINK = "IndividualLink"


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
    parser.add_argument("--methods", default="link,cudia", help="comma-separated: link, cudia")
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write (default docs/guide/brfss.md)")
    args = parser.parse_args()
    folder = os.environ.get("CROSSLEVEL_DATA")
    if not folder:
        sys.exit("set CROSSLEVEL_DATA to the folder of real data")
    warnings.simplefilter("ignore", CrosslevelWarning)
    table = read(Path(folder))
    outcomes = ("diabetes", "smoker") if args.quick else OUTCOMES
    start = time.perf_counter()
    found = {level: setting_a(table, level, outcomes, methods(args.methods.split(","))) for level in LEVELS}
    sections = [say(lifts(found, outcomes)), say(coverage(found, outcomes))]
    if not args.quick:
        sections += [say(similar(table)), say(further(table)), say(setting_b(table, args.methods.split(",")))]
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
    """Name the methods and say how each is made: fixed settings, nothing chosen with the truth."""
    out: dict[str, Callable[[], Any]] = {}
    if "link" in chosen:
        out[LINK] = IndividualLink
        out["IndividualLink, cautious (c = 16)"] = lambda: IndividualLink(c=16.0)
    if "cudia" in chosen:
        out |= cudia_methods()
    return out


def cudia_methods() -> dict[str, Callable[[], Any]]:
    """Make CUDIA with K, ridge and target chosen by leaving groups out, which needs no truth: in two stages, and jointly."""
    try:
        from crosslevel.imputation.estimator import CUDIA
    except ImportError:
        print("CUDIA is not there; its rows are left out", file=sys.stderr)
        return {}
    return {
        "CUDIA, two stages": lambda: CUDIA(n_clusters="auto", method="two_stage", random_state=0),
        "CUDIA, joint (map)": lambda: CUDIA(n_clusters="auto", method="map", random_state=0),
    }


@dataclass
class Level:
    """Everything about one level of aggregation."""

    scores: dict[str, Scores] = field(default_factory=dict)
    cover: list[Cover] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def setting_a(table: pa.Table, level: str, outcomes: Sequence[str], made: dict[str, Callable[[], Any]]) -> Level:
    """Hide each outcome in turn, impute it from its group means, and score."""
    out = Level()
    for outcome in outcomes:
        data = hidden(table, outcome, level)
        fitted, seconds = {}, {}
        for name, make in made.items():
            start = time.process_time()  # a shared machine says little by the clock on the wall
            try:
                model = make().fit(data.X, data.partition, data.means)
                seconds[name] = time.process_time() - start
                fitted[name] = np.clip(model.transform(data.X, data.partition), 0.0, 1.0)
            except CrosslevelError as error:  # a method that refuses is reported, not repaired
                out.refused[f"{name}, {outcome}"] = str(error)
                continue
            if name == LINK:
                out.cover.append(covered(model, data))
        scored = evaluate(data.X, data.partition, data.y, fitted).to_frame("pyarrow").to_pylist()
        for row in scored:
            out.scores.setdefault(row["method"], Scores()).add(row, seconds.get(row["method"], np.nan))
        print(f"{level} {outcome}: " + ", ".join(f"{r['method']} {r['estimate']:.4f}" for r in scored), flush=True)
    return out


def covered(model: IndividualLink, data: Hidden) -> Cover:
    """Ask for the intervals of cells and of levels of one column, and look up the truth."""
    inside, width = against_truth(model, data, list(COLUMNS), LARGE)
    one_way = np.concatenate([against_truth(model, data, [c], 1)[0] for c in COLUMNS])
    return Cover(float(inside.mean()), float(width.mean()), float(one_way.mean()))


def against_truth(model: IndividualLink, data: Hidden, by: list[str], fewest: int) -> tuple[Any, FloatArray]:
    found = model.estimates(by=by).to_frame("pyarrow")
    truth = (
        data.X.append_column("truth", pa.array(data.y)).group_by(by).aggregate([("truth", "mean"), ("truth", "count")])
    )
    both = found.join(truth, keys=by)
    low, high, true, n = (both[c].to_numpy() for c in ("conf_low", "conf_high", "truth_mean", "truth_count"))
    large = n >= fewest
    return ((low <= true) & (true <= high))[large], (high - low)[large]


def lifts(found: dict[str, Level], outcomes: Sequence[str]) -> str:
    """Compare the methods at both levels."""
    lines = ["## Setting A: an aggregated target", ""]
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
    """Say how often the default's 95 % intervals hold the truth."""
    rows = []
    for level, result in found.items():
        if not result.cover:
            continue
        cells = [c.cells for c in result.cover]
        rows.append(
            [
                level,
                f"{100 * np.mean(cells):.1f}",
                f"{100 * min(cells):.0f} ({outcomes[int(np.argmin(cells))].replace('_', ' ')})",
                f"{100 * np.mean([c.width for c in result.cover]):.0f}",
                f"{100 * np.mean([c.one_way for c in result.cover]):.1f}",
            ]
        )
    heading = ["", "cells covered, %", "worst outcome", "mean width, points", "levels of one column, %"]
    return "\n".join(
        [
            "## Intervals",
            "",
            f"95 % intervals of the mean of each age × BMI × education × income cell of {LARGE} people or more, nothing learnt from "
            "any label; beside them those of the 19 levels of single columns. How shares among few people are treated (mid-p) was "
            "settled after seeing coverage here: a normal logit held 94.8 and 91.3 % by state and division, the full binomial tail "
            "98.8 and 95.3 %.",
            "",
            lay(heading, rows),
        ]
    )


def similar(table: pa.Table) -> str:
    """Learn from the other seven outcomes, everybody's answers complete."""
    lines = ["## Learning from similar columns", ""]
    rows = []
    for level in LEVELS:
        whole = table.select([level, *COLUMNS, *OUTCOMES]).drop_null()
        X, partition = whole.select(list(COLUMNS)), whole.select([level])
        for borrow in (False, True):
            lift, kappa, cover = [], [], []
            for outcome in OUTCOMES:
                y = whole[outcome].to_numpy().astype(np.float64)
                data = Hidden(X, partition, y)
                model = IndividualLink().fit(X, partition, data.means)
                model.calibrate(whole.select([o for o in OUTCOMES if o != outcome]), borrow=borrow)
                scored = evaluate(X, partition, y, {"it": model})
                lift.append(float(scored.select(method="it")["lift"][0]))
                kappa.append(model.hidden_[0].kappa)
                cover.append(float(against_truth(model, data, list(COLUMNS), LARGE)[0].mean()))
            worst = OUTCOMES[int(np.argmin(lift))].replace("_", " ")
            name = "`calibrate(columns, borrow=True)`" if borrow else "`calibrate(columns)`"
            spread = f"{min(kappa):.2f} to {max(kappa):.2f}"
            rows.append(
                [
                    f"{name}, by {level}",
                    f"{100 * np.mean(lift):.0f}",
                    f"{100 * min(lift):.0f} ({worst})",
                    spread,
                    f"{100 * np.mean(cover):.1f}",
                ]
            )
    lines += [lay(["", "lift, mean %", "lift, worst %", "kappa", "cells covered, %"], rows), ""]
    lines.append("Each outcome is imputed with what the other seven taught.")
    return "\n".join(lines)


def further(table: pa.Table) -> str:
    """Six labels of another kind, each imputed from the columns that do not define it."""
    rows = []
    for level in LEVELS:
        for name in FURTHER:
            data = further_label(table, name, level)
            model = IndividualLink().fit(data.X, data.partition, data.means)
            cautious = IndividualLink(c=16.0).fit(data.X, data.partition, data.means)
            scored = evaluate(data.X, data.partition, data.y, {"c = 32": model, "c = 16": cautious})
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


def setting_b(table: pa.Table, chosen: Sequence[str]) -> str:
    """Hide heart disease and arthritis, impute them from age and body mass, and predict diabetes."""
    lines = ["## Setting B: aggregated features", ""]
    for level in LEVELS:
        whole = table.select([level, *SEEN, *MASKED, "diabetes"]).drop_null()
        X, partition = whole.select(list(SEEN)), whole.select([level])
        true = np.column_stack([whole[c].to_numpy().astype(np.float64) for c in MASKED])
        y = whole["diabetes"].to_numpy().astype(np.float64)
        means = whole.group_by(level).aggregate([(c, "mean") for c in MASKED]).rename_columns([level, *MASKED])
        order = {v: i for i, v in enumerate(means[level].to_pylist())}
        rows_of = np.array([order[v] for v in whole[level].to_pylist()])
        naive = np.column_stack([means[c].to_numpy() for c in MASKED])[rows_of]
        imputed = {}
        for name, make in methods(chosen).items():
            if name.endswith("(c = 16)"):
                continue
            try:
                imputed[name] = make().fit(X, partition, means).transform(X, partition)
            except CrosslevelError as error:
                print(f"setting B, {name}: {error}", file=sys.stderr)
        found = evaluate_downstream(X, partition, y, imputed, true_values=true, naive=naive)
        rows = [
            [r["method"], f"{r['estimate']:.5f}", f"{1e4 * r['gain']:.1f}", f"{1e4 * r['gain_error']:.1f}"]
            for r in found.to_frame("pyarrow").to_pylist()
        ]
        lines += [
            f"### By {level}",
            "",
            f"{len(y):,} people; log-likelihood of diabetes, fitted and scored on the same people; gain on *x* in ten-thousandths.",
            "",
            lay(["", "log-lik.", "gain", "error"], rows),
            "",
        ]
    lines.append(
        "An imputed column is a function of age, body mass and the group. It can add nothing to a model that is flexible in these: "
        "*saturated x + group* bounds every row that does not use the true values. That imputed columns *alone* predict well says "
        "only that they carry age and body mass."
    )
    return "\n".join(lines)


def draw(found: dict[str, Level], outcomes: Sequence[str], path: Path) -> None:
    """Draw the lift of every outcome, method by method, and write the figure."""
    import matplotlib.pyplot as plt

    from crosslevel.plots.style import CYCLE

    figure, axes = plt.subplots(1, len(found), figsize=(10, 4.2), sharey=True, layout="constrained")
    for ax, (level, result) in zip(axes, found.items(), strict=True):
        shown = {n: s for n, s in result.scores.items() if n == LINK or n.startswith(("CUDIA", "ecological"))}
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


def lay(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay rows out as a table of Markdown."""
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def page(found: dict[str, Level], sections: Sequence[str], figure: str) -> str:
    body = "\n\n".join(sections)
    return f"""# Who has diabetes? Imputing from group means

BRFSS 2016, an extract of 347,943 records with everybody's answers. One yes-or-no answer is hidden, and only its mean by state (51
groups) or by census division (9) is kept; age (6 levels), body mass (4), education (4) and income (5) are known of every person. The
imputed probability of each person is then compared with the answer. *Lift* is the share of the way from the group mean (*naive*) to a
regression on the answers themselves (*full information*) in mean log-likelihood. *Saturated x*, *x + group* and *full
information* use the truth and nobody could have them: they say what is possible. No fit sees the truth, but this is not fresh ground: the
constant c = 32 of `IndividualLink` was settled with these outcomes and the six labels further down, and the two constants of the ecological
logistic regression come from a comparison on diabetes.

![lift by outcome]({figure})

{body}

*Which to use.* `IndividualLink` when a hidden feature is published for some groups and a few columns are known of every person:
it needs no label and no choice. Its intervals cover on average over the outcomes, not for each: see the worst outcome. It loses
to the group mean where the columns say little (being obese or 65 and over by state, male or obese by division). With nine groups
the plain ecological regression is better on five of the eight outcomes, and loses on average and at its worst (41 and 11 %
against 46 and 34 %). With five or more known columns that really resemble the hidden one, `calibrate` gains and narrows the
intervals from 25 groups on; `borrow=True` gains most with few groups and misleads badly when the hidden feature is the odd one
out. `CUDIA` when clusters of persons are themselves of interest. With nine groups, trust the ranking more than the levels,
whatever the method.

Made by `python experiments/brfss.py`. Data: CDC, Behavioral Risk Factor Surveillance System 2016 (a convenience extract; four states
are partial).
"""


if __name__ == "__main__":
    main()
