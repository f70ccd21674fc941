"""``CUDIA``: each person's hidden value from group means, by clusters of people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from crosslevel.data import checks
from crosslevel.data.people import People
from crosslevel.data.places import Places
from crosslevel.data.progress import count_steps
from crosslevel.data.signatures import checked
from crosslevel.data.sql import quoted
from crosslevel.errors import ConvergenceError, InputError, listed
from crosslevel.imputation.cells import people_mark
from crosslevel.imputation.cudia.chain import DRAWS, run_chain
from crosslevel.imputation.cudia.fit import METHODS, fit_problem
from crosslevel.imputation.cudia.impute import (
    Crowd,
    OpenSlopes,
    draw_values,
    expected_values,
    learn_slopes,
    place_covariances,
    place_deviation,
    probabilities,
    subgroup_means,
)
from crosslevel.imputation.cudia.mixture import EDGE, identify, leave_one_out, make_prior
from crosslevel.imputation.cudia.model import Parameters, build, check_choices
from crosslevel.imputation.estimate import Imputer, naive_means, subgroups
from crosslevel.imputation.inputs import FEWEST_GROUPS, UNSURE, keep_inputs, keep_warnings, read_fit
from crosslevel.results import Estimates
from crosslevel.results.intervals import normal_interval, quantile_interval
from crosslevel.typing import FloatArray, Progress, RandomState, Step

NARROW = (
    "These intervals hold under the model of clusters alone (place_sd=0), without places that differ for other reasons; on real data they "
    "are far too narrow. Pass place_sd='auto'."
)


def describe_convergence(convergence: dict[str, Any]) -> str:
    """Say in a few words what convergence rests on."""
    shown = {k: v for k, v in convergence.items() if k in ("gradient", "steps", "drift", "modes")}
    return ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in shown.items())


class CUDIA(Imputer):
    """Estimate, for each person, features that were published as group means only, by clusters of people (Park & Ghosh).

    People fall into clusters. What is known of a person (x) and what is hidden (u) are independent given the cluster, and groups
    differ in their mix of clusters. The published means then tell the clusters' hidden means, and a person's x tells the cluster.
    :class:`~crosslevel.imputation.CrossLevelImputer` is the recommended default; on the survey it was compared on it is clearly
    better for people, and its intervals cover.

    Parameters
    ----------
    n_clusters : int, default 5
    method : {"mcem", "map", "hard", "two_stage"}, default "mcem"
        Monte Carlo EM (the paper's, corrected); the most probable parameters, with every cluster summed out; the deterministic
        algorithm; or clusters from x alone and a ridge regression on their shares.
    likelihood : {"cudia", "count"}, default "cudia"
        How published means vary: as samples from the group's mix (the paper's), or as means of these very people, whose clusters
        are partly known. The second fits only means computed on these people, and has no "map".
    families : "auto", str or mapping of column to str, default "auto"
        Of each column of X: "gaussian", "categorical", "bernoulli", "poisson", "exponential", or, for a tuple of columns of counts,
        "multinomial". "auto" takes text and whole numbers of up to 12 values as categorical, other numbers as gaussian. A hidden
        feature may be named too ("bernoulli", "gaussian"); by default it is bernoulli when all of its means lie in [0, 1].
    ridge : float, optional
        In people: clusters' hidden means are shrunk to the overall mean as by this many. Hidden means of binary features stay in [0, 1].
        None is 1 for real features, and for binary ones a normal prior of deviation 1.25 on the logit.
    alpha : float or "learn", default 1.0
        Exponent of the Dirichlet prior of the groups' mixes (1 is uniform), or learned exponents.
    n_restarts : int, default 6
        Starts of the mixture; several modes are the rule.
    random_state : int, None, Generator or RandomState, default 0
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
    convergence_ : dict
        ``converged`` and what it rests on: gradient, steps, modes over restarts, drift, acceptance.
    identifiability_ : tuple of Identifiability
        For each hidden feature: singular values, effective degrees of freedom, which contrasts of clusters the means determine.
    leave_one_out_ : array of shape (d_u,)
        Root mean square error of a published mean predicted from the others, in standard deviations between groups. It judges how well
        means are predicted, not people: choosing by it favors too weak a ridge.
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
    >>> people = People({"x": x, "place": place}, by="place")
    >>> places = Places({"place": np.arange(25), "u": means}, by="place", means=["u"])
    >>> guess = CUDIA(2, method="map").fit(people, places).transform(people)["u"].to_numpy()
    >>> bool(np.mean((guess - u) ** 2) < 0.5 * np.mean((means[place] - u) ** 2))
    True
    """

    def __init__(
        self,
        n_clusters: int = 5,
        method: str = "mcem",
        likelihood: str = "cudia",
        families: Any = "auto",
        ridge: float | None = None,
        alpha: float | str = 1.0,
        n_restarts: int = 6,
        random_state: RandomState = 0,
        *,
        place_sd: float | str = "auto",
        allow_unconverged: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.method = method
        self.likelihood = likelihood
        self.families = families
        self.ridge = ridge
        self.alpha = alpha
        self.n_restarts = n_restarts
        self.random_state = random_state
        self.place_sd = place_sd
        self.allow_unconverged = allow_unconverged

    @checked
    def fit(self, people: People, places: Places | Sequence[Places], *, progress: Progress | None = None) -> Self:
        """Find the clusters and their hidden means.

        Parameters
        ----------
        people : People
            What is known of each person, and the group of each in ``by``; a missing value is integrated out. They are kept by reference
            for :meth:`estimate`, never saved.
        places : Places or sequence of Places
            The published means, one table for each way in which people are divided: every hidden feature may have its own.
        progress : bool or callable, optional
        """
        check_choices(self, tuple(METHODS))
        seed = checks.read_seed(self.random_state)
        given = read_fit(people, places, allow_missing=True)
        if given.rates:
            raise InputError("known_rates act in CrossLevelImputer; clusters do not take rates of subgroups.")
        problem = build(given, self.families, self.likelihood)
        if self.n_clusters > len(problem.X):
            raise InputError(
                f"n_clusters={self.n_clusters} is more than the {len(problem.X):,} distinct rows of people; pass at most that many."
            )
        learn = isinstance(self.alpha, str)
        alpha = np.full(self.n_clusters, 1.0 if learn else float(self.alpha))
        prior = partial(make_prior, problem, alpha, learn=learn, ridge=self.ridge)
        rng = np.random.default_rng(seed)
        with threadpool_limits(limits=1):  # the arrays are small, and threads cost more than they give
            found = fit_problem(problem, self.method, prior, self.n_restarts, rng, progress)
        self.convergence_ = found.convergence
        told = describe_convergence(found.convergence)
        if not found.convergence["converged"] and not self.allow_unconverged:
            raise ConvergenceError(
                f"CUDIA by {self.method!r} did not converge ({told}); try fewer clusters, a larger ridge, or pass "
                "allow_unconverged=True to see the numbers anyway."
            )
        keep_inputs(self, given, seed)
        self._problem, self._fit, self._mark, self._people = problem, found, people_mark(given.cells), people
        self._draws: Parameters | None = None
        self._slopes: OpenSlopes | None = None
        self._constants: tuple[FloatArray, ...] | None = None
        self.parameters_ = found.parameters
        self.identifiability_ = identify(problem, found.prior, found.parameters, found.shares)
        keep_warnings(self, (*given.warnings, *self._doubts(told)), stacklevel=4)
        return self

    @checked
    def transform(self, people: People, *, match_means: bool = True) -> Any:
        """Give the expected hidden values of people, a column for each feature.

        Parameters
        ----------
        people : People
            Groups must be those of the fit.
        match_means : bool, default True
            Make the weighted mean of these people equal the published one of their group, exactly: by a shift of logits (binary), a
            constant (real). Without it, values are what the clusters alone say.

        Returns
        -------
        dataframe
            In the order of people, of the kind they were given in.
        """
        rows, cells = self._read(people)
        crowd = Crowd.gather(self._problem, self.schema_.names, rows, cells)
        if match_means:
            values = expected_values(self._problem, self.parameters_, crowd)[0]
        else:
            values = (probabilities(self._problem, self.parameters_, crowd) @ self.parameters_.H)[crowd.pair]
        return self._named(values, rows.frame)

    @checked
    def responsibilities(self, people: People) -> FloatArray:
        """Give the probability of each cluster for each person, (n, K)."""
        crowd = self._crowd(people)
        return probabilities(self._problem, self.parameters_, crowd)[crowd.pair]

    @checked
    def sample(
        self,
        people: People,
        n_draws: int = 20,
        *,
        random_state: RandomState = None,
        match_means: bool = True,
        progress: Progress | None = None,
    ) -> FloatArray:
        """Draw complete data: parameters from their posterior, then clusters, then values that keep the published means.

        Parameters
        ----------
        people : People
            As in :meth:`transform`.
        n_draws : int
            Number of draws. Parameters are taken evenly from 200 draws of their posterior, and again from the first for more.
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
        Given the columns of people a draw is independent of everything else. An analysis of the draws may therefore use these columns, the
        groups and the hidden features, and nothing more: a coefficient on a column that is not among them, or of such an outcome, is
        drawn to zero. Put what will be regressed on, and the outcome, into people. :func:`~crosslevel.imputation.pool` compares.
        """
        crowd = self._crowd(people)
        with count_steps(progress, "Drawing", None, "draws") as step:
            return np.stack(list(self._values(crowd, n_draws, random_state, step, match_means=match_means)))

    @checked
    def estimate(
        self,
        by: str | Sequence[str],
        people: People | None = None,
        *,
        level: float = 0.95,
        n_draws: int = 200,
        random_state: RandomState = None,
        match_means: bool | None = None,
    ) -> Estimates:
        """Give means of the hidden features in subgroups of people, with intervals from draws.

        Parameters
        ----------
        by : str or sequence of str
            Columns of people, those of the groups too, that define the subgroups.
        people : People, optional
            Those of the fit when not given; a loaded model keeps nobody.
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
        check_is_fitted(self, "schema_")
        people = self._people if people is None else people
        if people is None:
            raise InputError("people: a loaded model keeps nobody; pass crosslevel.People(data, by=...).")
        if people.weight is not None:
            people = people.kept(f"{quoted(people.weight)} > 0")
        rows, cells = self._read(people)
        crowd = Crowd.gather(self._problem, self.schema_.names, rows, cells)
        cut, keys = subgroups(by, cells, self.schema_)
        cut = cut[cells.pair]
        if match_means is None:
            match_means = people_mark(cells) == self._mark
        constants = None if match_means else self._fit_constants()
        values = expected_values(self._problem, self.parameters_, crowd, constants)[0]
        point, n_cuts = subgroup_means(cut, crowd.weight, values), int(cut.max()) + 1
        drawn = self._values(crowd, n_draws, random_state, match_means=match_means)
        draws = np.stack([subgroup_means(cut, crowd.weight, v) for v in drawn])
        found = quantile_interval(draws, level)
        parts = [
            {
                "feature": [name] * n_cuts,
                **keys,
                "estimate": point[j],
                "std_error": found.std_error[j],
                "conf_low": np.minimum(found.low[j], point[j]),
                "conf_high": np.maximum(found.high[j], point[j]),
                "naive": naive_means(block.S[:, c], crowd.group[:, block.partition], crowd.weight, cut, n_cuts),
                "people": np.bincount(cut, minlength=n_cuts),
            }
            for j, (name, (block, c)) in enumerate(zip(self.hidden_names_, self._problem.published, strict=True))
        ]
        said, draws = f"estimate(by={by!r}, n_draws={n_draws})", draws.reshape(len(draws), -1)
        return self._tabulate(parts, ["feature", *keys], level, "posterior quantile", said, "imputed", draws)

    def clusters(self, level: float = 0.95) -> Estimates:
        """Give the clusters: hidden means (eta) with intervals, shares of people, and the parameters of x (theta).

        Intervals are normal, given the clusters, with what ``place_sd`` adds; with ``place_sd=0`` those of the ridge regression.
        """
        check_is_fitted(self, "parameters_")
        level = checks.check_level(level)
        problem, at = self._problem, self.parameters_
        spread = tuple(r.variance for r in self.identifiability_)
        if self.place_sd:
            spread = place_covariances(problem, self._fit, self.place_sd)
        size = problem.size @ self._fit.shares
        theta: dict[str, FloatArray] = {}
        for family, t in zip(problem.families, at.theta, strict=True):
            theta |= family.describe(t)
        parts = []
        for j, name in enumerate(self.hidden_names_):
            eta, error = at.H[:, j], np.sqrt(np.diag(spread[j]))
            ends = (EDGE, 1.0 - EDGE) if problem.binary[j] else (-np.inf, np.inf)
            low, high = (np.clip(end, *ends) for end in normal_interval(eta, error, level))
            own = {"feature": [name] * len(eta), "cluster": list(range(1, len(eta) + 1)), "estimate": eta}
            interval = {"std_error": error, "conf_low": np.minimum(low, eta), "conf_high": np.maximum(high, eta)}
            parts.append(own | interval | {"share": size / size.sum()} | theta)
        said = "normal, given the clusters"
        return self._tabulate(parts, ["feature", "cluster"], level, said, "clusters()", "clusters")

    @property
    def leave_one_out_(self) -> FloatArray:
        """Error of every published mean predicted from the others, (d_u,)."""
        check_is_fitted(self, "parameters_")
        found = leave_one_out(self._problem, self._fit.prior, self.parameters_, self._fit.shares)
        return np.array([float(np.sqrt(np.mean(errors**2))) for errors in found])

    def _without_people(self) -> dict[str, Any]:
        """Draws of the parameters instead of people, made here if there are none yet."""
        made = {"_draws": self._posterior(), "_slopes": self._open_slopes(), "_constants": self._fit_constants()}
        return made | {"_people": None, "_problem": self._problem.without_people()}

    def _crowd(self, people: People) -> Crowd:
        return Crowd.gather(self._problem, self.schema_.names, *self._read(people))

    def _fit_constants(self) -> tuple[FloatArray, ...]:
        """What made the expected values of the people of the fit meet the published means; found at the first call."""
        if self._constants is None:
            self._constants = expected_values(self._problem, self.parameters_, Crowd.of_fit(self._problem))[1]
        return self._constants

    def _values(
        self, crowd: Crowd, n_draws: int, random_state: RandomState, step: Step | None = None, *, match_means: bool
    ) -> Iterator[FloatArray]:
        n_draws, rng = self._read_draws(n_draws, random_state)
        draws, slopes = self._posterior(step), self._open_slopes()
        chosen = np.linspace(0, DRAWS - 1, min(n_draws, DRAWS)).round().astype(int)
        used = (draws.at(int(i)) for i in np.resize(chosen, n_draws))
        nothing = np.zeros((len(crowd.X), len(self.hidden_names_)))
        tilts = repeat(nothing) if slopes is None else slopes.draws(crowd.X, rng)
        constants = None if match_means else self._fit_constants()
        for values in draw_values(self._problem, zip(used, tilts, strict=False), crowd, rng, constants):
            if step is not None:
                step()
            yield values

    def _open_slopes(self) -> OpenSlopes | None:
        """What x may still say beyond the clusters; found at the first call."""
        if not self.place_sd:
            return None
        if self._slopes is None or self._slopes.place_sd != self.place_sd:
            self._slopes = learn_slopes(self._problem, self._fit, self.schema_.columns, self.place_sd)
        return self._slopes

    def _posterior(self, step: Step | None = None) -> Parameters:
        """Draws of the parameters, made at the first call."""
        if self._draws is None:
            with threadpool_limits(limits=1):
                self._draws = run_chain(self._problem, self._fit, np.random.default_rng(self._seed), step)
        return self._draws

    def _groups(self) -> list[int]:
        """Number of groups with a published mean of each hidden feature."""
        return [int(np.isfinite(block.S[:, c]).sum()) for block, c in self._problem.published]

    def _doubts(self, told: str) -> list[str]:
        """Say what the reader of the numbers should know; ``told`` is what convergence rests on."""
        out, K = [], self.n_clusters
        for j, (name, groups) in enumerate(zip(self.hidden_names_, self._groups(), strict=True)):
            block, c = self._problem.published[j]
            if groups < FEWEST_GROUPS:
                out.append(
                    f"{name!r} is known for {groups} groups only, which cannot show whether people are better told than by the group mean. "
                    "Compare CrossLevelImputer, and rely on the ranking of people more than on the levels."
                )
            if block.elsewhere[c] and np.isnan(block.se[np.isfinite(block.S[:, c]), c]).any():
                out.append(
                    f"the means of {name!r} come from the population without standard errors; they are taken to rest on as many people as "
                    "are here. Pass se= of Means."
                )
            if groups < K:
                out.append(
                    f"{name!r}: {groups} published means for {K} clusters; about {self.identifiability_[j].effective_df:.1f} contrasts of "
                    "clusters come from the data and the rest from the prior (see identifiability_)."
                )
        if not self.convergence_["converged"]:
            out.append(f"the fit did not converge ({told}); do not rely on these numbers.")
        return out

    def _describe(self) -> tuple[str, dict[str, Any], tuple[str, ...]]:
        deviations = [place_deviation(self.place_sd, groups) for groups in self._groups()]
        settings = {"place_sd": deviations[0] if len(set(deviations)) == 1 else deviations}
        method = f"CUDIA, {self.method}, likelihood {self.likelihood}, {self.n_clusters} clusters"
        said = [] if self.place_sd else [NARROW]
        unsure = [
            name
            for name, (block, c) in zip(self.hidden_names_, self._problem.published, strict=True)
            if not block.elsewhere[c] and (block.se[:, c] > 0).any()
        ]
        if unsure:
            said.append(UNSURE.format(listed(unsure)))
        return method, self.convergence_ | settings, (*self.warnings_, *said)
