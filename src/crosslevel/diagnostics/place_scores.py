"""Which model predicts the totals of places better? Cross-validation of several, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crosslevel.ecological.estimate import PlaceEstimator
from crosslevel.errors import InputError
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import RandomState


def compare_places(
    models: Sequence[PlaceEstimator], k: int = 10, *, leave_out: str | None = None, random_state: RandomState = 0
) -> Estimates:
    """Cross-validate fitted models over the same folds of places, best first.

    A good score over places is no evidence for subgroups: see :func:`hidden_label` for these.

    Parameters
    ----------
    models : sequence of EcologicalInference or DistributionRegression
        Fitted to the same places.
    k, leave_out, random_state
        Of :meth:`crosslevel.EcologicalInference.cross_validate`.

    Returns
    -------
    Estimates
        A row for every model: ``estimate`` is its mean log density of held-out shares (higher is better), beside ``rmse`` and
        ``coverage``; ``position`` is its place among ``models``.
    """
    if len(models) < 2:
        raise InputError(f"models has {len(models)} model(s); pass at least two fitted to the same places.")
    if any(m.places_.keys != models[0].places_.keys for m in models[1:]):
        raise InputError(
            "models were fitted to different places, and their scores cannot be compared; fit them to the same."
        )
    scored = [(m.places_.totals.successes[-1], m.places_.totals.trials[-1]) for m in models]
    if any(not np.array_equal(one, scored[0]) for one in scored[1:]):
        raise InputError(
            "models were fitted to other totals of the same places, and their scores cannot be compared; fit them to the same "
            "successes and trials."
        )
    found = [m.cross_validate(k, leave_out=leave_out, random_state=random_state) for m in models]
    order = np.argsort([-f.diagnostics["mean_log_density"] for f in found], kind="stable")
    columns = {
        "model": [f"{type(models[i]).__name__} ({i + 1})" for i in order],
        "estimate": [found[i].diagnostics["mean_log_density"] for i in order],
        "rmse": [found[i].diagnostics["rmse"] for i in order],
        "coverage": [found[i].diagnostics["coverage"] for i in order],
        "position": order,
    }
    return Estimates.build(
        columns,
        keys=["model"],
        method="cross-validation over places",
        level=None,
        interval="none",
        provenance=Provenance.of(call=f"compare_places(k={k!r}, leave_out={leave_out!r})", data=models[0].data_),
        title="How well each model predicts places that were held out",
        kind="place_scores",
    )
