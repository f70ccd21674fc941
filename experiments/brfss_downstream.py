"""Setting B of ``brfss.py``: do imputed columns help to predict something else? (The paper's section 6.4.)

Heart disease and arthritis are hidden and imputed from age and body mass; diabetes is predicted. Once by regressions fitted and scored on
the same people, once by regressions with L1 and L2 penalties and by trees, scored on people they have not seen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from brfss_data import LEVELS, MASKED, SEEN, Hidden, lay
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from crosslevel.errors import CrosslevelError
from crosslevel.imputation.evaluation import evaluate_downstream

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

FOLDS = 5
MODELS: dict[str, Callable[[], Any]] = {
    "logistic, L2": lambda: LogisticRegression(max_iter=2000),
    "logistic, L1": lambda: LogisticRegression(l1_ratio=1.0, solver="liblinear", max_iter=2000),
    "tree": lambda: DecisionTreeClassifier(min_weight_fraction_leaf=0.002, random_state=0),
    "forest": lambda: RandomForestClassifier(50, min_weight_fraction_leaf=0.002, random_state=0),
}


def setting_b(table: pa.Table, made: Mapping[str, Callable[[Hidden | None], Any]]) -> str:
    """Impute heart disease and arthritis from age and body mass, and predict diabetes."""
    lines = ["## Setting B: aggregated features", ""]
    for level in LEVELS:
        whole = table.select([level, *SEEN, *MASKED, "diabetes"]).drop_null()
        X, partition = whole.select(list(SEEN)), whole.select([level])
        true = np.column_stack([whole[c].to_numpy().astype(np.float64) for c in MASKED])
        y = whole["diabetes"].to_numpy().astype(np.float64)
        means = whole.group_by(level).aggregate([(c, "mean") for c in MASKED]).rename_columns([level, *MASKED])
        order = {v: i for i, v in enumerate(means[level].to_pylist())}
        group = np.array([order[v] for v in whole[level].to_pylist()])
        naive = np.column_stack([means[c].to_numpy() for c in MASKED])[group]
        imputed = {}
        for name, make in made.items():
            try:
                imputed[name] = make(None).fit(X, partition, means).transform(X, partition)
            except CrosslevelError as error:
                print(f"setting B, {name}: {error}", file=sys.stderr)
        found = evaluate_downstream(X, partition, y, imputed, true_values=true, naive=naive)
        rows = [
            [r["method"], f"{r['estimate']:.5f}", f"{1e4 * r['gain']:.1f}", f"{1e4 * r['gain_error']:.1f}"]
            for r in found.to_frame("pyarrow").to_pylist()
        ]
        x = np.column_stack([X[c].to_numpy().astype(np.float64) for c in SEEN])
        columns = {"x": x, "x + group": np.hstack([x, (group[:, None] == np.arange(len(order))).astype(np.float64)])}
        columns |= {"x + naive group means": np.hstack([x, naive])}
        columns |= {f"x + imputed: {n}": np.hstack([x, v]) for n, v in imputed.items()}
        columns |= {"x + true values": np.hstack([x, true])}
        lines += [
            f"### By {level}",
            "",
            f"{len(y):,} people; log-likelihood of diabetes, fitted and scored on the same people; gain on *x* in ten-thousandths.",
            "",
            lay(["", "log-lik.", "gain", "error"], rows),
            "",
            f"The same with other models, on people not seen ({FOLDS} folds); log-likelihood.",
            "",
            lay(["", *MODELS], unseen(columns, y)),
            "",
        ]
    lines.append(
        "An imputed column is a function of age, body mass and the group. It can add nothing to a model that is flexible in these: "
        "*saturated x + group* bounds every row that does not use the true values. That imputed columns *alone* predict well says "
        "only that they carry age and body mass."
    )
    return "\n".join(lines)


def unseen(columns: Mapping[str, FloatArray], y: FloatArray) -> list[list[str]]:
    """Mean log-likelihood of people in the fold left out, for each set of columns and each model."""
    fold = np.random.default_rng(0).integers(0, FOLDS, len(y))
    out = []
    for name, values in columns.items():
        rows, code = np.unique(values, axis=0, return_inverse=True)
        code = code.reshape(-1)
        scores = [f"{score(rows, code, y, fold, make):.5f}" for make in MODELS.values()]
        out.append([name, *scores])
    return out


def score(rows: FloatArray, code: IntArray, y: FloatArray, fold: IntArray, make: Callable[[], Any]) -> float:
    """Fit on distinct rows with counts: the same as on people, and faster."""
    scaled = StandardScaler().fit_transform(rows)
    total = 0.0
    for k in range(FOLDS):
        own = fold == k
        yes, n = (np.bincount(code[~own], w, len(rows)) for w in (y[~own], None))
        weight = np.concatenate([n - yes, yes])
        kept = weight > 0
        model = make().fit(
            np.vstack([scaled, scaled])[kept], np.repeat([0, 1], len(rows))[kept], sample_weight=weight[kept]
        )
        p = np.clip(model.predict_proba(scaled)[:, 1], 1e-6, 1 - 1e-6)
        total += float(np.where(y[own] == 1, np.log(p)[code[own]], np.log(1 - p)[code[own]]).sum())
    return total / len(y)
