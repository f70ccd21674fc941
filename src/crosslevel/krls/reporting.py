"""The methods of `KRLS` about effects: averages, in subgroups, along covariates, at rows with bands, and their pictures."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crosslevel import charts
from crosslevel.data import checks
from crosslevel.data.checks import align_rows
from crosslevel.data.signatures import checked
from crosslevel.errors import CrosslevelError, InputError, listed, unknown_name
from crosslevel.krls import heterogeneity, subgroups
from crosslevel.krls.effects import Effect, scales
from crosslevel.krls.inference import Inference, infer
from crosslevel.krls.model import Fit
from crosslevel.krls.prediction import bias_allowance, effect_band
from crosslevel.krls.reading import Encoding, find_places, read_predict, spread_rows
from crosslevel.results import Estimates, Provenance
from crosslevel.results.intervals import normal_interval
from crosslevel.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHOD = "kernel regularized least squares"
TARGETS = ("sample", "population")
REPORT_ROWS = 1500
"""Rows whose covariates and effects a report holds."""
REPORT_BANDS = 300
"""Rows at which a report has bands."""
RESERVED = (
    *("term", "estimate", "std_error", "conf_low", "conf_high", "plug_in", "correction", "flagged", "statistic"),
    *("p_value", "kind", "contrast", "rows", "p_equal", "versus"),
)
"""Columns of the table of effects, which no subgroup may be called."""
RESERVED_ROWS = (*RESERVED, "row", "value", "fitted", "weight")


class EffectReports(BaseEstimator):
    """A fitted model with its methods about effects."""

    missing: str
    inference: str
    _model: Fit
    _effects: tuple[Effect, ...]
    _pointwise: FloatArray
    _inferred: Inference | None
    _used: BoolArray
    _cluster: IntArray | None
    encoding_: Encoding
    effect_names_: tuple[str, ...]
    warnings_: tuple[str, ...]

    @checked
    def effects(
        self,
        level: float = 0.95,
        target: str = "sample",
        by: Any = None,
        *,
        along: str | Sequence[str] | None = None,
        differences: bool = False,
    ) -> Estimates:
        """Give the average effects, a row per term, or per term and subgroup, or their slopes along covariates.

        Parameters
        ----------
        level : float, default 0.95
        target : {"sample", "population"}
            Whether the interval is for the average over these rows or over the population they were drawn from.
        by : str, sequence of str, mapping of name to query, frame or array, optional
            Subgroups: columns of X, ``{"old": "age >= 65", "young": "age < 30"}``, or labels of the rows that fit was
            given, as an array or as columns of a frame (what has an index is matched with that of X).
        along : str or sequence of str, optional
            Columns of the matrix (a level of a factor is ``"arm: letter"``). The answer is then how the effect of each term varies
            along each of them: the slope of the effects at the rows, by how much the effect grows per unit of the column. Along a
            binary column it is the difference between the two groups. An effect that rises and falls again can have no slope.
        differences : bool
            Give the differences between all pairs of subgroups instead: the group of the row less that of ``versus``.

        Returns
        -------
        Estimates
            Key ``term`` (and those of ``by``); ``estimate`` (debiased), ``plug_in`` (the average of the fit's own
            effects), ``correction`` (their difference in standard errors) and ``flagged`` (more than one), ``statistic``,
            ``p_value``, ``kind``, ``contrast``. With ``by`` also ``rows``, the number in the subgroup, and ``p_equal``, of the
            hypothesis that the effect is the same in all of them. With ``along`` the key ``along``, and ``correlation``, that of
            the fitted effects with the column.

        Examples
        --------
        >>> from crosslevel import KRLS
        >>> rng = np.random.default_rng(1)
        >>> x = rng.normal(size=(80, 2))
        >>> model = KRLS().fit(x, x[:, 0] + 0.5 * rng.normal(size=80))
        >>> model.effects()
        <Estimates: 2 rows by term, kernel regularized least squares, 95 % interval (debiased, HC3), 1 warning; see ...>
        >>> halves = model.effects(by={"low": "x1 < 0", "high": "x1 >= 0"})
        >>> halves.keys, len(halves)
        (('term', 'subgroup'), 4)
        >>> model.effects(along="x1")["along"].tolist()
        ['x1', 'x1']
        """
        check_is_fitted(self, "penalty_")
        level = checks.check_level(level)
        if along is not None:
            others = {"target": target, "by": by, "differences": differences}
            checks.refuse_idle_arguments(type(self).effects, others, "with along=, whose slopes are those of all rows")
            return self._slopes(along, level)
        found, groups = self._averages(by, target)
        effects, cells = self._effects, self._model.cells
        call = f"effects(level={level!r}, target={target!r}"
        if by is None:
            if differences:
                raise InputError("differences=True compares subgroups; say which with by=.")
            return self._table(effects, found, f"{call})", level=level, target=target)
        E, G = len(effects), len(groups)
        equal = subgroups.p_equal(found, E, G)
        names = groups.keys.column_names
        values = {n: groups.keys[n].to_pylist() for n in names}
        if differences:
            if G < 2:
                raise InputError("by makes one group; differences need two.")
            found, pairs = subgroups.differences(found, E, G)
            keys = {n: [values[n][h] for h, _ in pairs] * E for n in names}
            keys["versus"] = [groups.labels[g] for _, g in pairs] * E
            extra: dict[str, Any] = {"p_equal": np.repeat(equal, len(pairs))}
            title, repeat = "Differences of average marginal effects", len(pairs)
        else:
            keys = {n: values[n] * E for n in names}
            extra = {"rows": np.tile(np.bincount(groups.group, minlength=G), E), "p_equal": np.repeat(equal, G)}
            title, repeat = "Average marginal effects by subgroup", G
        return self._table(
            [e for e in effects for _ in range(repeat)],
            found,
            f"{call}, by={_describe_by(by)}, differences={differences})",
            level=level,
            target=target,
            title=title,
            warnings=subgroups.describe_slices(groups, cells, effects, self.encoding_.names),
            keys=keys,
            extra=extra,
        )

    def effects_covariance(self, target: str = "sample", by: Any = None) -> FloatArray:
        """Give the joint covariance of the estimates of :meth:`effects`, for tests of several or of differences.

        Parameters
        ----------
        target : {"sample", "population"}
        by : optional
            As in :meth:`effects`, whose rows the covariance has.
        """
        check_is_fitted(self, "penalty_")
        return self._averages(by, target)[0].covariance

    def effects_at(self, X: Any) -> FloatArray:
        """Evaluate the effects at new rows, (n, n_effects), in the units of the data."""
        check_is_fitted(self, "penalty_")
        rows, whole = read_predict(self, X, self.encoding_, self.missing)
        return spread_rows(self._model.effects(self._effects, self._model.scaling.apply(rows)), whole)

    def heterogeneity(self) -> Estimates:
        """Describe how effects differ between the rows, a row per term.

        Returns
        -------
        Estimates
            ``estimate`` is the standard deviation of the fitted effects over the rows; beside it ``average``, quantiles
            ``q05`` to ``q95``, ``share_positive``, ``response`` ("rising" or "falling" where the outcome is monotone in the
            covariate, else "both"), ``strongest``, the covariate that the effect is most correlated with, and their
            ``correlation``. There is no interval: the fitted effects are shrunken, and part of their spread may be noise. Tests
            are in :meth:`effects` with ``along`` and ``by``.

        Examples
        --------
        >>> from crosslevel import KRLS
        >>> x = np.linspace(-1, 1, 80)[:, None]
        >>> found = KRLS(penalty=0.01).fit(x, x[:, 0] ** 2).heterogeneity()
        >>> found["response"].tolist(), found["strongest"].tolist()
        (['both'], ['x0'])
        """
        check_is_fitted(self, "penalty_")
        cells = self._model.cells
        columns = heterogeneity.heterogeneity_columns(cells, self._effects, self._pointwise, self.encoding_.names)
        return Estimates.build(
            {n: v for n, v in columns.items() if n not in ("response", "strongest") or any(v)},
            keys=("term",),
            method=METHOD,
            level=None,
            interval="none",
            provenance=self._provenance("heterogeneity()"),
            diagnostics=self._diagnostics(),
            warnings=["these numbers describe the fitted effects, which are shrunken; their spread has no interval."],
            frame=self._frame,
            title="Standard deviation of effects between rows",
        )

    def summary(self, level: float = 0.95, by: Any = None) -> str:
        """Write the fit and its average effects as text: plug-in and debiased side by side."""
        found = self.effects(level, by=by)
        d = found.diagnostics
        fit = (
            f"R² {d['r2']:.3f}, {d['r2_ame']:.3f} by average effects alone; penalty {d['penalty']:.4g} ({d['rule']}), "
            f"effective degrees of freedom {d['edf']:.1f}"
        )
        return f"{found.summary(max_rows=None)}\n\n{fit}"

    def _report_tables(self, level: float = 0.95) -> dict[str, Estimates]:
        """Give the tables of a report: average effects, effects at some rows with their covariates, and bands of effects."""
        cells, used = self._model.cells, np.flatnonzero(self._used)
        rows = some_rows(len(used), REPORT_ROWS)
        cell, n_terms = cells.row[rows], len(self.effect_names_)
        X = cells.X[cell]
        table = subgroups.covariate_table(self.encoding_, X)
        known: dict[str, Any] = {f"factor: {n}": list(map(str, table[n].to_pylist())) for n in self.encoding_.factors}
        known |= {n if n not in RESERVED_ROWS else f"{n}_": X[:, j] for j, n in enumerate(self.encoding_.names)}
        known["fitted"] = self.fitted_[used[rows]]
        average = self.effects(level)
        at_rows = Estimates.build(
            {
                "term": np.repeat(self.effect_names_, len(rows)),
                "row": np.tile(rows, n_terms),
                "estimate": self._pointwise[cell].T.ravel(),
                **{n: list(v) * n_terms for n, v in known.items()},
            },
            keys=("term", "row"),
            kind="pointwise_effects",
            method=f"{average.method}, effects of the fit at rows",
            level=None,
            interval="none",
            provenance=average.provenance,
            diagnostics={"rows": len(used)},
            title="Effects at rows",
        )
        tables = {"effects": average, "rows": at_rows}
        with contextlib.suppress(CrosslevelError):  # a large model that was loaded has no posterior of effects at rows
            tables["bands"] = self._bands(range(n_terms), cells.X[some_rows(len(cells.X), REPORT_BANDS)], level)
        return tables

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

    def _averages(self, by: Any, target: str) -> tuple[Inference, subgroups.Subgroups]:
        """Estimate the average effects of all rows or of subgroups; for the population people differ, which is added."""
        if target not in TARGETS:
            raise unknown_name("target", target, list(TARGETS), "choice")
        cells, by = self._model.cells, self._in_order(by, "by")
        if by is None:
            groups, found = subgroups.everybody(len(cells.row)), self._inference()
        else:
            groups = subgroups.read_groups(by, self.encoding_, cells, self._used, RESERVED)
            found = infer(self._model, self._effects, self.inference, subgroups.row_weights(groups, cells))
        if target == "population":
            added = subgroups.spread(groups, cells, self._cluster, self._pointwise)
            found = replace(found, covariance=found.covariance + added, interval=f"{found.interval}, population")
        return found, groups

    def _inference(self) -> Inference:
        """Make the intervals when they are first asked for."""
        if self._inferred is None:
            self._inferred = infer(self._model, self._effects, self.inference)
        return self._inferred

    def _slopes(self, along: str | Sequence[str], level: float) -> Estimates:
        """Estimate the slopes of all effects along some columns of the matrix."""
        cells, names = self._model.cells, self.encoding_.names
        columns = find_places(along, "along", names)
        found = infer(self._model, self._effects, self.inference, heterogeneity.slope_weights(cells, columns))
        correlation = heterogeneity.correlations(cells, self._pointwise)[:, columns]
        return self._table(
            [e for e in self._effects for _ in columns],
            found,
            f"effects(level={level!r}, along={along!r})",
            level=level,
            title="Slopes of effects along covariates",
            keys={"along": [names[c] for c in columns] * len(self._effects)},
            extra={"correlation": correlation.reshape(-1)},
        )

    def _in_order(self, values: Any, argument: str) -> Any:
        """Put labels of rows that carry an index in the order of the rows of X."""
        return align_rows(values, getattr(self, "_keys", None), argument)

    def _diagnostics(self) -> dict[str, Any]:
        return {
            "path": self.path_,
            "approximate": self._model.approximate,
            "lost_trace": self._model.lost,
            "rows": len(self._model.cells.row),
            "penalty": self.penalty_,
            "rule": "given" if self.penalty is not None else self.rule,
            "bandwidth": self.bandwidth_,
            "edf": self.edf_,
            "r2": self.r2_,
            "r2_ame": self.r2_ame_,
        }

    def _provenance(self, call: str, seed: int | None = None) -> Provenance:
        given = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items() if v is not None)
        return Provenance.of(call=f"{type(self).__name__}({given}).fit(X, y).{call}", seed=seed, data=self._data)

    def _table(
        self,
        effects: Sequence[Effect],
        found: Inference,
        call: str,
        *,
        level: float,
        target: str = "sample",
        title: str = "Average marginal effects",
        keys: Mapping[str, Any] | None = None,
        extra: Mapping[str, Any] | None = None,
        warnings: Sequence[str] = (),
    ) -> Estimates:
        """Make the table of average effects: a row per term, or per term and further keys (then ``effects`` repeat)."""
        error = np.sqrt(np.diag(found.covariance))
        low, high = normal_interval(found.estimate, error, level, df=found.dof)
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = np.where(error > 0, found.estimate / error, np.nan)
            correction = np.where(error > 0, (found.estimate - found.plug_in) / error, np.nan)
        moved = np.nan_to_num(np.abs(correction)) > 1.0
        said = [*self.warnings_, *warnings, *found.warnings]
        if moved.any():
            names = list(dict.fromkeys(e.term for e, m in zip(effects, moved, strict=True) if m))
            said.append(
                f"shrinkage moved {int(moved.sum())} effect(s) by more than one standard error ({listed(names)})."
            )
        return Estimates.build(
            {
                "term": [e.term for e in effects],
                **(keys or {}),
                "estimate": found.estimate,
                "std_error": error,
                "conf_low": low,
                "conf_high": high,
                "plug_in": found.plug_in,
                "correction": correction,
                "flagged": moved,
                "statistic": statistic,
                "p_value": 2.0 * stats.t.sf(np.abs(statistic), found.dof),
                "kind": [e.kind for e in effects],
                "contrast": [e.contrast for e in effects],
                **(extra or {}),
            },
            keys=("term", *(keys or {})),
            kind="effects",
            method=METHOD,
            title=title,
            level=level,
            interval=found.interval,
            diagnostics={**self._diagnostics(), "target": target},
            warnings=said,
            provenance=self._provenance(call),
            frame=self._frame,
        )


def some_rows(n: int, most: int, seed: int = 0) -> IntArray:
    """Give all of n rows, or a random part of them, in order."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def _describe_by(by: Any) -> str:
    text = repr(by)
    return text if isinstance(by, str | list | tuple | dict) and len(text) <= 200 else type(by).__name__
