"""``KRLS``: how does y respond to each x, with no functional form assumed?"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.errors import CrosslevelWarning, InputError, unknown_name
from crosslevel.krls import saved
from crosslevel.krls.columns import CONTRASTS, build_effects
from crosslevel.krls.effects import pointwise_effects
from crosslevel.krls.inputs import Inputs, Options, read_fit, read_predict
from crosslevel.krls.measures import average, fit_measures, spread_rows
from crosslevel.krls.model import METHODS, Fit, fit
from crosslevel.krls.penalty import RULES
from crosslevel.krls.prediction import predict_std
from crosslevel.krls.table import band_table, effects_table, reader_notes
from crosslevel.krls.variants import INFERENCE, Inference, infer, scales
from crosslevel.results import Estimates, Provenance

__all__ = ["KRLS"]

FloatArray = npt.NDArray[np.float64]

_CHOICES = {
    "rule": RULES,
    "inference": INFERENCE,
    "method": METHODS,
    "weights": ("counts", "survey"),
    "contrast": CONTRASTS,
    "missing": ("error", "drop"),
}
_TARGETS = ("sample", "population")


class KRLS(RegressorMixin, BaseEstimator):
    """Kernel regularised least squares with average effects and intervals that cover.

    The outcome is a smooth function of the covariates, f(x) = sum_i c_i exp(-|z - z_i|^2 / s), fitted by least squares with
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
        scale, or the looser search of the R packages, step for step.
    inference : {"debiased", "hc3", "classical", "krls", "bigkrls"}, default "debiased"
        How standard errors are made. Only "debiased" intervals cover; the others are there to compare with.
    method : {"auto", "collapse", "exact"}, default "auto"
        The way to the numbers. All three give the same; "auto" gathers equal rows when there are any.
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
    missing : {"error", "drop"}, default "error"
        "drop" leaves rows with missing values out and keeps their place, as NaN, in fitted values and predictions.

    Attributes
    ----------
    penalty_, bandwidth_ : float
    loo_ : float
        Leave-one-out mean squared error in squared units of y. With inference "krls" or "bigkrls" it is R's ``Looe``.
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
        model = fit(
            given.X,
            given.y,
            given.weights,
            given.cluster,
            penalty=self.penalty,
            bandwidth=self.bandwidth,
            rule=self.rule,
            method=self.method,
            survey=self.weights == "survey",
        )
        self._keep(model, given)
        if model.choice.bound is not None:
            warnings.warn(self._bound_words(), CrosslevelWarning, stacklevel=2)
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
        return mean, spread_rows(predict_std(self._model, rows, self.inference), whole)

    def effects(self, level: float = 0.95, target: str = "sample") -> Estimates:
        """Give the average effects, a row per term.

        Parameters
        ----------
        level : float, default 0.95
        target : {"sample", "population"}
            Whether the interval is for the average over these rows, or over the population they were drawn from.

        Returns
        -------
        Estimates
            Key ``term``; ``estimate`` (debiased), ``plug_in`` (the average of the fit's own effects), ``correction`` (their
            difference in standard errors) and ``flagged`` (more than one), ``statistic``, ``p_value``, ``kind``,
            ``contrast``.

        Examples
        --------
        >>> rng = np.random.default_rng(1)
        >>> x = rng.normal(size=(80, 2))
        >>> model = KRLS().fit(x, x[:, 0] + 0.5 * rng.normal(size=80))
        >>> model.effects()
        <Estimates: 2 rows by term, kernel regularised least squares, 95 % interval (debiased, HC3), 1 warning; see ...>
        """
        check_is_fitted(self, "penalty_")
        level = checks.check_level(level)
        _check_choice("target", target, _TARGETS)
        return effects_table(
            self._effects,
            self._inference(),
            level=level,
            target=target,
            frame=self._frame,
            provenance=self._provenance(f"effects(level={level!r}, target={target!r})"),
            diagnostics=self._diagnostics(),
            notes=self._notes(),
        )

    def effects_covariance(self, target: str = "sample") -> FloatArray:
        """Give the joint covariance of the estimates of :meth:`effects`, for tests of several or of differences.

        Parameters
        ----------
        target : {"sample", "population"}
        """
        check_is_fitted(self, "penalty_")
        _check_choice("target", target, _TARGETS)
        found = self._inference()
        return found.covariance + (found.spread if target == "population" else 0.0)

    def effects_at(self, X: Any) -> FloatArray:
        """Evaluate the effects at new rows, (n, n_effects), in the units of the data."""
        check_is_fitted(self, "penalty_")
        rows, whole = read_predict(self, X, self.encoding_, self.missing)
        model = self._model
        made = pointwise_effects(model.kernel, self._effects, model.solution.coef, model.scaling.apply(rows))
        return spread_rows(made * scales(model, self._effects), whole)

    def pointwise_bands(
        self,
        columns: str | Sequence[str] | None = None,
        X: Any = None,
        *,
        level: float = 0.95,
        simultaneous: bool = False,
        draws: int = 400,
        random_state: int = 0,
    ) -> Estimates:
        """Give effects at rows with bands: the posterior of a Gaussian process whose linear part is unpenalised.

        Parameters
        ----------
        columns : str or sequence of str, optional
            Terms of :meth:`effects`; all when not given.
        X : dataframe or array, optional
            The rows; the distinct rows of the data when not given.
        level : float, default 0.95
            Held on average over the rows; with ``simultaneous`` by all rows at once.
        simultaneous : bool
        draws, random_state : int
            Simulations behind simultaneous bands, and their seed.

        Returns
        -------
        Estimates
            Keys ``term`` and ``row``; ``value`` is the covariate at the row.

        Examples
        --------
        >>> x = np.linspace(-2, 2, 60)[:, None]
        >>> rng = np.random.default_rng(1)
        >>> model = KRLS().fit(x, np.sin(x[:, 0]) + 0.2 * rng.normal(size=60))
        >>> band = model.pointwise_bands("x0", X=[[0.0]])
        >>> bool(band["conf_low"][0] < 1.0 < band["conf_high"][0])  # the derivative of the sine at 0
        True
        """
        check_is_fitted(self, "penalty_")
        rows = self._model.cells.X if X is None else read_predict(self, X, self.encoding_, "error")[0]
        return band_table(
            self._model,
            [self._effects[i] for i in self._term_places(columns)],
            rows,
            level=checks.check_level(level),
            simultaneous=simultaneous,
            draws=draws,
            seed=random_state,
            frame=self._frame,
            provenance=self._provenance("pointwise_bands(...)", seed=random_state),
        )

    def summary(self, level: float = 0.95) -> str:
        """Write the fit and its average effects as text."""
        return self.effects(level).summary(max_rows=None)

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
        self.encoding_ = given.encoding
        self._effects = build_effects(
            given.encoding,
            model.cells.X,
            model.scaling,
            contrast=self.contrast,
            first_differences=self.first_differences,
            per_unit=self.inference == "bigkrls",
        )
        self._pointwise = pointwise_effects(model.kernel, self._effects, model.solution.coef) * scales(
            model, self._effects
        )
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

    def _inference(self) -> Inference:
        """Make the intervals when they are first asked for."""
        if self._inferred is None:
            self._inferred = infer(self._model, self._effects, self.inference, self._pointwise)
        return self._inferred

    def _options(self) -> Options:
        return Options(self.weights, self.categorical, self.reference, self.missing)

    def _term_places(self, columns: str | Sequence[str] | None) -> list[int]:
        names = list(self.effect_names_)
        wanted = names if columns is None else [columns] if isinstance(columns, str) else list(columns)
        for name in wanted:
            if name not in names:
                raise unknown_name("columns", name, names, "term")
        return [names.index(name) for name in wanted]

    def _bound_words(self) -> str:
        bound, penalty = self._model.choice.bound, self._model.penalty
        what = (
            "the data show no pattern that could be predicted, and the fit is nearly constant"
            if bound == "upper"
            else "the data ask for as little smoothing as can be computed, and the fit nearly reproduces the mean of every row"
        )
        return f"the penalty lies at the {bound} limit of the search ({penalty:.3g}): {what}."

    def _notes(self) -> list[str]:
        bound = [] if self._model.choice.bound is None else [self._bound_words()]
        return [*bound, *reader_notes(self._model, self._effects, self.encoding_.names)]

    def _diagnostics(self) -> dict[str, Any]:
        return {
            "path": self.path_,
            "rows": self._model.cells.N,
            "penalty": self.penalty_,
            "rule": "given" if self.penalty is not None else self.rule,
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
        elif not 0 < float(self.bandwidth) < np.inf:
            raise InputError(f"bandwidth={self.bandwidth!r} is not a positive number; pass 'P', 'maxvar' or a number.")
        if self.penalty is not None and not 0 < float(self.penalty) < np.inf:
            raise InputError(f"penalty={self.penalty!r} is not a positive number; pass None to have it chosen.")


def _check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise unknown_name(name, value, list(choices), "choice")
