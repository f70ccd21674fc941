"""Bins, boxes and areas: the Gaussian model and the model of counts, and the functions beside them."""

from __future__ import annotations

import numpy as np
from tests.contract.case import Case, FunctionCase, With

from crosslevel.binned import (
    BinnedCountGP,
    BinnedGP,
    Boxes,
    Intervals,
    Polygons,
    interpolate,
    privacy,
)

AGES = Intervals.from_edges(np.arange(0.0, 100, 10))
PEOPLE = np.array([21.0, 34, 60, 52, 33, 25, 17, 9, 4])
NEW = Intervals([5, 41], [12, 70])
LOW = np.stack(np.meshgrid(np.arange(4.0), np.arange(3.0), indexing="ij"), axis=-1).reshape(-1, 2)
GRID, HEIGHTS = Boxes(LOW, LOW + 1), np.sin(LOW[:, 0]) + LOW[:, 1] / 2
SAME = "the first case of this class varies it"


def squares(n, width):
    return Polygons([[[i * width, 0], [(i + 1) * width, 0], [(i + 1) * width, 1], [i * width, 1]] for i in range(n)])


strips = Polygons([[[a, 0], [b, 0], [b, 1], [a, 1]] for a, b in ((0, 1), (1, 4), (4, 9), (9, 12))])


def gaussian(name, regions, y, new, quantity="total", variants=None, **given):
    """Make a case of the Gaussian model; without variants its parameters are those of another case."""

    def answer(model):
        found = {"draws": model.sample(new, n_draws=2), "values": model.convergence_.values}
        return {**found, "table": model.estimate(new), "found": list(model.hyperparameters_.values())}

    neutral = {} if variants else dict.fromkeys(BinnedGP().get_params(), SAME)
    return Case(
        name=name,
        make=lambda **p: BinnedGP(**{**given, **p}),
        fit=lambda model: model.fit(regions, y, quantity),
        answer=answer,
        variants=variants or {},
        neutral=neutral,
    )


def counts(name, regions, y, new, quantity=None, variants=None, fit=None, **given):
    """Make a case of the model of counts."""
    neutral = {} if variants else dict.fromkeys(BinnedCountGP().get_params(), SAME)
    return Case(
        name=name,
        make=lambda **p: BinnedCountGP(**{"kernel": "eq", **given, **p}),
        fit=lambda model: model.fit(regions, y, **(fit or {})),
        answer=lambda model: {"table": model.estimate(new, quantity), "draws": model.sample(new, 2, quantity)},
        variants=variants or {},
        neutral=neutral,
    )


CASES = [
    gaussian(
        "BinnedGP",
        AGES,
        PEOPLE,
        NEW,
        variants={
            "kernel": ["matern32", "eq + white"],
            "variance": [2.0],
            "lengthscale": [12.0],
            "noise": [2.0, -1.0],
            "mean": [1.0],
            "solver": ["features", "nonsense"],
            "prior": ["none", With("none", lengthscale=9.0)],
            "tolerance": [1e-2, With(1e-2, solver="features"), -1.0],
        },
    ),
    gaussian("BinnedGP, polygons by features", squares(6, 1), [3, 4, 6, 5, 2, 1], squares(2, 2), kernel="matern32"),
    gaussian("BinnedGP, boxes", GRID, HEIGHTS, Boxes([[0.5, 0]], [[2, 2]]), kernel="matern32"),
    counts(
        "BinnedCountGP",
        AGES,
        PEOPLE,
        NEW,
        fit={"cell": 5.0},
        variants={
            "likelihood": ["binomial", "nonsense"],
            "kernel": ["auto", "eq + matern32", "white"],
            "random_state": [3],
        },
    ),
    counts(
        "BinnedCountGP, shares", AGES, PEOPLE, NEW, fit={"cell": 5.0, "trials": np.full(9, 80.0)}, likelihood="binomial"
    ),
    counts(
        "BinnedCountGP, pooled areas",
        Intervals([0, 10, 20] * 2, [10, 20, 30] * 2),
        [9.0, 5, 3, 4, 9, 2],
        Intervals([5], [15]),
        fit={"cell": 2.0, "pool": {"ward": ["a"] * 3 + ["b"] * 3}},
    ),
    counts(
        "BinnedCountGP, an open end",
        Intervals([0, 10, 20], [10, 20, np.inf], open_ended=True),
        [9.0, 5, 3],
        Intervals([5], [25]),
        fit={"cell": 2.0, "tail": 5.0},
    ),
    counts(
        "BinnedCountGP, boxes with categories",
        Boxes([[0, 1], [10, 1], [0, 2], [10, 2]], [[10, 1], [30, 1], [10, 2], [30, 2]], point_axes=[1]),
        [10.0, 20, 15, 30],
        Boxes([[5, 1]], [[15, 1]], point_axes=[1]),
        fit={"cell": [5.0, None]},
    ),
]

FUNCTIONS = [
    FunctionCase(
        interpolate,
        {"source": squares(4, 3), "target": squares(6, 2), "values": [40, 10, 5, 30]},
        lambda found: found,
        variants={
            "std_error": [[9.0, 2.0, 2.0, 4.0], [1.0, -2.0, 1.0, 1.0]],
            "kind": [
                "mean",
                With("rate", kind="mean", values=[0.1, 0.2, 0.3, 0.1], population=[9, 9, 5, 9]),
                "nonsense",
            ],
            "population": [
                [100, 90, 50, 50, 80, 90],
                With([9, 9, 5, 9], kind="mean"),
                With("similar", target=strips),
                "nonsense",
            ],
            "level": [0.5, 95],
        },
        neutral={"progress": "tells how many fits are done"},
        data=["source", "target", "values"],
    ),
    FunctionCase(
        privacy.privacy_warnings,
        {"regions": Intervals([0, 0], [64, 65]), "y": np.array([5000.0, 5002.0])},
        lambda found: len(found),
        variants={"noise": [100.0]},
        data=["regions", "y"],
    ),
]
