"""What observations are of: intervals, boxes, polygons and bodies, and the kernels by their names."""

from __future__ import annotations

import numpy as np
from tests.contract.case import FunctionCase, With

from crosslevel.binned import Boxes, Intervals, Points, Polygons, Simplices, WeightedSum, stack
from crosslevel.binned.regions.base import SineBasis
from crosslevel.data.planes import Plane

SQUARES = [[[0, 0], [1, 0], [1, 1], [0, 1]], [[1, 0], [3, 0], [3, 1], [1, 1]]]
CROSSED = [[[0, 0], [2, 0], [0, 1], [2, 1.5]]]
BODIES = [[[[0, 0], [1, 0], [0, 1]]], [[[5, 5], [6, 5], [5, 6]], [[6, 6], [6, 5], [5, 6]]]]
AGES = Intervals([0, 10], [10, 30])
PARTS = Intervals([0, 10, 20], [10, 20, 40])
LAND = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "properties": {"name": name, "code": name.upper()},
            "geometry": {"type": "Polygon", "coordinates": [[*ring, ring[0]]]},
        }
        for name, ring in zip("ab", SQUARES, strict=True)
    ],
}
TAKEN = {"shapes": Polygons(SQUARES).shapes, "plane": Plane()}


def described(regions):
    """What is integrated over, where it lies and what it is called."""
    low, high = regions.bounds()
    basis = SineBasis(
        np.zeros(regions.dimension), np.full(regions.dimension, 50.0), np.ones((1, regions.dimension), int)
    )
    names = [f"{name}={list(values)}" for name, values in regions.labels().items()]
    return {
        "volumes": regions.volumes,
        "low": low,
        "high": high,
        "labels": np.array(names),
        "waves": regions.sine_integrals(basis),
        "plane": np.array(str(getattr(regions, "plane", ""))),
        "open": np.array(getattr(regions, "open_ended", False)),
        "points": np.array(getattr(regions, "point_axes", ()), dtype=float),
    }


CASES = []
FUNCTIONS = [
    FunctionCase(
        Intervals,
        {"lower": [0, 10], "upper": [10, np.inf], "open_ended": True},
        lambda found: np.array(repr(found) + str(found.bounds()) + str(found.labels())),
        variants={"lower": [[1, 10], [11, 12]], "upper": [[9, np.inf], [10]], "open_ended": [False]},
    ),
    FunctionCase(Intervals.from_edges, {"edges": [0, 1, 3]}, described, variants={"edges": [[0, 2, 3], [0, 0]]}),
    FunctionCase(Intervals.single_years, {"first": 3, "last": 6}, described, variants={"first": [2], "last": [7]}),
    FunctionCase(Intervals.ages, {"groups": ["3-5", "6-9"]}, described, variants={"groups": [["3-6", "7-9"], ["old"]]}),
    FunctionCase(
        Boxes,
        {"lower": [[0, 1], [1, 1]], "upper": [[1, 1], [2, 1]], "point_axes": [1]},
        described,
        variants={
            "lower": [[[0.5, 1], [1, 1]], [[2, 1], [1, 1]]],
            "upper": [[[0.5, 1], [2, 1]], [[1, 1]]],
            "point_axes": [[], [2], [0]],
        },
    ),
    FunctionCase(Points, {"x": [1.0, 2.0]}, described, variants={"x": [[1.0, 3.0]]}),
    FunctionCase(
        Polygons,
        {"shapes": SQUARES},
        described,
        variants={
            "shapes": [SQUARES[:1]],
            "key": [With("code", shapes=LAND, key="name"), With("nobody", shapes=LAND, key="name")],
            "names": [["p", "q"], ["p"]],
            "crs": ["EPSG:4326", "nonsense", With("EPSG:4326", **TAKEN)],
            "project": [True, "nonsense", With(True, **TAKEN)],
            "repair": [With(False, shapes=CROSSED, repair=True), With(True, **TAKEN)],
            "plane": [With(Plane(kind="km", origin=(0.0, 0.0)), **TAKEN)],
        },
    ),
    FunctionCase(
        Simplices,
        {"bodies": BODIES},
        described,
        variants={"bodies": [BODIES[:1], [[[[0, 0], [1, 1], [2, 2]]]]]},
    ),
    FunctionCase(
        WeightedSum,
        {"parts": PARTS, "weights": [1.0, 2.0, 3.0]},
        described,
        variants={
            "parts": [Intervals([0, 10, 20], [10, 20, 50]), "nonsense"],
            "weights": [[1.0, 2.0, 4.0], [1.0]],
            "owner": [[0, 0, 1], [0]],
        },
    ),
    FunctionCase(
        WeightedSum.of_population,
        {"parts": PARTS, "population": [10.0, 20.0, 30.0]},
        described,
        variants={"population": [[10.0, 20.0, 40.0], [1.0]], "owner": [[0, 0, 1], [0]]},
        data=["parts"],
    ),
]


def joined(regions):
    return stack(*regions)


joined.__qualname__ = stack.__qualname__
FUNCTIONS += [
    FunctionCase(
        joined,
        {"regions": [AGES, [2.0, 7.0]]},
        lambda found: {"volumes": found.volumes, "n": len(found)},
        variants={"regions": [[AGES], [AGES, [2.0]], [AGES, "nonsense"]]},
    ),
]
