"""``CUDIA``: each person's hidden value from group means, by clusters of people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from crosslevel.data import checks
from crosslevel.data.cells import Cells, people_mark
from crosslevel.data.progress import count_steps
from crosslevel.data.signatures import checked
from crosslevel.errors import ConvergenceError, InputError
from crosslevel.imputation.cudia import clusters as tables
from crosslevel.imputation.cudia.crowd import constants_of, expected_people, gather_crowd
from crosslevel.imputation.cudia.fitting import (
    Fitted,
    Layout,
    build,
    build_clusters,
    describe_convergence,
    describe_few_groups,
    describe_warnings,
    fit_problem,
    read_choices,
    read_target,
)
from crosslevel.imputation.cudia.impute import Crowd, draw_values, expected_values, probabilities
from crosslevel.imputation.cudia.model import Parameters
from crosslevel.imputation.cudia.places import OpenSlopes, learn_slopes, place_covariances, place_deviation
from crosslevel.imputation.cudia.sampling import Draws, run_chain
from crosslevel.imputation.cudia.selection import CLUSTERS, RIDGES, TARGETS, select
from crosslevel.imputation.estimate import Imputer, subgroups
from crosslevel.imputation.inputs import Inputs, People, keep_inputs, keep_warnings, read_fit
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray, Progress, RandomState, Step

AVERAGED = 50
"""Draws over which the expected values of the method "gibbs" are averaged."""


class CUDIA(Imputer):
    """Estimate, for each person, features that were published as group means only, by clusters of people (Park & Ghosh).

    People fall into clusters. What is known of a person (x) and what is hidden (u) are independent given the cluster, and groups
    differ in their mix of clusters. The published means then tell the clusters' hidden means, and a person's x tells the cluster.
    :class:`~crosslevel.imputation.CrossLevelImputer` is the recommended default; on the survey it was compared on it is clearly
    better for people, and its intervals cover.

    Parameters
    ----------
    n_clusters : int or "auto", default 5
        "auto" chooses clusters (and ridge and target, where these are not given) by leaving out one published mean at a time: the
        simplest choice within one standard error of the best. See :meth:`select`.
    method : {"mcem", "map", "gibbs", "hard", "two_stage"}, default "mcem"
        Monte Carlo EM (the paper's, corrected); the most probable parameters, with every cluster summed out; draws from the whole
        posterior; the deterministic algorithm; or clusters from x alone and a ridge regression on their shares.
    likelihood : {"cudia", "count"}, default "cudia"
        How published means vary: as samples from the group's mix (the paper's), or as means of these very people, whose clusters
        are partly known. The second fits only means computed on these people.
    families : "auto", str or mapping of column to str, default "auto"
        Of each column of X: "gaussian", "categorical", "bernoulli", "poisson", "exponential", "ordinal", or, for a tuple of columns
        of counts, "multinomial". "auto" takes text and whole numbers of up to 12 values as categorical, other numbers as gaussian.
        A hidden feature may be named too ("bernoulli", "gaussian", "poisson", "exponential"); by default it is bernoulli when all
        of its means lie in [0, 1], else gaussian.
    ridge : float, "auto" or None, default None
        In people: clusters' hidden means are shrunk to the target as by this many. Hidden means of binary features stay in [0, 1].
        None is 1 for real features, and for binary ones a normal prior of deviation ``logit_sd`` on the logit.
    ridge_target : {"mean", "zero", "auto"} or float, optional
        Where to; the overall mean when not given. "zero" is the paper's. Binary features without a ridge have no other target.
    alpha : float, sequence, "learn" or "logistic_normal", default 1.0
        Prior of the groups' mixes: exponents of a Dirichlet (1 is uniform), learned exponents, or a logistic normal.
    n_restarts : int, default 6
        Starts of the mixture; several modes are the rule.
    random_state : int, None, Generator or RandomState, default 0
    beta : float, default 1.0
        Weight of the published means in the method "hard"; refused with the others.
    logit_sd : float, default 1.25
        Deviation of the logit of a binary feature's hidden means, without a ridge; and of all hidden means in what ``place_sd``
        adds to :meth:`clusters`.
    aggregates_from : {"sample", "population"}, default "sample"
        Whether the means were computed on these people, or on another sample or the population. The second needs likelihood "cudia", and
        should come with ``aggregate_se``, by which the means then move in draws; means of these people are kept as published.
    n_draws : int, default 200
        Draws of the parameters that "gibbs" and :meth:`sample` make. Under likelihood "count" "gibbs" may need a thousand.
    place_sd : float or "auto", default "auto"
        Deviation, in logits, by which groups differ for reasons that are not in their mix of clusters. Intervals and draws then allow
        for it, and for what x says beyond the clusters, as those of ``CrossLevelImputer`` do; no estimate moves. "auto" is its
        deviation, which grows with the number of groups; 0 relies on the clusters alone.
    allow_unconverged : bool, default False
        Return numbers from a fit that did not converge, with a warning.

    Attributes
    ----------
    parameters_ : Parameters
        theta, pi, H (eta), tau2; clusters in order of size.
    n_clusters_, ridge_, ridge_target_
        As given or chosen.
    convergence_ : dict
        ``converged`` and what it rests on: gradient, steps, modes over restarts, drift, acceptance, r-hat.
    identifiability_ : tuple of Identifiability
        For each hidden feature: singular values, effective degrees of freedom, which contrasts of clusters the means determine.
    selection_ : Estimates or None
        The candidates, when something was chosen.
    hidden_names_ : tuple of str
    warnings_ : tuple of str
    schema_ : Schema

    Notes
    -----
    A saved or pickled model holds no people: draws of the parameters, made then if there are none yet, take their place.

    The room's README lists what is corrected. With few groups (fewer than 20, say) some choices are worse for people than the
    naive group mean, and nothing in group means can show it.

    References
    ----------
    Park, Y. and Ghosh, J. (2012). CUDIA: probabilistic cross-level imputation using individual auxiliary information.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> mix = rng.random(25)
    >>> place = np.repeat(np.arange(25), 80)
    >>> z = rng.random(2000) < mix[place]
    >>> x, u = (np.where(z, 0.5, -0.5) + 0.26 * rng.normal(size=2000) for _ in range(2))
    >>> means = np.bincount(place, u) / 80
    >>> model = CUDIA(2, method="map").fit({"x": x}, place, means)
    >>> guess = model.transform({"x": x}, place)[:, 0]
    >>> bool(np.mean((guess - u) ** 2) < 0.5 * np.mean((means[place] - u) ** 2))
    True
    """

    def __init__(
        self,
        n_clusters: int | str = 5,
        method: str = "mcem",
        likelihood: str = "cudia",
        families: Any = "auto",
        ridge: float | str | None = None,
        ridge_target: str | float | None = None,
        alpha: Any = 1.0,
        n_restarts: int = 6,
        random_state: RandomState = 0,
        *,
        beta: float = 1.0,
        logit_sd: float = 1.25,
        aggregates_from: str = "sample",
        n_draws: int = 200,
        place_sd: float | str = "auto",
        allow_unconverged: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.method = method
        self.likelihood = likelihood
        self.families = families
        self.ridge = ridge
        self.ridge_target = ridge_target
        self.alpha = alpha
        self.n_restarts = n_restarts
        self.random_state = random_state
        self.beta = beta
        self.logit_sd = logit_sd
        self.aggregates_from = aggregates_from
        self.n_draws = n_draws
        self.place_sd = place_sd
        self.allow_unconverged = allow_unconverged

    def fit(
        self, X: Any, partition: Any = None, aggregates: Any = None, sample_weight: Any = None, aggregate_se: Any = None,
        progress: Progress | None = None,
    ) -> Self:  # fmt: skip
        """Find the clusters and their hidden means.

        Parameters
        ----------
        X : dataframe or array of shape (n, d)
            What is known of each person; a missing value is integrated out.
        partition : array of shape (n,), str, or dataframe of labels
            The group of each person; the name of the column of X that holds it; or several partitions (one per hidden feature, or
            nested levels).
        aggregates : dataframe, array, or mapping of partition to either
            The published means: a frame with a column that names the group and one per hidden feature, or an array in sorted order
            of the labels. An empty mean is left out. With several partitions, a mapping from their names to one table each.
        sample_weight : array of shape (n,), optional
            Survey weights.
        aggregate_se : like aggregates, optional
            Published standard errors of the means.
        progress : bool or callable, optional
        """
        choices, seed = read_choices(self), checks.read_seed(self.random_state)
        given = read_fit(X, partition, aggregates, sample_weight, aggregate_se, allow_missing=True)
        layout = build_clusters(given, self, choices)
        with threadpool_limits(limits=1):  # the arrays are small, and threads cost more than they give
            fitted = fit_problem(layout.problem, choices, np.random.default_rng(seed), progress)
        self._keep(given, layout, fitted, seed)
        doubts = describe_warnings(layout, fitted, self.likelihood, self.aggregates_from)
        keep_warnings(self, (*given.warnings, *doubts))
        return self

    @checked
    def transform(
        self, X: Any, partition: Any = None, match_means: bool = True, sample_weight: Any = None
    ) -> FloatArray:
        """Give the expected hidden values of people, (n, d_u).

        Parameters
        ----------
        X : dataframe or array of shape (n, d)
        partition : array, str or dataframe
            Groups must be those of the fit.
        match_means : bool, default True
            Make the mean of these people equal the published one of their group, exactly: by a shift of logits (binary), a constant
            (real) or a factor (counts, waiting times). Without it, values are what the clusters alone say.
        sample_weight : array of shape (n,), optional
            Weights of the means that are matched.
        """
        self._check_match(match_means, sample_weight)
        crowd = self._crowd(*self._gather(X, partition, sample_weight))
        if match_means:
            return expected_people(self._layout, self._averaged(), crowd, None)
        return expected_values(self._layout.problem.families, self._averaged(), crowd)[crowd.pair]

    def responsibilities(self, X: Any, partition: Any = None) -> FloatArray:
        """Give the probability of each cluster for each person, (n, K)."""
        crowd = self._crowd(*self._gather(X, partition, None))
        return probabilities(self._layout.problem.families, self.parameters_, crowd)[crowd.pair]

    @checked
    def sample(
        self,
        X: Any,
        partition: Any = None,
        n_draws: int = 20,
        sample_weight: Any = None,
        random_state: RandomState = None,
        progress: Progress | None = None,
        match_means: bool = True,
    ) -> FloatArray:
        """Draw complete data: parameters from their posterior, then clusters, then values that keep the published means.

        Parameters
        ----------
        X, partition, sample_weight
            As in :meth:`transform`.
        n_draws : int
            Number of draws. Parameters are taken evenly from ``n_draws``, and again from the first when n_draws is larger.
        random_state : int, Generator or RandomState, optional
            Of clusters and values; the seed of the fit when not given.
        progress : bool or callable, optional
            True for a bar on stderr; or a function of the draws done, of parameters and then of people, and of all, None until the end.
        match_means : bool, default True
            False for other people than those whose mean was published, such as a part of a group: as in :meth:`estimate`.

        Returns
        -------
        (n_draws, n, d_u)
            Every draw has the published means exactly. Draws of yes and no can where N_p s_p is whole, as it is when the means
            were computed on these people; otherwise, and with weights, they come within one person.

        Notes
        -----
        Given the columns of X a draw is independent of everything else. An analysis of the draws may therefore use the columns of X, the
        groups and the hidden features, and nothing more: a coefficient on a column that is not in X, or of an outcome that is not in X, is
        drawn to zero. Put what will be regressed on, and the outcome, into X. :func:`~crosslevel.imputation.pool` compares.
        """
        self._check_match(match_means, sample_weight)
        crowd = self._crowd(*self._gather(X, partition, sample_weight))
        with count_steps(progress, "Drawing", None, "draws") as step:
            return np.stack(list(self._values(crowd, n_draws, random_state, step, match_means=match_means)))

    @checked
    def estimate(
        self,
        by: str | Sequence[str],
        X: Any,
        partition: Any = None,
        sample_weight: Any = None,
        level: float = 0.95,
        n_draws: int = 200,
        random_state: RandomState = None,
        match_means: bool | None = None,
    ) -> Estimates:
        """Give means of the hidden features in subgroups of people, with intervals from draws.

        Parameters
        ----------
        by : str or sequence of str
            Columns of X, and partitions, that define the subgroups.
        X, partition, sample_weight
            The people, as in :meth:`transform`.
        level : float
        n_draws : int
            Draws behind an interval.
        match_means : bool, optional
            Whether the mean of these people is made equal to the published one of their group. When not given, it is for the people of
            the fit and not for others, who get the constant their group got in the fit: a part of a group has another mean.

        Returns
        -------
        Estimates
            Beside each estimate ``naive``, the mean of the group means of the same people, and ``people``.
        """
        level = checks.check_level(level)
        people, cells = self._gather(X, partition, sample_weight)
        crowd = self._crowd(people, cells)
        cut, keys = subgroups(by, cells, self.schema_)
        if match_means is None:
            match_means = people_mark(cells) == self._layout.mark
        others = None if match_means else constants_of(self)
        point = expected_people(self._layout, self._averaged(), crowd, others)
        values = self._values(crowd, n_draws, random_state, match_means=match_means)
        parts, draws = tables.subgroup_columns(self._layout, crowd, cut[cells.pair], keys, point, values, level)
        said = f"estimate(by={by!r}, n_draws={n_draws})"
        return self._tabulate(parts, ["feature", *keys], level, "posterior quantile", said, "imputed", draws)

    def clusters(self, level: float = 0.95) -> Estimates:
        """Give the clusters: hidden means (eta) with intervals, shares of people, and the parameters of x (theta).

        Intervals are normal, given the clusters, with what ``place_sd`` adds; with ``place_sd=0`` those of the ridge regression (of
        the draws, for the method "gibbs").
        """
        check_is_fitted(self, "parameters_")
        level = checks.check_level(level)
        draws = self._draws if self.method == "gibbs" and not self.place_sd else None
        problem, at, shares = self._layout.problem, self.parameters_, self._shares
        if self.place_sd:
            spread = place_covariances(problem, at, shares, self.likelihood, self.place_sd, self.logit_sd)
        else:
            spread = tuple(r.variance for r in self.identifiability_)
        parts = tables.cluster_columns(self._layout, at, shares, spread, draws, level)
        interval = "normal, given the clusters" if draws is None else "posterior quantile"
        return self._tabulate(parts, ["feature", "cluster"], level, interval, "clusters()", "clusters")

    @checked
    def select(
        self,
        X: Any,
        partition: Any = None,
        aggregates: Any = None,
        sample_weight: Any = None,
        aggregate_se: Any = None,
        *,
        n_clusters: Sequence[int] = CLUSTERS,
        ridge: Sequence[float] = RIDGES,
        ridge_target: Sequence[str | float] = TARGETS,
        progress: Progress | None = None,
    ) -> Estimates:
        """Predict every published mean from the others, for each choice of clusters, ridge and target; ``progress`` as in :meth:`fit`.

        Returns
        -------
        Estimates
            ``estimate`` is the root mean square error in standard deviations between groups, with ``std_error``; ``naive`` that of
            the other groups' mean. ``taken`` marks the simplest choice within one standard error of the lowest.
        """
        for name, values in {"n_clusters": n_clusters, "ridge": ridge, "ridge_target": ridge_target}.items():
            if isinstance(values, str) or not len(values):
                raise InputError(f"{name}={values!r} is no list of choices; pass at least one.")
        choices = replace(
            read_choices(self),
            n_clusters="auto",
            ridge="auto",
            target="auto",
            kind="ridge",
            clusters=tuple(checks.check_whole(K, "n_clusters", 1) for K in n_clusters),
            ridges=tuple(checks.check_positive(value, "ridge") for value in ridge),
            targets=tuple(read_target(value, ["mean", "zero"]) for value in ridge_target),
        )
        seed = checks.read_seed(self.random_state)
        given = read_fit(X, partition, aggregates, sample_weight, aggregate_se, allow_missing=True)
        layout = build(given, self.families)
        with count_steps(progress, "Fitting clusters", None, "starts") as step:
            found = select(layout.problem, choices, int(np.random.default_rng(seed).integers(2**63)), step)
        self._seed, self._data = seed, given.data
        provenance, warnings = self._provenance("select(...)"), describe_few_groups(layout)
        return tables.selection_table(found, provenance, given.people.frame, warnings)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _without_people(self) -> dict[str, Any]:
        """Draws of the parameters instead of people, made here if there are none yet."""
        drawn = self._draws is not None or len(self._layout.problem.cell) > 0
        made = {"_draws": self._posterior(), "_slopes": self._open_slopes()} if drawn else {}
        return made | {"_constants": constants_of(self), "_layout": self._layout.without_people()}

    def _keep(self, given: Inputs, layout: Layout, fitted: Fitted, seed: int) -> None:
        if not fitted.convergence["converged"] and not self.allow_unconverged:
            raise ConvergenceError(
                f"CUDIA by {self.method!r} did not converge ({describe_convergence(fitted.convergence)}); try fewer clusters, "
                "a larger ridge, or pass allow_unconverged=True to see the numbers anyway."
            )
        keep_inputs(self, given, seed)
        self._layout, self._prior, self._mix_prior = layout, fitted.prior, fitted.mix_prior
        self._shares, self._draws = fitted.shares, fitted.draws
        self._slopes: OpenSlopes | None = None
        self.parameters_ = fitted.parameters
        self.n_clusters_, self.ridge_, self.ridge_target_ = fitted.chosen
        self.convergence_, self.identifiability_ = fitted.convergence, fitted.identifiability
        self._constants: tuple[FloatArray, ...] | None = None
        self.selection_ = None
        if fitted.selection is not None:
            provenance, warnings = self._provenance("selection_"), describe_few_groups(layout)
            self.selection_ = tables.selection_table(fitted.selection, provenance, self._frame, warnings)

    def _crowd(self, people: People, cells: Cells) -> Crowd:
        return gather_crowd(self._layout, self.schema_.names, people, cells)

    def _values(
        self, crowd: Crowd, n_draws: int, random_state: RandomState, step: Step | None = None, *, match_means: bool
    ) -> Iterator[FloatArray]:
        n_draws, rng = self._read_draws(n_draws, random_state)
        draws = self._posterior(step)
        chosen = np.linspace(0, len(draws) - 1, min(n_draws, len(draws))).round().astype(int)
        problem, targets = self._layout.problem, self._layout.targets
        errors = self._layout.errors if self.aggregates_from == "population" else None
        used = [draws.at(int(i)) for i in np.resize(chosen, n_draws)]
        given = (problem.families, problem.hidden, targets, used, crowd, rng, self._open_slopes(), step)
        return draw_values(*given, errors, None if match_means else constants_of(self))

    def _open_slopes(self) -> OpenSlopes | None:
        """What x may still say beyond the clusters; found at the first call."""
        if not self.place_sd:
            return None
        if self._slopes is None or self._slopes.place_sd != self.place_sd:
            given = (self._layout.problem, self.schema_.columns, self.parameters_, self._shares)
            self._slopes = learn_slopes(*given, self.likelihood, self.place_sd)
        return self._slopes

    def _posterior(self, step: Step | None = None) -> Draws:
        """Draws of the parameters, made at the first call."""
        if self._draws is None:
            if len(self._layout.problem.cell) == 0:
                raise InputError("a fit of a stream keeps no people to draw parameters from; fit a sample in memory.")
            with threadpool_limits(limits=1):
                given = (self._layout.problem, self.parameters_, self._mix_prior, self._prior, self.likelihood)
                rng = np.random.default_rng(self._seed)
                self._draws = run_chain(*given, rng, n_draws=int(self.n_draws), step=step)
        return self._draws

    def _averaged(self) -> list[Parameters]:
        if self.method != "gibbs" or self._draws is None:
            return [self.parameters_]
        chosen = np.linspace(0, len(self._draws) - 1, min(AVERAGED, len(self._draws))).round().astype(int)
        return [self._draws.at(int(i)) for i in chosen]

    def _describe(self) -> tuple[str, dict[str, Any], tuple[str, ...]]:
        deviations = [place_deviation(self.place_sd, int(np.isfinite(m).sum())) for _, m in self._layout.targets]
        place_sd = deviations[0] if len(set(deviations)) == 1 else deviations
        settings = {"ridge": self.ridge_, "ridge_target": self.ridge_target_, "place_sd": place_sd}
        method = f"CUDIA, {self.method}, likelihood {self.likelihood}, {self.n_clusters_} clusters"
        warnings = tables.describe_intervals(self._layout, self.place_sd, self.aggregates_from)
        return method, self.convergence_ | settings, (*self.warnings_, *warnings)
