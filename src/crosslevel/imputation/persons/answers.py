"""Tables of an individual link: means of groups of persons, what the slopes learnt, and a check of the totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslevel.errors import InputError, unknown_name
from crosslevel.imputation.cells import Cells
from crosslevel.imputation.columns import Column
from crosslevel.imputation.inputs import Partition
from crosslevel.imputation.persons.design import Design
from crosslevel.imputation.persons.intervals import mean_interval, share_interval
from crosslevel.imputation.persons.model import LinkFit, Settings
from crosslevel.imputation.persons.similar import Adjustment, adjust
from crosslevel.imputation.persons.uncertainty import Members, mean_spread
from crosslevel.typing import FloatArray, IntArray

__all__ = ["FEWEST_GROUPS", "Hidden", "cut_by", "few_groups", "learning_columns", "mean_columns"]


FEWEST_GROUPS = 20
"""Groups under which a fit says what to expect of it."""


@dataclass(frozen=True, eq=False)
class Hidden:
    """One hidden feature, fitted.

    Attributes
    ----------
    name : str
    partition : int
        The partition whose means were used.
    mean : (P,)
    variance : (P,)
        Sampling variance of the link of the mean.
    binary : bool
    unit : float
        What one logit is for a number, NaN where the sd of persons is not known.
    noise : float
        Variance of one person's number around the expected one; NaN for a binary feature, or where it is not known.
    fit : LinkFit
    shift : (P,)
        b_p - a: what the fit adds to the prediction of people of each group; 0 where no mean was published.
    adjustment : Adjustment or None
    """

    name: str
    partition: int
    mean: FloatArray
    variance: FloatArray
    binary: bool
    unit: float
    noise: float
    fit: LinkFit
    shift: FloatArray
    adjustment: Adjustment | None = None

    @property
    def beta(self) -> FloatArray:
        """The slopes, adjusted where something was learnt from similar columns."""
        return adjust(self.fit.beta, self.adjustment)

    @property
    def kappa(self) -> float:
        """By which intervals are stretched."""
        return 1.0 if self.adjustment is None else self.adjustment.kappa

    @property
    def df(self) -> float:
        """Degrees of freedom of intervals."""
        return np.inf if self.adjustment is None else self.adjustment.df

    @property
    def groups(self) -> int:
        """Number of groups with a mean."""
        return int((~np.isnan(self.mean)).sum())


def few_groups(hidden: Hidden) -> str:
    """Say what to expect of few groups, or nothing."""
    if hidden.groups >= FEWEST_GROUPS:
        return ""
    return (
        f"{hidden.name!r} is known for {hidden.groups} groups only: expect about half of the gain over the group mean that fifty "
        "groups give, and trust the ranking of persons more than the levels."
    )


def cut_by(
    by: str | Sequence[str], cells: Cells, columns: Sequence[Column], partitions: Sequence[Partition]
) -> tuple[IntArray, dict[str, list[Any]]]:
    """Cut pairs of cell and group by columns of X and partitions: the code of each pair, and the keys of each code."""
    names = [by] if isinstance(by, str) else list(by)
    if not names or len(set(names)) < len(names):
        raise InputError(f"by={by!r} must name at least one column, each once.")
    known = [c.name for c in columns] + [p.name for p in partitions]
    codes, levels = [], []
    for name in names:
        if name not in known:
            raise unknown_name("by", name, known)
        position = known.index(name)
        if position < len(columns):
            values = cells.X[:, position]
            at, code = np.unique(values, return_inverse=True)
            labels = columns[position].levels
            levels.append([_level(v, labels) for v in at])
            codes.append(code.reshape(-1)[cells.pair_cell])
        else:
            own = partitions[position - len(columns)]
            levels.append(list(own.labels))
            codes.append(cells.pair_group[:, position - len(columns)])
    combined, code = np.unique(np.column_stack(codes), axis=0, return_inverse=True)
    keys = {name: [levels[j][i] for i in combined[:, j]] for j, name in enumerate(names)}
    return code.reshape(-1).astype(np.intp), keys


def _level(value: float, labels: tuple[Any, ...] | None) -> Any:
    if np.isnan(value):
        return None
    if labels is not None:
        return labels[int(value)]
    return int(value) if value == int(value) else float(value)


def mean_columns(
    hidden: Hidden, members: Members, cut: IntArray, n_cuts: int, level: float, *, sampling: bool
) -> dict[str, FloatArray]:
    """Give the columns of a table of means: estimate, error, interval, people, and the naive answer."""
    found = mean_spread(members, cut, n_cuts, hidden.fit)
    model = hidden.kappa**2 * found.model
    chance = found.chance if sampling else np.zeros(n_cuts)
    sd = np.sqrt(model + chance)
    if not hidden.binary:
        low, high = mean_interval(found.mean, sd, level, hidden.df, binary=False)
        std_error = sd
    else:
        low, high = (
            share_interval(found.mean, model, chance, level, hidden.df)
            if sampling
            else mean_interval(found.mean, sd, level, hidden.df)
        )
        # the interval's own asymmetry stays in the interval; this is the sd of the delta method
        std_error = sd * found.mean * (1.0 - found.mean)
    known = np.where(np.isnan(hidden.mean), 0.0, hidden.mean)[members.group]
    weight = members.weight * ~np.isnan(hidden.mean)[members.group]
    total = np.bincount(cut, weight, n_cuts)
    naive = np.divide(np.bincount(cut, weight * known, n_cuts), total, out=np.full(n_cuts, np.nan), where=total > 0)
    return {
        "estimate": found.mean,
        "std_error": std_error,
        "conf_low": np.minimum(low, found.mean),
        "conf_high": np.maximum(high, found.mean),
        "naive": naive,
        "people": found.people,
    }


def learning_columns(
    hidden: Hidden, design: Design, group_scores: FloatArray, settings: Settings, level: float
) -> dict[str, Any]:
    """Say what group means taught about every slope.

    Parameters
    ----------
    hidden : Hidden
    design : Design
    group_scores : (P, K)
        Mean score of each group.
    settings : Settings
    level : float
    """
    known = ~np.isnan(hidden.mean)
    between = group_scores[known].std(axis=0)
    # with d the ridge is on slopes of d z, whose between-group sd is d times as large
    information = (between * design.reach) ** 2
    sd = hidden.kappa * np.sqrt(np.diag(hidden.fit.Sigma))[1:]
    low, high = mean_interval(hidden.beta, sd, level, hidden.df, binary=False)
    unit = 1.0 if hidden.binary else hidden.unit
    return {
        "feature": [hidden.name] * len(design.terms),
        "column": [design.features[j].name for j in design.owner],
        "term": list(design.terms),
        "estimate": hidden.beta,
        "std_error": sd,
        "conf_low": low,
        "conf_high": high,
        "prior_sd": settings.t * design.reach * unit,
        "between_sd": between,
        "kept": information / (information + 1.0 / settings.c),
    }
