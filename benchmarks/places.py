"""How time and memory of EcologicalInference grow with the number of places, and what the points of a field cost in accuracy.

    python benchmarks/places.py                                  # about five minutes of one core
    python benchmarks/places.py --sizes 4000 8000 --points 100   # a try
    python benchmarks/places.py --accuracy                       # 2,000 places: fields on points against the exact one

Two worlds of counts by group and place, in a plane of 4,500 by 2,500 km: every place at a point of its own, or places at 500 points. The
field is made of 2,000 random waves of a Matern kernel (length 200 km, variance .1), with a nugget of .05; scales are learned.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings

import numpy as np
import pandas as pd

import crosslevel as cl

SPAN, LENGTH, FIELD, NUGGET = np.array([4500.0, 2500.0]), 200.0, 0.1, 0.05
EFFECTS = {"a": -0.8, "b": 1.5, "c": 0.3}


def make(n: int, n_points: int | None = None, seed: int = 0) -> pd.DataFrame:
    """Make n places, at points of their own or at a few."""
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, 1, (n_points or n, 2)) * SPAN
    waves = rng.normal(size=(2000, 2)) / np.sqrt(rng.chisquare(3, (2000, 1)) / 3) / LENGTH  # spectrum of Matern 3/2
    field = np.zeros(len(xy))
    for some in np.array_split(np.arange(2000), 20):
        field += np.cos(xy @ waves[some].T + rng.uniform(0, 2 * np.pi, len(some))).sum(axis=1)
    field *= np.sqrt(2 * FIELD / 2000)
    home = np.arange(n) if n_points is None else rng.integers(0, n_points, n)
    people = rng.integers(300, 3000, n)
    shares = rng.dirichlet([2.0, 1.0, 0.5], n)
    local = field[home] + np.sqrt(NUGGET) * rng.normal(size=n)
    rate = sum(shares[:, k] / (1 + np.exp(-(effect + local))) for k, effect in enumerate(EFFECTS.values()))
    counts = {name: people * shares[:, k] for k, name in enumerate(EFFECTS)}
    votes = people // 2
    where = {"x": xy[home, 0], "y": xy[home, 1]}
    return pd.DataFrame({"place": np.arange(n), **counts, "votes": votes, "yes": rng.binomial(votes, rate), **where})


def fit(places: pd.DataFrame, points: int | None) -> tuple[cl.EcologicalInference, float]:
    """Fit, with seconds of the processor."""
    model = cl.EcologicalInference(inducing_points=points)
    processor = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        totals = cl.Places(places, by="place", successes="yes", trials="votes", coords=("x", "y"))
        model.fit(cl.GroupCounts({"kind": list(EFFECTS)}), totals)
    return model, time.process_time() - processor


def growth(sizes: list[int], points: int) -> None:
    """Print time and memory by size, with the exponent of a fitted power."""
    fit(make(500), 50)  # compile
    for title, n_points in (("every place at a point of its own", None), ("places at 500 points", 500)):
        print(f"\n{title}\n{'places':>9} {'cells':>7} {'seconds':>8} {'rounds':>7} {'peak MiB':>9}")
        spent = []
        for n in sizes:
            model, processor = fit(make(n, n_points), points if n_points is None else None)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            spent.append(processor)
            said = model.convergence_
            print(
                f"{n:>9,} {said['cells_of_places']:>7,} {processor:>8.1f} {said['rounds']:>7} {peak:>9,.0f}", flush=True
            )
        if len(sizes) > 1:
            print(f"exponent {np.polyfit(np.log(sizes), np.log(spent), 1)[0]:.2f}")


def accuracy(n: int, points: list[int]) -> None:
    """Compare posteriors of places with those of the exact field."""
    places = make(n)
    model, seconds = fit(places, None)
    exact, scales = model.predict_places(), model.hyperparameters_[0]
    print(
        f"{n:,} places, exact: {seconds:.1f} s; length {scales.length:.0f} km, field {scales.spatial:.3f}, nugget {scales.nugget:.3f}"
    )
    print(f"{'points':>7} {'seconds':>8} {'means, points':>14} {'std errors':>11} {'said':>14}")
    for m in points:
        model, seconds = fit(places, m)
        at, off = model.predict_places(), model.model_.fits[0].approximation
        mean = 100 * np.sqrt(np.mean((at["estimate"] - exact["estimate"]) ** 2))
        error = np.sqrt(np.mean((at["std_error"] / exact["std_error"] - 1) ** 2))
        print(f"{m:>7} {seconds:>8.1f} {mean:>14.3f} {error:>11.2%} {off.mean:>7.3f} {off.std_error:.2%}", flush=True)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4000, 8000, 16000, 32000, 64000, 128000])
    parser.add_argument("--points", type=int, nargs="+", default=[200])
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--places", type=int, default=2000, help="for --accuracy")
    given = parser.parse_args()
    if given.accuracy:
        accuracy(given.places, given.points)
    else:
        growth(given.sizes, given.points[0])


if __name__ == "__main__":
    main()
