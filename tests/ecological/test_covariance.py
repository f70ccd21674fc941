"""The prior over places by its definition."""

import numpy as np
import pytest

from crosslevel.ecological.covariance import BIAS, Hyperparameters, Terms, place_covariance
from crosslevel.numerics.kernels import matern

H = Hyperparameters(effect_variance=0.8, spatial=0.5, length=1.3, nugget=0.07, group=0.2, second_group=0.1)


@pytest.mark.parametrize("kind", ["matern12", "matern32", "matern52", None])
@pytest.mark.parametrize("nugget", [True, False])
@pytest.mark.parametrize("groups", [0, 1, 2])
def test_places_covary_by_what_they_share(kind, nugget, groups):
    rng = np.random.default_rng(1)
    xy, group = rng.uniform(0, 4, (9, 2)), (np.arange(9) % 3, np.arange(9) // 2)
    terms = Terms(9, kind, xy, "plane", nugget, *[group[i] if groups > i else None for i in range(2)])
    K = place_covariance(terms, H)
    for i in range(9):
        for j in range(9):
            shared = BIAS + H.nugget * (nugget and i == j)
            if kind is not None:
                shared += H.spatial * matern(np.array([np.hypot(*(xy[i] - xy[j]))]), H.length, kind)[0][0]
            for name, own in zip(("group", "second_group"), group[:groups], strict=False):
                shared += getattr(H, name) * (own[i] == own[j])
            assert K[i, j] == pytest.approx(shared, rel=1e-12)
