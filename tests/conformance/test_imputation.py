"""scikit-learn's estimator checks over the imputers, with groups and published means supplied."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from crosslevel.imputation import CUDIA, CrossLevelImputer

pytestmark = pytest.mark.filterwarnings("ignore")


class Grouped:
    """Supplies what the checks do not know of: each person's group, by the size of the first column, and its published mean."""

    def fit(self, X, y=None, sample_weight=None):
        first = _first(X)
        self.edges_ = np.quantile(first, [1 / 3, 2 / 3]) if len(first) else np.zeros(2)
        published = {"partition": [0, 1, 2], "hidden": [0.3, 0.4, 0.6]}
        return super().fit(X, np.searchsorted(self.edges_, first), published, sample_weight)

    def transform(self, X):
        first = _first(X) if hasattr(self, "edges_") else np.zeros(1)
        groups = np.searchsorted(self.edges_, first) if hasattr(self, "edges_") else first
        return super().transform(X, groups, match_means=False)

    def fit_transform(self, X, y=None, sample_weight=None):
        return self.fit(X, y, sample_weight).transform(X)


class GroupedPersons(Grouped, CrossLevelImputer):
    """CrossLevelImputer whose groups follow from X."""


class GroupedClusters(Grouped, CUDIA):
    """CUDIA whose groups follow from X."""


def _first(X):
    values = X.iloc[:, 0] if hasattr(X, "iloc") else np.asarray(X, dtype=object)
    values = values[:, 0] if np.ndim(values) == 2 and np.shape(values)[1] else np.ravel(values)
    return np.nan_to_num([float(v) if isinstance(v, int | float | np.number) else 0.0 for v in values])


SENTENCE = "refused, with a sentence of our own instead of scikit-learn's"
SHARED = {
    "check_complex_data": SENTENCE,
    "check_dtype_object": SENTENCE,
    "check_estimators_empty_data_messages": SENTENCE,
    "check_fit2d_1sample": "one person is one group, and two are needed; refused with that sentence",
    "check_fit2d_predict1d": SENTENCE,
    "check_n_features_in_after_fitting": SENTENCE,
    "check_sample_weight_equivalence_on_dense_data": "groups made from quantiles of X are others when rows are repeated; "
    "a weight of two is held to be two people in tests/imputation",
    "check_sample_weights_not_an_array": "arrays that refuse NumPy's functions are no data anybody has",
    "check_transformer_data_not_an_array": "arrays that refuse NumPy's functions are no data anybody has",
}
ONE_CLUSTER = "the check sets n_clusters=1, which is the naive answer and refused"
CLUSTERS = SHARED | dict.fromkeys(
    [
        "check_dont_overwrite_parameters",
        "check_fit2d_1feature",
        "check_methods_subset_invariance",
    ],
    ONE_CLUSTER,
)


def _does_not_apply(estimator):
    return CLUSTERS if isinstance(estimator, GroupedClusters) else SHARED


@parametrize_with_checks(
    [
        GroupedPersons(),
        GroupedClusters(2, method="two_stage", n_restarts=1, allow_unconverged=True),
    ],
    expected_failed_checks=_does_not_apply,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
