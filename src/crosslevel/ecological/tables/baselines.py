"""Answers without a model of rates: the method of bounds, the neighborhood model, homogeneous units.

Each function takes :class:`crosslevel.Counts` and answers with one table: a row per group and outcome,
`estimate` being the share of the group with that outcome, the deterministic bounds beside it, and ``.units`` the same
for every unit, with its margins: ``people`` of the group and ``outcome_total`` of the outcome.
"""

from __future__ import annotations

from numbers import Real

import numpy as np

from crosslevel.data.signatures import checked
from crosslevel.ecological.tables.counts import Counts
from crosslevel.ecological.tables.layout import Answer, lay_out
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates


@checked
def bounds(counts: Counts) -> Estimates:
    """Give the deterministic bounds: what the margins imply with certainty (Duncan and Davis 1953).

    The columns ``lower`` and ``upper`` bound the share of each group with each outcome. ``estimate`` is their midpoint, for
    scoring only: nothing inside the bounds is more probable than anything else, so summaries, charts and reports leave it out.
    They are sharp for each cell by itself, of a unit and of the district, whatever the numbers of groups and outcomes;
    two cells need not reach theirs together.

    Parameters
    ----------
    counts : Counts

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome``; ``.units`` with keys ``unit``, ``group``, ``outcome``.

    See Also
    --------
    goodman : a regression, which assumes groups behave alike everywhere.
    neighborhood : assumes everybody behaves like their unit.

    References
    ----------
    Duncan, O. D. and Davis, B. (1953). An alternative to ecological correlation. American Sociological Review 18.

    Examples
    --------
    >>> data = {"young": [30, 90], "old": [70, 10], "yes": [80, 20], "no": [20, 80]}
    >>> found = bounds(Counts(data, groups=["young", "old"], outcomes=["yes", "no"]))
    >>> found["lower"].round(3).tolist(), found["upper"].round(3).tolist()
    ([0.167, 0.583, 0.625, 0.0], [0.417, 0.833, 1.0, 0.375])
    """
    tables = counts.tables
    midpoint = (tables.bounds.low + tables.bounds.high) / 2
    return lay_out(counts, ("bounds", {}), Answer(midpoint, "bounds (Duncan-Davis)"))


@checked
def neighborhood(counts: Counts) -> Estimates:
    """Estimate by the neighborhood model: everybody behaves like their unit, whatever their group.

    The naive baseline: in each unit every group has the unit's own outcome shares. It respects all totals and bounds and
    says nothing about differences within units.

    Parameters
    ----------
    counts : Counts

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome``; no interval. ``.units`` with keys ``unit``, ``group``, ``outcome``.

    References
    ----------
    Freedman, D. A., Klein, S. P., Sacks, J., Smyth, C. A. and Everett, C. G. (1991). Ecological regression and voting
    rights. Evaluation Review 15.

    Examples
    --------
    >>> data = {"young": [30, 90], "old": [70, 10], "yes": [80, 20], "no": [20, 80]}
    >>> found = neighborhood(Counts(data, groups=["young", "old"], outcomes=["yes", "no"]))
    >>> found["estimate"].tolist()
    [0.35, 0.65, 0.725, 0.275]
    """
    tables = counts.tables
    cells = tables.X[:, :, None] * tables.T[:, None, :] / tables.N[:, None, None]
    return lay_out(counts, ("neighborhood", {}), Answer(cells, "neighborhood (everybody behaves like their unit)"))


@checked
def homogeneous(counts: Counts, threshold: float = 0.8) -> Estimates:
    """Estimate each group from its homogeneous units, in which it is at least ``threshold`` of the people.

    Parameters
    ----------
    counts : Counts
    threshold : float, default 0.8
        Least share of a group in a unit that stands for it; above one half.

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome``; no interval. ``units_used`` counts the units of each group; a group without any is
        null. ``.units`` repeats the rates in every unit.

    Examples
    --------
    >>> data = {"young": [95, 50, 5], "old": [5, 50, 95], "yes": [60, 50, 20], "no": [40, 50, 80]}
    >>> homogeneous(Counts(data, groups=["young", "old"], outcomes=["yes", "no"]), threshold=0.9)["estimate"].tolist()
    [0.6, 0.4, 0.2, 0.8]
    """
    if isinstance(threshold, bool) or not isinstance(threshold, Real) or not 0.5 < float(threshold) <= 1:
        raise InputError(f"threshold={threshold!r} is not a share above 0.5; pass for example 0.8 or 0.9.")
    tables = counts.tables
    pure = (tables.X / tables.N[:, None] >= threshold).astype(float)
    people = pure.T @ tables.N
    rates = np.divide(
        pure.T @ tables.T,
        people[:, None],
        out=np.full((len(tables.groups), len(tables.outcomes)), np.nan),
        where=people[:, None] > 0,
    )
    used = pure.sum(axis=0).astype(np.int64)
    without = [g for g, n in zip(tables.groups, used, strict=True) if n == 0]
    found = Answer(
        rates * tables.X[:, :, None],
        method=f"homogeneous units, {threshold:g} or more of one group",
        columns={"units_used": np.repeat(used[:, None], len(tables.outcomes), axis=1)},
        diagnostics={"threshold": float(threshold), "units_used": int(used.sum())},
        warnings=(f"No unit is homogeneous for {listed(without)}: null.",) if without else (),
    )
    return lay_out(counts, ("homogeneous", {"threshold": threshold}), found)
