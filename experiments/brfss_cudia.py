"""CUDIA in ``brfss.py``: settings chosen without the truth, two rules of choosing them, and intervals from draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from brfss_data import COLUMNS, Hidden

from crosslevel.imputation.cudia.estimator import CUDIA

FloatArray = npt.NDArray[np.float64]

TWO_STAGES = "CUDIA, two stages"
LOWEST = "CUDIA, two stages, lowest error"
JOINT: dict[str, dict[str, Any]] = {
    "CUDIA, joint: map": {"method": "map"},
    "CUDIA, joint: mcem": {"method": "mcem"},
    "CUDIA, hard": {"method": "hard"},
}
DRAWS = 50


@dataclass(frozen=True)
class Choice:
    """Clusters, ridge and target by leaving groups out: the simplest within one standard error, and the lowest error."""

    taken: dict[str, Any]
    lowest: dict[str, Any]
    model: CUDIA


@lru_cache(maxsize=1)
def choice(data: Hidden) -> Choice:
    """Choose once for all methods: a fit with the chosen values is the fit that ``n_clusters="auto"`` makes."""
    model = CUDIA("auto", method="two_stage", random_state=0)
    table = model.fit(data.X, data.partition, data.means).selection_
    first = table.to_frame("pyarrow").to_pylist()[0]
    return Choice(
        {"n_clusters": model.n_clusters_, "ridge": model.ridge_, "ridge_target": model.ridge_target_},
        {"n_clusters": int(first["clusters"]), "ridge": first["ridge"], "ridge_target": first["target"]},
        model,
    )


def cudia_methods() -> dict[str, Callable[[Hidden | None], CUDIA]]:
    """Say how each CUDIA is made for some people, fitted already where it chose; without people each chooses for itself."""
    auto: dict[str, Any] = {"n_clusters": "auto", "ridge": "auto", "ridge_target": "auto"}

    def make(options: Mapping[str, Any]) -> Callable[[Hidden | None], CUDIA]:
        return lambda data: CUDIA(**(auto if data is None else choice(data).taken), random_state=0, **options)

    def first(data: Hidden | None) -> CUDIA:
        return CUDIA(**auto, random_state=0, method="two_stage") if data is None else choice(data).model

    def lowest(data: Hidden | None) -> CUDIA:
        if data is not None and choice(data).lowest == choice(data).taken:
            return choice(data).model
        return CUDIA(**(auto if data is None else choice(data).lowest), random_state=0, method="two_stage")

    joint = {name: make(options) for name, options in JOINT.items()}
    return {TWO_STAGES: first, LOWEST: lowest} | joint


def share_covered(model: CUDIA, data: Hidden, fewest: int) -> tuple[float, float, float]:
    """Cells covered by 95 % intervals from draws and their width, and levels of single columns covered."""
    draws = model.sample(data.X, data.partition, n_draws=DRAWS)[:, :, 0]

    def judged(by: Sequence[str], least: int) -> tuple[Any, FloatArray]:
        codes = np.column_stack([data.X[c].to_numpy() for c in by])
        cell = np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1)
        n = np.bincount(cell)
        low, high = np.quantile([np.bincount(cell, d) / n for d in draws], [0.025, 0.975], axis=0)
        truth = np.bincount(cell, data.y) / n
        return ((low <= truth) & (truth <= high))[n >= least], (high - low)[n >= least]

    inside, width = judged(COLUMNS, fewest)
    one_way = np.concatenate([judged([c], 1)[0] for c in COLUMNS])
    return float(inside.mean()), float(width.mean()), float(one_way.mean())


def rules(scores: Mapping[str, Mapping[str, Sequence[float]]], outcomes: Sequence[str]) -> tuple[list[list[str]], str]:
    """Compare the two rules of choosing where nothing was chosen: on the outcomes after the first.

    Parameters
    ----------
    scores : mapping of level to mapping of method to log-likelihoods, one per outcome

    Returns
    -------
    rows : list of list of str
        Outcome, and for each level naive, one standard error, lowest error.
    verdict : str
    """
    names = ("naive group mean", TWO_STAGES, LOWEST)
    rows = [
        [o.replace("_", " "), *(f"{scores[level][n][i]:.4f}" for level in scores for n in names)]
        for i, o in enumerate(outcomes)
    ]
    means = [[float(np.mean(scores[level][n][1:])) for n in names] for level in scores]
    rows.append(["mean without " + outcomes[0], *(f"{m:.4f}" for level in means for m in level)])
    said = []
    for level, (_, simple, low) in zip(scores, means, strict=True):
        gap = np.array(scores[level][TWO_STAGES][1:]) - np.array(scores[level][LOWEST][1:])
        wins, losses = int((gap > 1e-6).sum()), int((gap < -1e-6).sum())
        said.append(
            f"by {level} it is better on {wins}, worse on {losses} and the same on {len(gap) - wins - losses} of these {len(gap)}, "
            f"{1e4 * (simple - low):+.1f} ten-thousandths on average"
        )
    return rows, "; ".join(said)
