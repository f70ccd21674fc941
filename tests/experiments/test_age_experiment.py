"""The image-age experiment on a small stand-in: splits of the published sizes, streamed reading, sensible answers."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def age(experiment):
    return experiment("age")


def test_splits_have_the_published_sizes_and_do_not_overlap(age):
    parts = age.splits(19_545, 20)
    every = np.concatenate([parts.train, parts.early_stop, parts.validation, parts.test])
    assert np.array_equal(np.sort(every), np.arange(19_545))
    # the published files hold 3,929 test and 2,947 validation bags, which is 19,645 bags cut in these shares
    published = age.splits(19_645, 20)
    assert (len(published.test), len(published.validation)) == (3929, 2947)
    assert len(parts.test) == 3909
    assert not np.array_equal(parts.test, age.splits(19_545, 21).test)


def test_quick_run_beats_the_mean(age):
    found = age.main(["--quick"])
    assert found["converged"]
    assert found["rmse"] < 0.6 * found["rmse_of_the_mean"]
    assert found["coverage"]["all"] > 0.85
