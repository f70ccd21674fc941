"""Effects at rows with bands, and their pictures: what `KRLS` answers row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crosslevel import charts
from crosslevel.data import checks
from crosslevel.data.signatures import checked
from crosslevel.krls import heterogeneity
from crosslevel.krls.effects import Effect, scales
from crosslevel.krls.model import Fit
from crosslevel.krls.prediction import bias_allowance, effect_band
from crosslevel.krls.reading import Encoding, find_places, read_predict
from crosslevel.results import Estimates, Provenance
from crosslevel.results.intervals import normal_interval
from crosslevel.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHOD = "kernel regularized least squares"


class EffectBands(BaseEstimator):
    """A fitted model with its effects at rows."""

    missing: str
    _model: Fit
    _effects: tuple[Effect, ...]
    _pointwise: FloatArray
    encoding_: Encoding
    effect_names_: tuple[str, ...]

    @checked
    def pointwise_bands(
        self,
        columns: str | Sequence[str] | None = None,
        X: Any = None,
        *,
        level: float = 0.95,
    ) -> Estimates:
        """Give effects at rows with bands: the posterior of a Gaussian process, its linear part unpenalized, and measured bias.

        Parameters
        ----------
        columns : str or sequence of str, optional
            Terms of :meth:`effects`; all when not given.
        X : dataframe or array, optional
            The rows; the distinct rows of the data when not given.
        level : float, default 0.95
            Held on average over the rows.

        Returns
        -------
        Estimates
            Keys ``term`` and ``row``; ``value`` is the covariate at the row. ``estimate`` is the mean of that process, which is
            the center of the band; it differs from ``pointwise_effects_`` by the linear part, which is not shrunken.
            ``diagnostics["bias"]`` gives the allowance for bias in the standard errors of each term.

        Notes
        -----
        The posterior includes the bias of functions as smooth as the kernel. What there is beyond it is measured by how far the
        effects at the rows move when a tenth of the penalty is taken; its mean square is added to every variance.

        Examples
        --------
        >>> from crosslevel import KRLS
        >>> x = np.linspace(-2, 2, 60)[:, None]
        >>> rng = np.random.default_rng(1)
        >>> model = KRLS().fit(x, np.sin(x[:, 0]) + 0.2 * rng.normal(size=60))
        >>> band = model.pointwise_bands("x0", X=[[0.0]])
        >>> bool(band["conf_low"][0] < 1.0 < band["conf_high"][0])  # the derivative of the sine at 0
        True
        """
        check_is_fitted(self, "penalty_")
        rows = self._model.cells.X if X is None else read_predict(self, X, self.encoding_, "error")[0]
        places = self._terms(columns, "columns")
        return self._bands(places, rows, checks.check_level(level))

    def _axis_of(self, place: int) -> int:
        """Choose the column along which an effect is drawn."""
        effect, cells = self._effects[place], self._model.cells
        switched = {int(c) for e in self._effects if e.switch is not None for c in e.switch.columns}
        numeric = [c for c in range(len(self.encoding_.names)) if c not in switched]
        if effect.switch is None or not numeric:
            return effect.column
        strength = np.abs(heterogeneity.correlations(cells, self._pointwise[:, [place]])[0, numeric])
        return numeric[int(np.argmax(np.nan_to_num(strength)))]

    @checked
    def plot_effect(
        self,
        column: str,
        along: str | None = None,
        ax: Axes | None = None,
        *,
        level: float = 0.95,
        max_rows: int = 500,
    ) -> Axes:
        """Draw the effect of a term at every row against a covariate, with a band, colored by the fitted outcome.

        Parameters
        ----------
        column : str
            A term of :meth:`effects`.
        along : str, optional
            The covariate of the horizontal axis, a column of the matrix. When not given, the term's own; for a comparison of two
            groups, whose own column has two values, the numeric covariate that the effect goes with most.
        ax : matplotlib.axes.Axes, optional
        level : float, default 0.95
            Of the bars around the points, held on average over the curve.
        max_rows : int
            Draw at most so many distinct rows, a random part of them.

        Examples
        --------
        >>> from crosslevel import KRLS
        >>> x = np.linspace(-2, 2, 40)[:, None]
        >>> ax = KRLS(0.1).fit(x, np.sin(x[:, 0]) + 0.1 * np.cos(9 * x[:, 0])).plot_effect("x0")
        >>> ax.get_title(loc="left"), ax.get_ylabel()
        ('95 % on average over the curve', 'effect of x0')
        """
        check_is_fitted(self, "penalty_")
        place = self._terms(column, "columns")[0]
        names, model = self.encoding_.names, self._model
        x = self._axis_of(place) if along is None else find_places(along, "along", names)[0]
        rows = some_rows(len(model.cells.m), checks.check_whole(max_rows, "max_rows", 1))
        X = model.cells.X[rows]
        band = self._bands([place], X, checks.check_level(level))
        return charts.effect_curve(
            X[:, x],
            band["estimate"],
            band["conf_low"],
            band["conf_high"],
            ax,
            color=model.solution.fitted[rows] * model.y_sd + model.y_mean,
            x_label=names[x],
            y_label=f"effect of {column}",
            level=level,
            left_out=len(model.cells.m) - len(rows),
        )

    def plot_effects(self, ax: Axes | None = None) -> Axes:
        """Draw the distribution of all effects over the rows.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Examples
        --------
        >>> from crosslevel import KRLS
        >>> x = np.linspace(-2, 2, 40)[:, None]
        >>> KRLS(0.1).fit(x, np.sin(x[:, 0])).plot_effects().get_title(loc="left")
        'Distribution of effects'
        """
        check_is_fitted(self, "penalty_")
        return charts.effect_distributions(self._pointwise, self.effect_names_, ax, weights=self._model.cells.m)

    def _bands(self, places: Sequence[int], X: FloatArray, level: float) -> Estimates:
        """Make the table of some effects at rows of the matrix, with bands: a row per term and row of X."""
        fit, effects = self._model, [self._effects[i] for i in places]
        scale_of, allowances = scales(fit, effects), bias_allowance(fit, effects)
        parts = [
            effect_band(fit, effect, fit.scaling.apply(X), allowance)
            for effect, allowance in zip(effects, allowances, strict=True)
        ]
        mean, error = (np.concatenate([s * part[i] for s, part in zip(scale_of, parts, strict=True)]) for i in (0, 1))
        low, high = normal_interval(mean, error, level)
        bias = np.sqrt(allowances) * np.abs(scale_of)
        return Estimates.build(
            {
                "term": np.repeat([e.term for e in effects], len(X)),
                "row": np.tile(np.arange(len(X)), len(effects)),
                "estimate": mean,
                "std_error": error,
                "conf_low": low,
                "conf_high": high,
                "value": np.concatenate([X[:, e.column] for e in effects]),
            },
            keys=("term", "row"),
            kind="pointwise_effects",
            method=f"{METHOD}, Gaussian process posterior with unpenalized linear part and measured bias",
            level=level,
            interval="posterior, on average over the rows",
            provenance=self._provenance("pointwise_bands(...)"),
            diagnostics={
                "path": fit.path,
                "penalty": fit.penalty,
                "bandwidth": fit.kernel.s,
                "bias": {e.term: float(v) for e, v in zip(effects, bias, strict=True)},
            },
            frame=self._frame,
            title="Effects at rows",
        )

    def _terms(self, wanted: str | Sequence[str] | None, argument: str) -> list[int]:
        """Find terms; a contrast may be named without its reference, as its column of the matrix is."""
        if wanted is not None:
            short = {self.encoding_.names[e.column]: e.term for e in self._effects}
            wanted = [short.get(name, name) for name in ([wanted] if isinstance(wanted, str) else wanted)]
        return find_places(wanted, argument, self.effect_names_, "term")

    def _provenance(self, call: str, seed: int | None = None) -> Provenance:
        given = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items() if v is not None)
        return Provenance.of(call=f"{type(self).__name__}({given}).fit(X, y).{call}", seed=seed, data=self._data)


def some_rows(n: int, most: int, seed: int = 0) -> IntArray:
    """Give all of n rows, or a random part of them, in order."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
