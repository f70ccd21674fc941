"""Methods of fitted models that compare groups: whether they overlap, and effects of people sorted by size."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
from scipy import stats
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.data.progress import count_steps
from crosslevel.data.signatures import checked
from crosslevel.errors import CrosslevelWarning, InputError, listed
from crosslevel.krls import overlap, subgroups
from crosslevel.krls.reporting import EffectReports
from crosslevel.results import Estimates
from crosslevel.typing import BoolArray, FloatArray, Progress, RandomState, Step

FEWEST_SORTED = 10
"""Rows of a half in each group of sorted effects."""


class GroupReports(EffectReports):
    """A fitted model with its methods about the groups that it compares."""

    def overlap(self) -> Estimates:
        """Count who has nobody like them in the other group, for every binary column and level of a factor.

        Returns
        -------
        Estimates
            ``estimate`` is the share of people of both groups without a neighbor in the other, within one standard deviation per
            covariate (root mean square); ``alone`` and ``alone_reference`` are the shares of the two, ``people`` and
            ``people_reference`` their numbers. Their effects come from the shape of the fitted function alone.

        Examples
        --------
        >>> from crosslevel import KRLS
        >>> x = np.linspace(-2, 2, 80)
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     model = KRLS(0.1).fit({"age": x, "treated": (x > 0) * 1.0}, x)
        >>> model.overlap()["estimate"].round(2).tolist()
        [0.72]
        """
        check_is_fitted(self, "penalty_")
        terms, model = self._compared(), self._model
        found = [overlap.alone(e, model.kernel.Z, model.cells.m) for e in terms]
        return Estimates.build(
            {
                "term": [e.term for e in terms],
                "estimate": [f.share for f in found],
                "alone": [f.high for f in found],
                "alone_reference": [f.low for f in found],
                "people": [f.n_high for f in found],
                "people_reference": [f.n_low for f in found],
            },
            keys=("term",),
            method=self._method,
            level=None,
            interval="none",
            provenance=self._provenance("overlap()"),
            diagnostics=self._diagnostics(),
            frame=self._frame,
            title="People without neighbors in the other group",
        )

    @checked
    def sorted_effects(
        self,
        term: str | None = None,
        *,
        n_groups: int = 5,
        n_splits: int = 5,
        level: float = 0.95,
        random_state: RandomState = 0,
        progress: Progress | None = None,
    ) -> Estimates:
        """Sort people by their predicted effect into equal groups, and estimate the average effect of each (GATES).

        The rows are split into halves (whole clusters). A fit of one half sorts the people of the other, whose own fit
        estimates the groups, and the reverse, so that no outcome is used both to sort and to estimate.

        Parameters
        ----------
        term : str, optional
            A term of :meth:`effects`; the only binary one when not given.
        n_groups : int
        n_splits : int
            Random splits; medians of their estimates and of the ends of their intervals are given. With one split the halves are
            taken to err together, and intervals are wider.
        level : float
            With which the band holds all groups at once.
        random_state : int, None, Generator or RandomState
        progress : bool or callable, optional
            True for a bar on stderr; or a function of the halves fitted and of all, four of each split.

        Returns
        -------
        Estimates
            Key ``group``, 1 the smallest predicted effects; ``predicted``, the average prediction by the fit that sorted;
            ``p_equal`` of the hypothesis that the effect is the same in all groups, twice the median over splits.

        References
        ----------
        Chernozhukov, V., Demirer, M., Duflo, E. and Fernandez-Val, I. (2018). Generic machine learning inference on
        heterogenous treatment effects in randomized experiments. NBER 24678.

        Examples
        --------
        >>> from crosslevel import KRLS
        >>> rng = np.random.default_rng(0)
        >>> X = {"age": rng.normal(size=300), "treated": rng.integers(0, 2, 300) * 1.0}
        >>> y = X["treated"] * X["age"] + 0.5 * rng.normal(size=300)
        >>> found = KRLS().fit(X, y).sorted_effects("treated", n_groups=3, n_splits=1)
        >>> found["estimate"].round().tolist()
        [-1.0, 0.0, 1.0]
        """
        check_is_fitted(self, "penalty_")
        checks.check_level(level)
        n_groups, n_splits = (
            checks.check_whole(n, name, least)
            for n, name, least in ((n_groups, "n_groups", 2), (n_splits, "n_splits", 1))
        )
        place, seed = self._one_term(term), checks.read_seed(random_state)
        y, cells, facts = self._rows_as_given(), self._model.cells, self._rows
        if len(y) < 2 * n_groups * FEWEST_SORTED:
            raise InputError(
                f"n_groups={n_groups} of {len(y):,} rows leaves fewer than {FEWEST_SORTED} of a half in a group; ask for fewer."
            )
        table = subgroups.covariate_table(self.encoding_, cells.X[cells.row])
        unit = np.arange(len(y)) if facts.cluster is None else facts.cluster
        splits, sorted_by = [], []
        with count_steps(progress, "Sorting halves", 4 * n_splits, "fits") as step:
            for s in range(n_splits):
                rng = np.random.default_rng([seed, s])
                first = (rng.permutation(int(unit.max()) + 1) % 2 == 0)[unit]
                sides = (first, ~first)
                sorted_by.append([self._sort_half(place, table, y, ~one, one, n_groups, rng, step) for one in sides])
        for halves in sorted_by:
            # each half sorts by the other's errors, so that both err to the same side: with one effect for all their differences
            # correlate by 2 / pi. The mean of two covariances bounds that of the average; medians of splits need no such room.
            C = (0.5 if n_splits == 1 else 0.25) * (halves[0][1] + halves[1][1])
            estimate, predicted = (0.5 * sum(h[i] for h in halves) for i in (0, 2))
            error = np.sqrt(np.diag(C))
            wide = overlap.joint_critical(C, level, seed) * error
            d = np.diff(estimate)
            D = np.diff(np.eye(n_groups), axis=0)
            apart = D @ C @ D.T
            # the same effect for everybody, or for all of some groups, leaves nothing to test there
            rank = int(np.linalg.matrix_rank(apart, 1e-10 * np.trace(C), hermitian=True))
            p = stats.chi2.sf(d @ np.linalg.pinv(apart, 1e-10, hermitian=True) @ d, rank) if rank else 1.0
            splits.append(
                np.array([estimate, error, estimate - wide, estimate + wide, predicted, np.full(n_groups, p)])
            )
        middle = np.median(splits, axis=0)
        names = ("estimate", "std_error", "conf_low", "conf_high", "predicted", "p_equal")
        columns = dict(zip(names, middle, strict=True))
        columns["p_equal"] = np.minimum(2.0 * columns["p_equal"], 1.0) if n_splits > 1 else columns["p_equal"]
        return Estimates.build(
            {"term": [self.effect_names_[place]] * n_groups, "group": np.arange(1, n_groups + 1), **columns},
            keys=("term", "group"),
            method=self._method,
            level=level,
            interval="simultaneous, sorted by the other half",
            provenance=self._provenance(f"sorted_effects({self.effect_names_[place]!r}, n_groups={n_groups})", seed),
            diagnostics={**self._diagnostics(), "splits": n_splits},
            frame=self._frame,
            title="Average effects of people sorted by predicted effect",
        )

    def _sort_half(
        self,
        place: int,
        table: pa.Table,
        y: FloatArray,
        sorting: BoolArray,
        estimating: BoolArray,
        n_groups: int,
        rng: np.random.Generator,
        step: Step | None = None,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sort one half by a fit of the other: estimates of the groups, their covariance, average predictions."""
        facts, term = self._rows, self.effect_names_[place]
        fitted = []
        for half in (sorting, estimating):
            one = clone(self).set_params(
                reference={n: levels[0] for n, levels in self.encoding_.factors.items()} or None
            )
            extra = {
                n: None if v is None else v[half]
                for n, v in (("sample_weight", facts.weights), ("cluster", facts.cluster))
            }
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CrosslevelWarning)
                one.fit(table.filter(pa.array(half)), y[half], **extra)
            if term not in one.effect_names_:
                raise InputError(
                    f"term={term!r}: a half of the rows lacks one of its groups; it cannot be estimated there."
                )
            fitted.append(one)
            if step is not None:
                step()
        at = list(fitted[0].effect_names_).index(term)
        predicted = fitted[0].effects_at(table.filter(pa.array(estimating)))[:, at]
        group = overlap.group_by_rank(predicted, n_groups, rng)
        own = fitted[1]
        at = list(own.effect_names_).index(term)
        rho = np.zeros((len(own._model.cells.m), n_groups))
        w = np.ones(len(group)) if facts.weights is None else facts.weights[estimating]
        np.add.at(rho, (own._model.cells.row, group - 1), w)
        found = own._infer([at], rho / rho.sum(axis=0))
        mean = np.bincount(group, w * predicted)[1:] / np.bincount(group, w)[1:]
        return found.estimate, found.covariance, mean

    def _one_term(self, term: str | None) -> int:
        """Find the term, or the only one that compares two groups."""
        if term is not None:
            return self._terms(term, "term")[0]
        found = [i for i, e in enumerate(self._effects) if e.switch is not None]
        if len(found) != 1:
            raise InputError(
                f"term=None, and {len(found)} terms compare two groups; name one of {listed(self.effect_names_, 12)}."
            )
        return found[0]
