"""What a fitted model of this room keeps: its effects, warnings and diagnostics, and how it is saved."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from crosslevel.data.checks import align_rows
from crosslevel.data.columns import describe_codes
from crosslevel.errors import CrosslevelError, CrosslevelWarning, InputError, unknown_name
from crosslevel.krls.effects import Effect, build_effects, describe_covariates
from crosslevel.krls.inference import Inference
from crosslevel.krls.model import Fit, cluster_pairs, r2_of_averages
from crosslevel.krls.overlap import describe_overlap
from crosslevel.krls.reading import Inputs, read_clusters, spread_rows
from crosslevel.krls.subgroups import RowFacts
from crosslevel.results import Provenance
from crosslevel.typing import FloatArray

BANDWIDTHS = ("n_columns", "maxvar")
WIDEST = 1e12
"""Largest bandwidth; one over it is the smallest."""


class KernelEstimator(BaseEstimator):
    """What the estimators of this room share: parameters, the fit that is kept, its effects and warnings, saving."""

    penalty: float | None
    bandwidth: str | float
    contrast: str
    categorical: Sequence[str] | None
    reference: Mapping[str, Any] | None
    first_differences: bool
    missing: str
    _method: str
    _unsaved = ("_effects", "_outcome", "_keys", "pointwise_effects_", "fitted_")
    _choices: Mapping[str, Sequence[str]]
    """Parameters that take one of some names."""

    def _keep(self, model: Fit, given: Inputs, *, survey: bool = False, as_r: bool = False) -> Self:
        """Set the fitted attributes, and warn of what the reader should know."""
        self._model, self._frame, self._data = model, given.frame, given.data
        self._inferred: Inference | None = None
        self._rows = RowFacts(given.weights, given.cluster, survey)
        self._used, self._outcome, self._keys = given.used, given.y, given.keys
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
        unit = model.y_sd if as_r else model.y_sd**2 / cells.N
        self.loo_, self.loo_curve_ = solution.loo * unit, found.curve * [1.0, unit]
        self.r2_, self.r2_ame_ = model.r2, r2_of_averages(model, self._effects, self.average_effects_)
        self.convergence_ = {"converged": True, "penalty_at_limit": found.bound, "penalties_tried": len(found.curve)}
        codes = describe_codes({**dict(zip(given.encoding.names, given.X.T, strict=True)), "y": given.y}, "X, y")
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
            per_unit=self._per_unit,
        )

    def _spread(self) -> None:
        """Give every row the values of its distinct row."""
        model, cells = self._model, self._model.cells
        self.pointwise_effects_ = spread_rows(self._pointwise[cells.row], self._used)
        fitted = model.solution.fitted * model.y_sd + model.y_mean
        self.fitted_ = spread_rows(fitted[cells.row], self._used)

    def _rows_as_given(self) -> FloatArray:
        """Give the outcome of every used row, which a saved model does not hold."""
        if getattr(self, "_outcome", None) is None:
            raise InputError("this model was saved, and a saved model holds nobody's outcome; fit it again for this.")
        return self._outcome

    def _in_order(self, values: Any, argument: str) -> Any:
        """Put labels of rows that carry an index in the order of the rows of X."""
        return align_rows(values, getattr(self, "_keys", None), argument)

    def _clustered(self, cluster: Any) -> Self:
        """Give the same fit with errors by cluster."""
        cells, model = self._model.cells, self._model
        codes = read_clusters(self._in_order(cluster, "cluster"), self._used)
        y = (self._rows_as_given() - model.y_mean) / model.y_sd
        w = np.ones(len(y)) if self._rows.weights is None else self._rows.weights
        pairs = cluster_pairs(cells.row, len(cells.m), codes, w, y)
        found = copy.copy(self)
        found._model = replace(model, cells=replace(cells, clusters=pairs))
        found._rows = replace(self._rows, cluster=codes)
        found._inferred = None
        return found

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

    def _diagnostics(self) -> dict[str, Any]:
        return {
            "path": self.path_,
            "approximate": self._model.approximate,
            "lost_trace": self._model.lost,
            "rows": self._model.cells.N,
            "penalty": self.penalty_,
            "rule": "given" if self.penalty is not None else self._rule,
            "bandwidth": self.bandwidth_,
            "edf": self.edf_,
            "r2": self.r2_,
            "r2_ame": self.r2_ame_,
        }

    def _provenance(self, call: str, seed: int | None = None) -> Provenance:
        given = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items() if v is not None)
        return Provenance.of(call=f"{type(self).__name__}({given}).fit(X, y).{call}", seed=seed, data=self._data)

    @property
    def _rule(self) -> str:
        """The rule by which the penalty was chosen."""
        raise NotImplementedError

    def _infer(self, places: Sequence[int], rho: FloatArray | None = None) -> Inference:
        """Estimate averages of some effects over all rows, or with row weights."""
        raise NotImplementedError

    def _inference(self) -> Inference:
        """Make the intervals when they are first asked for."""
        if self._inferred is None:
            self._inferred = self._infer(range(len(self._effects)))
        return self._inferred

    @property
    def _per_unit(self) -> bool:
        """Whether first differences are divided by the distance of the two values."""
        return False

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


def _is_positive(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_) and 0 < float(value) < np.inf
