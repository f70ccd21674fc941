"""``KRLS``: how does y respond to each x, with no functional form assumed?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin, clone
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks, frames
from crosslevel.data.progress import count_steps
from crosslevel.data.signatures import checked
from crosslevel.krls.bands import BandReports
from crosslevel.krls.effects import CONTRASTS
from crosslevel.krls.inference import AS_R, INFERENCE, Inference, infer
from crosslevel.krls.model import STEPS, fit
from crosslevel.krls.paths import BACKENDS, METHODS, Cost, cost_of_rows
from crosslevel.krls.penalty import RULES
from crosslevel.krls.prediction import predict_std
from crosslevel.krls.reading import read_fit, read_outcome, read_predict, rows_to_score, spread_rows
from crosslevel.typing import FloatArray, Progress, RandomState


class KRLS(RegressorMixin, BandReports):
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
    rule : {"loo", "gcv", "krls"}, default "loo"
        How the penalty is chosen: exact leave-one-out or generalized cross-validation, each to convergence on the log
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
        Seed of the choice of landmarks. The ways that draw none, "exact" and "collapse", refuse it; where another library sets
        seeds, as scikit-learn's ensembles do, use "auto", which is exact as long as that is affordable.
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
        Coefficients c, on the scale of the standardized outcome.
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
    KernelLogistic : the same for a binary outcome, on the scale of log odds.

    Notes
    -----
    After one eigendecomposition of the kernel between distinct rows everything is linear in the number of columns and
    quadratic in that of distinct rows; no covariance of that size is formed. Predictions and pointwise effects are those of
    the shrunken fit; only average effects are debiased. A fitted model holds the distinct rows it was fitted to, so a pickle
    of it does; `crosslevel.save` counts them in the file, and with ``allow_rows=False`` refuses.

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

    _method = "kernel regularized least squares"
    _choices: Mapping[str, Sequence[str]] = {
        "rule": RULES,
        "inference": INFERENCE,
        "method": METHODS,
        "weights": ("counts", "survey"),
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
        weights: str = "counts",
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
        self.weights = weights
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
            See ``weights``. Rows of weight zero are left out.
        cluster : array of shape (n,), optional
            The group whose members' errors are correlated; makes standard errors cluster-robust (CR3) with Student's t.
        progress : bool or callable, optional
            True for a bar on stderr, or a function of what is done and all there is to do.
        """
        checks.check_flags(self)
        self._check_parameters()
        if sample_weight is None:
            checks.refuse_idle(self, ["weights"], "without sample_weight; pass it to fit")
        survey = self.weights == "survey"
        given = read_fit(self, X, y, sample_weight, cluster, survey)
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
                survey=survey,
                rank=self.rank,
                backend=self.backend,
                seed=checks.read_seed(self.random_state),
                step=step,
            )
            return self._keep(model, given, survey=survey, as_r=self.inference in AS_R)

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
        rows = read_fit(clone(self), given, np.arange(len(given)), None, None, False).X
        return cost_of_rows(rows, self.method, self.rank, self.bandwidth, checks.read_seed(self.random_state))

    def _infer(self, places: Sequence[int], rho: FloatArray | None = None) -> Inference:
        return infer(self._model, [self._effects[i] for i in places], self.inference, rho)

    @property
    def _rule(self) -> str:
        return self.rule

    @property
    def _per_unit(self) -> bool:
        return self.inference == "bigkrls"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.rank is not None:
            checks.check_whole(self.rank, "rank", 2)
        if self.penalty is not None:
            checks.refuse_idle(self, ["rule"], f"with penalty={self.penalty!r}; pass penalty=None to have it chosen")
        if self.method in ("exact", "collapse"):
            checks.refuse_idle(
                self, ["random_state"], f"with method={self.method!r}, which draws nothing; use 'nystrom'"
            )
        if self.method in ("nystrom", "partial"):
            checks.refuse_idle(self, ["backend"], f"with method={self.method!r}; use 'auto', 'collapse' or 'exact'")
        else:
            checks.refuse_idle(self, ["rank"], f"with method={self.method!r}; use 'nystrom' or 'partial'")
