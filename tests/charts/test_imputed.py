from __future__ import annotations

import numpy as np
import pytest

from crosslevel.charts import cluster_profiles, imputed_means
from crosslevel.errors import InputError
from crosslevel.results import Estimates, Provenance


def make(columns, keys, **more):
    return Estimates.build(
        columns, keys=keys, method="m", level=0.9, interval="q", provenance=Provenance.of(call="c"), **more
    )


def means(features=("ill",), **more):
    n = len(features)
    columns = {
        "feature": np.repeat(features, 3).tolist(),
        "age": [1, 2, 3] * n,
        "estimate": np.tile([0.1, 0.2, 0.4], n) + np.repeat(np.arange(n) / 10, 3),
        "conf_low": np.tile([0.05, 0.1, 0.3], n),
        "conf_high": np.tile([0.3, 0.5, 0.9], n),
        "naive": np.tile([0.18, 0.2, 0.22], n),
        "people": np.tile([10, 40, 20], n),
        **more,
    }
    return make(columns, ["feature", "age"])


def clusters(hidden=("ill",), **theta):
    k, n = 3, len(hidden)
    columns = {
        "feature": np.repeat(hidden, k).tolist(),
        "cluster": [1, 2, 3] * n,
        "estimate": np.tile([0.1, 0.2, 0.4], n) + np.repeat(np.arange(n) / 10, k),
        "conf_low": np.zeros(k * n),
        "conf_high": np.ones(k * n),
        "share": np.tile([0.5, 0.3, 0.2], n),
        **{name: np.tile(values, n) for name, values in theta.items()},
    }
    return make(columns, ["feature", "cluster"])


def test_a_dot_stands_at_its_naive_and_imputed_mean():
    ax = imputed_means(means())
    bars, dots = ax.collections
    np.testing.assert_allclose(dots.get_offsets(), [[0.18, 0.1], [0.2, 0.2], [0.22, 0.4]])
    sizes = dots.get_sizes()
    assert sizes[1] > sizes[2] > sizes[0]
    np.testing.assert_allclose([s[:, 1] for s in bars.get_segments()], [[0.05, 0.3], [0.1, 0.5], [0.3, 0.9]])
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), line.get_ydata())
    assert [t.get_text() for t in ax.texts] == ["1", "2", "3"]
    assert ax.get_title("left") == "ill by age"
    assert "90 % interval" in ax.get_ylabel()


def test_one_of_several_features_is_chosen():
    two = means(("ill", "smokes"))
    with pytest.raises(InputError):
        imputed_means(two)
    with pytest.raises(InputError):
        imputed_means(two, feature="smoke")
    ax = imputed_means(two, feature="smokes")
    np.testing.assert_allclose(ax.collections[1].get_offsets()[:, 1], [0.2, 0.3, 0.5])


def test_colors_are_sds_between_clusters():
    ax = cluster_profiles(clusters(("ill", "smokes"), age=[30.0, 40.0, 60.0], alike=[2.0, 2.0, 2.0]))
    shown = np.asarray(ax.images[0].get_array())
    w = np.array([0.5, 0.3, 0.2])
    age = np.array([30.0, 40.0, 60.0])
    sd = np.sqrt(w @ (age - w @ age) ** 2)
    np.testing.assert_allclose(shown[:, 0], (age - w @ age) / sd)
    np.testing.assert_array_equal(shown[:, 1], 0.0)
    # a hidden mean and the same plus a constant differ between clusters alike
    np.testing.assert_allclose(shown[:, 2], shown[:, 3])
    np.testing.assert_allclose(w @ shown, 0.0, atol=1e-12)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["age", "alike", "ill", "smokes"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["1 · 50%", "2 · 30%", "3 · 20%"]
    said = [t.get_text() for t in ax.texts]
    assert said[:3] == ["30.0", "40.0", "60.0"]
    assert said[9:12] == ["0.20", "0.30", "0.50"]
