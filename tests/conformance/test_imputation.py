"""scikit-learn's estimator checks over the imputers, with groups and published means supplied, and over AddImputed."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from crosslevel.imputation import CUDIA, AddImputed, CrossLevelImputer, LabelProportions

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


class Labeled(LabelProportions):
    """LabelProportions that gets labels of persons: bags of one."""

    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(self, X, y, dtype="numeric")
        check_classification_targets(y)
        self.labels_, code = np.unique(y, return_inverse=True)
        super().fit(X, np.arange(len(y)), np.eye(len(self.labels_))[code], sample_weight)
        self.classes_ = self.labels_
        return self

    def _probabilities(self, A):
        p = super()._probabilities(A)
        return p[:, ::-1] if self.classes_.dtype.kind == "i" and p.shape[1] == 2 else p


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
LABELED = {
    "check_classifiers_one_label_sample_weights": "one class is refused: there is nothing to tell apart",
    "check_fit2d_predict1d": SENTENCE,
    "check_n_features_in_after_fitting": SENTENCE,
    "check_fit2d_1sample": SENTENCE,
    "check_classifier_data_not_an_array": "arrays that refuse NumPy's functions are no data anybody has",
    "check_sample_weight_equivalence_on_dense_data": "a weight of zero leaves the bag of one person empty, which is refused",
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
CLASS = (
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_fit1d",
    "check_transformer_n_iter",
    "check_transformers_unfitted",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_unfitted",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
)
"""Checks of the class itself, which need no fit that succeeds."""


def _does_not_apply(estimator):
    if isinstance(estimator, GroupedClusters):
        return CLUSTERS
    if isinstance(estimator, GroupedPersons):
        return SHARED
    if isinstance(estimator, Labeled):
        return LABELED
    names = [n for n in dir(estimator_checks) if n.startswith("check_") and n not in CLASS]
    return dict.fromkeys(names, "X needs a column of groups with published means; the check's X has none")


@parametrize_with_checks(
    [
        GroupedPersons(),
        Labeled(n_features=4),
        GroupedClusters(2, method="two_stage", n_restarts=1, allow_unconverged=True),
        AddImputed(partition=0, aggregates=np.array([0.2, 0.8])),
    ],
    expected_failed_checks=_does_not_apply,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
