"""Every output of R's KRLS and bigKRLS, to 1e-8 relative (they agree to 1e-11; R's own rounding is 1e-12)."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.krls import KRLS
from crosslevel.krls.penalty import losses

CLOSE = {"rtol": 1e-8, "atol": 0}
pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")


def near(found, expected):
    """Compare arrays whose entries can be near zero: relative to the largest."""
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10 * np.abs(np.asarray(expected)).max())


@pytest.mark.parametrize("name", ["g1", "g2"])
def test_krls(golden, name):
    r = golden(name)
    model = KRLS(rule="krls", inference="krls").fit(r.X, r.y)
    np.testing.assert_allclose(model.penalty_, r.krls_scalars["lambda"], rtol=1e-13)
    np.testing.assert_allclose(model.loo_, r.krls_scalars["Looe"], **CLOSE)
    np.testing.assert_allclose(model.r2_, r.krls_scalars["R2"], **CLOSE)
    np.testing.assert_allclose(model.edf_, r.krls_scalars["sum_edf"], **CLOSE)
    near(model.coef_, r.krls_obs["coeff"])
    near(model.fitted_, r.krls_obs["fitted"])
    near(model.pointwise_effects_, r.krls_derivatives)
    np.testing.assert_allclose(model.predict(r.X, return_std=True)[1], r.krls_obs["se_fitted"], **CLOSE)
    mean, error = model.predict(r.test.drop(columns="y"), return_std=True)
    np.testing.assert_allclose(mean, r.krls_predict["fit"], **CLOSE)
    np.testing.assert_allclose(error, r.krls_predict["se"], **CLOSE)
    found = model.effects()
    for ours, theirs in {"estimate": "ame", "std_error": "se", "statistic": "t", "p_value": "p"}.items():
        np.testing.assert_allclose(found[ours], r.krls_ame[theirs], **CLOSE)
    np.testing.assert_array_equal(found["kind"] == "first difference", r.krls_ame["binary"] == 1)
    assert any("under-cover" in w for w in found.warnings)


@pytest.mark.parametrize("name", ["g1", "g2"])
def test_krls_with_derivatives_of_binary_columns(golden, name):
    r = golden(name)
    found = KRLS(rule="krls", inference="krls", first_differences=False).fit(r.X, r.y).effects()
    np.testing.assert_allclose(found["estimate"], r.krls_ame_binaryFALSE["ame"], **CLOSE)
    np.testing.assert_allclose(found["std_error"] ** 2, r.krls_ame_binaryFALSE["var_ame"], **CLOSE)


@pytest.mark.parametrize("name", ["g1", "g2"])
def test_bigkrls(golden, name):
    r = golden(name)
    model = KRLS(rule="krls", inference="bigkrls").fit(r.X, r.y)
    assert model.loo_ == pytest.approx(r.bigkrls_scalars["Looe"], rel=1e-8)
    assert model.r2_ame_ == pytest.approx(r.bigkrls_scalars["R2AME"], rel=1e-8)
    assert model.effective_n_ == pytest.approx(r.bigkrls_scalars["Neffective"], rel=1e-8)
    near(model.coef_, r.bigkrls_obs["coeff"])
    near(model.pointwise_effects_, r.bigkrls_derivatives)
    found = model.effects()
    columns = {"estimate": "ame", "std_error": "Std. Error", "statistic": "t value", "p_value": "Pr(>|t|)"}
    for ours, theirs in columns.items():
        np.testing.assert_allclose(found[ours], r.bigkrls_ame[theirs], **CLOSE)
    rows = r.test.drop(columns="y")
    np.testing.assert_allclose(model.predict(rows, return_std=True)[1], r.bigkrls_predict["se"], **CLOSE)
    plain = KRLS(rule="krls", inference="krls").fit(r.X, r.y)
    np.testing.assert_allclose(plain.predict(rows, return_std=True)[1], r.bigkrls_predict["se_uncorrected"], **CLOSE)


@pytest.mark.parametrize("name", ["g1", "g2"])
def test_the_search_takes_the_steps_of_r(golden, name):
    r = golden(name)
    model = KRLS(rule="krls", inference="krls").fit(r.X, r.y)
    grid = losses(model._model.spectrum, model._model.cells, r.loo_grid["lambda"].to_numpy())
    np.testing.assert_allclose(grid[0], r.loo_grid["looloss"], **CLOSE)
    steps = [line.split() for line in (r.folder / "lambda_trace.txt").read_text().splitlines() if line.startswith("L:")]
    tried = {float(s[i]) for s in steps for i in (3, 5)}
    ours = sorted(float(f"{x:.7g}") for x in model.loo_curve_[:, 0])
    np.testing.assert_allclose(ours, sorted(tried), rtol=1e-6)


def test_duplicated_rows(golden):
    r = golden("g4_dup")
    model = KRLS(penalty=r.krls_scalars["lambda"], inference="krls").fit(r.X, r.y)
    assert len(model._model.cells.m) == 252
    assert model.loo_ == pytest.approx(r.krls_scalars["Looe"], rel=1e-8)
    assert model.r2_ == pytest.approx(r.krls_scalars["R2"], rel=1e-8)
    near(model.coef_, r.krls_obs["coeff"])
    near(model.fitted_, r.krls_obs["fitted"])
    near(model.pointwise_effects_, r.krls_obs[["b1", "age", "k3"]])
    np.testing.assert_allclose(model.predict(r.X, return_std=True)[1], r.krls_obs["se_fitted"], **CLOSE)
    found = model.effects()
    np.testing.assert_allclose(found["estimate"], r.krls_ame["ame"], **CLOSE)
    np.testing.assert_allclose(found["std_error"] ** 2, r.krls_ame["var_ame"], **CLOSE)


def test_the_maximum_variance_bandwidth_is_the_one_r_finds(golden):
    r = golden("g2")
    model = KRLS(bandwidth="maxvar").fit(r.X, r.y)
    # R stops its search at a relative tolerance of 1e-4
    assert model.bandwidth_ == pytest.approx(r.krls_scalars["sigma_maxvarK_1.7"], rel=1e-4)


def test_the_converged_penalty_has_the_smaller_loss(golden):
    r = golden("g2")
    ours, theirs = KRLS().fit(r.X, r.y), KRLS(rule="krls").fit(r.X, r.y)
    assert ours.loo_ < 0.99 * theirs.loo_
    assert ours.penalty_ == pytest.approx(0.0930, rel=0.01)
