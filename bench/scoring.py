"""The judge: errors, coverage, interval scores, and paired differences with their standard errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bench.cases import Arrays, Case, FloatArray, Task
from bench.worker import answer

LEVEL = 0.95
SCORES = ("error", "coverage", "width", "score")


def judge(
    case: Case, estimate: FloatArray, low: FloatArray | None = None, high: FloatArray | None = None
) -> list[float]:
    """Give error, coverage, width and interval score of one case; NaN for the last three where there are no intervals.

    The interval score is the width and 2 / (1 - .95) = 40 times what is missed.
    """
    estimate = np.asarray(estimate, dtype=float).ravel()
    if estimate.shape != case.truth.shape or not np.isfinite(estimate).all():
        raise ValueError(f"no number for {case.truth.size - np.isfinite(estimate).sum()} of {case.truth.size} answers")
    error = float(np.sum(case.cost * np.abs(estimate - case.truth) ** case.power))
    if low is None or high is None or not np.isfinite(np.asarray(low, dtype=float)).all():
        return [error, np.nan, np.nan, np.nan]
    low, high = (np.asarray(v, dtype=float).ravel() for v in (low, high))
    tiny = 1e-9 * (1 + np.abs(case.truth))
    held = (low <= case.truth + tiny) & (case.truth <= high + tiny)
    missed = np.maximum(low - case.truth, 0) + np.maximum(case.truth - high, 0)
    width = case.scale * float(np.mean(high - low))
    return [error, float(np.mean(held)), width, width + case.scale * 2 / (1 - LEVEL) * float(np.mean(missed))]


def score(task: Task, methods: Mapping[str, Callable[[Arrays], Any]], whole: bool = False) -> pd.DataFrame:
    """Ask functions in this process: a row for each method and case."""
    rows = []
    for case in task.load(whole):
        for name, method in methods.items():
            rows.append([task.name, name, case.unit, *judge(case, *answer(method, case.given))])
    return pd.DataFrame(rows, columns=["task", "method", "unit", *SCORES])


@dataclass(frozen=True)
class Line:
    """A method on a task: means and standard errors over units, each alike, and paired differences from the reference."""

    method: str
    units: int
    means: dict[str, float]
    errors: dict[str, float]
    differences: dict[str, tuple[float, float]]


def standard_error(values: FloatArray) -> float:
    """Give the standard error of a mean; NaN for one value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def lines(cases: pd.DataFrame, reference: str, order: Sequence[str]) -> list[Line]:
    """Average the cases of one task by unit and compare every method with the reference."""
    by_unit = cases.groupby(["method", "unit"])[list(SCORES)].mean()
    there = [name for name in order if name in by_unit.index.get_level_values(0)]
    out = []
    for name in there:
        own = by_unit.loc[name]
        differences = {}
        if name != reference and reference in there:
            both = own - by_unit.loc[reference]
            for score_name in ("error", "score"):
                values = both[score_name].dropna().to_numpy()
                if len(values):
                    differences[score_name] = float(values.mean()), standard_error(values)
        errors = {s: standard_error(own[s].dropna().to_numpy()) for s in SCORES}
        out.append(Line(name, len(own), own.mean().to_dict(), errors, differences))
    return out
