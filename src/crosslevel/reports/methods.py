"""How an answer was made, in sentences for a document: each method, its paper, the software, and what was checked."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib import metadata

import numpy as np

from crosslevel.charts.words import points
from crosslevel.reports.sentences import PAPERS
from crosslevel.results import Estimates
from crosslevel.results.provenance import installed_version
from crosslevel.results.table import midpoints

SOFTWARE = ("numpy", "scipy", "numba", "scikit-learn", "pyarrow", "matplotlib")
LEAVES = ", and may leave the range from 0 to 100 %"
SENTENCES: dict[str, tuple[str, str]] = {
    "homogeneous": (
        "Homogeneous units (extreme case analysis) takes the share among all people of the units in which one group is at least "
        "{threshold} of the people; it says nothing of members of the group who live elsewhere.",
        "homogeneous units",
    ),
    "goodman": (
        "Goodman's ecological regression is a weighted least squares regression of outcome shares on group shares ({weights} weights); it "
        f"assumes that a group behaves alike everywhere{LEAVES}.",
        "Goodman",
    ),
    "king_iterated": (
        "King's truncated bivariate normal model, iterated: a 2 x 2 table of each group against the rest and each candidate against the "
        "rest, as courts have seen it. The tables are fitted one by one, so that shares need not add up.",
        "King",
    ),
    "multinomial_dirichlet": (
        "The Multinomial-Dirichlet model (hierarchical, R x C) draws the shares of every unit from one Dirichlet distribution for each "
        "group.",
        "multinomial",
    ),
    "rxc": (
        "The contextual R x C model of crosslevel fits the counts of all groups and outcomes at once, with overdispersion and a stated "
        "contextual slope of {contextual_slope} ± {contextual_slope_sd}: how far rates go along with composition, which "
        "margins cannot tell.",
        "contextual R x C",
    ),
    "neighborhood": (
        "The neighborhood model gives every group the shares of its unit; it is a baseline.",
        "neighborhood",
    ),
    "rxc_em": ("The EM algorithm fits multinomial shares that are constant over units.", ""),
}
"""Name of a method of a study -> what it does, and the key of its paper."""
NAMES = {
    "homogeneous": "Homogeneous units", "goodman": "Goodman", "king_iterated": "King, iterated 2 x 2",
    "multinomial_dirichlet": "Multinomial-Dirichlet", "rxc": "Contextual R x C (rxc)", "neighborhood": "Neighborhood", "rxc_em": "EM",
}  # fmt: skip
"""Methods as a document calls them."""
ASSUMPTIONS = (
    "Counts by unit do not show how any person voted. Every estimate rests on an assumption about how the votes of a group go along with "
    "the composition of its units. Bounds rest on none: they are the least and the most that the counts allow. The test of constant rates "
    "(CAR) asks whether outcomes are linear in composition: a small p-value refutes rates that do not depend on composition, a large one "
    "does not confirm them. Sensitivity says how far estimates move under another contextual slope."
)
CHECK_PAPERS = (
    "McCartan, C. and Kuriwaki, S. (2025). Identification and semiparametric estimation of conditional means from aggregate data. "
    "arXiv:2509.20194.",
    "Chernozhukov, V., Cinelli, C., Newey, W., Sharma, A. and Syrgkanis, V. (2024). Long story short: omitted variable bias in causal "
    "machine learning. NBER 30302.",
)


def describe_method(name: str, found: Estimates) -> str:
    """Say what a method does, with the options and the numbers of this answer's provenance."""
    told = found.diagnostics
    values = {o: told.get(o, "–") for o in ("threshold", "weights", "contextual_slope", "contextual_slope_sd")}
    text = SENTENCES[name][0].format(**values)
    if found.level is None:  # Goodman's regression has no interval where it is bounded
        text = text.replace(LEAVES, "; the shares are constrained to the range from 0 to 100 %")
    text += " The search did not converge everywhere." if told.get("converged") is False else ""
    if found.level is not None:
        text += f" Intervals are at the level of {100 * found.level:.10g} % ({found.interval})."
    if found.draws is not None:
        text += f" There are {len(found.draws):,} posterior draws"
        text += f" (seed {found.provenance.seed})." if found.provenance.seed is not None else "."
    return text


def describe_software() -> str:
    """Name the versions that made the numbers."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in SOFTWARE)
    return f"Computed with crosslevel {installed_version()}, Python {platform.python_version()}, {versions}."


def references_of(methods: Iterable[str]) -> list[str]:
    """List the papers of the methods used and of the checks, in alphabetical order."""
    papers = [SENTENCES[name][1] for name in methods]
    return sorted({*(PAPERS[paper] for paper in ("bounds", *papers) if paper), *CHECK_PAPERS})


def check_row(name: str, answer: Estimates, shown: Estimates) -> tuple[str, ...]:
    """Give the row of checks of one question: units, width of bounds, estimates outside them, test of constant rates, sensitivity.

    Parameters
    ----------
    name : str
    answer : Estimates
        The answer of the leading method.
    shown : Estimates
        The table that is read, with its bounds.
    """
    told = answer.diagnostics
    width = outside = "–"
    if {"lower", "upper"} <= set(shown.table.column_names):
        low, high, x = (np.asarray(shown[n], dtype=float) for n in ("lower", "upper", "estimate"))
        width = points(float(np.nanmedian(high - low)))
        known = np.isfinite(x) & ~midpoints(shown)
        outside = f"{int(((x < low - 1e-9) | (x > high + 1e-9))[known].sum()):,} of {int(known.sum()):,}"
    p, move = told.get("car_test_p"), told.get("largest_move_from_slope_0_to_0.7")
    converged = told.get("converged")
    return (
        name,
        f"{told['units']:,}" if isinstance(told.get("units"), int) else "–",
        "–" if converged is None else "yes" if converged else "no",
        width,
        outside,
        "–" if p is None else f"{p:.3g}",
        "–" if move is None else points(float(move)),
    )


CHECK_HEAD = (
    "question", "units", "converged", "width of bounds, median", "estimates outside bounds", "CAR test, p", "largest move, slope 0 to 0.7",
)  # fmt: skip
