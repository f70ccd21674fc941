"""Numbers of any size: an answer is finite and lies in its own interval, or there is a sentence."""

from __future__ import annotations

import warnings
from contextlib import suppress

import numpy as np
import pytest

from crosslevel.binned import BinnedCountGP, BinnedGP, Boxes, Intervals, Polygons, interpolate
from crosslevel.errors import ConvergenceError, CrosslevelError, InputError

SIZES = [0.0, 1e-300, 1e-150, 1e-12, 0.5, 1.0, 17.0, 1e6, 1e12, 2.0**53, 1e18, 1e150, 1e300]
COUNTS = [0, 1, 3, 100, 1e6, 1e9, 1e12, 9e15]
TENS = Intervals.from_edges([0.0, 10.0, 20.0, 30.0, 40.0])


def check(table):
    estimate, error, low, high = (table[n] for n in ("estimate", "std_error", "conf_low", "conf_high"))
    assert all(np.isfinite(v).all() for v in (estimate, error, low, high))
    assert (error >= 0).all()
    assert ((low <= estimate) & (estimate <= high)).all()


def squares(n, width):
    return Polygons([[[i * width, 0], [(i + 1) * width, 0], [(i + 1) * width, 1], [i * width, 1]] for i in range(n)])


def fit_and_ask(kind, rng):
    """Fit one case of extreme numbers and check every answer."""
    bins = (
        Intervals.from_edges(np.cumsum(10.0 ** rng.uniform(-3, 3, 5)))
        if rng.random() < 0.5 and kind != "binomial"
        else TENS
    )
    lower, upper = float(bins.lower.min()), float(bins.upper.max())
    new = Intervals([lower, 0.5 * (lower + upper)], [lower + 0.3 * (upper - lower), upper])
    if kind == "areas":
        people = rng.choice(COUNTS if rng.random() < 0.7 else SIZES, 4)
        totals = np.floor(people.reshape(2, 2).sum(axis=1) * rng.choice([0, 1e-9, 0.1, 1], 2))
        check(interpolate(squares(2, 2), squares(4, 1), totals, population=people))
        return
    if kind == "gaussian":
        given = {
            n: float(rng.choice(SIZES)) for n in ("variance", "lengthscale", "noise", "mean") if rng.random() < 0.4
        }
        extra = {n: rng.choice(SIZES, 4) for n in ("sizes", "std_error")[: rng.integers(0, 2)]}
        y = rng.choice([1.0, -1.0], 4) * rng.choice(SIZES, 4)
        model = BinnedGP(**given).fit(bins, y, str(rng.choice(["total", "mean", "rate"])), **extra)
        check(model.estimate(np.linspace(lower, upper, 3)))
    elif kind == "binomial":
        trials = rng.choice([*COUNTS, 50, 1e9], 4)
        share = rng.choice([0, 1e-9, 0.01, 0.5, 1], 4)
        model = BinnedCountGP("binomial", "eq").fit(bins, np.floor(trials * share), trials=trials)
    else:
        y = rng.choice(COUNTS if rng.random() < 0.8 else SIZES, 4)
        model = BinnedCountGP("poisson", "eq").fit(bins, y)
        assert np.isfinite(model.log_evidence_)
    check(model.estimate())
    check(model.estimate(new))


@pytest.mark.parametrize("kind", ["gaussian", "poisson", "binomial", "areas"])
def test_any_numbers_give_an_answer_or_a_sentence(kind):
    rng = np.random.default_rng(20)
    for _ in range(4):
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            with suppress(CrosslevelError):
                fit_and_ask(kind, rng)


@pytest.mark.parametrize(
    "fit",
    [
        lambda: BinnedGP().fit(TENS, [1.0, 1e300, 2.0, 3.0], "total"),
        lambda: BinnedGP().fit(TENS, [1, 2, 3, 9.0], "rate", sizes=[1, 1e-150, 1, 1e300]),
        lambda: BinnedGP().fit(TENS, [1, 2, 3, 4.0], "mean", std_error=[1, 1e200, 1, 1]),
        lambda: BinnedCountGP().fit(TENS, [1, 1e150, 3, 4]),
        lambda: BinnedCountGP().fit(Intervals([0, 1e6, 1e6 + 1e-9], [1e6, 1e6 + 1e-9, 2e6]), [3, 2, 1]),
        lambda: interpolate(squares(2, 2), squares(4, 1), [1, 2], population=[1e150, 5, 5, 5]),
    ],
)
def test_numbers_beyond_a_float_are_refused_by_name(fit):
    with pytest.raises(InputError):
        fit()


def test_counts_of_very_different_sizes_are_right_or_refused():
    y = [10.0, 1e12, 30.0, 40.0]
    try:
        found = BinnedCountGP().fit(TENS, y).estimate()
    except ConvergenceError:
        return
    np.testing.assert_allclose(found["estimate"], y, rtol=1e-9)


def test_boxes_of_counts_are_checked_too():
    boxes = Boxes(
        [[i * 10.0, j] for i in range(2) for j in range(2)],
        [[i * 10.0 + 10, j + 1] for i in range(2) for j in range(2)],
    )
    check(BinnedCountGP(kernel="eq").fit(boxes, [0, 5, 1e6, 3], cell=5.0).estimate())
