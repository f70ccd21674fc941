"""The methods of fitted models that report effects: averages, in subgroups, between rows, and how they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats
from sklearn.utils.validation import check_is_fitted

from crosslevel import charts
from crosslevel.data import checks
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.krls import heterogeneity, overlap, subgroups
from crosslevel.krls.base import KernelEstimator
from crosslevel.krls.effects import Effect
from crosslevel.krls.inference import Inference
from crosslevel.krls.reading import read_predict, spread_rows
from crosslevel.krls.table import RESERVED, effects_summary
from crosslevel.results import Estimates
from crosslevel.results.intervals import normal_interval
from crosslevel.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TARGETS = ("sample", "population", "overlap")
REPORT_ROWS = 1500
"""Rows whose covariates and effects a report holds."""
RESERVED_ROWS = (*RESERVED, "row", "value", "fitted", "weight")


class EffectReports(KernelEstimator):
    """A fitted model with its methods about effects."""

    @checked
    def effects(
        self,
        level: float = 0.95,
        target: str = "sample",
        by: Any = None,
        *,
        differences: bool = False,
        cluster: Any = None,
    ) -> Estimates:
        """Give the average effects, a row per term, or per term and subgroup.

        Parameters
        ----------
        level : float, default 0.95
        target : {"sample", "population", "overlap"}
            Whether the interval is for the average over these rows, over the population they were drawn from, or, for binary
            columns and factors, over people who might be in either group (weights e (1 - e), e the probability of the group
            given the other covariates).
        by : str, sequence of str, mapping of name to query, frame or array, optional
            Subgroups: columns of X, ``{"old": "age >= 65", "young": "age < 30"}``, or labels of the rows that fit was
            given, as an array or as columns of a frame (what has an index is matched with that of X).
        differences : bool
            Give the differences between all pairs of subgroups instead: the group of the row less that of ``versus``.
        cluster : (n,), optional
            Labels of the rows that fit was given, by which errors are correlated: the same fit with cluster-robust errors
            (CR3), whatever ``cluster`` it was fitted with.

        Returns
        -------
        Estimates
            Key ``term`` (and those of ``by``); ``estimate`` (debiased), ``plug_in`` (the average of the fit's own
            effects), ``correction`` (their difference in standard errors) and ``flagged`` (more than one), ``statistic``,
            ``p_value``, ``kind``, ``contrast``. With ``by`` also ``rows``, the number in the subgroup (counts of
            ``sample_weight`` added up), and ``p_equal``, of the hypothesis that the effect is the same in all of them.

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
        """
        check_is_fitted(self, "penalty_")
        level = checks.check_level(level)
        if cluster is not None:
            return self._clustered(cluster).effects(level, target, by, differences=differences)
        found, groups = self._averages(by, target)
        effects = self._compared() if target == "overlap" else self._effects
        call = f"effects(level={level!r}, target={target!r}"
        if by is None:
            if differences:
                raise InputError("differences=True compares subgroups; say which with by=.")
            title = "Average effects where groups overlap" if target == "overlap" else "Average marginal effects"
            return self._table(effects, found, f"{call})", level=level, target=target, title=title)
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
            extra = {"rows": np.tile(subgroups.row_counts(groups, self._rows), E), "p_equal": np.repeat(equal, G)}
            title, repeat = "Average marginal effects by subgroup", G
        return self._table(
            [e for e in effects for _ in range(repeat)],
            found,
            f"{call}, by={_describe_by(by)}, differences={differences})",
            level=level,
            target=target,
            title=title,
            warnings=self._describe_slices(groups),
            keys=keys,
            extra=extra,
        )

    def effects_covariance(self, target: str = "sample", by: Any = None, *, cluster: Any = None) -> FloatArray:
        """Give the joint covariance of the estimates of :meth:`effects`, for tests of several or of differences.

        Parameters
        ----------
        target : {"sample", "population", "overlap"}
        by, cluster : optional
            As in :meth:`effects`, whose rows the covariance has.
        """
        check_is_fitted(self, "penalty_")
        fitted = self if cluster is None else self._clustered(cluster)
        return fitted._averages(by, target)[0].covariance

    def _compared(self) -> list[Effect]:
        """Give the effects that compare two groups."""
        found = [e for e in self._effects if e.switch is not None]
        if not found:
            raise InputError(
                f"no column has two values or levels (columns: {listed(self.encoding_.names)}), so no groups are compared."
            )
        return found

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
            are in :meth:`interactions` and :meth:`effects` with ``by``.

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
            method=self._method,
            level=None,
            interval="none",
            provenance=self._provenance("heterogeneity()"),
            diagnostics=self._diagnostics(),
            warnings=["these numbers describe the fitted effects, which are shrunken; their spread has no interval."],
            frame=self._frame,
            title="Standard deviation of effects between rows",
        )

    @checked
    def interactions(
        self,
        terms: str | Sequence[str] | None = None,
        along: str | Sequence[str] | None = None,
        *,
        adjust: bool = False,
        level: float = 0.95,
    ) -> Estimates:
        """Estimate how the effect of each term varies along each covariate: the slope of the effects at the rows.

        Parameters
        ----------
        terms : str or sequence of str, optional
            Terms of :meth:`effects`; all when not given.
        along : str or sequence of str, optional
            Columns of the matrix (a level of a factor is ``"arm: letter"``); all when not given.
        adjust : bool
            Whether the slope is that of a regression on all covariates, rather than on this one alone.
        level : float, default 0.95

        Returns
        -------
        Estimates
            Keys ``term`` and ``along``; ``estimate`` is the change of the average effect per unit of the covariate, debiased
            and with errors as those of :meth:`effects`; ``correlation`` is that of the fitted effects. Along a binary
            covariate it is the difference between the two groups.

        Notes
        -----
        A slope summarizes: an effect that rises and falls again can have none. Along its own covariate the slope is the
        average curvature, which a kernel as wide as the default sees only where it is broad.

        Examples
        --------
        >>> from crosslevel import KRLS
        >>> rng = np.random.default_rng(2)
        >>> x = rng.normal(size=(150, 2))
        >>> model = KRLS().fit(x, x[:, 0] * x[:, 1] + 0.3 * rng.normal(size=150))
        >>> found = model.interactions("x0", along="x1")
        >>> bool(found["conf_low"][0] < 1.0 < found["conf_high"][0])
        True
        """
        check_is_fitted(self, "penalty_")
        level = checks.check_level(level)
        places = self._terms(terms, "terms")
        columns = find_places(along, "along", self.encoding_.names)
        cells, effects = self._model.cells, [self._effects[i] for i in places]
        found = self._infer(places, heterogeneity.slope_weights(cells, columns, adjust=adjust))
        correlation = heterogeneity.correlations(cells, self._pointwise[:, places])[:, columns]
        return self._table(
            [e for e in effects for _ in columns],
            found,
            f"interactions(terms={terms!r}, along={along!r}, adjust={adjust})",
            level=level,
            title=f"Slopes of effects along covariates{', others held' if adjust else ''}",
            keys={"along": [self.encoding_.names[c] for c in columns] * len(effects)},
            extra={"correlation": correlation.reshape(-1)},
        )

    def summary(self, level: float = 0.95, by: Any = None) -> str:
        """Write the fit and its average effects as text: plug-in and debiased side by side."""
        return effects_summary(self.effects(level, by=by))

    def _report_tables(self, level: float = 0.95) -> dict[str, Estimates]:
        """Give the tables of a report: average effects, and effects at some rows with their covariates."""
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
        return {"effects": average, "rows": at_rows}

    def plot_effects(self, kind: str = "distribution", ax: Axes | None = None) -> Axes:
        """Draw all effects: their distribution over the rows, or their averages by size.

        Parameters
        ----------
        kind : {"distribution", "ranking"}
        ax : matplotlib.axes.Axes, optional

        Examples
        --------
        >>> from crosslevel import KRLS
        >>> x = np.linspace(-2, 2, 40)[:, None]
        >>> KRLS(0.1).fit(x, np.sin(x[:, 0])).plot_effects().get_title(loc="left")
        'Distribution of effects'
        """
        check_is_fitted(self, "penalty_")
        if kind == "ranking":
            return charts.effect_ranking(self.effects(), ax)
        if kind != "distribution":
            raise unknown_name("kind", kind, ["distribution", "ranking"], "picture")
        return charts.effect_distributions(self._pointwise, self.effect_names_, ax, weights=self._model.cells.m)

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
        if target == "overlap":
            return self._overlap_averages(by)
        if by is None:
            groups, found = subgroups.everybody(len(cells.row)), self._inference()
        else:
            groups = subgroups.read_groups(by, self.encoding_, cells, self._used, RESERVED)
            rho, _ = subgroups.row_weights(groups, cells, self._rows)
            found = self._infer(range(len(self._effects)), rho)
        if target == "population":
            added = subgroups.spread(groups, cells, self._rows, self._pointwise)
            found = replace(found, covariance=found.covariance + added, interval=f"{found.interval}, population")
        return found, groups

    def _overlap_averages(self, by: Any) -> tuple[Inference, subgroups.Subgroups]:
        """Estimate effects over people who might be in either group: weights of its own for every term."""
        cells, compared = self._model.cells, self._compared()
        places = [self._effects.index(e) for e in compared]
        groups = subgroups.everybody(len(cells.row))
        rho = np.ones((len(cells.m), 1))
        if by is not None:
            groups = subgroups.read_groups(by, self.encoding_, cells, self._used, RESERVED)
            share, total = subgroups.row_weights(groups, cells, self._rows)
            rho = share * total / cells.m[:, None]
        parts = [rho * overlap.overlap_weights(e, self._model)[:, None] for e in compared]
        for effect, part in zip(compared, parts, strict=True):
            empty = ~(part.sum(axis=0) > 0)
            if empty.any():
                where = (
                    ""
                    if by is None
                    else f" in the subgroup {groups.keys.slice(int(np.argmax(empty)), 1).to_pylist()[0]}"
                )
                raise InputError(
                    f"target='overlap': nobody{where} could be in either group of {effect.term!r}, which do not overlap at all."
                )
        G, E = len(groups), len(compared)
        found = self._infer(places, np.concatenate([p / p.sum(axis=0) for p in parts], axis=1))
        # of all terms with all weights, each with its own
        own = np.concatenate([e * E * G + e * G + np.arange(G) for e in range(E)])
        return replace(
            found,
            estimate=found.estimate[own],
            plug_in=found.plug_in[own],
            covariance=found.covariance[np.ix_(own, own)],
            interval=f"{found.interval}, overlap",
        ), groups

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
            method=self._method,
            title=title,
            level=level,
            interval=found.interval,
            diagnostics={**self._diagnostics(), "target": target},
            warnings=said,
            provenance=self._provenance(call),
            frame=self._frame,
        )

    def _describe_slices(self, groups: subgroups.Subgroups) -> list[str]:
        """Say which effects are shown within slices of their own covariate."""
        cells, names = self._model.cells, self.encoding_.names
        cut = [
            e.term
            for e in self._effects
            if e.switch is None
            and (names[e.column] in groups.columns or subgroups.cut_on(groups, cells, cells.X[:, e.column]))
        ]
        if not cut:
            return []
        return [
            f"the groups are slices of {listed(cut)}, whose own effect is then nearly that at a point: where it changes within "
            "about one standard deviation, its interval can fall short."
        ]


def some_rows(n: int, most: int, seed: int = 0) -> IntArray:
    """Give all of n rows, or a random part of them, in order."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def find_places(
    wanted: str | Sequence[str] | None, argument: str, names: Sequence[str], what: str = "column"
) -> list[int]:
    """Find names among those known; all of them when None is wanted."""
    chosen = list(names) if wanted is None else [wanted] if isinstance(wanted, str) else list(wanted)
    for name in chosen:
        if name not in names:
            raise unknown_name(argument, name, list(names), what)
    return [list(names).index(name) for name in chosen]


def _describe_by(by: Any) -> str:
    text = repr(by)
    return text if isinstance(by, str | list | tuple | dict) and len(text) <= 200 else type(by).__name__
