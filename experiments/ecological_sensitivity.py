"""Do intervals cover once they allow for rates that depend on composition, and what can a test see?

Prints the tables and writes docs/guide/ecological-sensitivity.md.

Every method answers from the margins of tables whose inner cells are known. Its own 95 % interval is compared with the
one that ``ecological.sensitivity`` widens for a slope. The slope is learned on the other sources only: the smallest multiple of
0.05 with which the widened intervals hold 95 % of the cells, the sources having equal weight.

    python experiments/ecological_sensitivity.py --data FOLDER             # all New Zealand electorates: some minutes
    python experiments/ecological_sensitivity.py --data FOLDER --quick     # every seventh; writes no page
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.csv as pv
from ecological_data import NZ_YEARS, Known, new_zealand, small_tables
from threadpoolctl import threadpool_limits

from crosslevel import ecological
from crosslevel.data.atomic import whole_file
from crosslevel.ecological.tables.assumptions.car_test import car_test, curvature_test
from crosslevel.ecological.tables.assumptions.robustness import NEIGHBORHOOD_SLOPE, SLOPE, sensitivity
from crosslevel.errors import ConvergenceError, InputError
from crosslevel.results import Estimates

FloatArray = npt.NDArray[np.float64]
PAGE = Path(__file__).parents[1] / "docs" / "guide" / "ecological-sensitivity.md"
LEVEL = 0.95
STEP, LONGEST = 0.05, 1.5
LEARN = ("goodman", "rxc_em", "rxc")
PUBLISHED = "multinomial_dirichlet, no contextual effect"
SMALL_ONLY = ("king", "multinomial_dirichlet", PUBLISHED)  # 2 x 2 only; a minute or two for each of 349 districts
SOURCES = {
    "senc": "senc",
    "eco_reg": "registration",
    "ei_matproii": "registration",
    "eco_forgnlit30c": "illiteracy",
    "NC 3x3": "North Carolina",
    "NC 5x3": "North Carolina",
}
NZ = "New Zealand"
COLUMNS = (
    "data", "method", "cells", "own 95 % interval covers", "widened covers", "slope, learned elsewhere", "own width", "widened width",
    "bounds' width", "cell 1: truth", "own", "widened",
)  # fmt: skip
TEST_COLUMNS = ("data", "units", "statistic (1 if constant)", "p, all outcomes", "Goodman's largest error, points")
WORLD_COLUMNS = ("units", "groups", "sizes", "slope of one group, points per 10", "slope of all", "rejected at 5 %")
SLOPE_COLUMNS = ("data", "group", "lives among its own", "true slope of each outcome, points per 10 points")


@dataclass(frozen=True)
class Answer:
    """One method on one district: the answer, the truth (n_cells,), and the least slope that covers each cell."""

    data: str
    source: str
    method: str
    result: Estimates
    truth: FloatArray
    need: FloatArray


def methods() -> dict[str, Callable[..., Estimates]]:
    names = ("goodman", "neighborhood", "rxc_em", "rxc", "king", "multinomial_dirichlet")
    chosen = {
        "rxc_em": partial(ecological.rxc_em, tol=1e-3),
        PUBLISHED: partial(ecological.multinomial_dirichlet, contextual_slope=(0, 0)),
    }
    return {name: getattr(ecological, name) for name in names} | chosen


def held(answer: Estimates, truth: FloatArray, low: str, high: str) -> npt.NDArray[np.bool_]:
    """Tell which truths lie between two columns.

    Some truths are rates of rounded counts and lie just outside the bounds of those counts; they are taken to the bounds.
    """
    inside = np.clip(truth, answer["lower"], answer["upper"])
    return (answer[low] - 1e-9 <= inside) & (inside <= answer[high] + 1e-9)


def needed(result: Estimates, truth: FloatArray) -> FloatArray:
    """Give the least multiple of STEP that covers each cell, infinite when none does."""
    need = np.full(len(truth), np.inf)
    for slope in np.arange(0, LONGEST + STEP / 2, STEP):
        covered = held(sensitivity(result, slope=float(slope)), truth, "sens_low", "sens_high")
        need = np.where(covered & np.isinf(need), slope, need)
        if np.isfinite(need).all():
            break
    return need


def answers(folder: Path, every: int) -> list[Answer]:
    """Ask every method about every table."""
    known: list[tuple[str, str, Known]] = [(SOURCES[k.name], k.name, k) for k in small_tables(folder)]
    for year in NZ_YEARS:
        known += [(NZ, NZ, k) for k in new_zealand(folder, year, every)]
    found = []
    for source, data, k in known:
        for name, method in methods().items():
            if name in SMALL_ONLY and source == NZ:
                continue
            try:
                result = method(k.counts, **({"kind": "votes"} if name == "rxc" and source == NZ else {}))
            except (InputError, ConvergenceError):
                continue
            truth = (k.truth / k.truth.sum(axis=1, keepdims=True)).ravel()
            found.append(Answer(data, source, name, result, truth, needed(result, truth)))
    return found


def learned(found: list[Answer], names: Iterable[str], without: str | None) -> float:
    """Give the smallest slope with which each of these methods covers, averaged over the sources but one."""
    slopes = []
    for name in names:
        by_source: dict[str, list[FloatArray]] = {}
        for a in found:
            if a.method == name and a.source != without:
                by_source.setdefault(a.source, []).append(a.need)
        grid = np.arange(0, LONGEST + STEP / 2, STEP)
        cover = [np.mean([np.mean(np.concatenate(n) <= s + 1e-9) for n in by_source.values()]) for s in grid]
        slopes.append(next((float(s) for s, c in zip(grid, cover, strict=True) if c >= LEVEL), LONGEST))
    return max(slopes)


def coverage_rows(found: list[Answer]) -> Iterable[tuple[str, ...]]:
    """Yield a line for each data set and method."""
    for data in dict.fromkeys(a.data for a in found):
        for name in methods():
            here = [a for a in found if a.data == data and a.method == name]
            if not here:
                continue
            slope = learned(found, ("neighborhood",) if name == "neighborhood" else LEARN, here[0].source)
            wide = [sensitivity(a.result, slope=slope) for a in here]
            truth = np.concatenate([a.truth for a in here])
            own, widened, possible = (
                [np.concatenate([w[end] for w in wide]) for end in ends]
                for ends in (("conf_low", "conf_high"), ("sens_low", "sens_high"), ("lower", "upper"))
            )
            has = np.isfinite(own[0]).any()
            inside = np.concatenate(
                [held(w, a.truth, "sens_low", "sens_high") for w, a in zip(wide, here, strict=True)]
            )
            by_method = np.concatenate(
                [held(w, a.truth, "conf_low", "conf_high") for w, a in zip(wide, here, strict=True)]
            )
            small = len(here) == 1
            yield (
                data,
                name,
                f"{len(truth):,}",
                share(by_method, small) if has else "–",
                share(inside, small),
                f"{slope:.2f}",
                number(np.mean(own[1] - own[0]), 3) if has else "–",
                number(np.mean(np.clip(widened[1] - widened[0], 0, None)), 3),
                number(np.mean(possible[1] - possible[0]), 3),
                *(
                    (
                        number(truth[0], 3),
                        f"[{own[0][0]:.3f}, {own[1][0]:.3f}]" if has else number(wide[0]["estimate"][0], 3),
                        f"[{widened[0][0]:.3f}, {widened[1][0]:.3f}]",
                    )
                    if small
                    else ("–", "–", "–")
                ),
            )


def curvature_rows(folder: Path, every: int) -> Iterable[tuple[str, ...]]:
    """Yield what the test finds, beside how wrong Goodman's regression is."""
    for k in small_tables(folder):
        found = car_test(k.counts)
        truth = (k.truth / k.truth.sum(axis=1, keepdims=True)).ravel()
        error = 100 * np.abs(ecological.goodman(k.counts)["estimate"] - truth).max()
        yield (
            k.name,
            f"{len(k.X):,}",
            number(found["estimate"][-1], 1),
            number(found["p_value"][-1], 3),
            number(error, 1),
        )
    districts = [k for year in NZ_YEARS for k in new_zealand(folder, year, every)]
    p = np.array([q for k in districts if (q := tested(k)) is not None])
    yield (f"{NZ}, {len(p)} districts", "–", "–", f"{100 * np.mean(p <= 0.05):.0f} % of them below 0.05", "–")


def tested(known: Known) -> float | None:
    try:
        return float(car_test(known.counts, n_draws=199)["p_value"][-1])
    except InputError:  # too few units for so many groups
        return None


def simulated_rows(times: int) -> Iterable[tuple[str, ...]]:
    """Yield how often the test rejects in worlds of known slopes."""
    rng = np.random.default_rng(0)
    settings = [(n, R, spread, 0.0, 0.0) for n in (40, 100, 300) for R in (2, 4) for spread in (0.5, 1.5)]
    settings += [(n, 2, 0.5, own, shared) for n in (100, 300) for own, shared in ((0.2, 0.0), (0.4, 0.0), (0.0, 0.4))]
    for n, R, spread, own, shared in settings:
        hits = [simulated(rng, n, R, spread, own, shared, seed) <= 0.05 for seed in range(times)]
        size = "alike" if spread < 1 else "very unlike"
        yield (str(n), str(R), size, f"{10 * own:g}", f"{10 * shared:g}", f"{100 * np.mean(hits):.1f} %")


def simulated(rng: np.random.Generator, n: int, R: int, spread: float, own: float, shared: float, seed: int) -> float:
    """Make one world, units of lognormal size whose rates vary by 8 points, and give the test's p-value."""
    people = np.round(np.exp(rng.normal(6, spread, n))) + 20
    X = np.round(people[:, None] * rng.dirichlet(np.array([1.0, 2.0, 1.0, 1.0])[:R], n))
    x = X / X.sum(axis=1, keepdims=True)
    rates = np.linspace(0.7, 0.3, R) + rng.normal(0, 0.08, (n, R)) + shared * (x[:, :1] - 0.33)
    rates[:, 0] += own * (x[:, 0] - 0.33)
    yes = rng.binomial(X.astype(int), np.clip(rates, 0, 1)).sum(axis=1)
    N = X.sum(axis=1)
    share_yes = yes / N
    return float(curvature_test(x, np.column_stack([share_yes, 1 - share_yes]), N, x, 199, seed).p_value[0])


def slope_rows(folder: Path) -> Iterable[tuple[str, ...]]:
    """Yield the true slopes where the inner cells of every unit are known."""
    for name, groups, cells in unit_cells(folder):
        X = cells.sum(axis=2)
        for r, group in enumerate(groups):
            x, w = X[:, r] / X.sum(axis=1), X[:, r] / X[:, r].sum()
            rate = np.divide(cells[:, r], X[:, r, None], out=np.zeros_like(cells[:, r]), where=X[:, r, None] > 0)
            off = x - w @ x
            slopes = (w * off) @ (rate - w @ rate) / (w @ off**2)
            yield (name, group, f"{100 * (w @ x):.0f} %", ", ".join(f"{10 * s:+.1f}" for s in slopes))


def unit_cells(folder: Path) -> Iterable[tuple[str, tuple[str, ...], FloatArray]]:
    """Yield the inner cells (n_units, n_groups, n_outcomes) of the tables that have them."""
    data = pv.read_csv(folder / "senc_se_north_carolina.csv")
    cells = [[data[r + p].to_numpy() for p in ("dem", "rep", "non")] for r in ("wh", "bl", "natam")]
    yield "senc", ("white", "black", "natam"), np.moveaxis(np.array(cells, dtype=float), 2, 0)
    for file, (x, n), name in (("eco_reg", ("X", "N"), "eco_reg"), ("eco_forgnlit30c", ("X", None), "eco_forgnlit30c")):
        data = pv.read_csv(folder / f"{file}.csv")
        first = data[x].to_numpy()
        people = np.full(len(first), 1e4) if n is None else data[n].to_numpy()
        rates = np.column_stack([data["W1"].to_numpy(), data["W2"].to_numpy()])
        X = np.column_stack([people * first, people * (1 - first)])
        yield name, ("first", "second"), np.stack([X * rates, X * (1 - rates)], axis=2)
    data = pv.read_csv(folder / "nc_2025_registration_race_x_party_by_county.csv")
    merged = {"white": "W", "black": "B", "rest": "AIMOPU"}
    cells = [
        [sum(data[f"{c}_{p}"].to_numpy() for c in codes) for p in ("DEM", "REP", "UNA")] for codes in merged.values()
    ]
    yield "NC 3x3", tuple(merged), np.moveaxis(np.array(cells, dtype=float), 2, 0)


def share(hits: npt.NDArray[np.bool_], small: bool) -> str:
    return f"{int(hits.sum())} of {len(hits)}" if small else f"{100 * hits.mean():.1f} %"


def number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else "–"


def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def heading(columns: tuple[str, ...]) -> str:
    return f"{line(columns)}\n{line(['---'] * len(columns))}"


INTRODUCTION = """# Sensitivity: what margins cannot tell

Every method that sees only totals by place assumes something about how a group's behavior changes with
the composition of its place (a contextual effect).
Most assume that it does not. If instead *everybody's* rate rises with, say, the share of the young in a place, the totals
still lie on a straight line, and nothing in them shows the difference: the estimate for the young is too high by

    slope × (1 − share of the young where the young live).

A slope of 0.2 means 2 points of rate per 10 points of share. If the young live, on average, in places that are 40 % young,
such a slope puts their estimate off by 0.2 × 0.6 = 12 points, however many places there are. A confidence interval does
not include this.

```python
found = cl.ecological.rxc(counts)
answer = cl.ecological.sensitivity(found)  # move=0.05: what would change the answer by five points?
cl.ecological.car_test(counts)             # the part of the assumption that can be tested

from crosslevel.charts import contour, slope_curve

contour(answer, "young", "yes")            # how strong must an omitted variable be?
slope_curve(answer, "young", "yes")        # the estimate over a range of slopes
```

| column | says |
| --- | --- |
| `lower`, `upper` | what is possible at all, whatever the slope |
| `sens_low`, `sens_high` | the method's interval, widened by all that a slope of 0.2 can do where units' bounds leave room |
| `robustness` | the least slope that makes the `move`, in points per 10 points of share; empty if the bounds forbid it |
| `robustness_value` | the R² that something overlooked needs, with composition and with outcome, to do so in a regression |
| `bench_low`, `bench_high` | with covariates in `counts=`: widened by what overlooking the worst of them would have done |
| `at_contextual_slope=…` | answers of `rxc` under other contextual slopes |

Read `robustness` first. If it is 0.5, half a point per 10 points of share overturns the answer, and that cannot be ruled out.
If it is 5, rates would have to swing by half between places with and without the group.

"""

COVERED = """## Own and widened intervals against known truth

The slope is learned on the other sources only: the smallest multiple of 0.05 with which the widened intervals of goodman,
rxc_em (stopped at 1e-3) and rxc (by kind of table) each cover 95 % of the cells (neighborhood by itself), sources having
equal weight. Registration counts as one
source, North Carolina as one, New Zealand as one. Widths are means over cells, as shares of the group.

"""

TESTED = """## What a test can see

`car_test` asks whether outcomes are curved in composition. They are when groups have different slopes, not when all share
one. So it finds the curve in `senc` and in the illiteracy table, and nothing on the registration tables, where
Goodman's regression is off by 21 points, nor in New Zealand, where the voters of every party follow whoever is strong in their
place: it rejects there no more often than chance would.

"""

SIMULATED = """In simulated worlds it keeps its level, and is cautious where a few large units hold most of the weight; a slope of
one group is found, a slope of all is not.

"""

TRUE_SLOPES = """## How large are real slopes?

Where the inner cells of every unit are known, a group's own slope can be measured (weighted by its people). Some are 4 to 6
points per 10 points, two or three times the slope that the intervals above allow for: slopes of different groups
partly cancel in the district's estimate, and the bounds of mixed units stop much of the rest. The learned slope is what
was left to cover, not the largest slope there is.

"""


def reading(found: list[Answer]) -> str:
    full, near = learned(found, LEARN, None), learned(found, ("neighborhood",), None)
    return f"""### How to read this
- Learned on all five sources the slope is {full:.2f}, and {near:.2f} for `neighborhood`; the defaults are {SLOPE:g} and
  {NEIGHBORHOOD_SLOPE:g}. Five sources are few, and that the range is a plain slope (and not, say, one in proportion to how
  frequent an outcome is) was also chosen on them. It is an assumption; pass `slope=` for your own.
- Where a method's own interval fails, the widened one mostly covers, and is narrower than the bounds. Cell 1 is the first
  group and outcome of each small table: on the registration tables Goodman's interval for black citizens ends below
  one half where the truth is 0.55; on illiteracy even `rxc` fails, as composition points the wrong way there, and the
  widened interval covers. The cost is width: Goodman's intervals for `senc` double, those of `rxc` grow by 70 %.
- `rxc` has a slope in its model, and its constants were learned on tables like these, where its own intervals mostly cover. The
  widened ones answer for tables of another kind. `multinomial_dirichlet` has the same slope in its model.
- `neighborhood` needs more than a slope: on New Zealand, with the slope learned elsewhere, one cell in five stays outside.
- Nothing here helps against margins that are wrong, or against groups too small to be seen in any unit.

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given = os.environ.get("CROSSLEVEL_DATA")
    parser.add_argument("--data", type=Path, default=Path(given) if given else None, help="folder of the real data")
    parser.add_argument("--quick", action="store_true", help="every seventh electorate; writes no page")
    parser.add_argument(
        "--out", type=Path, default=PAGE, help="page to write (default docs/guide/ecological-sensitivity.md)"
    )
    args = parser.parse_args()
    if args.data is None:
        parser.error("pass --data, the folder that holds truth/, or set CROSSLEVEL_DATA")
    folder, every = args.data / "truth", 7 if args.quick else 1
    written = [INTRODUCTION]
    with threadpool_limits(limits=1, user_api="blas"):
        found = answers(folder, every)
        for words, columns, rows in (
            (COVERED, COLUMNS, coverage_rows(found)),
            (reading(found) + TESTED, TEST_COLUMNS, curvature_rows(folder, every)),
            (SIMULATED, WORLD_COLUMNS, simulated_rows(60 if args.quick else 500)),
            (TRUE_SLOPES, SLOPE_COLUMNS, slope_rows(folder)),
        ):
            print(f"{words}{heading(columns)}", flush=True)
            lines = []
            for row in rows:
                lines.append(line(row))
                print(lines[-1], flush=True)
            written.append("\n".join([words + heading(columns), *lines, "", ""]))
            print()
    if not args.quick:
        with whole_file(args.out) as part:
            part.write_text("".join(written).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
