"""``CrossLevelImputer``: each person's hidden value from group means, by one model of persons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.data.cells import sums, warn_outside
from crosslevel.data.people import People
from crosslevel.data.places import Places
from crosslevel.data.signatures import checked
from crosslevel.errors import unknown_name
from crosslevel.imputation.cells import people_mark
from crosslevel.imputation.design import check_size, learn_design
from crosslevel.imputation.estimate import Imputer, stack_means, subgroups
from crosslevel.imputation.inputs import count_cells, keep_inputs, keep_warnings, read_fit, read_rows
from crosslevel.imputation.persons.hidden import (
    class_probabilities,
    describe_warnings,
    draw,
    fit_hidden,
    members_of,
    person_values,
    read_families,
)
from crosslevel.imputation.persons.known import read_known
from crosslevel.imputation.persons.model import Settings
from crosslevel.imputation.persons.tables import mean_columns, slope_columns, totals_columns
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray, RandomState

MOST_CURVATURE = 1e6


class CrossLevelImputer(Imputer):
    """Estimate, for each person, features that were published as group means only; the recommended imputer.

    Persons have a logistic model of what is known of them. It is fitted to the group means alone, held by a ridge that grows with
    the number of groups (groups differ for reasons that no column tells, and more groups do not change that), and then shifted by one
    constant per group, so that every published mean is met exactly. Intervals come from the same ridge.

    Parameters
    ----------
    slope_sd : float, default 0.45
        Prior sd of a slope, in logits per sd of a column. It sets the width of intervals and hardly moves the estimates.
    shrinkage_groups : float, default 32
        How much is learned: for one column alone the slope keeps sd_b² / (sd_b² + 1/shrinkage_groups) of its ecological value, sd_b being
        the between-group sd of the column in sds of persons. 16 is cautious.
    curvature : float, default 0.3
        Prior sd of what bends in an ordered column, relative to a slope; 0 leaves it out.
    family : {"bernoulli", "gaussian"} or mapping of hidden feature to either, default "bernoulli"
        Whether the hidden feature is yes or no, or a number. For a number the link is the identity.
    scale : float or mapping of hidden feature to float, optional
        sd of a hidden number among persons. Estimates hardly depend on it; intervals and draws need it, and without it a warning says
        that there are none. Refused where no hidden feature is a number.
    missing : {"error", "mean"}, default "error"
        "mean" takes a person of whom a column is missing as average in it.
    n_restarts : int, default 3
        Further fits from random slopes, which must agree.
    random_state : int, None, Generator or RandomState, default 0
        Of restarts and of ``sample``.

    Attributes
    ----------
    hidden_ : tuple of Hidden
        The fitted features: slopes, covariance, shifts.
    hidden_names_ : tuple of str
    schema_ : Schema
        Columns and groups of the fit.
    design_ : Design
        Scores of the columns.
    warnings_ : tuple of str
    convergence_ : dict
        For each hidden feature ``gradient``, ``steps``, and ``restarts_apart``, the distance between restarts in prior sds.

    Notes
    -----
    Shrinkage is fixed, not chosen. Evidence and leaving groups out both judge how well *means* are predicted; the error here is
    confounding, which means cannot show, and both choose far too little shrinkage.

    Persons are counted by distinct row where they are, by SQL; at most four million distinct rows are held: round continuous columns.
    Columns of text, and those that ``categorical`` of People names, are factors; other numbers with up to 12 values are ordered levels;
    with more they are continuous, and linear.

    A saved or pickled model keeps the distinct rows with their counts by group, of which ``estimate``, ``slopes`` and
    ``check_totals`` are made. Where a column is continuous, distinct rows are people:
    ``save(..., allow_rows=False)`` refuses such a file, and the manifest counts them.

    References
    ----------
    Park, Y. and Ghosh, J. (2012). CUDIA: probabilistic cross-level imputation using individual auxiliary information.
    Jackson, C., Best, N. and Richardson, S. (2008). Hierarchical related regression. JRSS A 171.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> state = np.repeat(np.arange(30), 200)
    >>> age = rng.binomial(4, 0.3 + 0.4 * (state / 30))
    >>> ill = rng.random(6000) < 1 / (1 + np.exp(3 - 0.8 * age))
    >>> means = np.bincount(state, ill) / 200
    >>> people = People({"age": age, "state": state}, by="state")
    >>> places = Places({"state": np.arange(30), "ill": means}, by="state", means=["ill"])
    >>> p = CrossLevelImputer().fit(people, places).transform(people)["ill"].to_numpy()
    >>> bool(np.abs(np.bincount(state, p) / 200 - means).max() < 1e-10), bool(p[age == 4].mean() > 2 * p[age == 0].mean())
    (True, True)
    """

    def __init__(
        self,
        slope_sd: float = 0.45,
        shrinkage_groups: float = 32.0,
        *,
        curvature: float = 0.3,
        family: str | Mapping[str, str] = "bernoulli",
        scale: float | Mapping[str, float] | None = None,
        missing: str = "error",
        n_restarts: int = 3,
        random_state: RandomState = 0,
    ) -> None:
        self.slope_sd = slope_sd
        self.shrinkage_groups = shrinkage_groups
        self.curvature = curvature
        self.family = family
        self.scale = scale
        self.missing = missing
        self.n_restarts = n_restarts
        self.random_state = random_state

    def fit(self, people: People, places: Places | Sequence[Places]) -> Self:
        """Fit the hidden features to the published means.

        Parameters
        ----------
        people : People
            What is known of each person, and the group of each in ``by``.
        places : Places or sequence of Places
            The published means, one table for each way in which people are divided; ``by`` names the same column in both nouns.
        """
        settings = self._settings(checks.read_seed(self.random_state))
        given = read_fit(people, places, allow_missing=self._allow_missing)
        cells = given.cells
        families = read_families(self, given)
        keep_inputs(self, given, settings.seed)
        weight = sums(cells.pair_cell, cells.weight, len(cells.X))
        self.design_ = learn_design(cells.X, weight, given.schema.columns, self.curvature)
        check_size(cells.X, self.design_)
        self._cells = cells
        known = {name: one for table in given.rates for name, one in read_known(table, given, families).items()}
        self.hidden_ = tuple(
            fit_hidden(p, cells, self.design_, settings, families[p.name], self._scale(p.name), known.get(p.name))
            for p in given.published
        )
        told = {"gradient": "gradient", "restarts_apart": "apart", "steps": "steps"}
        found: dict[str, Any] = {n: {h.name: getattr(h.fit, own) for h in self.hidden_} for n, own in told.items()}
        self.convergence_ = {"converged": True} | found
        keep_warnings(self, [*given.warnings, *(w for h in self.hidden_ for w in describe_warnings(h))])
        return self

    @checked
    def transform(self, people: People, *, match_means: bool = True) -> Any:
        """Give the expected hidden values of people, a column for each feature: probabilities, or expected numbers.

        Parameters
        ----------
        people : People
            Groups must be those of the fit.
        match_means : bool, default True
            Make the weighted mean of *these* people equal the published one of their group, to the last digits. Without it, people get
            the constant their group got in the fit: right for few or new people of a group.

        Returns
        -------
        dataframe
            In the order of people, of the kind they were given in.
        """
        rows, cells = self._read(people)
        values = [person_values(h, self.design_, cells, match_means=match_means) for h in self.hidden_]
        return self._named(np.column_stack(values), rows.frame)

    @checked
    def predict_proba(self, people: People) -> FloatArray:
        """Give the probability of each class of people of any group, those without a published mean too, (n, n_classes).

        Parameters
        ----------
        people : People

        Returns
        -------
        (n, n_classes)
            No and yes of the one hidden feature; of several, which must be shares of one whole, a column for each of ``hidden_names_``.
        """
        check_is_fitted(self, "hidden_")
        X = read_rows(people, self.schema_, allow_missing=self._allow_missing, grouped=False).X
        warn_outside(X, self._cells.X, self.schema_.names, stacklevel=4, argument="people")
        return class_probabilities(self.hidden_, self.design_, self._cells, X)

    @checked
    def sample(
        self,
        people: People,
        n_draws: int = 20,
        *,
        values: bool = True,
        random_state: RandomState = None,
        match_means: bool = True,
    ) -> FloatArray:
        """Draw complete data: slopes from their posterior, then everybody's value given them and the published means.

        Parameters
        ----------
        people : People
            As in :meth:`transform`.
        n_draws : int
            Number of draws.
        values : bool, default True
            False draws the probabilities (expected numbers) and not the values.
        random_state : int, Generator or RandomState, optional
            The seed of the fit when not given.
        match_means : bool, default True
            As in :meth:`transform`: False for other people than those whose mean was published, such as a part of a group.

        Returns
        -------
        (n_draws, n, d_u)
            Every draw has the published means exactly; those of a population, means drawn around them by their standard errors. Draws of
            yes and no can where N_p s_p is whole, as it is when the means were computed on these people; otherwise, and with weights,
            they come within one person.

        Notes
        -----
        Given the columns of people a draw is independent of everything else. An analysis of the draws may therefore use these columns, the
        groups and the hidden features, and nothing more: a coefficient on a column that is not among them, or of such an outcome, is
        drawn to zero. Put what will be regressed on, and the outcome, into people. :func:`~crosslevel.imputation.pool` compares.
        """
        check_is_fitted(self, "hidden_")
        n_draws, rng = self._read_draws(n_draws, random_state)
        rows, cells = self._read(people)
        fitted = None if match_means else self._cells
        out = [draw(h, self.design_, (rows, cells), n_draws, rng, values=values, fitted=fitted) for h in self.hidden_]
        return np.stack(out, axis=-1)

    @checked
    def estimate(
        self,
        by: str | Sequence[str],
        people: People | None = None,
        *,
        level: float = 0.95,
        sampling: bool = True,
        match_means: bool | None = None,
    ) -> Estimates:
        """Give means of groups of persons, with intervals.

        Parameters
        ----------
        by : str or sequence of str
            Columns of people, those of the groups too, that define the groups of persons.
        people : People, optional
            Other people than those of the fit.
        level : float
        sampling : bool, default True
            Whether the interval is for the mean among these very persons, whose values are more or less by chance. Without it, it
            is for the mean of their probabilities.
        match_means : bool, optional
            Whether the mean of these people is made equal to the published one of their group. When not given, it is for the people of
            the fit and not for others, who get the constant their group got in the fit: a part of a group has another mean.

        Returns
        -------
        Estimates
            Beside each estimate ``naive``, the mean of the group means of the same persons, and ``people``.
        """
        check_is_fitted(self, "hidden_")
        level = checks.check_level(level)
        cells = self._cells
        if people is not None:
            cells = count_cells(people, self.schema_, allow_missing=self._allow_missing)
            warn_outside(cells.X, self._cells.X, self.schema_.names, stacklevel=4, argument="people")
        if match_means is None:
            match_means = people is None or people_mark(cells) == people_mark(self._cells)
        fitted = None if match_means else self._cells
        cut, keys = subgroups(by, cells, self.schema_)
        n_cuts = int(cut.max()) + 1
        parts = [
            {"feature": [h.name] * n_cuts, **keys}
            | mean_columns(h, members_of(h, self.design_, cells, fitted), cut, n_cuts, level, sampling=sampling)
            for h in self.hidden_
        ]
        interval = f"posterior of the {'share of these persons' if sampling else 'probability'}"
        return self._tabulate(parts, ["feature", *keys], level, interval, f"estimate(by={by!r})", "imputed")

    def _report_tables(self, level: float = 0.95) -> dict[str, Estimates]:
        """Give the tables of a report: means by every column of few values, and the slopes."""
        means = stack_means([self.estimate([n], level=level) for n in self._shown], self._shown)
        return {"means": means, **super()._report_tables(level)}

    def slopes(self, level: float = 0.95) -> Estimates:
        """Say what the group means taught about persons: every slope with its interval, and how much of it was kept.

        ``between_sd`` is how much groups differ in the score, in sds of persons; ``kept`` the share of an ecological slope that
        the ridge keeps; a ``std_error`` near ``prior_sd`` says that the means taught next to nothing.
        """
        check_is_fitted(self, "hidden_")
        level, settings = checks.check_level(level), self._settings(self._seed)
        parts = [slope_columns(h, self.design_, self._cells, settings, level) for h in self.hidden_]
        return self._tabulate(parts, ["feature", "column", "term"], level, "posterior, normal", "slopes()", "slopes")

    def check_totals(self, level: float = 0.95) -> Estimates:
        """Predict every group's mean from the other groups: a check of totals, and of nothing else.

        That group means are predicted well says little about persons, so that nothing is chosen by it.
        """
        check_is_fitted(self, "hidden_")
        level, settings = checks.check_level(level), self._settings(self._seed)
        parts = [totals_columns(h, self.schema_, self._cells, self.design_, settings, level) for h in self.hidden_]
        return self._tabulate(parts, ["feature", "group"], level, "posterior, normal", "check_totals()", "published")

    @property
    def _allow_missing(self) -> bool:  # type: ignore[override]
        return self.missing == "mean"

    def _scale(self, name: str) -> float | None:
        """Look up the sd of a hidden number."""
        scale = self.scale.get(name) if isinstance(self.scale, Mapping) else self.scale
        return None if scale is None else checks.check_positive(scale, "scale")

    def _settings(self, seed: int) -> Settings:
        checks.check_between(self.curvature, "curvature", 0.0, MOST_CURVATURE)
        if self.missing not in ("error", "mean"):
            raise unknown_name("missing", self.missing, ("error", "mean"), "choice")
        return Settings(
            checks.check_positive(self.slope_sd, "slope_sd"),
            checks.check_positive(self.shrinkage_groups, "shrinkage_groups"),
            checks.check_whole(self.n_restarts, "n_restarts", 0),
            seed,
        )

    def _describe(self) -> tuple[str, dict[str, Any], tuple[str, ...]]:
        diagnostics = self.convergence_ | {
            "groups": {h.name: h.groups for h in self.hidden_},
        }
        return "individual link to group means", diagnostics, self.warnings_
