"""Draw the picture of the README and of the front page: the demo of seed 0, estimates beside the truth.

OMP_NUM_THREADS=1 python docs/picture.py        # writes docs/_static/front.svg; a minute
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from threadpoolctl import threadpool_limits

from crosslevel.cli.demo import estimate_subgroups
from crosslevel.data.simulate import nation

PICTURE = Path(__file__).parent / "_static" / "front.svg"
VARIABLES = {"sex": "sex", "age_group": "age", "race": "race", "education": "education"}
TOTALS, SURVEY, NAIVE = "#4477aa", "#117733", "#999999"


def main() -> None:
    """Run the demo and draw its fifteen subgroups."""
    with threadpool_limits(1):
        found = estimate_subgroups(nation(random_state=0)).national
    variables, y, rows = found["variable"].tolist(), [], 0.0
    for i, name in enumerate(variables):
        rows += 0.7 if i and name != variables[i - 1] else 0.0
        y.append(-rows)
        rows += 1.0
    at = np.array(y)
    plt.rcParams.update({"svg.hashsalt": "crosslevel", "svg.fonttype": "path", "font.size": 10})
    figure, axes = plt.subplots(figsize=(8, 5.2), layout="constrained")
    axes.hlines(at + 0.16, 100 * found["conf_low"], 100 * found["conf_high"], color=TOTALS, lw=2.5, alpha=0.45)
    axes.hlines(
        at - 0.16, 100 * found["with_survey_low"], 100 * found["with_survey_high"], color=SURVEY, lw=2.5, alpha=0.45
    )
    axes.scatter(
        100 * found["neighborhood"], at, marker="|", s=90, color=NAIVE, label="everybody like their region", zorder=3
    )
    axes.scatter(
        100 * found["estimate"], at + 0.16, s=26, color=TOTALS, label="people and totals, 95 % interval", zorder=4
    )
    axes.scatter(
        100 * found["with_survey"], at - 0.16, s=26, color=SURVEY, label="and 2,000 people who were asked", zorder=4
    )
    axes.scatter(
        100 * found["truth"], at, marker="D", s=22, facecolor="white", edgecolor="black", label="truth", zorder=5
    )
    axes.set_yticks(at, found["subgroup"].tolist())
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the vote, %")
    axes.set_title("How fifteen subgroups of a simulated nation voted", loc="left", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
