from __future__ import annotations

import numpy as np
import pytest

from crosslevel.errors import InputError
from crosslevel.numerics.integrals.correlations import reach
from crosslevel.numerics.kernels import matern

KERNELS = ["eq", "matern12", "matern32", "matern52"]


def correlation(kernel, r):
    return np.exp(-0.5 * r**2) if kernel == "eq" else matern(r, 1.0, kernel)[0]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tolerance", [0.5, 1e-3, 1e-8, 1e-60])
def test_reach_is_where_the_correlation_ends(kernel, tolerance):
    assert float(correlation(kernel, np.array(reach(kernel, tolerance)))) == pytest.approx(tolerance, rel=1e-6)


def test_unknown_names_get_a_sentence():
    with pytest.raises(InputError):
        reach("x", 0.1)
