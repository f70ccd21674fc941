"""Do imputed columns help a model of something else? Section 6.4 of the CUDIA paper (figures 8 to 12) on BRFSS 2016.

Heart disease and arthritis are hidden and imputed from age and body mass; diabetes is predicted, on people in folds left out.

    CROSSLEVEL_DATA=... python studies/downstream/downstream.py [--quick]
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import crosslevel as cl

FloatArray = npt.NDArray[np.float64]
SEEN, HIDDEN, TARGET, FOLDS = ["age_group", "bmi_cat"], ["heart_disease", "arthritis"], "diabetes", 5
MODELS: dict[str, Callable[[], Any]] = {
    "L2": lambda: LogisticRegression(max_iter=2000),
    "L1": lambda: LogisticRegression(l1_ratio=1.0, solver="liblinear", max_iter=2000),
    "tree, Gini": lambda: DecisionTreeClassifier(min_weight_fraction_leaf=0.002, random_state=0),
    "tree, entropy": lambda: DecisionTreeClassifier(
        criterion="entropy", min_weight_fraction_leaf=0.002, random_state=0
    ),
}
IMPUTERS: dict[str, Callable[[], Any]] = {
    "CrossLevelImputer": cl.CrossLevelImputer,
    "CUDIA": lambda: cl.CUDIA(5, method="two_stage"),
}


def columns_of(people: pd.DataFrame, level: str) -> dict[str, FloatArray]:
    """Give the columns that each row of the table predicts from."""
    means = people.groupby(level, as_index=False)[HIDDEN].mean()
    x, naive = people[SEEN], people[[level]].merge(means, on=level)[HIDDEN].to_numpy()
    group = pd.get_dummies(people[level]).to_numpy(float)
    cell = pd.get_dummies(x.astype(str).agg("-".join, axis=1)).to_numpy(float)
    known = cl.People(people, by=level, columns=SEEN)
    places = cl.Places(means, by=level, means=HIDDEN)
    imputed = {n: make().fit(known, places).transform(known).to_numpy() for n, make in IMPUTERS.items()}
    alone = {"group means": naive, **imputed, "true values": people[HIDDEN].to_numpy(float)}
    beside = {f"x + {name}": np.hstack([x, values]) for name, values in alone.items()}
    rows = {"x": x.to_numpy(float), "x + group": np.hstack([x, group]), **beside}
    return {f"{n} alone": v for n, v in alone.items()} | rows | {"saturated x + group": np.hstack([cell, group])}


def score(columns: FloatArray, y: FloatArray, fold: FloatArray, make: Callable[[], Any]) -> tuple[float, float]:
    """Give the mean log-likelihood and the AUROC of people not seen; distinct rows with counts stand for people."""
    rows, code = np.unique(columns, axis=0, return_inverse=True)
    code, scaled, p = code.reshape(-1), StandardScaler().fit_transform(rows), np.empty(len(y))
    for k in range(FOLDS):
        seen = fold != k
        yes, n = np.bincount(code[seen], y[seen], len(rows)), np.bincount(code[seen], minlength=len(rows))
        weight = np.concatenate([n - yes, yes])
        kept = weight > 0
        model = make().fit(np.vstack([scaled] * 2)[kept], np.repeat([0, 1], len(rows))[kept], weight[kept])
        p[~seen] = model.predict_proba(scaled)[code[~seen], 1]
    inside = np.clip(p, 1e-6, 1 - 1e-6)
    return float(np.log(np.where(y == 1, inside, 1 - inside)).mean()), float(roc_auc_score(y, p))


def table(people: pd.DataFrame, level: str) -> str:
    """Lay out one level: log-likelihood of every model, and AUROC of logistic regression and of the trees."""
    y, fold = people[TARGET].to_numpy(float), np.random.default_rng(0).integers(0, FOLDS, len(people))
    found: Mapping[str, list[tuple[float, float]]] = {
        name: [score(columns, y, fold, make) for make in MODELS.values()]
        for name, columns in columns_of(people, level).items()
    }
    names = [*MODELS, *(f"AUROC, {n}" for n in ("L2", "tree, Gini", "tree, entropy"))]
    lines = [f"By {level}, {len(y):,} people", "", "| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for name, cells in found.items():
        numbers = [f"{a:.4f}" for a, _ in cells] + [f"{cells[i][1]:.3f}" for i in (0, 2, 3)]
        lines.append(f"| {name} | " + " | ".join(numbers) + " |")
    return "\n".join(lines)


def main() -> None:
    warnings.simplefilter("ignore", cl.errors.CrosslevelWarning)
    path = Path(os.environ["CROSSLEVEL_DATA"]) / "brfss2016" / "brfss2016_division.parquet"
    for level in ("state", "division"):
        people = pd.read_parquet(path, columns=[level, *SEEN, *HIDDEN, TARGET]).dropna()
        people = people.astype({level: str, **dict.fromkeys([*SEEN, *HIDDEN, TARGET], int)})
        people = people[::20].reset_index(drop=True) if "--quick" in sys.argv else people.reset_index(drop=True)
        print(table(people, level), "\n", flush=True)


if __name__ == "__main__":
    main()
