"""``KernelLogistic``: how does the probability of a binary outcome respond to each x, with no functional form assumed?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags, column_or_1d
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks, frames
from crosslevel.data.progress import count_steps
from crosslevel.errors import InputError
from crosslevel.krls.effects import CONTRASTS
from crosslevel.krls.groups import GroupReports
from crosslevel.krls.inference import Inference
from crosslevel.krls.logistic.model import LogisticFit, fit_logistic, infer_logistic
from crosslevel.krls.reading import missing_rows, read_fit, read_predict, rows_to_score, spread_rows
from crosslevel.typing import AnyArray, BoolArray, FloatArray, Progress


class KernelLogistic(ClassifierMixin, GroupReports):
    """Kernel logistic regression of a binary outcome, with average effects on its probability.

    The log odds are a smooth function of the covariates, fitted by penalized likelihood. Effects are of the probability of
    the second class, with errors from the delta method; the penalty minimizes the approximate leave-one-out (ALO) log loss. The fit is
    exact and its intervals are debiased; equal rows are gathered.

    Parameters
    ----------
    penalty : float, optional
        The penalty; chosen by approximate leave-one-out when not given.
    bandwidth : {"n_columns", "maxvar"} or float, default "n_columns"
    contrast : {"factor", "dummy"}, default "factor"
    categorical : sequence of str, optional
    reference : mapping of column to level, optional
    first_differences : bool, default True
    missing : {"error", "drop"}, default "error"
        See `KRLS`.

    Attributes
    ----------
    classes_ : (2,)
        Probabilities and effects are of the second.
    penalty_, bandwidth_ : float
    loo_ : float
        Approximate leave-one-out mean log loss.
    loo_curve_ : (n_tried, 2)
    r2_, r2_ame_, edf_, effective_n_ : float
    fitted_ : (n,)
        Probabilities.
    coef_ : (n,)
    effect_names_ : tuple of str
    pointwise_effects_ : (n, n_effects)
    average_effects_ : (n_effects,)
    path_ : str
    convergence_ : dict
    warnings_ : tuple of str

    See Also
    --------
    KRLS : least squares, which serves a binary outcome too and also has bands, approximations and survey weights.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = {"age": rng.normal(50, 15, 150), "treated": rng.integers(0, 2, 150)}
    >>> p = 1 / (1 + np.exp(-(0.04 * (X["age"] - 50) + X["treated"])))
    >>> model = KernelLogistic(penalty=1.0).fit(X, rng.random(150) < p)
    >>> model.effects()["term"].tolist(), model.predict_proba({"age": [70], "treated": [1]}).shape
    (['age', 'treated'], (1, 2))
    """

    _method = "kernel logistic regression"
    _choices: Mapping[str, Sequence[str]] = {"contrast": CONTRASTS, "missing": ("error", "drop")}
    _rule = "alo"
    _model: LogisticFit

    def __init__(
        self,
        penalty: float | None = None,
        bandwidth: str | float = "n_columns",
        *,
        contrast: str = "factor",
        categorical: Sequence[str] | None = None,
        reference: Mapping[str, Any] | None = None,
        first_differences: bool = True,
        missing: str = "error",
    ) -> None:
        self.penalty = penalty
        self.bandwidth = bandwidth
        self.contrast = contrast
        self.categorical = categorical
        self.reference = reference
        self.first_differences = first_differences
        self.missing = missing

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, cluster: Any = None, progress: Progress | None = None
    ) -> Self:
        """Fit the function and find its effects.

        Parameters
        ----------
        X : dataframe or array of shape (n, n_columns)
        y : array of shape (n,)
            Two classes, such as 0 and 1.
        sample_weight : array of shape (n,), optional
            Counts: how many equal observations the row stands for. Rows of weight zero are left out.
        cluster : array of shape (n,), optional
            The group whose members' errors are correlated; makes standard errors cluster-robust (CR3) with Student's t.
        progress : bool or callable, optional
            True for a bar on stderr, or a function of what is done and all there is to do.
        """
        self._check_parameters()
        checks.check_one_order({"X": X, "y": y, "sample_weight": sample_weight, "cluster": cluster})
        classes, target = _read_classes(checks.align_rows(y, checks.row_keys(X), "y"))
        checks.check_flags(self)
        given = read_fit(self, X, target, sample_weight, cluster, False)
        self.classes_ = classes
        with count_steps(progress, "Fitting rows", None, "Newton fits") as step:
            data = given.X, given.y, given.weights, given.cluster
            model = fit_logistic(*data, penalty=self.penalty, bandwidth=self.bandwidth, step=step)
            self._keep(model, given)
        self.convergence_ |= {"steps": model.steps}
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Give the accuracy of the predictions; y and weights are matched with the rows of X, and rows left out, as in ``fit``."""
        p = self.predict_proba(X)[:, 1]
        labels, missing = _read_labels(checks.align_rows(y, checks.row_keys(X), "y"))
        checks.check_length(missing, "y", len(p), "rows of X")
        used, weight = rows_to_score(self, X, sample_weight, missing | np.isnan(p))
        found = self.classes_[(p[used] > 0.5).astype(np.intp)]
        return float(accuracy_score(labels[used[~missing]], found, sample_weight=weight))

    def predict_proba(self, X: Any) -> FloatArray:
        """Give the probability of both classes, (n, 2); NaN in rows with missing values that ``missing="drop"`` leaves out."""
        check_is_fitted(self, "penalty_")
        rows, whole = read_predict(self, X, self.encoding_, self.missing)
        p = spread_rows(self._model.predict(rows), whole)
        return np.column_stack([1.0 - p, p])

    def predict(self, X: Any) -> AnyArray:
        """Give the more probable class of each row, (n,); NaN, or None of classes of text, where ``missing="drop"`` leaves it out."""
        p = self.predict_proba(X)[:, 1]
        return np.asarray(checks.unmasked(np.ma.array(self.classes_[(p > 0.5).astype(np.intp)], mask=np.isnan(p))))

    def _infer(self, places: Sequence[int], rho: FloatArray | None = None) -> Inference:
        effects, pointwise = [self._effects[i] for i in places], self._pointwise[:, list(places)]
        return infer_logistic(self._model, effects, pointwise, rho)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _read_labels(y: Any) -> tuple[AnyArray, BoolArray]:
    """Give the labels of the rows that have one, and which rows have none."""
    if y is None:
        raise InputError("KernelLogistic requires y to be passed, but the target y is None.")
    labels = column_or_1d(np.asarray(checks.unmasked(y)), warn=True)
    missing = missing_rows(frames.to_arrow({"y": labels}, "y"))
    there = labels[~missing]
    return np.array(there.tolist()) if there.dtype == object else there, missing


def _read_classes(y: Any) -> tuple[AnyArray, FloatArray]:
    """Give the two classes, and which one each row has: 0, 1 or NaN where it is missing."""
    labels, missing = _read_labels(y)
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise InputError("y contains infinity; KernelLogistic takes two classes. Recode y.")
    classes = np.unique(labels)
    if len(classes) != 2:
        kind = type_of_target(labels) if len(classes) else "empty"
        raise InputError(
            f"y has {len(classes):,} class(es) ({', '.join(map(repr, classes[:5].tolist()))}); KernelLogistic takes two. Only binary "
            f"classification is supported. The type of the target is {kind}. Recode y, or use KRLS."
        )
    target = np.full(len(missing), np.nan)
    target[~missing] = labels == classes[1]
    return classes, target
