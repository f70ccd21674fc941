"""How do time and memory of every method grow with its data?

    python benchmarks/scaling.py                              # small sizes: about two minutes of one core
    python benchmarks/scaling.py --full --figure scaling.png  # two sizes more: about six minutes, with a figure
    python benchmarks/scaling.py --only krls --full --kept found.json --figure scaling.png   # room by room

Simulated data; every fit learns its scales, the large path of each method is what is run. Seconds are of the processor, all threads
together, the better of two runs while they last less than a second; the first run of each method is left out (compilation). Memory is
the largest resident set during the fit less the one before it, which /proc of Linux tells. Exponents are slopes of the logarithms over all
sizes printed: below one where a fixed cost (columns learned, scales searched) is still most of it. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402 - the number of threads is read at import
import pandas as pd  # noqa: E402

import crosslevel as cl  # noqa: E402
from crosslevel.binned import Boxes, Intervals  # noqa: E402

Fit = Callable[[], Any]


@dataclass(frozen=True)
class Series:
    """One method and what its data grow in: ``make(n)`` makes data of size n and gives the fit to be timed."""

    room: str
    what: str
    unit: str
    sizes: tuple[int, ...]
    make: Callable[[int], Fit]


def people_of(n: int, n_places: int, columns: int, levels: int, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Make people of some categories and the totals of their places."""
    rng = np.random.default_rng(seed)
    place = np.arange(n) % n_places
    lean = rng.dirichlet(np.full(levels, 3.0), n_places)
    people: dict[str, Any] = {"place": place}
    score = rng.normal(0.0, 0.3, n_places)[place]
    for k in range(columns):
        code = np.minimum((rng.random(n)[:, None] > np.cumsum(lean, axis=1)[place]).sum(axis=1), levels - 1)
        people[f"c{k}"] = np.array([f"l{i}" for i in range(levels)])[code]
        score += (code - levels / 2) * 0.3 / (k + 1)
    yes = rng.random(n) < 1 / (1 + np.exp(-score))
    totals = {"votes": np.bincount(place), "yes": np.bincount(place, yes).astype(int)}
    where = rng.uniform(0, 1000, (2, n_places))
    return pd.DataFrame(people), pd.DataFrame({"place": range(n_places), **totals, "x": where[0], "y": where[1]})


COUNTED = {"by": "place", "successes": "yes", "trials": "votes", "coords": ("x", "y")}


def embedding(n: int) -> Fit:
    rng = np.random.default_rng(0)
    people = pd.DataFrame(rng.normal(size=(n, 8)), columns=list("abcdefgh")).assign(region=np.arange(n) % 50)
    return lambda: cl.MeanEmbedding(1024).fit_transform(cl.People(people, by="region"))


def ecological_people(n: int) -> Fit:
    people, places = people_of(n, 100, 3, 4)
    return lambda: cl.EcologicalInference().fit(cl.People(people, by="place"), cl.Places(places, **COUNTED))


def ecological_cells(n: int) -> Fit:
    """Six columns of two to five levels: about n kinds of people, whose sums every step of the effects goes over."""
    levels = max(2, round(n ** (1 / 6)))
    people, places = people_of(300_000, 50, 6, levels)
    return lambda: cl.EcologicalInference().fit(cl.People(people, by="place"), cl.Places(places, **COUNTED))


def ecological_places(n: int) -> Fit:
    from places import EFFECTS, make

    table = make(n)
    model = cl.EcologicalInference(inducing_points=100)
    return lambda: model.fit(cl.GroupCounts({"kind": list(EFFECTS)}), cl.Places(table, **COUNTED))


def regression_places(n: int) -> Fit:
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(n, 2))
    people = pd.DataFrame({"place": np.repeat(np.arange(n), 8)})
    for k, name in enumerate("ab"):
        people[name] = np.repeat(mean[:, k], 8) + rng.normal(size=8 * n)
    where, votes = rng.uniform(0, 1000, (2, 300))[:, rng.integers(0, 300, n)], np.full(n, 500)
    rate = 1 / (1 + np.exp(-0.5 * mean[:, 0] - np.sin(where[0] / 150) * 0.3 - 0.2 * rng.normal(size=n)))
    places = pd.DataFrame(
        {"place": range(n), "votes": votes, "yes": rng.binomial(votes, rate), "x": where[0], "y": where[1]}
    )
    model = cl.ecological.DistributionRegression(256, rank=50, n_restarts=1, sampling_error=False)
    return lambda: model.fit(cl.People(people, by="place"), cl.Places(places, **COUNTED))


def tables(n: int, districts: int, seed: int = 0) -> cl.Counts:
    """Make counts of three groups and three outcomes by unit."""
    rng = np.random.default_rng(seed)
    rates = rng.dirichlet([6, 3, 2], (districts, 3))
    district = np.arange(n) % districts
    groups = np.maximum(rng.multinomial(2000, [0.5, 0.3, 0.2], n) * rng.uniform(0.3, 3, (n, 3)), 5).astype(int)
    outcomes = np.zeros((n, 3), dtype=int)
    for g in range(3):
        own = [rng.dirichlet(40 * rate[g]) for rate in rates[district]]
        outcomes += np.array([rng.multinomial(count, rate) for count, rate in zip(groups[:, g], own, strict=True)])
    names = (("a", "b", "c"), ("u", "v", "w"))
    both = [dict(zip(which, counts.T, strict=True)) for which, counts in zip(names, (groups, outcomes), strict=True)]
    return cl.Counts({**both[0], **both[1], "district": district}, groups=list("abc"), outcomes=list("uvw"))


def rxc_units(n: int) -> Fit:
    counts = tables(n, 1)
    return lambda: cl.ecological.rxc(counts, kind="votes")


def rxc_districts(n: int) -> Fit:
    counts = tables(60 * n, n)
    return lambda: cl.ecological.rxc(counts, kind="votes", pool="district")


def krls_collapse(n: int) -> Fit:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, (n, 3)).astype(float)
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + rng.normal(size=n)
    return lambda: cl.KRLS().fit(X, y).effects()


def krls_nystrom(n: int) -> Fit:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + rng.normal(size=n)
    return lambda: cl.KRLS(method="nystrom", rank=200).fit(X, y).effects()


def shrinkage(n: int) -> Fit:
    rng = np.random.default_rng(0)
    y = rng.normal(size=n)
    bags = cl.Bags.from_list([rng.normal(v, 1.0, (rng.integers(5, 60), 3)) for v in y])
    return lambda: cl.MeanShrinkage().fit(bags, y)


def bins(n: int) -> tuple[Intervals, np.ndarray]:
    edges = np.linspace(0.0, 100.0, n + 1)
    return Intervals.from_edges(edges), 2.0 * np.diff(edges) - 5.0 * np.diff(np.cos(edges / 5.0))


def binned_bins(n: int) -> Fit:
    regions, total = bins(n)
    y = total + np.random.default_rng(0).normal(0.0, 0.1, n)
    return lambda: cl.BinnedGP("eq").fit(regions, y, quantity="total")


def binned_areas(n: int) -> Fit:
    rng = np.random.default_rng(0)
    side = round(n**0.5)
    low = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2) * 10.0 / side
    y = np.sin(low[:, 0]) * np.cos(low[:, 1]) + rng.normal(0, 0.1, len(low))
    return lambda: cl.BinnedGP("eq").fit(Boxes(low, low + 10.0 / side), y, quantity="mean")


def counts_bins(n: int) -> Fit:
    edges = np.linspace(0.0, 100.0, n + 1)
    rate = 20_000.0 / n * (1.2 + np.sin(edges[:-1] / 9.0))
    y = np.random.default_rng(0).poisson(rate)
    return lambda: cl.BinnedCountGP().fit(Intervals.from_edges(edges), y)


def counts_areas(n: int) -> Fit:
    rng = np.random.default_rng(0)
    edges = np.linspace(0.0, 90.0, 10)
    level = rng.lognormal(5.0, 0.3, (n, 1)) * (1.2 + np.sin(edges[:-1] / 20.0 + rng.normal(0, 0.2, (n, 1))))
    regions = Intervals(np.tile(edges[:-1], n), np.tile(edges[1:], n))
    area = np.repeat([f"a{i:04d}" for i in range(n)], 9)
    return lambda: cl.BinnedCountGP().fit(regions, rng.poisson(level).ravel(), pool={"area": area})


def people_and_means(n: int, groups: int) -> tuple[cl.People, cl.Places]:
    rng = np.random.default_rng(0)
    group = np.arange(n) % groups
    tilt = rng.uniform(-0.8, 0.8, groups)[group]
    X = {
        name: rng.binomial(3, 1 / (1 + np.exp(-tilt - shift))) for name, shift in (("a", 0.0), ("b", 0.5), ("c", -0.5))
    }
    ill = rng.random(n) < 1 / (1 + np.exp(2.0 - 0.6 * X["a"] - 0.3 * X["b"]))
    means = {"group": np.arange(groups), "ill": np.bincount(group, ill) / np.bincount(group)}
    return cl.People({**X, "group": group}, by="group"), cl.Places(means, by="group", means=["ill"])


def imputer(n: int, groups: int, estimator: Callable[[], Any]) -> Fit:
    people, places = people_and_means(n, groups)
    return lambda: estimator().fit(people, places).transform(people)


def cudia() -> Any:
    return cl.CUDIA(3, method="map", n_restarts=2, families="categorical", allow_unconverged=True)


MILLION = (100_000, 200_000, 400_000, 800_000, 1_600_000)
SERIES = [
    Series("embedding", "MeanEmbedding, 1,024 features", "people", MILLION, embedding),
    Series("ecological", "EcologicalInference, 100 places", "people", MILLION, ecological_people),
    Series("ecological", "EcologicalInference, 50 places", "cells", (64, 729, 4096, 15_625, 46_656), ecological_cells),
    Series("ecological", "EcologicalInference, 100 points", "places", (2000, 4000, 8000, 16_000), ecological_places),
    Series(
        "ecological", "DistributionRegression, 300 points", "places", (4000, 8000, 16_000, 32_000), regression_places
    ),
    Series("tables", "rxc", "units", (500, 1000, 2000, 4000, 8000), rxc_units),
    Series("tables", "rxc, pooled, 60 units each", "districts", (4, 8, 16, 32, 64), rxc_districts),
    Series("krls", "KRLS, rows collapsed", "rows", MILLION, krls_collapse),
    Series("krls", "KRLS, Nystrom of rank 200", "rows", (10_000, 20_000, 40_000, 80_000, 160_000), krls_nystrom),
    Series("distribution", "MeanShrinkage", "bags", (100, 200, 400, 800, 1600), shrinkage),
    Series("binned", "BinnedGP, intervals", "bins", (4000, 8000, 16_000, 32_000, 64_000), binned_bins),
    Series("binned", "BinnedGP, boxes", "areas", (400, 1600, 6400, 25_600), binned_areas),
    Series("binned", "BinnedCountGP", "bins", (50, 100, 200, 400), counts_bins),
    Series("binned", "BinnedCountGP, pooled, 9 bins each", "areas", (20, 40, 80, 160, 320), counts_areas),
    Series(
        "imputation", "CrossLevelImputer, 50 groups", "people", MILLION, lambda n: imputer(n, 50, cl.CrossLevelImputer)
    ),
    Series(
        "imputation",
        "CrossLevelImputer, 400,000 people",
        "groups",
        (50, 100, 200, 400, 800),
        lambda n: imputer(400_000, n, cl.CrossLevelImputer),
    ),
    Series("imputation", "CUDIA (map), 50 groups", "people", MILLION[:4], lambda n: imputer(n, 50, cudia)),
    Series(
        "imputation", "CUDIA (map), 100,000 people", "groups", (25, 50, 100, 200), lambda n: imputer(100_000, n, cudia)
    ),
]
QUICK = 3
"""Sizes of each series, without --full."""
SMALL = 10
"""MiB that the allocator's own habits hide."""


def resident(name: str) -> float:
    """Give VmHWM or VmRSS in MiB; nothing is known of it outside Linux."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return np.nan
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def measure(fit: Fit) -> tuple[float, float]:
    """Give seconds of the processor and MiB at most above what was there."""
    best, most = np.inf, np.nan
    for _ in range(2):
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        before, begun = resident("VmRSS"), time.process_time()
        found = fit()
        best = min(best, time.process_time() - begun)
        most = np.fmax(most, resident("VmHWM") - before)
        del found
        if best > 1.0:
            break
    return best, float(most)


def exponent(sizes: np.ndarray, values: np.ndarray, least: float = 0.0) -> float:
    """Give the slope of the logarithms, of what is above the least that can be told."""
    good = np.isfinite(values) & (values > least)
    return float(np.polyfit(np.log(sizes[good]), np.log(values[good]), 1)[0]) if good.sum() > 2 else np.nan


def run(series: list[Series], n_sizes: int | None) -> Iterator[tuple[Series, np.ndarray]]:
    """Measure every series: size, seconds and MiB, (n_sizes, 3)."""
    print(
        "| room | method | grows in | sizes | seconds | exponent | peak MiB | exponent |\n|---|---|---|---|---|---|---|---|"
    )
    for one in series:
        one.make(one.sizes[0])()  # compile
        rows = [(n, *measure(one.make(n))) for n in one.sizes[:n_sizes]]
        found = np.array(rows)
        said = (
            ", ".join(f"{n:,}" for n in one.sizes[:n_sizes]),
            ", ".join(f"{s:.2g}" if s < 10 else f"{s:.0f}" for s in found[:, 1]),
            f"{exponent(found[:, 0], found[:, 1]):.2f}",
            ", ".join(f"{m:.0f}" if m >= SMALL else f"< {SMALL}" for m in found[:, 2]),
            f"{exponent(found[:, 0], found[:, 2], SMALL):.2f}".replace("nan", ""),
        )
        print(f"| {one.room} | {one.what} | {one.unit} | {' | '.join(said)} |", flush=True)
        yield one, found


def draw(found: list[tuple[Series, np.ndarray]], path: Path) -> None:
    """Draw seconds and memory against size, a column of panels for each room."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rooms = list(dict.fromkeys(one.room for one, _ in found))
    figure, axes = plt.subplots(2, len(rooms), figsize=(2.3 * len(rooms), 5.8), sharey="row", squeeze=False)
    for column, room in enumerate(rooms):
        for one, values in (pair for pair in found if pair[0].room == room):
            powers = [exponent(values[:, 0], values[:, k], least) for k, least in ((1, 0.0), (2, SMALL))]
            said = " / ".join(f"{power:.2f}" if np.isfinite(power) else "-" for power in powers)
            for row, least in ((0, 0.0), (1, SMALL)):
                shown = values[:, row + 1] > least
                line = axes[row, column].loglog(values[shown, 0], values[shown, row + 1], marker="o", ms=3, lw=1.2)
                line[0].set_label(f"{one.what.replace(', ', chr(10))},\n{one.unit}: {said}")
        axes[0, column].set_title(room, fontsize=10)
        axes[0, column].tick_params(labelsize=7)
        axes[1, column].tick_params(labelsize=7)
        axes[0, column].legend(fontsize=6, frameon=False, loc="uppercenter", bbox_to_anchor=(0.5, -1.42))
    axes[0, 0].set_ylabel("seconds of the processor", fontsize=8)
    axes[1, 0].set_ylabel("MiB above the start", fontsize=8)
    figure.supxlabel("size; in the legends the exponents of seconds / memory", fontsize=8)
    figure.subplots_adjust(left=0.05, right=0.99, top=0.94, bottom=0.36, wspace=0.1, hspace=0.2)
    figure.savefig(path, dpi=80)


def main() -> None:
    """Measure what is asked for, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", nargs="+", help="rooms")
    parser.add_argument("--figure", type=Path)
    parser.add_argument(
        "--kept", type=Path, help="JSON of measurements: these are added to it, and the figure shows all of them"
    )
    given = parser.parse_args()
    chosen = [one for one in SERIES if not given.only or one.room in given.only]
    if not chosen:
        sys.exit(f"--only {given.only} names none of {sorted({one.room for one in SERIES})}")
    warnings.simplefilter("ignore")
    begun = time.process_time()
    found = list(run(chosen, None if given.full else QUICK))
    print(f"\n{time.process_time() - begun:.0f} s of the processor")
    if given.kept is not None:
        known = json.loads(given.kept.read_text()) if given.kept.exists() else {}
        known |= {f"{one.what}|{one.unit}": values.tolist() for one, values in found}
        given.kept.write_text(json.dumps(known))
        names = {f"{one.what}|{one.unit}": one for one in SERIES}
        found = [(one, np.array(known[name])) for name, one in names.items() if name in known]
    if given.figure is not None:
        draw(found, given.figure)


if __name__ == "__main__":
    main()
