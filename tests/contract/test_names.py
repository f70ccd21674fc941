"""Do names win at every door? What carries an index or a key column is matched by it, and refused where it does not match."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import crosslevel as cl
from crosslevel.errors import CrosslevelError

ROWS, PLACES = 60, 12
RNG = np.random.default_rng(0)
ROW_NAMES = [f"p{i:02d}" for i in range(ROWS)]
PLACE_NAMES = [f"t{i:02d}" for i in range(PLACES)]
X = pd.DataFrame(RNG.normal(size=(ROWS, 2)), columns=["a", "b"], index=ROW_NAMES)
Y = pd.Series(X["a"] ** 2 + X["b"] + 0.1 * RNG.normal(size=ROWS), index=ROW_NAMES)
COUNT = pd.Series(RNG.integers(1, 5, ROWS), index=ROW_NAMES)
PLACE = pd.Series(np.repeat(PLACE_NAMES, ROWS // PLACES), index=ROW_NAMES, name="town")
MEAN = ((X["a"] > 0).groupby(PLACE).mean() * 0.6 + 0.2).rename("ill")
BAGS = cl.Bags.from_frame(X.assign(town=PLACE), by="town")
SHARE = pd.Series(RNG.uniform(size=PLACES), index=PLACE_NAMES)
SIDE = pd.Series(np.where(SHARE > 0.5, "left", "right"), index=PLACE_NAMES)
GROUPS = pd.DataFrame({"young": RNG.integers(20, 80, PLACES), "old": RNG.integers(20, 80, PLACES)}, index=PLACE_NAMES)
VOTES = pd.DataFrame({"yes": GROUPS["young"] // 2 + GROUPS["old"] // 4}).assign(
    no=lambda v: GROUPS.sum(axis=1) - v["yes"]
)
PEOPLE = GROUPS.sum(axis=1)
SQUARES = [[[i, 0], [i + 1, 0], [i + 1, 1], [i, 1]] for i in range(PLACES)]
TOWNS = cl.Polygons(SQUARES, names=PLACE_NAMES)
BINS = cl.Intervals(np.arange(PLACES), np.arange(1, PLACES + 1))
EVENTS = pd.Series(RNG.integers(5, 40, PLACES), index=PLACE_NAMES)
RISK = pd.Series(RNG.integers(100, 400, PLACES), index=PLACE_NAMES)
AREA = pd.Series(["east", "west"] * (PLACES // 2), index=PLACE_NAMES)
TWICE = cl.Intervals(np.repeat(np.arange(PLACES // 2), 2), np.repeat(np.arange(1, PLACES // 2 + 1), 2))
GIVEN_BINS = {"variance": 1.0, "lengthscale": 2.0, "noise": 0.1, "mean": 0.0}


@dataclass(frozen=True)
class Door:
    """A call with one named argument: what is passed, and the answer as an array."""

    name: str
    values: Any
    answer: Callable[[Any], Any]


def _krls(**given: Any) -> Any:
    return cl.KRLS(missing="error").fit(X, **{"y": Y, **given}).effects()["std_error"]


def _binned(regions: Any = BINS, **given: Any) -> Any:
    known = {"y": EVENTS, "quantity": "mean", **given}
    return cl.BinnedGP(**GIVEN_BINS).fit(regions, **known).estimate()["estimate"]


def _linear() -> Any:
    return cl.distribution.BayesianLinear(n_landmarks=5, random_state=0)


DOORS = [
    Door("KRLS y", Y, lambda v: _krls(y=v)),
    Door("KRLS sample_weight", COUNT, lambda v: _krls(sample_weight=v)),
    Door("KRLS cluster", PLACE, lambda v: _krls(cluster=v)),
    Door("KRLS cluster, a frame", PLACE.to_frame(), lambda v: _krls(cluster=v)),
    Door("KRLS.score y", Y, lambda v: cl.KRLS().fit(X, Y).score(X, v)),
    Door("BayesianLinear y", SHARE, lambda v: _linear().fit(BAGS, v).predict(BAGS)),
    Door("BayesianLinear y, bags of one", Y, lambda v: _linear().fit(X, v).predict(X)),
    Door("MeanShrinkage y", SHARE, lambda v: cl.MeanShrinkage(n_landmarks=5).fit(BAGS, v).predict(BAGS)),
    Door("log_density y", SHARE, lambda v: _linear().fit(BAGS, SHARE).log_density(BAGS, v)),
    Door("score y", SHARE, lambda v: _linear().fit(BAGS, SHARE).score(BAGS, v)),
    Door("score sample_weight", RISK, lambda v: _linear().fit(BAGS, SHARE).score(BAGS, SHARE, v)),
    Door("Bags weights", COUNT, lambda v: cl.Bags(X, [0, 20, ROWS], weights=v).mean()),
    Door("BinnedGP y, polygons", EVENTS, lambda v: _binned(TOWNS, y=v)),
    Door("BinnedGP sizes", RISK, lambda v: _binned(sizes=v)),
    Door("BinnedGP std_error", RISK, lambda v: _binned(std_error=v / 100)),
    Door(
        "BinnedCountGP trials",
        RISK,
        lambda v: (
            cl.BinnedCountGP(likelihood="binomial", kernel="eq").fit(BINS, EVENTS, trials=v).estimate()["estimate"]
        ),
    ),
    Door(
        "BinnedCountGP pool",
        AREA,
        lambda v: cl.BinnedCountGP(kernel="eq").fit(TWICE, EVENTS, pool=v).estimate()["estimate"],
    ),
]
pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
EVERY_DOOR = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)


def _numbers(answer: Any) -> Any:
    return np.asarray(answer, dtype=np.float64)


@EVERY_DOOR
def test_a_shuffled_index_gives_the_same_answer(door):
    order = np.random.default_rng(1).permutation(len(door.values))
    assert (order != np.arange(len(order))).any()
    np.testing.assert_allclose(
        _numbers(door.answer(door.values.iloc[order])), _numbers(door.answer(door.values)), rtol=1e-9
    )


@EVERY_DOOR
def test_names_of_others_are_refused(door):
    strange = door.values.set_axis([*door.values.index[:-1], "elsewhere"], axis=0)
    with pytest.raises(CrosslevelError):
        door.answer(strange)


@EVERY_DOOR
def test_rows_that_are_only_counted_are_taken_by_position(door):
    np.testing.assert_array_equal(
        _numbers(door.answer(door.values.reset_index(drop=True))), _numbers(door.answer(door.values))
    )


@pytest.mark.parametrize("frame", [dict, pd.DataFrame, pl.DataFrame])
def test_labels_in_a_frame_with_the_key_column_are_matched_by_it(frame):
    order = np.random.default_rng(1).permutation(PLACES)
    given = frame({"town": np.array(PLACE_NAMES)[order], "share": SHARE.to_numpy()[order]})
    np.testing.assert_array_equal(_linear().fit(BAGS, given).predict(BAGS), _linear().fit(BAGS, SHARE).predict(BAGS))
    names = frame({"town": [f"x{i}" for i in range(PLACES)], "share": SHARE.to_numpy()})
    with pytest.raises(CrosslevelError):
        _linear().fit(BAGS, names)


def test_numbers_that_count_rows_are_names_once_they_are_shuffled():
    counted, y = X.reset_index(drop=True), Y.reset_index(drop=True)
    expected = cl.KRLS().fit(counted, y).fitted_
    np.testing.assert_array_equal(cl.KRLS().fit(counted, y.sample(frac=1.0, random_state=0)).fitted_, expected)
    with pytest.raises(CrosslevelError):
        cl.KRLS().fit(counted.iloc[:30], y.iloc[30:])
