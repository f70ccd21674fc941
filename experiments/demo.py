"""How far is the demo off over twenty seeds, and do its intervals hold?

OMP_NUM_THREADS=1 python experiments/demo.py            # seeds 0 to 19; writes docs/guide/demo.md
OMP_NUM_THREADS=1 python experiments/demo.py --hard     # the stress test, printed only
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import crosslevel as cl
from crosslevel.cli.demo import COLUMNS, DRAWS, HARD, VARIABLES, estimate_subgroups
from crosslevel.data.simulate import nation
from crosslevel.errors import CrosslevelWarning

PAGE = Path(__file__).parent.parent / "docs" / "guide" / "demo.md"
TEXT = """# The demo over twenty seeds

`crosslevel demo` simulates 300 regions with 1,000 sampled people each, fits the totals, then the totals and 2,000 respondents,
and compares fifteen subgroups with the truth. Seed 0 is the default; none was chosen. The composition of regions comes from the
sampled people (one in ten), the totals from everybody, the truth from everybody, the constants of the intervals from hidden
columns of United States surveys. How much the shares of groups differ between regions was set to what American regions show, and
the size of contextual effects (`contextual=0.25`, `spatial=0.2`) so that answers are about as far off in log odds as hidden
columns were there; the first eight seeds were looked at for that. Figures are means over subgroups and seeds, in points. A
difference between two groups of one variable counts where its 95 % interval excludes zero.

| | error | coverage of 95 % intervals | width |
|---|---|---|---|
{rows}

Error below that of "everybody like their region" by {gain:.0f} %, with the survey by {helped:.0f} %. Root mean square error in
log odds, from totals: {logit:.2f}. Differences between groups whose interval excludes zero: {sure} from totals, {right} of them
with the right sign; with the survey {sure2}, {right2} right.

| seed | totals | like their region | coverage | with survey | coverage |
|---|---|---|---|---|---|
{seeds}

Written by `python experiments/demo.py`.
"""


def differences(model: cl.EcologicalInference, truth: dict[str, dict[str, float]]) -> tuple[int, int]:
    """Count differences between groups that exclude zero, and those of the right sign."""
    sure = right = 0
    for variable in VARIABLES:
        found = model.estimate(by=variable, rollup="all", n_draws=DRAWS).contrast()
        for first, second, low, high in zip(
            found[found.keys[0]], found[found.keys[1]], found["conf_low"], found["conf_high"], strict=True
        ):
            if low > 0 or high < 0:
                sure += 1
                right += (low > 0) == (truth[variable][str(first)] > truth[variable][str(second)])
    return sure, right


def main() -> None:
    """Run the seeds and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--hard", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore", CrosslevelWarning)
    rows, seeds, counts = [], [], np.zeros(4, int)
    with threadpool_limits(1):
        for seed in range(given.seeds):
            world = nation(random_state=seed, **(HARD if given.hard else {}))
            made = estimate_subgroups(world, seed=seed).national
            values = {n: made[n] for n in made.table.column_names if n not in made.keys}
            rows.append(values)
            counts += _signs(world, seed)
            one = _figures([values])
            seeds.append("| {} | {:.1f} | {:.1f} | {:.2f} | {:.1f} | {:.2f} |".format(seed, *one[:3], *one[4:6]))
            print(seeds[-1], counts, flush=True)
    error, near, cover, width, error2, cover2, width2, goodman, logit = _figures(rows)
    lines = [
        f"| people and totals | {error:.2f} | {cover:.3f} | {width:.1f} |",
        f"| people, totals and 2,000 respondents | {error2:.2f} | {cover2:.3f} | {width2:.1f} |",
        f"| everybody like their region | {near:.2f} | | |",
        f"| Goodman's regression | {goodman:.0f} | | |",
    ]
    text = TEXT.format(
        rows="\n".join(lines), gain=100 * (1 - error / near), helped=100 * (1 - error2 / near), logit=logit,
        sure=counts[0], right=counts[1], sure2=counts[2], right2=counts[3], seeds="\n".join(seeds),
    )  # fmt: skip
    print(text)
    if not given.hard and given.seeds == 20:
        PAGE.write_text(text)


def _signs(world, seed: int) -> np.ndarray:
    truth = {v: {str(r[v]): r["rate"] for r in world.true_rates(by=v, rollup="all").to_pylist()} for v in VARIABLES}
    people = cl.People(world.people, by="region", weight="weight", columns=COLUMNS, categorical=["sex"])
    places = cl.Places(world.places, by="region", successes="dem", trials="votes", coords=("lon", "lat"))
    survey = cl.Survey(world.survey(2000, random_state=seed), outcome="voted_dem", by="region")
    counts = []
    for more in (None, survey):
        counts += differences(cl.EcologicalInference(random_state=seed).fit(people, places, more), truth)
    return np.array(counts)


def _figures(rows: list[dict[str, np.ndarray]]) -> list[float]:
    """Give mean errors, coverage and widths, in points, and the root mean square error in log odds."""
    v = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    t = v["truth"]

    def off(name: str) -> float:
        return 100 * float(np.abs(v[name] - t).mean())

    def held(low: str, high: str) -> tuple[float, float]:
        return float(((v[low] <= t) & (t <= v[high])).mean()), 100 * float((v[high] - v[low]).mean())

    logit = np.log(v["estimate"] / (1 - v["estimate"])) - np.log(t / (1 - t))
    return [
        off("estimate"), off("neighborhood"), *held("conf_low", "conf_high"), off("with_survey"),
        *held("with_survey_low", "with_survey_high"), off("goodman"), float(np.sqrt((logit**2).mean())),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
