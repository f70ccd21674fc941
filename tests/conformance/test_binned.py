"""scikit-learn's own checks, as far as they apply to estimators whose X are regions.

Not run, because they pass a numeric matrix as X with y of any kind and without ``quantity``, which is never guessed: all checks that call
``fit``. Regions are no matrix: they have ``len`` and are indexed by rows, which is what splitters need (the last test).
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils import estimator_checks as checks
from sklearn.utils.validation import check_is_fitted

from crosslevel.binned import BinnedCountGP, BinnedGP, Boxes, Intervals, Points, Polygons

WITHOUT_FIT = [
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
]


@pytest.mark.parametrize("estimator", [BinnedGP(), BinnedCountGP()], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("name", WITHOUT_FIT)
def test_scikit_learn_checks(estimator, name):
    check = getattr(checks, name, None)
    if check is None:
        pytest.skip("this version of scikit-learn has no such check")
    check(type(estimator).__name__, clone(estimator))


@pytest.mark.parametrize("estimator", [BinnedGP(), BinnedCountGP()], ids=lambda e: type(e).__name__)
def test_an_unfitted_estimator_says_so(estimator):
    for ask in (lambda: estimator.predict([1.0]), estimator.estimate, estimator.summary):
        with pytest.raises(ValueError):
            ask()
    with pytest.raises(ValueError):
        check_is_fitted(estimator)


@pytest.mark.parametrize(
    "regions",
    [
        Intervals.from_edges(np.arange(7.0)),
        Boxes(np.arange(12.0).reshape(6, 2), np.arange(12.0).reshape(6, 2) + 1),
        Points(np.arange(6.0)),
        Polygons([[[i, 0], [i + 1, 0], [i, 1]] for i in range(6)]),
    ],
    ids=lambda r: type(r).__name__,
)
def test_splitters_take_regions(regions):
    for train, test in KFold(3).split(regions):
        assert len(regions[train]) == 4
        np.testing.assert_array_equal(regions[test, ...].volumes, regions.volumes[test])
