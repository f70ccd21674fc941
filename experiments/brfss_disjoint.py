"""BRFSS with means of other people than the sample: what of ``brfss.py`` is left when no chance is shared. Writes a part of its page.

``brfss.py`` takes the group means from the very people it imputes and scores. Here the people of every group are halved at random.
*Disjoint*:
each half is imputed from the means of the other half and compared with its own answers, so that composition and truth are of one half and
totals of the other. *Population*: each half is imputed from the means of everybody, of whom it is a part. Intervals are judged on the first
half: cells of age x BMI x education x income with 100 people or more in it, and the 19 levels of single columns.

    CROSSLEVEL_DATA=... python experiments/brfss_disjoint.py        # three minutes on an idle core
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from brfss import LARGE, LINK, against_truth
from brfss_data import COLUMNS, LEVELS, OUTCOMES, Hidden, hidden, lay, read
from imputation_scores import evaluate

from crosslevel.data.atomic import whole_file
from crosslevel.errors import CrosslevelWarning
from crosslevel.imputation import CrossLevelImputer

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "brfss.md"
SOURCES = {"disjoint": "other people", "population": "everybody, the sample among them"}
METHODS = (LINK, f"{LINK}, cautious (shrinkage_groups = 16)")
SHOWN = ("naive group mean", "ecological logistic", *METHODS, "full information")
Flags = npt.NDArray[np.bool_]


def intervals(data: Hidden, source: str, rng: np.random.Generator) -> tuple[Flags, Flags, npt.NDArray[np.float64]]:
    """Say which intervals of cells and of levels of one column hold the truth of one half, and how wide the first are."""
    half = np.zeros(len(data.y), dtype=bool)
    half[rng.permutation(len(half))[: len(half) // 2]] = True
    own, other = (
        Hidden(data.X.filter(pa.array(part)), data.partition.filter(pa.array(part)), data.y[part])
        for part in (half, ~half)
    )
    model = CrossLevelImputer().fit(own.people, other.places if source == "disjoint" else data.places)
    cells, width = against_truth(model, own, list(COLUMNS), LARGE)
    return cells, np.concatenate([against_truth(model, own, [c], 1)[0] for c in COLUMNS]), width


def measure(table: pa.Table, level: str, source: str) -> tuple[list[list[str]], list[str]]:
    """Score all outcomes; give the rows of a table, and one row of another on intervals."""
    scores: dict[str, list[tuple[float, float, float]]] = {name: [] for name in SHOWN}
    cells, levels, widths = [], [], []
    for outcome in OUTCOMES:
        data = hidden(table, outcome, level)
        made = dict(zip(METHODS, (CrossLevelImputer(), CrossLevelImputer(shrinkage_groups=16.0)), strict=True))
        found = evaluate(data.table, data.level, data.y, made, means_of=source).to_frame("pyarrow").to_pylist()
        for row in found:
            if row["method"] in scores:
                scores[row["method"]].append((row["estimate"], row["lift"], row["auc"]))
        own, one_way, width = intervals(data, source, np.random.default_rng(0))
        cells.append(float(own.mean()))
        levels.append(float(one_way.mean()))
        widths.append(float(width.mean()))
        print(level, source, outcome, [s[-1] for s in scores.values()], cells[-1], file=sys.stderr, flush=True)
    rows = []
    for name, found in scores.items():
        lift = [s[1] for s in found]
        worst = OUTCOMES[int(np.argmin(lift))].replace("_", " ")
        rows.append(
            [
                f"{name}, by {level}",
                SOURCES[source],
                f"{found[0][0]:.4f}",
                f"{100 * np.mean(lift):.0f}",
                f"{100 * min(lift):.0f} ({worst})",
                f"{np.mean([s[2] for s in found]):.3f}",
            ]
        )
    worst = OUTCOMES[int(np.argmin(cells))].replace("_", " ")
    held = [f"{100 * np.mean(cells):.1f}", f"{100 * min(cells):.0f} ({worst})", f"{100 * np.mean(widths):.0f}"]
    return rows, [f"{LINK}, by {level}", SOURCES[source], *held, f"{100 * np.mean(levels):.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write into (default docs/guide/brfss.md)")
    args = parser.parse_args()
    folder = os.environ.get("CROSSLEVEL_DATA")
    if not folder:
        sys.exit("set CROSSLEVEL_DATA to the folder of real data")
    warnings.simplefilter("ignore", CrosslevelWarning)
    table = read(Path(folder))
    rows, held = [], []
    for level in LEVELS:
        for source in SOURCES:
            own, covered = measure(table, level, source)
            rows += own
            held.append(covered)
    heading = ["", "means of", "diabetes, log-lik.", "lift, mean %", "lift, worst %", "AUC"]
    intervals_heading = [
        "",
        "means of",
        "cells covered, %",
        "worst outcome",
        "mean width, points",
        "levels of one column, %",
    ]
    part = f"{lay(heading, rows)}\n\n{lay(intervals_heading, held)}"
    print(part)
    before, rest = args.out.read_text(encoding="utf-8").split("<!-- disjoint -->\n")
    with whole_file(args.out) as beside:
        after = rest.split("<!-- /disjoint -->")[1]
        beside.write_text(f"{before}<!-- disjoint -->\n{part}\n<!-- /disjoint -->{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
