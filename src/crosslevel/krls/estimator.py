"""``KRLS``: how does y respond to each x, with no functional form assumed?"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from crosslevel.errors import CrosslevelWarning, InputError, unknown_name
from crosslevel.krls import saved
from crosslevel.krls.answers import EffectAnswers
from crosslevel.krls.columns import CONTRASTS, build_effects
from crosslevel.krls.costs import Cost
from crosslevel.krls.foretell import cost_of_rows
from crosslevel.krls.inputs import Inputs, Options, read_fit, read_predict
from crosslevel.krls.logistic import check_options, effects_of, fit_logistic, refuse
from crosslevel.krls.measures import average, fit_measures, spread_rows
from crosslevel.krls.model import Fit, fit
from crosslevel.krls.paths import BACKENDS, METHODS
from crosslevel.krls.penalty import RULES
from crosslevel.krls.prediction import predict_std
from crosslevel.krls.subgroups import RowFacts
from crosslevel.krls.variants import INFERENCE, Inference
from crosslevel.results import Provenance
from crosslevel.typing import FloatArray

__all__ = ["KRLS"]


_CHOICES = {
    "rule": RULES,
    "inference": INFERENCE,
    "method": METHODS,
    "weights": ("counts", "survey"),
    "contrast": CONTRASTS,
    "missing": ("error", "drop"),
    "backend": BACKENDS,
    "loss": ("squared", "logistic"),
}


class KRLS(EffectAnswers, RegressorMixin, BaseEstimator):
    """Kernel regularised least squares with average effects and intervals that cover.

    The outcome is a smooth function of the covariates, ``f(x) = sum_i c_i exp(-|z - z_i|^2 / s)``, fitted by least squares with
    a penalty on its roughness. Effects are derivatives of f (first differences for binary columns, contrasts for factors),
    at every observation and averaged.

    Parameters
    ----------
    penalty : float, optional
        The penalty; chosen by ``rule`` when not given.
    bandwidth : {"P", "maxvar"} or float, default "P"
        s of the kernel: the number of columns, the value at which the kernel varies most, or a number.
    rule : {"loo", "gcv", "krls"}, default "loo"
        How the penalty is chosen: exact leave-one-out or generalised cross-validation, each to convergence on the log
        scale, or the looser search of the R packages, step for step. Of several minima of leave-one-out within one standard
        error, the largest penalty is taken.
    inference : {"debiased", "hc3", "classical", "krls", "bigkrls"}, default "debiased"
        How standard errors are made. Only "debiased" intervals cover; the others are there to compare with.
    method : {"auto", "collapse", "exact", "partial", "nystrom"}, default "auto"
        The way to the numbers. "exact" treats every row by itself, "collapse" gathers equal ones, "partial" also leaves out
        the eigenvectors that are zero to rounding: all give the same. "nystrom" is an approximation with ``rank`` landmarks.
        "auto" gathers equal rows and takes the first of exact, partial and nystrom that is affordable; ``path_`` says which,
        and a warning that it was an approximation.
    weights : {"counts", "survey"}, default "counts"
        What ``sample_weight`` means: a number of equal observations that the row stands for, or how much one observation
        counts (scaled to mean one; errors are HC3 by row).
    contrast : {"factor", "dummy"}, default "factor"
        Whether the effect of a level sets the whole factor, or its dummy alone as the R packages do.
    categorical : sequence of str, optional
        Columns of numbers that are codes. Text and categorical columns always are factors.
    reference : mapping of column to level, optional
        The level a factor is compared with; the first when not given.
    first_differences : bool, default True
        False gives columns with two values a derivative.
    rank : int, optional
        Landmarks of "nystrom" (600 when not given); for "partial", eigenvectors after which the rest is left out, whatever it
        holds.
    backend : {"numpy", "jax"}, default "numpy"
        Where the dense algebra of the exact way is done: "jax" is a GPU, where there is one, in double precision.
    random_state : int, default 0
        Seed of the choice of landmarks.
    missing : {"error", "drop"}, default "error"
        "drop" leaves rows with missing values out and keeps their place, as NaN, in fitted values and predictions.
    loss : {"squared", "logistic"}, default "squared"
        "logistic" fits a binary outcome on the scale of log odds; predictions and effects are of the probability, the penalty
        comes from approximate leave-one-out (ALO) log loss, and errors from the delta method. It is exact and debiased only.

    Attributes
    ----------
    penalty_, bandwidth_ : float
    loo_ : float
        Leave-one-out mean squared error in squared units of y. With inference "krls" or "bigkrls" it is R's ``Looe``; with
        logistic loss the approximate leave-one-out mean log loss.
    loo_curve_ : (n_tried, 2)
        Penalties tried, and the loss of the rule at each in the units of ``loo_``.
    r2_, r2_ame_ : float
        Share of variance explained by the fit; squared correlation of y with the average effects times the covariates.
    edf_, effective_n_ : float
        Effective degrees of freedom, and rows less those.
    fitted_ : (n,)
    coef_ : (n,)
        Coefficients c, on the scale of the standardised outcome.
    effect_names_ : tuple of str
    pointwise_effects_ : (n, n_effects)
        Effects at every row, in the units of the data.
    average_effects_ : (n_effects,)
        Their averages: the plug-in effects.
    path_ : str
        The way the numbers were made, in words.

    See Also
    --------
    KRLS.effects : the table of average effects.

    Notes
    -----
    After one eigendecomposition of the kernel between distinct rows everything is linear in the number of columns and
    quadratic in that of distinct rows; no covariance of that size is formed. Predictions and pointwise effects are those of
    the shrunken fit; only average effects are debiased.

    References
    ----------
    Hainmueller, J. and Hazlett, C. (2014). Kernel regularized least squares. Political Analysis 22.
    Mohanty, P. and Shaffer, R. (2019). Messy data, robust inference? bigKRLS. Political Analysis 27.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = {"age": rng.normal(50, 15, 200), "treated": rng.integers(0, 2, 200)}
    >>> y = 0.02 * X["age"] + 0.5 * X["treated"] + rng.normal(size=200)
    >>> found = KRLS().fit(X, y).effects()
    >>> found["term"].tolist(), found["kind"].tolist()
    (['age', 'treated'], ['derivative', 'first difference'])
    >>> bool((found["conf_low"] < [0.02, 0.5]).all() and (found["conf_high"] > [0.02, 0.5]).all())
    True
    """

    def __init__(
        self,
        penalty: float | None = None,
        bandwidth: str | float = "P",
        rule: str = "loo",
        inference: str = "debiased",
        method: str = "auto",
        *,
        weights: str = "counts",
        contrast: str = "factor",
        categorical: Sequence[str] | None = None,
        reference: Mapping[str, Any] | None = None,
        first_differences: bool = True,
        missing: str = "error",
        rank: int | None = None,
        backend: str = "numpy",
        random_state: int = 0,
        loss: str = "squared",
    ) -> None:
        self.penalty = penalty
        self.bandwidth = bandwidth
        self.rule = rule
        self.inference = inference
        self.method = method
        self.weights = weights
        self.contrast = contrast
        self.categorical = categorical
        self.reference = reference
        self.first_differences = first_differences
        self.missing = missing
        self.rank = rank
        self.backend = backend
        self.random_state = random_state
        self.loss = loss

    def fit(self, X: Any, y: Any, sample_weight: Any = None, cluster: Any = None) -> Self:
        """Fit the function and find its effects.

        Parameters
        ----------
        X : dataframe or array of shape (n, n_columns)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            See ``weights``. Rows of weight zero are left out.
        cluster : array of shape (n,), optional
            The group whose members' errors go together; makes errors CR3 with Student's t.
        """
        self._check_parameters()
        given = read_fit(self, X, y, sample_weight, cluster, self._options())
        model = self._fit_logistic(given) if self.loss == "logistic" else self._fit_squared(given)
        self._keep(model, given)
        if model.choice.bound is not None:
            warnings.warn(self._bound_words(), CrosslevelWarning, stacklevel=2)
        if model.approximate:
            warnings.warn(self._approximation_words(), CrosslevelWarning, stacklevel=2)
        return self

    def predict(self, X: Any, return_std: bool = False) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predict y, with the standard error of the predicted mean if asked.

        Parameters
        ----------
        X : dataframe or array of shape (n, n_columns)
        return_std : bool
            Also give standard errors: for "debiased" the posterior standard deviation of the fitted function, otherwise
            those of ``inference``. Neither includes the noise of a new observation.

        Examples
        --------
        >>> x = np.linspace(-2, 2, 60)[:, None]
        >>> model = KRLS(penalty=0.1).fit(x, np.sin(x[:, 0]))
        >>> model.predict([[0.5]]).round(2).tolist()
        [0.48]
        """
        check_is_fitted(self, "penalty_")
        rows, whole = read_predict(self, X, self.encoding_, self.missing)
        mean = spread_rows(self._model.predict(rows), whole)
        if not return_std:
            return mean
        refuse(self._model, "return_std")
        return mean, spread_rows(predict_std(self._model, rows, self.inference), whole)

    def cost(self, X: Any) -> Cost:
        """Estimate the memory and time that ``fit`` will take on these rows, without fitting.

        Parameters
        ----------
        X : dataframe or array of shape (n, n_columns)

        Examples
        --------
        >>> print(KRLS().cost(np.random.default_rng(0).normal(size=(500, 3))))
        500 rows, 3 columns: exact, about 0.3 GiB and ... s; ... GiB are free
        """
        self._check_parameters()
        return cost_of_rows(clone(self), X, self._options(), self.method, self.rank, self.bandwidth, self.random_state)

    def to_payload(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Give the saved form; see `crosslevel.save`."""
        check_is_fitted(self, "penalty_")
        return saved.to_payload(self)

    @classmethod
    def from_payload(cls, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Make the model from its saved form."""
        return saved.from_payload(cls, meta, arrays)

    def _keep(self, model: Fit, given: Inputs) -> None:
        """Set the fitted attributes."""
        self._model, self._frame, self._data = model, given.frame, given.data
        self._inferred: Inference | None = None
        self._rows = RowFacts(given.weights, given.cluster, self.weights == "survey")
        self.encoding_ = given.encoding
        self._effects = build_effects(
            given.encoding,
            model.cells.X,
            model.scaling,
            contrast=self.contrast,
            first_differences=self.first_differences,
            per_unit=self.inference == "bigkrls",
        )
        self._pointwise = effects_of(model, self._effects)
        self._used = given.used
        self.coef_ = spread_rows(model.row_coefficients(given.y), given.used)
        self._set_attributes()

    def _set_attributes(self) -> None:
        """Set what follows from the model alone; also after loading."""
        model = self._model
        cells, solution = model.cells, model.solution
        self.penalty_, self.bandwidth_, self.path_ = model.penalty, model.kernel.s, model.path
        self.edf_, self.effective_n_ = solution.edf, cells.N - solution.edf
        self.effect_names_ = tuple(e.term for e in self._effects)
        self.average_effects_ = average(cells, self._pointwise)
        self.pointwise_effects_ = spread_rows(self._pointwise[cells.row], self._used)
        self.fitted_ = spread_rows((solution.fitted * model.y_sd + model.y_mean)[cells.row], self._used)
        measures = fit_measures(model, self._effects, self.average_effects_, as_r=self.inference in ("krls", "bigkrls"))
        self.loo_, self.loo_curve_ = measures.loo, measures.curve
        self.r2_, self.r2_ame_ = measures.r2, measures.r2_ame

    def _fit_squared(self, given: Inputs) -> Fit:
        return fit(
            given.X,
            given.y,
            given.weights,
            given.cluster,
            penalty=self.penalty,
            bandwidth=self.bandwidth,
            rule=self.rule,
            method=self.method,
            survey=self.weights == "survey",
            rank=None if self.rank is None else int(self.rank),
            backend=self.backend,
            seed=int(self.random_state),
        )

    def _fit_logistic(self, given: Inputs) -> Fit:
        check_options(self)
        return fit_logistic(
            given.X,
            given.y,
            given.weights,
            given.cluster,
            penalty=self.penalty,
            bandwidth=self.bandwidth,
            merge=self.method != "exact",
        )

    def _options(self) -> Options:
        return Options(self.weights, self.categorical, self.reference, self.missing)

    def _bound_words(self) -> str:
        bound, penalty = self._model.choice.bound, self._model.penalty
        what = (
            "the data show no pattern that could be predicted, and the fit is nearly constant"
            if bound == "upper"
            else "the data ask for as little smoothing as can be computed, and the fit comes as close to the data as this kernel can"
        )
        return f"the penalty lies at the {bound} limit of the search ({penalty:.3g}): {what}."

    def _approximation_words(self) -> str:
        return (
            f"the numbers are those of an approximate model: {self.path_}. Leave-one-out, effects and intervals are exact for "
            "that model; a larger rank brings it nearer to the exact one."
        )

    def _diagnostics(self) -> dict[str, Any]:
        return {
            "path": self.path_,
            "approximate": self._model.approximate,
            "lost_trace": self._model.lost,
            "rows": self._model.cells.N,
            "penalty": self.penalty_,
            "rule": "given" if self.penalty is not None else "alo" if self.loss == "logistic" else self.rule,
            "bandwidth": self.bandwidth_,
            "edf": self.edf_,
            "r2": self.r2_,
            "r2_ame": self.r2_ame_,
        }

    def _provenance(self, call: str, seed: int | None = None) -> Provenance:
        said = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items() if v is not None)
        return Provenance.of(call=f"KRLS({said}).fit(X, y).{call}", seed=seed, data=self._data)

    def _check_parameters(self) -> None:
        for name, choices in _CHOICES.items():
            _check_choice(name, getattr(self, name), choices)
        if isinstance(self.bandwidth, str):
            _check_choice("bandwidth", self.bandwidth, ("P", "maxvar"))
        elif not _is_number(self.bandwidth) or not 0 < self.bandwidth < np.inf:
            raise InputError(f"bandwidth={self.bandwidth!r} is not a positive number; pass 'P', 'maxvar' or a number.")
        if self.penalty is not None and (not _is_number(self.penalty) or not 0 < self.penalty < np.inf):
            raise InputError(f"penalty={self.penalty!r} is not a positive number; pass None to have it chosen.")
        if self.rank is not None and not _is_whole(self.rank, 2):
            raise InputError(f"rank={self.rank!r} is not a whole number of at least 2; pass None for the default.")
        if not _is_whole(self.random_state, 0):
            raise InputError(f"random_state={self.random_state!r} is not a seed; pass a whole number, 0 or more.")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def _is_whole(value: Any, least: int) -> bool:
    return _is_number(value) and value == np.floor(value) and least <= value < np.inf


def _check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise unknown_name(name, value, list(choices), "choice")
