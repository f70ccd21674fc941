"""The image-age experiment on a small stand-in: splits of the published sizes, streamed reading, sensible answers."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from crosslevel.errors import FileError

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def age(monkeypatch):
    """Import the script, which is in no package."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("age")


def test_splits_have_the_published_sizes_and_do_not_overlap(age):
    parts = age.splits(19_545, 20)
    every = np.concatenate([parts.train, parts.early_stop, parts.validation, parts.test])
    assert np.array_equal(np.sort(every), np.arange(19_545))
    # the published files hold 3,929 test and 2,947 validation bags, which is 19,645 bags cut in these shares
    published = age.splits(19_645, 20)
    assert (len(published.test), len(published.validation)) == (3929, 2947)
    assert len(parts.test) == 3909
    assert not np.array_equal(parts.test, age.splits(19_545, 21).test)


def test_sizes_run_from_one_to_the_largest(age):
    sizes = age.bag_sizes(19_545, 400_000, np.random.default_rng(0))
    assert sizes.min() == 1
    assert sizes.max() == 796
    assert sizes.sum() == pytest.approx(400_000, rel=0.01)


def test_rows_read_from_disk_are_those_written(age, tmp_path):
    whole = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    np.save(tmp_path / "features.npy", whole)
    rows = age.FeatureFile(tmp_path / "features.npy")
    np.testing.assert_array_equal(rows[7:20], whole[7:20])
    some = np.array([3, 4, 5, 9, 40, 41, 2])
    np.testing.assert_array_equal(rows[some], whole[some])
    np.testing.assert_array_equal(rows[::10], whole[::10])


def test_quick_run_beats_the_mean(age):
    found = age.main(["--quick"])
    assert found["converged"]
    assert found["rmse"] < 0.6 * found["rmse_of_the_mean"]
    assert found["coverage"]["all"] > 0.85


def test_a_folder_without_features_is_refused(age, tmp_path):
    with pytest.raises(FileError):
        age.load(tmp_path)
