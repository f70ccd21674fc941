"""The evidence's maximum: found, certified, and refused when it is not one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from crosslevel.ecological import scales as module
from crosslevel.ecological.covariance import Hyperparameters, Rows, Terms, covariance
from crosslevel.ecological.scales import Fit, fit_scales
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.laplace import Binomial, find_mode

TRUTH = Hyperparameters(effect_variance=0.5, spatial=0.3, length=1.0, nugget=0.03, group=0.2)


def world(
    q: int = 60, p: int = 6, seed: int = 0, *, group: bool = False, product: bool = False
) -> tuple[Rows, Terms, Binomial]:
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, 5, (q, 2))
    terms = Terms(q, "matern32", xy, "plane", True, np.arange(q) % 6 if group else None, product)
    M = rng.normal(size=(q, p)) / np.sqrt(p)
    rows = Rows.of(M - M.mean(axis=0))
    K = covariance(rows, terms, TRUTH) - 10.0  # without the bias
    f = -0.3 + np.linalg.cholesky(K + 1e-10 * np.eye(q)) @ rng.standard_normal(q)
    n = np.full(q, 5000.0)
    return rows, terms, Binomial(rng.binomial(5000, special.expit(f)).astype(float), n)


def assert_highest(found: Fit, rows: Rows, terms: Terms, like: Binomial) -> None:
    best = find_mode(covariance(rows, terms, found.hyperparameters), like).log_evidence
    assert found.mode.log_evidence == pytest.approx(best, rel=1e-12)
    free = [name for name in terms.names if name not in found.at_limit]
    for name in free:
        for factor in (0.8, 0.97, 1.03, 1.25):
            moved = replace(found.hyperparameters, **{name: factor * getattr(found.hyperparameters, name)})
            # slopes up to 0.05 pass, so a neighbor may be higher by that times the distance
            assert find_mode(covariance(rows, terms, moved), like).log_evidence < best + 0.05 * abs(np.log(factor))


@pytest.mark.parametrize(("group", "product"), [(False, False), (True, False), (False, True)])
def test_no_neighbor_is_higher(group: bool, product: bool) -> None:
    rows, terms, like = world(group=group, product=product)
    found = fit_scales(rows, terms, like)
    assert found.slope <= module.FLAT
    assert_highest(found, rows, terms, like)
    assert len(found.evidences) == 2
    assert max(found.evidences) == pytest.approx(found.mode.log_evidence, abs=1e-6)


def test_the_truth_is_found_from_many_places() -> None:
    """Each scale within a factor of two: with 200 places the evidence's curvature gives log scales to about 0.2."""
    rows, terms, like = world(q=200, seed=3)
    h = fit_scales(rows, terms, like).hyperparameters
    for name in ("effect_variance", "spatial", "length", "nugget"):
        assert 0.45 < getattr(h, name) / getattr(TRUTH, name) < 2.2, name


def test_the_order_of_rows_does_not_matter() -> None:
    rows, terms, like = world()
    found = fit_scales(rows, terms, like)
    order = np.random.default_rng(1).permutation(60)
    assert terms.distance is not None
    turned = fit_scales(
        Rows.of(rows.M[order]),
        replace(terms, coords=terms.coords[order]),
        Binomial(like.successes[order], like.trials[order]),
    )
    assert turned.mode.log_evidence == pytest.approx(found.mode.log_evidence, abs=1e-6)
    for name in terms.names:
        assert getattr(turned.hyperparameters, name) == pytest.approx(getattr(found.hyperparameters, name), rel=1e-3)


def test_a_start_of_ones_own_ends_at_the_same_height() -> None:
    rows, terms, like = world()
    found = fit_scales(rows, terms, like, n_restarts=6)
    again = fit_scales(rows, terms, like, start=replace(found.hyperparameters, nugget=0.2, length=0.4))
    assert again.mode.log_evidence == pytest.approx(found.mode.log_evidence, abs=1e-3)
    assert len(again.evidences) == 1


def test_hyperparameters_can_be_fixed() -> None:
    rows, terms, like = world()
    found = fit_scales(rows, terms, like, fixed=TRUTH)
    assert found.hyperparameters is TRUTH
    assert found.evaluations == 1
    assert found.mode.log_evidence == find_mode(covariance(rows, terms, TRUTH), like).log_evidence


def test_a_term_that_is_not_there_is_driven_to_its_limit() -> None:
    rows, terms, _ = world()
    flat = Binomial(np.full(60, 2000.0), np.full(60, 5000.0))  # every place has the same share
    found = fit_scales(rows, terms, flat)
    h = found.hyperparameters
    assert max(h.effect_variance * np.mean(np.diag(rows.gram)), h.spatial, h.nugget) < 1e-3
    assert found.slope <= module.FLAT


def test_a_search_cut_short_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, terms, like = world()
    monkeypatch.setattr(module, "OPTIONS", module.OPTIONS | {"maxiter": 1})
    with pytest.raises(ConvergenceError):
        fit_scales(rows, terms, like)


def test_a_prior_pulls() -> None:
    rows, terms, like = world()
    free = fit_scales(rows, terms, like).hyperparameters
    held = fit_scales(rows, terms, like, prior={"nugget": (np.log(0.5), 0.01)}).hyperparameters
    assert held.nugget == pytest.approx(0.5, rel=0.05)
    assert free.nugget < 0.1
