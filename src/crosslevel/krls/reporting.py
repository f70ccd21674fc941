"""The methods of `KRLS` about effects: averages, in subgroups, along covariates, at rows with bands, and their pictures."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.data.checks import align_rows
from crosslevel.data.signatures import checked
from crosslevel.errors import CrosslevelError, InputError, listed, unknown_name
from crosslevel.krls import heterogeneity, subgroups
from crosslevel.krls.bands import METHOD, EffectBands, some_rows
from crosslevel.krls.effects import Effect
from crosslevel.krls.inference import Inference, infer
from crosslevel.krls.reading import find_places, read_predict, spread_rows
from crosslevel.results import Estimates
from crosslevel.results.intervals import normal_interval
from crosslevel.typing import BoolArray, FloatArray, IntArray

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


class EffectReports(EffectBands):
    """A fitted model with its methods about effects."""

    inference: str
    _inferred: Inference | None
    _used: BoolArray
    _cluster: IntArray | None
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
        by : str, sequence of str, mapping of name to condition, frame or array, optional
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


def _describe_by(by: Any) -> str:
    text = repr(by)
    return text if isinstance(by, str | list | tuple | dict) and len(text) <= 200 else type(by).__name__
