"""Counts of small areas from those of large ones: MSOAs to LSOAs of Trafford, mid-2024. Prints, and writes the guide page.

28 MSOAs (middle layer super output areas, about 8,600 people) hold 139 LSOAs (lower layer, about 1,700). The number of people
of an age group is known for each MSOA, everybody's number for each LSOA; who is where inside an MSOA is asked. The truth is
published, so every answer can be scored: uniform and area weighting, the rate of the borough, the nested rate (each LSOA has its
MSOA's), the population-weighted Gaussian process of `BinnedGP`, and `crosslevel.binned.areas.share_out`, whose priors were
fixed before it was first scored.

    CROSSLEVEL_DATA=... python experiments/areas.py          # three minutes
    CROSSLEVEL_DATA=... python experiments/areas.py --quick  # one group, fewer scales, no BinnedGP; writes no page
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.csv
from scipy.special import ndtr

from crosslevel.binned import BinnedGP
from crosslevel.binned.areas import AreaCorrelations, SharedOut, area_correlations, nested_rate, share_out
from crosslevel.binned.baselines import area_weighting
from crosslevel.binned.regions.base import SineBasis
from crosslevel.binned.regions.polygons import Polygons
from crosslevel.binned.regions.sums import WeightedSum, holders, populated
from crosslevel.data.atomic import whole_file
from crosslevel.errors import CrosslevelWarning
from crosslevel.results.scores import coverage, mae, rmse

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "areas.md"
PICTURE = "areas-65.png"
GROUPS = {"65 and over": (65, 90), "20 to 29": (20, 29), "0 to 15": (0, 15)}
LEVEL = (0.025, 0.975)
DRAWS = 20_000
"""One LSOA lies so far in the tail that with 2,000 draws its log score moves by tens of nats from seed to seed."""
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
    parser.add_argument("--quick", action="store_true", help="one group, fewer scales, no BinnedGP; writes no page")
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write (default docs/guide/areas.md)")
    args = parser.parse_args()
    folder = os.environ.get("CROSSLEVEL_DATA")
    if not folder:
        sys.exit("set CROSSLEVEL_DATA to the folder of real data")
    warnings.simplefilter("ignore", CrosslevelWarning)
    start = time.perf_counter()
    data = read_borough(Path(folder) / "ages")
    smooth = area_correlations(
        data.small, ["eq"] if args.quick else ("matern12", "matern32", "eq"), 3 if args.quick else 5
    )
    sections, first = [], None
    for group in list(GROUPS)[: 1 if args.quick else None]:
        answers, shared = solve(data, group, smooth, full=not args.quick)
        first = shared if first is None else first
        sections.append(say(table(data, group, answers, shared)))
    timing = say(speed(data))
    print(f"\n{time.perf_counter() - start:.0f} s")
    if not args.quick and first is not None:
        draw(data, first, args.out.parent / PICTURE)
        with whole_file(args.out) as beside:
            beside.write_text(page(data, sections, timing, smooth), encoding="utf-8")


def say(text: str) -> str:
    print(text, flush=True)
    return text


def read_borough(folder: Path) -> Borough:
    """Read polygons and people, and check that the parts add up to the wholes."""
    large = Polygons(folder / "trafford_msoa21.geojson", key="area_code", project="local")
    small = Polygons(folder / "trafford_lsoa21.geojson", key="area_code", project=large)
    large_ages, _ = read_ages(folder / "trafford_msoa_mid2024_age1.csv", large)
    small_ages, parents = read_ages(folder / "trafford_lsoa_mid2024_age1.csv", small)
    parent = large.find(parents)
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


def solve(data: Borough, group: str, smooth: AreaCorrelations, full: bool) -> tuple[list[Answer], SharedOut]:
    """Answer for one age group by every method; none sees the LSOAs' counts."""
    a, b = GROUPS[group]
    y = data.large_ages[:, a : b + 1].sum(axis=1)
    few = {} if full else {"nodes": 3}
    draws = DRAWS if full else 2000
    shared = share_out(data.small, y, data.population, data.parent, correlations=smooth, n_draws=draws, **few)
    truth = data.small_ages[:, a : b + 1].sum(axis=1)
    low, high = shared.quantiles(LEVEL)
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
    answers.append(Answer("**share_out**", shared.mean, shared.log_score(truth), low, high))
    return answers, shared


def as_nested(y: FloatArray, data: Borough, truth: FloatArray) -> Answer:
    """Give the nested rate with the intervals it has if taken at its word: binomial counts at one rate, given their sum."""
    mean = nested_rate(y, data.population, data.parent)
    word = SharedOut(mean[None, :], data.population, data.parent, np.ones(1), (), 0.0)
    low, high = SharedOut(np.tile(mean, (500, 1)), data.population, data.parent, np.ones(1), (), 0.0).quantiles(LEVEL)
    return Answer("nested rate", mean, word.log_score(truth), low, high)


def gaussian(data: Borough, y: FloatArray, truth: FloatArray, known: bool) -> Answer:
    """Predict with a Gaussian process of the rate, MSOAs being population-weighted sums of their LSOAs.

    The noise is estimated, or known: that of binomial counts.
    """
    wholes = populated(data.large, data.small, data.population)
    parts = WeightedSum.of_population(data.small, data.population, np.arange(len(data.small)))
    people = wholes.volumes
    if known:
        gp = BinnedGP(kernel="matern32", tolerance=1e-3, noise=0.0)
        gp.fit(wholes, y, quantity="total", std_error=np.sqrt(y * (1.0 - y / people)))
    else:
        gp = BinnedGP(kernel="matern32", tolerance=1e-3).fit(wholes, y, quantity="total", sizes=people)
    mean, sd = gp.predict(parts, quantity="total", return_std=True)
    half = 0.5 / sd
    z = -np.abs(truth - mean) / sd
    score = np.log(np.maximum(ndtr(z + half) - ndtr(z - half), 1e-300))
    name = f"BinnedGP, Matérn-3/2, noise {'binomial' if known else 'estimated'}"
    return Answer(name, mean, score, mean - 1.959964 * sd, mean + 1.959964 * sd)


def table(data: Borough, group: str, answers: Sequence[Answer], shared: SharedOut) -> str:
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
    best = int(shared.weights.argmax())
    kernel, s, length, t = shared.candidates[best]
    by_kernel = {
        k: sum(w for w, c in zip(shared.weights, shared.candidates, strict=True) if c[0] == k)
        for k in dict.fromkeys(c[0] for c in shared.candidates)
    }
    mass = np.abs(np.bincount(data.parent, shared.mean) - np.bincount(data.parent, truth)).max()
    weights = ", ".join(f"{k} {w:.2f}" for k, w in by_kernel.items())
    return "\n".join(
        [
            f"## {group}",
            "",
            f"{truth.sum():,.0f} people, {truth.mean():.0f} an LSOA.",
            "",
            lay(HEADING, rows),
            "",
            f"Posterior weights of the kernels: {weights}; heaviest candidate {kernel}, s {s:.2f}, lengthscale {length:.1f} km, white part "
            f"{t:.2f}. Largest error of an MSOA's total {mass:.0e}.",
        ]
    )


def speed(data: Borough) -> str:
    """Time the edge sums: all polygons, 600 features."""
    both = Polygons.join(data.large, data.small)
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


def draw(data: Borough, shared: SharedOut, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from crosslevel.charts import choropleth

    names = list(data.small.names or ())
    rate = 100.0 * shared.draws / shared.population
    figure, axes = plt.subplots(1, 2, figsize=(11.0, 4.6), layout="constrained")
    options: dict[str, Any] = {"key": "area_code", "label": "65 and over, % of people", "plane": True}
    for ax, title, values, look in (
        (axes[0], "mean", rate.mean(axis=0), {"cmap": "viridis"}),
        (axes[1], "standard deviation", rate.std(axis=0), {"cmap": "magma_r", "vmin": 0.0}),
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


def page(data: Borough, sections: Sequence[str], timing: str, smooth: AreaCorrelations) -> str:
    body = "\n\n".join(sections)
    return f"""# Small areas from large ones

How many people of an age group live in each small area, when the group is counted only for large areas? This is areal interpolation,
from totals of one set of areas to those of another. Trafford, mid-2024:
{len(data.large)} MSOAs (about {data.large_ages.sum() / len(data.large):,.0f} people) and the {len(data.small)} LSOAs inside
them (about {data.population.mean():,.0f}). Every method sees the group's count in each MSOA, the LSOAs' borders and how many people of any
age live in each; none sees the group's count in an LSOA, which is published and is the truth here.

```python
from crosslevel.binned.areas import share_out
from crosslevel.binned.regions.polygons import Polygons
from crosslevel.binned.regions.sums import holders

large = Polygons("msoa.geojson", key="area_code", project="local")
small = Polygons("lsoa.geojson", key="area_code", project=large)   # the same plane
shared = share_out(small, counts, population, parent=holders(small, large))
shared.mean, shared.quantiles([0.025, 0.975])
```

{body}

![65 and over: mean and standard deviation]({PICTURE})

## What this shows

The baseline to beat is the *nested rate*: each LSOA has its MSOA's rate. It keeps every total and is hard to beat, because a map
without covariates says little about what happens inside an MSOA. `share_out` keeps the totals too, in every draw, and its
log score and intervals are those of a forecast, where the nested rate taken at its word (binomial counts at one rate) is far too sure.
`BinnedGP` is a smooth surface of rates with Gaussian noise. Its bands are of that surface, not of a count, and it has no part that
differs freely from one LSOA to the next; when its noise is estimated, what is not smooth is called noise and totals are not kept.
With binomial noise it asks for lengthscales below a kilometer, in two of the groups shorter than its features hold, of which the fit
warns: rates differ from place to place by more than counting explains, and inside an MSOA the answer is then close to the nested rate.
*Uniform* and *area weighting* do without the LSOAs' populations.

Kernel, scale, lengthscale and white part of `share_out` are averaged by evidence with priors fixed beforehand: log s and log t
~ N(log 0.3, 0.7), lengthscale about a fifth of the extent (log-sd 0.5). Covariances of areas come from exact integrals of features over
the polygons (Matérn-1/2: points), their relative error at most {smooth.error:.1g}. {timing}

That a white part belongs in the model was known from earlier measurements of these areas, in which the nested rate did well; its
size and the rest were not adjusted to the scores above.

Output areas are not in the data, so the study ends at LSOAs. All areas are of one borough: differences of a few percent are
not a law.

Made by `python experiments/areas.py`. Data: Office for National Statistics, mid-2024 estimates and boundaries, Open Government
Licence v3, by way of Trafford Data Lab.
"""


if __name__ == "__main__":
    main()
