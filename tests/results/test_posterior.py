"""Draws as a tree: dimensions and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.errors import InputError
from crosslevel.results.posterior import posterior_tree


def make_tree():
    rng = np.random.default_rng(0)
    return posterior_tree(
        {"alpha": rng.normal(size=(2, 6, 3)), "sigma": rng.uniform(size=(2, 6))},
        {"diverging": rng.uniform(size=(2, 6)) < 0.2},
        dims={"alpha": ("landmark",)},
        attrs={"max_rhat": np.float64(1.002), "chains": 2},
    )


def test_groups_and_dimensions():
    tree = make_tree()
    assert set(tree.children) == {"posterior", "sample_stats"}
    assert tree["posterior/alpha"].dims == ("chain", "draw", "landmark")
    assert tree["posterior/sigma"].mean(("chain", "draw")).item() == pytest.approx(
        tree["posterior/sigma"].values.mean()
    )
    assert tree.attrs == {"max_rhat": 1.002, "chains": 2}


def test_bad_draws_are_refused_by_name():
    with pytest.raises(InputError, match=r"the draws of 'b' have shape \(2, 5\)"):
        posterior_tree({"a": np.zeros((2, 6)), "b": np.zeros((2, 5))})
    with pytest.raises(InputError, match="posterior is empty"):
        posterior_tree({})
    with pytest.raises(InputError, match=r"dims\['a'\] names 2 dimension"):
        posterior_tree({"a": np.zeros((2, 6, 3))}, dims={"a": ("x", "y")})
