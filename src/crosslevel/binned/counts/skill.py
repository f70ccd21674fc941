"""How much better than naive spreading? Measured on bins merged in pairs, whose parts are known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crosslevel.binned.baselines import composite_link
from crosslevel.binned.counts.cells import CountBins
from crosslevel.binned.counts.curve import average_curve
from crosslevel.binned.counts.likelihoods import PoissonBins
from crosslevel.binned.counts.predictive import draw_curves, draw_shares, log_scores
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = ["Skill", "merged_skill"]


@dataclass(frozen=True)
class Skill:
    """Neighbouring bins merged in pairs and un-binned again, against the bins as they are.

    Attributes
    ----------
    rmse : mapping of method to its error over the mean count
    log_score : mapping of method to the mean log probability of a bin given its pair
    skill : mapping of baseline to 1 - (mean squared error of the model / of the baseline)
    n : int
        Bins scored.
    """

    rmse: dict[str, float]
    log_score: dict[str, float]
    skill: dict[str, float]
    n: int


def merged_skill(bins: CountBins, totals: FloatArray, n: int = 500, random_state: int | None = 0) -> Skill:
    """Measure on the data themselves how well totals of wider bins are un-binned: the model, PCLM and uniform spreading.

    Bins (0, 1), (2, 3), ... are merged, then (1, 2), (3, 4), ...; the truth of the narrower bins is known. It is a harder task
    than un-binning the bins as they are.

    Parameters
    ----------
    bins : CountBins
        At least four disjoint bins of one axis, in order.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> bins = bins_from_edges(np.arange(0, 81, 10), cell=2)
    >>> found = merged_skill(bins, np.array([90.0, 80, 65, 50, 40, 20, 9, 2]))
    >>> bool(found.skill["uniform"] > 0)
    True
    """
    if bins.n_axes != 1 or not bins.disjoint or bins.n_bins < 4:
        raise InputError(
            f"merging needs at least four disjoint bins of one axis, and these are {bins.n_bins} over {bins.n_axes} axes; use "
            "leave_one_out instead."
        )
    rng = np.random.default_rng(random_state)
    errors: dict[str, list[float]] = {"model": [], "pclm": [], "uniform": []}
    scores: dict[str, list[float]] = {"model": [], "pclm": [], "uniform": []}
    for offset in (0, 1):
        group = np.maximum(np.arange(bins.n_bins) - offset, -1) // 2 + 1
        _, group = np.unique(group, return_inverse=True)
        into = (group[None, :] == np.arange(group.max() + 1)[:, None]).astype(np.float64)
        merged, y = replace(bins.with_rows(into @ bins.C), warped=bins.warped / 2.0), into @ totals
        scored = (into.sum(axis=1)[group] > 1) & (y[group] > 0)
        curve = average_curve(merged, PoissonBins(y[None, :]))
        link = composite_link(merged.C, y)
        found = {
            "model": draw_curves(curve.mean, curve.covariance, n, rng),
            "pclm": draw_curves(link.f, link.covariance, n, rng),
            "uniform": np.zeros((1, bins.n_cells)),
        }
        for name, f in found.items():
            shares = draw_shares(merged, f) @ (bins.C > 0).T.astype(np.float64)
            guess = shares.mean(axis=0) * y[group]
            errors[name] += (guess - totals)[scored].tolist()
            scores[name] += log_scores(np.round(totals), np.round(y[group]), np.minimum(shares, 1.0))[scored].tolist()
    squares = {name: float(np.mean(np.square(e))) for name, e in errors.items()}
    mean = float(totals.mean())
    return Skill(
        {name: float(np.sqrt(s)) / mean for name, s in squares.items()},
        {name: float(np.mean(s)) for name, s in scores.items()},
        {name: 1.0 - squares["model"] / max(squares[name], 1e-300) for name in ("uniform", "pclm")},
        len(errors["model"]),
    )
