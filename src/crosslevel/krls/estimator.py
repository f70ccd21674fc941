"""``KRLS``: how does y respond to each x, with no functional form assumed?"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin, clone
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks, frames
from crosslevel.data.audit import describe_codes
from crosslevel.data.progress import count_steps
from crosslevel.data.signatures import checked
from crosslevel.errors import CrosslevelError, CrosslevelWarning, InputError, unknown_name
from crosslevel.krls.effects import CONTRASTS, Effect, build_effects, describe_covariates, describe_overlap
from crosslevel.krls.inference import AS_R, INFERENCE, Inference
from crosslevel.krls.model import STEPS, Fit, fit, r2_of_averages
from crosslevel.krls.paths import BACKENDS, METHODS, Cost, cost_of_rows
from crosslevel.krls.penalty import RULES
from crosslevel.krls.prediction import predict_std
from crosslevel.krls.reading import Inputs, read_fit, read_outcome, read_predict, rows_to_score, spread_rows
from crosslevel.krls.reporting import EffectReports
from crosslevel.typing import FloatArray, Progress, RandomState

BANDWIDTHS = ("n_columns", "maxvar")
WIDEST = 1e12
"""Largest bandwidth; one over it is the smallest."""


class KRLS(RegressorMixin, EffectReports):
    """Kernel regularized least squares with average effects and intervals that cover.

    The outcome is a smooth function of the covariates, ``f(x) = sum_i c_i exp(-|z - z_i|^2 / s)``, fitted by least squares with
    a penalty on its roughness. Effects are derivatives of f (first differences for binary columns, contrasts for factors),
    at every observation and averaged.

    Parameters
    ----------
    penalty : float, optional
        The penalty; chosen by ``rule`` when not given.
    bandwidth : {"n_columns", "maxvar"} or float, default "n_columns"
        s of the kernel: the number of columns, the value at which the kernel varies most, or a number.
    rule : {"loo", "krls"}, default "loo"
        How the penalty is chosen: exact leave-one-out, to convergence on the log scale, or the looser search of the R packages,
        step for step. Of several minima of leave-one-out within one standard error, the largest penalty is taken.
    inference : {"debiased", "hc3", "krls", "bigkrls"}, default "debiased"
        How standard errors are made. Only "debiased" intervals cover; the others are there to compare with.
    method : {"auto", "exact", "partial", "nystrom"}, default "auto"
        The way to the numbers, once equal rows are gathered. "exact" finds all eigenvectors, "partial" leaves out those that are
        zero to rounding: both give the same. "nystrom" is an approximation with ``rank`` landmarks. "auto" takes the first of
        them that is affordable; ``path_`` says which, and a warning that it was an approximation.
    contrast : {"factor", "dummy"}, default "factor"
        Whether the effect of a level sets the whole factor, or its dummy alone as the R packages do.
    categorical : sequence of str, optional
        Columns of numbers that are codes. Text and categorical columns always are factors.
    reference : mapping of column to level, optional
        The level a factor is compared with; the one most rows have (the first of several) where none is given. Every row of
        the table names it: "arm: letter (reference control)".
    first_differences : bool, default True
        False gives columns with two values a derivative.
    rank : int, optional
        Landmarks of "nystrom" (600 when not given); for "partial", eigenvectors after which the rest is left out, whatever it
        holds. The other methods refuse it.
    backend : {"numpy", "jax"}, default "numpy"
        Where the dense algebra of the exact way is done: "jax" is a GPU, where there is one, in double precision.
    random_state : int, None, Generator or RandomState, default 0
        Seed of the choice of landmarks. "exact", which draws none, refuses it; where another library sets seeds, as
        scikit-learn's ensembles do, use "auto", which is exact as long as that is affordable.
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
        Coefficients c, on the scale of the standardized outcome, for a unit of weight.
    effect_names_ : tuple of str
    pointwise_effects_ : (n, n_effects)
        Effects at every row, in the units of the data.
    average_effects_ : (n_effects,)
        Their averages: the plug-in effects.
    path_ : str
        The way the numbers were made, in words.
    convergence_ : dict
        Whether the search for the penalty converged, and whether it ended at a limit.
    warnings_ : tuple of str
        What the reader of the numbers should know.

    See Also
    --------
    KRLS.effects : the table of average effects.

    Notes
    -----
    After one eigendecomposition of the kernel between distinct rows everything is linear in the number of columns and
    quadratic in that of distinct rows; no covariance of that size is formed. Predictions and pointwise effects are those of
    the shrunken fit; only average effects are debiased. A fitted model holds the distinct rows it was fitted to, so a pickle
    of it does; `crosslevel.save` counts them in the file, and with ``allow_rows=False`` refuses.

    A row that is in the data several times, with the same outcome, is one observation: leave-one-out leaves out all of its copies,
    in the choice of the penalty as in standard errors. So every row twice gives the answer of every row once; copies are no new
    information. Outcomes of few values (yes and no, a scale of five) are equal by chance: there people with equal covariates are
    different people, unless every row of the data has as many copies, or nobody differs from those with equal covariates.

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

    _unsaved = ("_effects", "_keys", "pointwise_effects_", "fitted_")
    _choices: Mapping[str, Sequence[str]] = {
        "rule": RULES,
        "inference": INFERENCE,
        "method": METHODS,
        "contrast": CONTRASTS,
        "missing": ("error", "drop"),
        "backend": BACKENDS,
    }

    def __init__(
        self,
        penalty: float | None = None,
        bandwidth: str | float = "n_columns",
        rule: str = "loo",
        inference: str = "debiased",
        method: str = "auto",
        *,
        contrast: str = "factor",
        categorical: Sequence[str] | None = None,
        reference: Mapping[str, Any] | None = None,
        first_differences: bool = True,
        missing: str = "error",
        rank: int | None = None,
        backend: str = "numpy",
        random_state: RandomState = 0,
    ) -> None:
        self.penalty = penalty
        self.bandwidth = bandwidth
        self.rule = rule
        self.inference = inference
        self.method = method
        self.contrast = contrast
        self.categorical = categorical
        self.reference = reference
        self.first_differences = first_differences
        self.missing = missing
        self.rank = rank
        self.backend = backend
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, cluster: Any = None, progress: Progress | None = None
    ) -> Self:
        """Fit the function and find its effects.

        Parameters
        ----------
        X : dataframe or array of shape (n, n_columns)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            Survey weights: how much each observation counts. Only their ratios matter; they make no row into several. Rows of
            weight zero are left out.
        cluster : array of shape (n,), optional
            The group whose members' errors are correlated; makes standard errors cluster-robust (CR3) with Student's t.
        progress : bool or callable, optional
            True for a bar on stderr, or a function of what is done and all there is to do.
        """
        checks.check_flags(self)
        self._check_parameters()
        given = read_fit(self, X, y, sample_weight, cluster)
        with count_steps(progress, "Fitting rows", STEPS) if progress is not None else nullcontext() as step:
            model = fit(
                given.X,
                given.y,
                given.weights,
                given.cluster,
                penalty=self.penalty,
                bandwidth=self.bandwidth,
                rule=self.rule,
                method=self.method,
                rank=self.rank,
                backend=self.backend,
                seed=checks.read_seed(self.random_state),
                step=step,
            )
            return self._keep(model, given)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Give R² of the predictions; y and weights are matched with the rows of X, and rows left out, as in ``fit``."""
        found = self.predict(X)
        target = read_outcome(checks.align_rows(y, checks.row_keys(X), "y"), len(found))
        used, weight = rows_to_score(self, X, sample_weight, np.isnan(target) | np.isnan(found))
        return float(r2_score(target[used], found[used], sample_weight=weight))

    @checked
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
        given = frames.to_arrow(X, "X") if frames.is_frame(X) else X
        rows = read_fit(clone(self), given, np.arange(len(given)), None, None).X
        return cost_of_rows(rows, self.method, self.rank, self.bandwidth, checks.read_seed(self.random_state))

    def _keep(self, model: Fit, given: Inputs) -> Self:
        """Set the fitted attributes, and warn of what the reader should know."""
        self._model, self._frame, self._data = model, given.frame, given.data
        self._inferred: Inference | None = None
        self._cluster = given.cluster
        self._used, self._keys = given.used, given.keys
        self.encoding_ = given.encoding
        self._effects = self._build_effects()
        self._pointwise = model.effects(self._effects)
        cells, solution, found = model.cells, model.solution, model.choice
        self.penalty_, self.bandwidth_, self.path_ = model.penalty, model.kernel.s, model.path
        self.edf_, self.effective_n_ = solution.edf, cells.N - solution.edf
        self.coef_ = spread_rows(model.row_coefficients(given.y), given.used)
        self.effect_names_ = tuple(e.term for e in self._effects)
        self.average_effects_ = cells.m @ self._pointwise / cells.N
        # R's Looe is a sum of squares of the standardized outcome times one standard deviation of y
        unit = model.y_sd if self.inference in AS_R else model.y_sd**2 / cells.N
        self.loo_, self.loo_curve_ = solution.loo * unit, found.curve * [1.0, unit]
        self.r2_, self.r2_ame_ = model.r2, r2_of_averages(model, self._effects, self.average_effects_)
        self.convergence_ = {"converged": True, "penalty_at_limit": found.bound, "penalties_tried": len(found.curve)}
        codes = describe_codes(dict(zip(given.encoding.names, given.X.T, strict=True), y=given.y), "X, y")
        urgent = [*codes, *model.describe(), *describe_overlap(self._effects, model.kernel.Z, cells.m)]
        for sentence in urgent:
            warnings.warn(sentence, CrosslevelWarning, stacklevel=3)
        self.warnings_ = (*urgent, *describe_covariates(model, self._effects, given.encoding.names))
        self._spread()
        return self

    def _build_effects(self) -> tuple[Effect, ...]:
        return build_effects(
            self.encoding_,
            self._model.cells.X,
            self._model.scaling,
            contrast=self.contrast,
            first_differences=self.first_differences,
            per_unit=self.inference == "bigkrls",
        )

    def _spread(self) -> None:
        """Give every row the values of its distinct row."""
        model, cells = self._model, self._model.cells
        self.pointwise_effects_ = spread_rows(self._pointwise[cells.row], self._used)
        fitted = model.solution.fitted * model.y_sd + model.y_mean
        self.fitted_ = spread_rows(fitted[cells.row], self._used)

    def _as_saved(self) -> Self:
        """Give the estimator with intervals, and without what is large and can be made again."""
        with contextlib.suppress(
            CrosslevelError
        ):  # intervals that cannot be made are refused again when they are asked for
            self._inference()
        small = copy.copy(self)
        small._model = self._model.compact()
        return small

    def _restored(self) -> None:
        self._model = self._model.restored()
        self._effects = self._build_effects()
        self._spread()

    def _check_parameters(self) -> None:
        for name, choices in self._choices.items():
            if getattr(self, name) not in choices:
                raise unknown_name(name, getattr(self, name), list(choices), "choice")
        bandwidth, penalty = self.bandwidth, self.penalty
        if isinstance(bandwidth, str):
            if bandwidth not in BANDWIDTHS:
                raise unknown_name("bandwidth", bandwidth, list(BANDWIDTHS), "choice")
        elif not _is_positive(bandwidth):
            raise InputError(
                f"bandwidth={bandwidth!r} is not a positive number; pass 'n_columns', 'maxvar' or a number."
            )
        elif not 1.0 / WIDEST <= bandwidth <= WIDEST:
            raise InputError(
                f"bandwidth={bandwidth!r} is a squared distance between standardized rows, beside which all rows are "
                f"{'equal' if bandwidth > 1 else 'infinitely far apart'}; pass 'n_columns', 'maxvar' or a number near that of columns."
            )
        if penalty is not None and not _is_positive(penalty):
            raise InputError(f"penalty={penalty!r} is not a positive number; pass None to have it chosen.")
        if self.rank is not None:
            checks.check_whole(self.rank, "rank", 2)
        if self.penalty is not None:
            checks.refuse_idle(self, ["rule"], f"with penalty={self.penalty!r}; pass penalty=None to have it chosen")
        if self.method == "exact":
            checks.refuse_idle(self, ["random_state"], "with method='exact', which draws nothing; use 'nystrom'")
        if self.method in ("nystrom", "partial"):
            checks.refuse_idle(self, ["backend"], f"with method={self.method!r}; use 'auto' or 'exact'")
        else:
            checks.refuse_idle(self, ["rank"], f"with method={self.method!r}; use 'nystrom' or 'partial'")


def _is_positive(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_) and 0 < float(value) < np.inf
