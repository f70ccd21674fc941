"""Does the study of CUDIA's variants choose by its rule, weigh means as it says, and learn a logistic normal?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")


@pytest.fixture
def study(experiment, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "studies" / "cudia_variants"))
    return experiment("variants")


def test_the_simplest_within_one_error_of_the_lowest_is_chosen(study, monkeypatch):
    monkeypatch.setattr(study, "CLUSTERS", (2, 3))
    x, _, group, s = study.paper_world(0)
    tried = study.Tried({"x": x}, group, s)
    near = [c for c in tried.choices if c.error <= tried.lowest.error + tried.lowest.std_error]
    assert tried.simplest in near
    assert tried.simplest.effective_df == min(c.effective_df for c in near)
    zero, mean = (tried.two_stage(2, 1e7, target).parameters.H for target in ("zero", "mean"))
    assert np.abs(zero).max() < 0.01
    assert mean == pytest.approx(np.full((2, 1), s.mean()), abs=0.01)


def test_tables_have_a_row_for_every_variant(study):
    for text, rows in ((study.weights_of_means(2), 4), (study.priors_of_mixes(2), 3)):
        lines = text.splitlines()
        assert len(lines) == rows + 2
        assert all(0.06 < float(line.split("|")[2]) < 0.2 for line in lines[2:])


def test_a_logistic_normal_is_learned_from_mixes(study):
    prior, rng = study.LogisticNormal(), np.random.default_rng(0)
    prior.mean, prior.variance = np.array([1.0, -0.5, -0.5]), np.full(3, 0.25)
    f = prior.mean + rng.normal(size=(5, 3)) * 0.5
    pi = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
    centered = f - f.mean(axis=1, keepdims=True)
    own = -0.5 * ((centered - prior.mean) ** 2 / 0.25).sum(axis=1) - np.log(pi).sum(axis=1)
    np.testing.assert_allclose(prior.log_density(pi), own)
