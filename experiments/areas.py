"""Counts of small areas from those of large ones: MSOAs to LSOAs of Trafford, mid-2024. Prints, and writes the guide page.

28 MSOAs (middle layer super output areas, about 8,600 people) hold 139 LSOAs (lower layer, about 1,700). The number of people
of an age group is known for each MSOA, everybody's number for each LSOA; who is where inside an MSOA is asked. The truth is
published, so every answer can be scored: uniform and area weighting, the rate of the borough, the nested rate (each LSOA has its
MSOA's), the population-weighted Gaussian process of `BinnedGP`, and `cl.binned.interpolate`.

    CROSSLEVEL_DATA=... python experiments/areas.py          # three minutes
    CROSSLEVEL_DATA=... python experiments/areas.py --quick  # one group, no BinnedGP; writes no page
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.csv
import shapely
from scipy.special import ndtr

from crosslevel.binned import BinnedGP, interpolate
from crosslevel.binned.baselines import area_weighting
from crosslevel.binned.regions.base import SineBasis
from crosslevel.binned.regions.polygons import Polygons
from crosslevel.binned.regions.sums import WeightedSum
from crosslevel.data.atomic import whole_file
from crosslevel.data.shapes import as_shapely
from crosslevel.errors import CrosslevelWarning
from crosslevel.results import Estimates
from crosslevel.results.scores import coverage, mae, rmse

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "areas.md"
PICTURE = "areas-65.png"
GROUPS = {"65 and over": (65, 90), "20 to 29": (20, 29), "0 to 15": (0, 15)}
LEVEL = (0.025, 0.975)
WIDTH = 1.959964
HEADING = ["", "RMSE", "against nested", "MAE", "mean log score", "95 % cover"]


@dataclass(frozen=True, eq=False)
class Borough:
    """The areas.

    Attributes
    ----------
    large, small : Polygons
        28 and 139, in one equal-area plane, kilometers.
    parent : (139,)
    population : (139,)
    large_ages, small_ages : (28, 91) and (139, 91)
        People by year of age; the last column is 90 and over.
    """

    large: Polygons
    small: Polygons
    parent: IntArray
    population: FloatArray
    large_ages: FloatArray
    small_ages: FloatArray


@dataclass(frozen=True, eq=False)
class Answer:
    """What one method says: estimates (139,), and where it has them log scores and limits of 95 % intervals."""

    name: str
    mean: FloatArray
    log_score: FloatArray | None = None
    low: FloatArray | None = None
    high: FloatArray | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one group, no BinnedGP; writes no page")
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write (default docs/guide/areas.md)")
    args = parser.parse_args()
    folder = os.environ.get("CROSSLEVEL_DATA")
    if not folder:
        sys.exit("set CROSSLEVEL_DATA to the folder of real data")
    warnings.simplefilter("ignore", CrosslevelWarning)
    start = time.perf_counter()
    data = read_borough(Path(folder) / "ages")
    sections, first = [], None
    for group in list(GROUPS)[: 1 if args.quick else None]:
        answers, found = solve(data, group, full=not args.quick)
        first = found if first is None else first
        sections.append(say(table(data, group, answers, found)))
    timing = say(speed(data))
    print(f"\n{time.perf_counter() - start:.0f} s")
    if not args.quick and first is not None:
        draw(data, first, args.out.parent / PICTURE)
        with whole_file(args.out) as beside:
            beside.write_text(page(data, sections, timing), encoding="utf-8")


def say(text: str) -> str:
    print(text, flush=True)
    return text


def read_borough(folder: Path) -> Borough:
    """Read polygons and people, and check that the parts add up to the wholes."""
    large = Polygons(folder / "trafford_msoa21.geojson", key="area_code", project="local")
    small = Polygons(folder / "trafford_lsoa21.geojson", key="area_code", project=large)
    large_ages, _ = read_ages(folder / "trafford_msoa_mid2024_age1.csv", large)
    small_ages, parents = read_ages(folder / "trafford_lsoa_mid2024_age1.csv", small)
    rows = {name: i for i, name in enumerate(large.names or ())}
    parent = np.array([rows[name] for name in parents])
    if (holders(small, large) != parent).any():
        raise SystemExit("an LSOA lies outside the MSOA that its table names")
    sums = np.stack([np.bincount(parent, column) for column in small_ages.T], axis=1)
    if np.abs(sums - large_ages).max() > 0:
        raise SystemExit("the LSOAs do not add up to the MSOAs")
    return Borough(large, small, parent, small_ages.sum(axis=1), large_ages, small_ages)


def read_ages(path: Path, areas: Polygons) -> tuple[FloatArray, list[str]]:
    """Read people by year of age in the order of the polygons, (n, 91), and the column of parents where there is one."""
    rows = pyarrow.csv.read_csv(path)
    rows = rows.filter(pc.equal(rows["sex"], "Persons"))
    order = {code: i for i, code in enumerate(rows["area_code"].to_pylist())}
    at = [order[name] for name in areas.names or ()]
    ages = np.column_stack([rows[str(age)].to_numpy().astype(np.float64) for age in range(91)])[at]
    parents = rows["msoa21cd"].to_pylist() if "msoa21cd" in rows.column_names else [""] * len(order)
    return ages, [parents[i] for i in at]


def holders(inner: Polygons, outer: Polygons) -> IntArray:
    """Find the polygon of ``outer`` that each polygon of ``inner`` lies in, by a point well inside of it."""
    at = shapely.point_on_surface(as_shapely(inner.shapes))
    number, row = shapely.STRtree(as_shapely(outer.shapes)).query(at, predicate="intersects")
    return row[np.argsort(number, kind="stable")]


def solve(data: Borough, group: str, full: bool) -> tuple[list[Answer], Estimates]:
    """Answer for one age group by every method; none sees the LSOAs' counts."""
    a, b = GROUPS[group]
    y = data.large_ages[:, a : b + 1].sum(axis=1)
    found = interpolate(data.large, data.small, y, population=data.population)
    truth = data.small_ages[:, a : b + 1].sum(axis=1)
    inside = data.parent[:, None] == np.arange(len(data.large))
    overlap = np.where(inside, data.small.volumes[:, None], 0.0)
    children = inside.sum(axis=0)
    answers = [
        Answer("uniform: each LSOA of an MSOA alike", (y / children)[data.parent]),
        Answer("area weighting", area_weighting(overlap, overlap.sum(axis=0), y)),
        Answer("rate of the borough", data.population * y.sum() / data.population.sum()),
        as_nested(y, data, truth),
    ]
    if full:
        answers += [gaussian(data, y, truth, known) for known in (False, True)]
    mean, error = found["estimate"], found["std_error"]
    ours = Answer("**interpolate**", mean, log_score(mean, error, truth), found["conf_low"], found["conf_high"])
    return [*answers, ours], found


def as_nested(y: FloatArray, data: Borough, truth: FloatArray) -> Answer:
    """Give the nested rate with the intervals it has if taken at its word: binomial counts at one rate, given their sum."""
    people = data.population
    mean = people * (y / np.bincount(data.parent, people))[data.parent]
    v = mean * (1.0 - mean / people)
    error = np.sqrt(v * (1.0 - v / np.bincount(data.parent, v)[data.parent]))
    low, high = (np.rint(mean + sign * WIDTH * error) for sign in (-1, 1))
    return Answer("nested rate", mean, log_score(mean, error, truth), low, high)


def log_score(mean: FloatArray, error: FloatArray, truth: FloatArray) -> FloatArray:
    """Give the log probability of counts under normal distributions cut to whole numbers."""
    half = 0.5 / error
    # counted from the nearer tail, where a difference of distribution functions keeps its digits
    z = -np.abs(truth - mean) / error
    return np.log(np.maximum(ndtr(z + half) - ndtr(z - half), 1e-300))


def gaussian(data: Borough, y: FloatArray, truth: FloatArray, known: bool) -> Answer:
    """Predict with a Gaussian process of the rate, MSOAs being population-weighted sums of their LSOAs.

    The noise is estimated, or known: that of binomial counts.
    """
    wholes = WeightedSum.of_population(data.small, data.population, data.parent)
    parts = WeightedSum.of_population(data.small, data.population, np.arange(len(data.small)))
    people = wholes.volumes
    if known:
        gp = BinnedGP(kernel="matern32", tolerance=1e-3, noise=0.0)
        gp.fit(wholes, y, quantity="total", std_error=np.sqrt(y * (1.0 - y / people)))
    else:
        gp = BinnedGP(kernel="matern32", tolerance=1e-3).fit(wholes, y, quantity="total", sizes=people)
    mean, sd = gp.predict(parts, quantity="total", return_std=True)
    name = f"BinnedGP, Matérn-3/2, noise {'binomial' if known else 'estimated'}"
    return Answer(name, mean, log_score(mean, sd, truth), mean - WIDTH * sd, mean + WIDTH * sd)


def table(data: Borough, group: str, answers: Sequence[Answer], found: Estimates) -> str:
    """Lay the scores of one group out."""
    a, b = GROUPS[group]
    truth = data.small_ages[:, a : b + 1].sum(axis=1)
    nested = next(rmse(x.mean, truth) for x in answers if x.name == "nested rate")
    rows = []
    for x in answers:
        score = rmse(x.mean, truth)
        cells = [x.name, f"{score:.1f}", f"{100 * (score / nested - 1):+.1f} %", f"{mae(x.mean, truth):.1f}"]
        cells.append("" if x.log_score is None else f"{x.log_score.mean():.2f}")
        cells.append("" if x.low is None or x.high is None else f"{coverage(x.low, x.high, truth):.3f}")
        rows.append(cells)
    mass = np.abs(np.bincount(data.parent, found["estimate"]) - np.bincount(data.parent, truth)).max()
    length, smooth, white = (found.diagnostics[name] for name in ("lengthscale", "smooth", "white"))
    return "\n".join(
        [
            f"## {group}",
            "",
            f"{truth.sum():,.0f} people, {truth.mean():.0f} an LSOA.",
            "",
            lay(HEADING, rows),
            "",
            f"Posterior means: smooth part {smooth:.2f}, lengthscale {length:.1f} km, white part {white:.2f}. Largest error "
            f"of an MSOA's total {mass:.0e}.",
        ]
    )


def speed(data: Borough) -> str:
    """Time the edge sums: all polygons, 600 features."""
    both = replace(data.large, shapes=[*data.large.shapes, *data.small.shapes], names=None)
    low, high = both.bounds()
    center, half = 0.5 * (low.min(0) + high.max(0)), 0.5 * (high.max(0) - low.min(0)) + 3.0
    index = np.stack(np.meshgrid(np.arange(1, 26), np.arange(1, 25), indexing="ij"), axis=-1).reshape(-1, 2)
    basis = SineBasis(center, half, index)
    both.sine_integrals(basis)
    start = time.perf_counter()
    both.sine_integrals(basis)
    seconds = time.perf_counter() - start
    return (
        f"Edge sums of {len(index)} features over {len(both)} polygons ({len(both.edges.start):,} edges): {seconds:.2f} s on one core, "
        "after the first call has compiled."
    )


def draw(data: Borough, found: Estimates, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from crosslevel.charts import choropleth

    names = list(data.small.names or ())
    mean, error = (100.0 * found[name] / data.population for name in ("estimate", "std_error"))
    figure, axes = plt.subplots(1, 2, figsize=(11.0, 4.6), layout="constrained")
    options: dict[str, Any] = {"key": "area_code", "label": "65 and over, % of people", "plane": True}
    for ax, title, values, look in (
        (axes[0], "mean", mean, {"cmap": "viridis"}),
        (axes[1], "standard deviation", error, {"cmap": "magma_r", "vmin": 0.0}),
    ):
        choropleth(data.small.geojson(), dict(zip(names, values.tolist(), strict=True)), ax, **options, **look)
        ax.set_title(title, loc="left", fontweight="bold")
    with whole_file(path) as beside:
        figure.savefig(beside, format="png", dpi=110)
    plt.close(figure)


def lay(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay rows out as a table of Markdown."""
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def page(data: Borough, sections: Sequence[str], timing: str) -> str:
    body = "\n\n".join(sections)
    return f"""# Small areas from large ones

How many people of an age group live in each small area, when the group is counted only for large areas? This is areal interpolation,
from totals of one set of areas to those of another. Trafford, mid-2024:
{len(data.large)} MSOAs (about {data.large_ages.sum() / len(data.large):,.0f} people) and the {len(data.small)} LSOAs inside
them (about {data.population.mean():,.0f}). Every method sees the group's count in each MSOA, the LSOAs' borders and how many people of any
age live in each; none sees the group's count in an LSOA, which is published and is the truth here.

```python
import crosslevel as cl

large = cl.Polygons("msoa.geojson", key="area_code", project="local")
small = cl.Polygons("lsoa.geojson", key="area_code", project=large)   # the same plane
found = cl.binned.interpolate(large, small, counts, population=population)
```

{body}

![65 and over: mean and standard deviation]({PICTURE})

## What this shows

The baseline to beat is the *nested rate*: each LSOA has its MSOA's rate. It keeps every total and is hard to beat, because a map
without covariates says little about what happens inside an MSOA. `interpolate` keeps the totals too, in every draw, and its
intervals are those of a forecast, where the nested rate taken at its word (binomial counts at one rate) is far too sure.
`BinnedGP` is a smooth surface of rates with Gaussian noise. Its bands are of that surface, not of a count, and it has no part that
differs freely from one LSOA to the next; when its noise is estimated, what is not smooth is called noise and totals are not kept.
With binomial noise it asks for lengthscales below a kilometer, in two of the groups shorter than its features hold, of which the fit
warns: rates differ from place to place by more than counting explains, and inside an MSOA the answer is then close to the nested rate.
*Uniform* and *area weighting* do without the LSOAs' populations.

Scales and lengthscale of `interpolate` are averaged by evidence with priors fixed beforehand: log scales ~ N(log 0.3, 0.7), lengthscale
a fifth of the extent (log-sd 0.5); log scores are those of normal distributions. {timing}

That a white part belongs in the model was known from earlier measurements of these areas, in which the nested rate did well; its
size and the rest were not adjusted to the scores above.

Output areas are not in the data, so the study ends at LSOAs. All areas are of one borough: differences of a few percent are
not a law.

Made by `python experiments/areas.py`. Data: Office for National Statistics, mid-2024 estimates and boundaries, Open Government
Licence v3, by way of Trafford Data Lab.
"""


if __name__ == "__main__":
    main()
