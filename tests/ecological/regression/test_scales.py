"""The evidence's maximum: found, certified, and refused when it is not one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from crosslevel.ecological.covariance import Hyperparameters, Terms, place_covariance
from crosslevel.ecological.regression import scales as module
from crosslevel.ecological.regression.question import Design, Question
from crosslevel.ecological.regression.scales import fit_scales
from crosslevel.errors import ConvergenceError

TRUTH = Hyperparameters(effect_variance=0.5, spatial=0.3, length=1.0, nugget=0.03, group=0.2)


def world(q: int = 60, p: int = 6, seed: int = 0, *, group: bool = False) -> Question:
    rng = np.random.default_rng(seed)
    terms = Terms(q, "matern32", rng.uniform(0, 5, (q, 2)), "plane", True, np.arange(q) % 6 if group else None)
    X = rng.normal(size=(q, p)) / np.sqrt(p)
    X -= X.mean(axis=0)
    K = TRUTH.effect_variance * X @ X.T + place_covariance(terms, TRUTH) - 10.0  # without the bias
    f = -0.3 + np.linalg.cholesky(K + 1e-10 * np.eye(q)) @ rng.standard_normal(q)
    return Question(Design(X, terms), np.arange(q), rng.binomial(5000, special.expit(f)).astype(float), np.full(q, 5e3))


@pytest.mark.parametrize(("group", "p"), [(False, 6), (True, 6), (True, 80)])
def test_no_neighbor_is_higher(group: bool, p: int) -> None:
    one = world(group=group, p=p)
    found = fit_scales(one)
    assert found.slope <= module.FLAT
    assert len(found.evidences) == 2
    best = one.mode(found.hyperparameters).log_evidence
    assert found.mode.log_evidence == pytest.approx(best, rel=1e-12)
    assert max(found.evidences) == pytest.approx(best, abs=1e-6)
    for name in [name for name in one.terms.names if name not in found.at_limit]:
        for factor in (0.8, 0.97, 1.03, 1.25):
            moved = replace(found.hyperparameters, **{name: factor * getattr(found.hyperparameters, name)})
            # slopes up to 0.05 pass, so a neighbor may be higher by that times the distance
            assert one.mode(moved).log_evidence < best + 0.05 * abs(np.log(factor))


def test_the_truth_is_found_from_many_places() -> None:
    """Each scale within a factor of two: with 200 places the evidence's curvature gives log scales to about 0.2."""
    h = fit_scales(world(q=200, seed=3)).hyperparameters
    for name in ("effect_variance", "spatial", "length", "nugget"):
        assert 0.45 < getattr(h, name) / getattr(TRUTH, name) < 2.2, name


def test_the_order_of_places_does_not_matter() -> None:
    one, order = world(), np.random.default_rng(1).permutation(60)
    found = fit_scales(one)
    turned = fit_scales(
        Question(
            Design(one.X[order], one.terms.take(order)),
            np.arange(60),
            one.likelihood.successes[order],
            one.likelihood.trials[order],
        )
    )
    assert turned.mode.log_evidence == pytest.approx(found.mode.log_evidence, abs=1e-6)
    for name in one.terms.names:
        assert getattr(turned.hyperparameters, name) == pytest.approx(getattr(found.hyperparameters, name), rel=1e-3)


def test_hyperparameters_can_be_fixed() -> None:
    one = world()
    found = fit_scales(one, fixed=TRUTH)
    assert found.hyperparameters is TRUTH
    assert found.evaluations == 1
    assert found.mode.log_evidence == one.mode(TRUTH).log_evidence


def test_a_term_that_is_not_there_is_driven_to_its_limit() -> None:
    one = world()
    flat = Question(one.design, np.arange(60), np.full(60, 2000.0), np.full(60, 5000.0))  # all places have one share
    found = fit_scales(flat)
    h = found.hyperparameters
    assert max(h.effect_variance * np.mean((one.X**2).sum(axis=1)), h.spatial, h.nugget) < 1e-3
    assert found.slope <= module.FLAT


def test_a_search_cut_short_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPTIONS", module.OPTIONS | {"maxiter": 1})
    with pytest.raises(ConvergenceError):
        fit_scales(world())
