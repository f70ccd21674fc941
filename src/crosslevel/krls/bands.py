"""The methods of `KRLS` about effects at single rows: bands, their picture, and the bridge to ``marginaleffects``."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats
from sklearn.utils.validation import check_is_fitted

from crosslevel import charts
from crosslevel.data import checks
from crosslevel.data.signatures import checked
from crosslevel.errors import CrosslevelError, InputError
from crosslevel.krls.effects import scales
from crosslevel.krls.groups import GroupReports
from crosslevel.krls.heterogeneity import correlations
from crosslevel.krls.marginal import to_marginaleffects
from crosslevel.krls.prediction import bias_allowance, effect_band
from crosslevel.krls.reading import read_predict
from crosslevel.krls.reporting import find_places, some_rows
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray, RandomState

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_JOINT = 4000
"""Rows of a simultaneous band: its memory and time are those of a second fit of that size."""
FEWEST_DRAWS, DRAWS = 50, 400
"""Simulations behind a simultaneous band: the fewest, and the default."""

REPORT_BANDS = 300
"""Rows at which a report has bands."""


class BandReports(GroupReports):
    """The methods about effects that only least squares has."""

    inference: str

    @checked
    def pointwise_bands(
        self,
        columns: str | Sequence[str] | None = None,
        X: Any = None,
        *,
        level: float = 0.95,
        simultaneous: bool = False,
        n_draws: int | None = None,
        random_state: RandomState = 0,
    ) -> Estimates:
        """Give effects at rows with bands: the posterior of a Gaussian process, its linear part unpenalized, and measured bias.

        Parameters
        ----------
        columns : str or sequence of str, optional
            Terms of :meth:`effects`; all when not given.
        X : dataframe or array, optional
            The rows; the distinct rows of the data when not given.
        level : float, default 0.95
            Held on average over the rows; with ``simultaneous`` by all rows at once.
        simultaneous : bool
        n_draws : int, optional
            Simulations behind simultaneous bands, 400 when not given; other bands need none and refuse it.
        random_state : int, None, Generator or RandomState, default 0
            Their seed; refused without them.

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
        if not simultaneous:
            idle = {"n_draws": n_draws, "random_state": random_state}
            checks.refuse_idle_arguments(type(self).pointwise_bands, idle, "without simultaneous=True; pass it")
        if n_draws is not None and n_draws < FEWEST_DRAWS:
            raise InputError(f"n_draws={n_draws!r} is too few for a simultaneous band; pass at least {FEWEST_DRAWS}.")
        rows = self._model.cells.X if X is None else read_predict(self, X, self.encoding_, "error")[0]
        places = self._terms(columns, "columns")
        seed = checks.read_seed(random_state)
        return self._bands(places, rows, checks.check_level(level), simultaneous, n_draws or DRAWS, seed)

    def _axis_of(self, place: int) -> int:
        """Choose the column along which an effect is drawn."""
        effect, cells = self._effects[place], self._model.cells
        switched = {int(c) for e in self._effects if e.switch is not None for c in e.switch.columns}
        numeric = [c for c in range(len(self.encoding_.names)) if c not in switched]
        if effect.switch is None or not numeric:
            return effect.column
        strength = np.abs(correlations(cells, self._pointwise[:, [place]])[0, numeric])
        return numeric[int(np.argmax(np.nan_to_num(strength)))]

    @checked
    def plot_effect(
        self,
        column: str,
        along: str | None = None,
        ax: Axes | None = None,
        *,
        level: float = 0.95,
        simultaneous: bool = False,
        max_rows: int = 500,
        random_state: RandomState = 0,
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
            Of the bars around the points: held on average over the curve, or by all rows with ``simultaneous``.
        simultaneous : bool
        max_rows : int
            Draw at most so many distinct rows, a random part of them.
        random_state : int, None, Generator or RandomState, default 0

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
        names, seed, model = self.encoding_.names, checks.read_seed(random_state), self._model
        x = self._axis_of(place) if along is None else find_places(along, "along", names)[0]
        rows = some_rows(len(model.cells.m), checks.check_whole(max_rows, "max_rows", 1), seed)
        X = model.cells.X[rows]
        band = self._bands([place], X, checks.check_level(level), simultaneous, DRAWS, seed)
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
            simultaneous=simultaneous,
            left_out=len(model.cells.m) - len(rows),
        )

    def _report_tables(self, level: float = 0.95) -> dict[str, Estimates]:
        """Give the tables of a report: with bands at some rows, where the model can make them."""
        tables, X = super()._report_tables(level), self._model.cells.X
        rows = some_rows(len(X), REPORT_BANDS)
        with contextlib.suppress(CrosslevelError):  # a large model that was loaded has no posterior of effects at rows
            tables["bands"] = self._bands(range(len(self._effects)), X[rows], level)
        return tables

    def to_marginaleffects(self, data: Any = None, y: str = "y") -> Any:
        """Give the model as the package ``marginaleffects`` takes it, for its predictions, comparisons and slopes.

        Parameters
        ----------
        data : dataframe, optional
            The rows to average over by default, with any further columns to group by; those of fit when not given.
        y : str
            What to call the outcome.

        Notes
        -----
        Estimates and errors are those of :meth:`effects` (sample, without sample weights): ``avg_slopes`` of numbers, and
        ``avg_comparisons`` of factors, booleans and columns of zeros and ones. With the inference of the R packages errors lack
        their doubled variance of first differences, and intervals are normal. Its ``avg_predictions`` are those of the debiased
        function, not of :meth:`predict`. There is a coefficient per distinct row, so it suits some thousand rows.
        """
        check_is_fitted(self, "penalty_")
        return to_marginaleffects(self, data, y)

    def _bands(
        self,
        places: Sequence[int],
        X: FloatArray,
        level: float,
        simultaneous: bool = False,
        n_draws: int = DRAWS,
        seed: int = 0,
    ) -> Estimates:
        """Make the table of some effects at rows of the matrix, with bands: a row per term and row of X."""
        if simultaneous and len(X) > MOST_JOINT:
            raise InputError(
                f"X has {len(X):,} rows; a simultaneous band is simulated for at most {MOST_JOINT:,}. Pass fewer rows, such as a "
                "grid, as X."
            )
        fit, effects = self._model, [self._effects[i] for i in places]
        Z = fit.scaling.apply(X)
        normal = float(stats.norm.ppf((1 + level) / 2))
        parts: dict[str, list[FloatArray]] = {"estimate": [], "std_error": [], "conf_low": [], "conf_high": []}
        scale_of, allowances = scales(fit, effects), bias_allowance(fit, effects)
        for effect, scale, allowance in zip(effects, scale_of, allowances, strict=True):
            band = effect_band(fit, effect, Z, level if simultaneous else None, n_draws, seed, float(allowance))
            half = (normal if band.critical is None else band.critical) * band.sd
            made = (band.mean, band.sd, band.mean - half, band.mean + half)
            for values, column in zip(made, parts.values(), strict=True):
                column.append(values * scale)
        bias = np.sqrt(allowances) * np.abs(scale_of)
        return Estimates.build(
            {
                "term": np.repeat([e.term for e in effects], len(X)),
                "row": np.tile(np.arange(len(X)), len(effects)),
                **{name: np.concatenate(values) for name, values in parts.items()},
                "value": np.concatenate([X[:, e.column] for e in effects]),
            },
            keys=("term", "row"),
            kind="pointwise_effects",
            method=f"{self._method}, Gaussian process posterior with unpenalized linear part and measured bias",
            level=level,
            interval=f"posterior, {'simultaneous over the rows' if simultaneous else 'on average over the rows'}",
            provenance=self._provenance("pointwise_bands(...)", seed=seed),
            diagnostics={
                "path": fit.path,
                "penalty": fit.penalty,
                "bandwidth": fit.kernel.s,
                "bias": {e.term: float(v) for e, v in zip(effects, bias, strict=True)},
            },
            frame=self._frame,
            title="Effects at rows",
        )
