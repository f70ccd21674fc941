"""What a fitted model answers: average effects, in subgroups, at rows, how they differ, and their pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.krls import heterogeneity as spread_of
from crosslevel.krls import subgroups
from crosslevel.krls.inputs import read_predict
from crosslevel.krls.logistic import LogisticFit, effects_of, infer_logistic, refuse
from crosslevel.krls.marginal import to_marginaleffects
from crosslevel.krls.measures import spread_rows
from crosslevel.krls.pictures import EffectPictures
from crosslevel.krls.summary import effects_summary
from crosslevel.krls.table import RESERVED, band_table, effects_table, reader_notes
from crosslevel.krls.variants import Inference, infer
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

__all__ = ["EffectAnswers"]


TARGETS = ("sample", "population")
FEWEST_DRAWS = 50


class EffectAnswers(EffectPictures):
    """The methods of `KRLS` that speak of effects."""

    def effects(
        self, level: float = 0.95, target: str = "sample", by: Any = None, *, differences: bool = False
    ) -> Estimates:
        """Give the average effects, a row per term, or per term and subgroup.

        Parameters
        ----------
        level : float, default 0.95
        target : {"sample", "population"}
            Whether the interval is for the average over these rows, or over the population they were drawn from.
        by : str, sequence of str, mapping of name to query, frame or array, optional
            Subgroups: columns of X, ``{"old": "age >= 65", "young": "age < 30"}``, or labels of the rows that fit was
            given, as an array or as columns of a frame.
        differences : bool
            Give the differences between all pairs of subgroups instead: the group of the row less that of ``versus``.

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
        <Estimates: 2 rows by term, kernel regularised least squares, 95 % interval (debiased, HC3), 1 warning; see ...>
        >>> halves = model.effects(by={"low": "x1 < 0", "high": "x1 >= 0"})
        >>> halves.keys, len(halves)
        (('term', 'subgroup'), 4)
        """
        check_is_fitted(self, "penalty_")
        level = checks.check_level(level)
        _check_target(target)
        if by is not None:
            return self._effects_by(level, target, by, differences)
        if differences:
            raise InputError("differences=True compares subgroups; say which with by=.")
        return effects_table(
            self._effects,
            self._inference(),
            level=level,
            target=target,
            frame=self._frame,
            provenance=self._provenance(f"effects(level={level!r}, target={target!r})"),
            diagnostics=self._diagnostics(),
            method=self._method_words(),
            notes=self._notes(),
        )

    def _effects_by(self, level: float, target: str, by: Any, differences: bool) -> Estimates:
        """Give the average effects of subgroups, or their differences."""
        groups = self._groups(by)
        found = self._group_inference(groups)
        E, G = len(self._effects), len(groups)
        rows = subgroups.row_counts(groups, self._rows)
        covariance = found.covariance + (found.spread if target == "population" else 0.0)
        equal = subgroups.p_equal(found, covariance, E, G)
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
            extra = {"rows": np.tile(rows, E), "p_equal": np.repeat(equal, G)}
            title, repeat = "Average marginal effects by subgroup", G
        return effects_table(
            [e for e in self._effects for _ in range(repeat)],
            found,
            level=level,
            target=target,
            frame=self._frame,
            provenance=self._provenance(
                f"effects(level={level!r}, target={target!r}, by={_say_by(by)}, differences={differences})"
            ),
            diagnostics=self._diagnostics(),
            method=self._method_words(),
            notes=[*self._notes(), *self._slice_notes(groups)],
            keys=keys,
            extra=extra,
            title=title,
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
        _check_target(target)
        found = self._inference() if by is None else self._group_inference(self._groups(by))
        return found.covariance + (found.spread if target == "population" else 0.0)

    def effects_at(self, X: Any) -> FloatArray:
        """Evaluate the effects at new rows, (n, n_effects), in the units of the data."""
        check_is_fitted(self, "penalty_")
        rows, whole = read_predict(self, X, self.encoding_, self.missing)
        model = self._model
        return spread_rows(effects_of(model, self._effects, model.scaling.apply(rows)), whole)

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
        """Give effects at rows with bands: the posterior of a Gaussian process, its linear part unpenalised, and measured bias.

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
            Keys ``term`` and ``row``; ``value`` is the covariate at the row. ``estimate`` is the mean of that process, which is
            the centre of the band; it differs from ``pointwise_effects_`` by the linear part, which is not shrunken.
            ``diagnostics["bias"]`` gives the allowance for bias in the standard errors of each term.

        Notes
        -----
        The posterior foresees the bias of functions as smooth as the kernel. What there is of it is measured by how far the
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
        refuse(self._model, "pointwise_bands()")
        if simultaneous and draws < FEWEST_DRAWS:
            raise InputError(f"draws={draws!r} are too few for a simultaneous band; pass at least {FEWEST_DRAWS}.")
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

    def heterogeneity(self) -> Estimates:
        """Describe how effects differ between the rows, a row per term.

        Returns
        -------
        Estimates
            ``estimate`` is the standard deviation of the fitted effects over the rows; beside it ``average``, quantiles
            ``q05`` to ``q95``, ``share_positive``, ``response`` ("rising" or "falling" where the outcome is monotone in the
            covariate, else "both"), ``strongest``, the covariate that the effect goes with most, and their ``correlation``.
            There is no interval: the fitted effects are shrunken, and part of their spread may be noise. Tests are in
            :meth:`interactions` and :meth:`effects` with ``by``.

        Examples
        --------
        >>> from crosslevel import KRLS
        >>> x = np.linspace(-1, 1, 80)[:, None]
        >>> found = KRLS(penalty=0.01).fit(x, x[:, 0] ** 2).heterogeneity()
        >>> found["response"].tolist(), found["strongest"].tolist()
        (['both'], ['x0'])
        """
        check_is_fitted(self, "penalty_")
        return spread_of.heterogeneity_table(
            spread_of.describe(self._model.cells, self._effects, self._pointwise),
            self.effect_names_,
            self.encoding_.names,
            provenance=self._provenance("heterogeneity()"),
            diagnostics=self._diagnostics(),
            frame=self._frame,
        )

    def interactions(
        self,
        terms: str | Sequence[str] | None = None,
        along: str | Sequence[str] | None = None,
        *,
        adjust: bool = False,
        level: float = 0.95,
    ) -> Estimates:
        """Say how the effect of each term varies along each covariate: the slope of the effects at the rows.

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
        A slope summarises: an effect that rises and falls again can have none. Along its own covariate the slope is the
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
        places = self._term_places(terms, "terms")
        names = list(self.encoding_.names)
        wanted = names if along is None else [along] if isinstance(along, str) else list(along)
        for name in wanted:
            if name not in names:
                raise unknown_name("along", name, names)
        columns = [names.index(n) for n in wanted]
        rho = spread_of.slope_weights(self._model.cells, columns, adjust=adjust)
        effects = [self._effects[i] for i in places]
        found = self._infer(places, rho)
        correlation = spread_of.correlations(self._model.cells, self._pointwise[:, places])[:, columns]
        return effects_table(
            [e for e in effects for _ in columns],
            found,
            level=level,
            target="sample",
            frame=self._frame,
            provenance=self._provenance(f"interactions(terms={terms!r}, along={along!r}, adjust={adjust})"),
            diagnostics=self._diagnostics(),
            method=self._method_words(),
            notes=self._notes(),
            keys={"along": wanted * len(effects)},
            extra={"correlation": correlation.reshape(-1)},
            title=f"Slopes of effects along covariates{', others held' if adjust else ''}",
        )

    def summary(self, level: float = 0.95, by: Any = None) -> str:
        """Write the fit and its average effects as text: plug-in and debiased side by side."""
        return effects_summary(self.effects(level, by=by))

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
        refuse(self._model, "to_marginaleffects()")
        return to_marginaleffects(self, data, y)

    def _inference(self) -> Inference:
        """Make the intervals when they are first asked for."""
        if self._inferred is None:
            self._inferred = self._infer(range(len(self._effects)))
        return self._inferred

    def _infer(self, places: Sequence[int], rho: FloatArray | None = None) -> Inference:
        """Estimate averages of some effects over all rows, or with row weights."""
        effects, pointwise = [self._effects[i] for i in places], self._pointwise[:, list(places)]
        if isinstance(self._model, LogisticFit):
            return infer_logistic(self._model, effects, pointwise, rho)
        return infer(self._model, effects, self.inference, pointwise if rho is None else None, rho)

    def _method_words(self) -> str:
        logistic = isinstance(self._model, LogisticFit)
        return "kernel logistic regression" if logistic else "kernel regularised least squares"

    def _groups(self, by: Any) -> subgroups.Subgroups:
        return subgroups.read_groups(by, self.encoding_, self._model.cells, self._used, RESERVED)

    def _group_inference(self, groups: subgroups.Subgroups) -> Inference:
        cells = self._model.cells
        rho, _ = subgroups.row_weights(groups, cells, self._rows)
        found = self._infer(range(len(self._effects)), rho)
        return replace(found, spread=subgroups.spread(groups, cells, self._rows, self._pointwise))

    def _slice_notes(self, groups: subgroups.Subgroups) -> list[str]:
        """Say which effects are shown within slices of their own covariate."""
        cells, names = self._model.cells, self.encoding_.names
        slopes = [e for e in self._effects if e.switch is None]
        cut = [
            e.term
            for e in slopes
            if names[e.column] in groups.columns or subgroups.cut_on(groups, cells, cells.X[:, e.column])
        ]
        if not cut:
            return []
        return [
            f"the groups are slices of {listed(cut)}, whose own effect is then nearly that at a point: where it changes within "
            "about one standard deviation, its interval can fall short."
        ]

    def _notes(self) -> list[str]:
        bound = [] if self._model.choice.bound is None else [self._bound_words()]
        if self._model.approximate:
            bound.append(self._approximation_words())
        return [*bound, *reader_notes(self._model, self._effects, self.encoding_.names)]

    def _bound_words(self) -> str:
        raise NotImplementedError

    def _approximation_words(self) -> str:
        raise NotImplementedError

    def _diagnostics(self) -> dict[str, Any]:
        raise NotImplementedError


def _check_target(target: str) -> None:
    if target not in TARGETS:
        raise unknown_name("target", target, list(TARGETS), "choice")


def _say_by(by: Any) -> str:
    text = repr(by)
    return text if isinstance(by, str | list | tuple | dict) and len(text) <= 200 else type(by).__name__
