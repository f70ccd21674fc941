"""The numbers of GPy, and those of an independent reference without its jitter."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.binned import BinnedGP, Intervals

CASES = ("A_small_1d", "C_decades_age")
JITTER = 1e-8
"""GPy adds this to the diagonal, whatever the noise."""


def fitted(case, jitter=0.0):
    gp = BinnedGP(
        kernel="eq",
        variance=case["variance"],
        lengthscale=case["lengthscale_paper"] / np.sqrt(2.0),
        noise=case["noise_var"] + jitter,
        mean=0.0,
    )
    return gp.fit(Intervals.from_edges(case["edges"]), case["y_totals"], quantity="total")


@pytest.mark.parametrize("name", CASES)
def test_reference(golden, name):
    case = golden["cases"][name]
    gp = fitted(case)
    mean, std = gp.predict(case["x_test"], quantity="density", return_std=True)
    np.testing.assert_allclose(mean, case["ref_latent_mean"], rtol=1e-8)
    np.testing.assert_allclose(std**2, case["ref_latent_var"], rtol=1e-8)
    assert gp.log_evidence_ == pytest.approx(case["ref_log_marginal"], rel=1e-8)
    new = Intervals(*np.array(case["new_bins_lo_hi"], dtype=float).T)
    mean, cov = gp.predict(new, quantity="total", return_cov=True)
    np.testing.assert_allclose(mean, case["ref_integral_mean"], rtol=1e-8)
    np.testing.assert_allclose(np.diag(cov), case["ref_integral_var"], rtol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_gpy(golden, name):
    case = golden["cases"][name]
    gp = fitted(case, JITTER)
    mean, std = gp.predict(case["x_test"], return_std=True)
    np.testing.assert_allclose(mean, case["gpy_latent_mean"], rtol=1e-10)
    np.testing.assert_allclose(std**2, case["gpy_latent_var"], rtol=1e-8)
    assert gp.log_evidence_ == pytest.approx(case["gpy_log_marginal"], rel=1e-10)
    fit = gp._fit
    from crosslevel.binned.gaussian.dense import DenseSolver

    found = DenseSolver(fit.problem, fit.kernel).objective(fit.logs, fit.noise)
    by = dict(zip(("variance", "lengthscale"), found.by_kernel / np.exp(fit.logs), strict=True))
    by["lengthscale"] /= np.sqrt(2.0)  # the paper's
    by["noise"] = found.by_noise / fit.noise
    assert by == pytest.approx(case["gpy_gradients"], rel=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_gpy_to_1e6_without_its_jitter(golden, name):
    case = golden["cases"][name]
    mean, std = fitted(case).predict(case["x_test"], return_std=True)
    np.testing.assert_allclose(mean, case["gpy_latent_mean"], rtol=1e-6)
    np.testing.assert_allclose(std**2, case["gpy_latent_var"], rtol=1e-6)
