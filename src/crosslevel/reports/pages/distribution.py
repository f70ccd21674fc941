"""The page of labels of bags: predictions against the truth by size of bag, and how often intervals held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import stats

from crosslevel.diagnostics.bag_folds import BagValidation
from crosslevel.diagnostics.calibration import calibration_table, size_strata
from crosslevel.distribution.base import BagClassifier, BagRegressor
from crosslevel.errors import InputError
from crosslevel.reports.pages import distribution_charts as charts
from crosslevel.reports.pages.parts import about, sample
from crosslevel.reports.pages.words import number, plain
from crosslevel.reports.views import Choice, Section, View
from crosslevel.results import Estimates
from crosslevel.results.display import level_words

__all__ = ["accepts", "reliability", "section"]


CITATION = (
    "Law, H. C. L., Sutherland, D. J., Sejdinovic, D. and Flaxman, S. (2018). Bayesian approaches to distribution regression. "
    "Proceedings of the 21st International Conference on Artificial Intelligence and Statistics."
)
CLASSES = 10
"""Classes of probabilities whose shares are compared with what happened."""
RANKED = 60
"""Bags without a label that are drawn one by one."""


def accepts(result: Any) -> bool:
    """Tell whether this is a model of bags, its cross-validation, or one of their tables."""
    if isinstance(result, BagValidation):
        return True
    if isinstance(result, BagRegressor | BagClassifier):
        return hasattr(result, "map_")
    return isinstance(result, Estimates) and (_is_labels(result) or _is_scores(result))


def _is_labels(found: Estimates) -> bool:
    return found.keys in (("bag",), ("bag", "class")) and "size" in found.table.column_names


def _is_scores(found: Estimates) -> bool:
    names = set(found.table.column_names)
    return found.keys == ("stratum",) and ({"nominal", "n"} <= names or {"log_loss", "n"} <= names)


def section(
    heading: str, result: Any, *, shapes: Any = None, bags: Any = None, y: Any = None, level: float = 0.95
) -> Section:
    """Make the page of predicted labels, of scores, or of both.

    Parameters
    ----------
    heading : str
    result : BagValidation, fitted regressor or classifier over bags, or Estimates
        Estimates of ``model.estimate(bags)``, `calibration_table` or `cross_validate_bags`.
    shapes : optional
        Not used: bags are not places.
    bags : Bags, list of arrays or 2-D array, optional
        What a model is to predict; without it there is nothing to show but the fit.
    y : (n_bags,), optional
        Their labels. Bags that the model was fitted to are predicted too well; cross-validate instead.
    level : float
        Of a model's intervals.

    Examples
    --------
    >>> found = calibration_table(np.zeros(50), np.zeros(50), np.ones(50), np.repeat(["5", "20"], 25))
    >>> page = section("Calibration", found)
    >>> [view.name for view in page.views], len(page.sentences)
    (['calibration'], 3)
    """
    if isinstance(result, BagValidation):
        return _of_tables(heading, result.predictions, result.scores, crossed=True)
    if isinstance(result, Estimates):
        return _of_tables(heading, *((None, result) if _is_scores(result) else (result, None)))
    if bags is None:
        if y is not None:
            raise InputError("y is given without bags; pass the bags whose labels these are.")
        return _bare(heading, result)
    classify = isinstance(result, BagClassifier)
    found = result.estimate(bags, y=y) if classify else result.estimate(bags, level, y=y)
    return _of_tables(heading, found, None)


def _of_tables(heading: str, labels: Estimates | None, scores: Estimates | None, *, crossed: bool = False) -> Section:
    tables: dict[str, pa.Table] = {}
    choices: list[Choice] = []
    views: list[View] = []
    main = labels if labels is not None else scores
    assert main is not None
    warnings: list[str] = []
    if labels is not None:
        if "class" in labels.keys:
            said = _class_views(labels, tables, choices, views)
        else:
            said = _label_views(labels, tables, choices, views)
            scores = _scores_of(labels) if scores is None else scores
        warnings += said
    if scores is not None:
        tables["strata"] = _strata(scores)
        views.append(charts.calibration_view(_nominal(scores), "baseline" in tables["strata"].column_names))
    facts = about(main)
    if scores is not None and scores is not main:
        facts["warnings"] = list(dict.fromkeys([*facts["warnings"], *scores.warnings]))
    facts["warnings"] = [*facts["warnings"], *warnings]
    return Section(
        heading=heading,
        kind="distribution",
        sentences=_sentences(labels, scores, crossed),
        answer=(scores if crossed and scores is not None else main).table,
        keys=list((scores if crossed and scores is not None else main).keys),
        citation=CITATION,
        tables=tables,
        choices=choices,
        views=views,
        **facts,
    )


def _bare(heading: str, model: BagRegressor | BagClassifier) -> Section:
    """Make the page of a model alone: it keeps no bags, so it shows no prediction."""
    name = type(model).__name__
    facts = [(str(k), plain(v)) for k, v in model.diagnostics_.items()]
    made = model._provenance("estimates(X)")
    return Section(
        heading=heading,
        kind="distribution",
        sentences=[
            f"Which label belongs to a group of members? A fitted {name} with {model.n_landmarks_:,} landmarks.",
            "A model keeps no bags, so that no prediction is shown here; cross-validate it, or pass bags, to see how well it does.",
            "How sure it is depends on the bag: predictions come with intervals, wider for smaller bags.",
        ],
        answer=pa.table({"what": [k for k, _ in facts], "value": [v for _, v in facts]}),
        keys=["what", "value"],
        method=f"distribution regression, {name}",
        level=None,
        interval="none",
        diagnostics=facts,
        provenance=[("crosslevel", made.version), ("call", made.call), ("seed", str(made.seed))],
        citation=CITATION,
    )


def _label_views(labels: Estimates, tables: dict[str, pa.Table], choices: list[Choice], views: list[View]) -> list[str]:
    """Add predictions against labels, in a chart for each class of sizes; or ranked, where labels are not known."""
    strata = _strata_of(labels)
    order = {name: float(labels["size"][strata == name].min()) for name in np.unique(strata).tolist()}
    known = "truth" in labels.table.column_names
    # a sample is of those that can be shown, and the largest are the largest of all
    there = np.flatnonzero(np.isfinite(labels["truth"].astype(np.float64))) if known else np.arange(0)
    known = len(there) > 0
    shown = there[sample(len(there))] if known else np.argsort(-labels["estimate"], kind="stable")[:RANKED]
    columns: dict[str, Any] = {
        "bag": [str(v) for v in labels["bag"][shown].tolist()],
        **{n: _numbers(labels[n][shown]) for n in ("estimate", "conf_low", "conf_high", "std_error", "size")},
        "stratum": strata[shown].tolist(),
        "place": np.array([order[s] for s in strata[shown].tolist()]) if known else np.arange(len(shown), dtype=float),
    }
    if known:
        columns["truth"] = labels["truth"][shown].astype(np.float64)
        ends = [float(columns["truth"].min()), float(columns["truth"].max())]
        tables["ends"] = pa.table({"end": ends})
    tables["bags"] = pa.table(columns)
    choices.append(
        Choice(
            "color", "Colour by", [("std_error", "standard deviation of the prediction"), ("size", "size of the bag")]
        )
    )
    if known:
        views.append(charts.predicted_view(labels.level, len(shown), len(there), len(order)))
    else:
        views.append(charts.ranked_view(labels.level, len(shown), len(labels)))
        return ["the labels of these bags are not known, so that nothing here says how well they are predicted."]
    return []


def _class_views(labels: Estimates, tables: dict[str, pa.Table], choices: list[Choice], views: list[View]) -> list[str]:
    classes = list(dict.fromkeys(labels["class"].tolist()))
    code = {c: f"k{i}" for i, c in enumerate(classes)}
    choices.append(Choice("class", "Class", [(code[c], str(c)) for c in classes]))
    own = labels["class"]
    if "truth" not in labels.table.column_names:
        rows = np.concatenate(
            [
                at[np.argsort(-labels["estimate"][at], kind="stable")[:RANKED]]
                for at in (np.flatnonzero(own == c) for c in classes)
            ]
        )
        tables["bags"] = pa.table(
            {
                "class": [code[c] for c in own[rows].tolist()],
                "bag": [str(v) for v in labels["bag"][rows].tolist()],
                "estimate": labels["estimate"][rows],
                "size": labels["size"][rows],
                "place": np.arange(len(rows), dtype=np.float64),
            }
        )
        views.append(charts.ranked_classes_view())
        return ["the classes of these bags are not known, so that nothing here says how well they are predicted."]
    parts = [
        reliability(labels["estimate"][own == c], labels["truth"][own == c]).append_column(
            "class", pa.array([code[c]] * n)
        )
        for c in classes
        for n in [reliability(labels["estimate"][own == c], labels["truth"][own == c]).num_rows]
    ]
    tables["shares"] = pa.concat_tables(parts)
    tables["ends"] = pa.table({"end": [0.0, 1.0]})
    views.append(charts.reliability_view())
    return []


def reliability(p: npt.ArrayLike, truth: npt.ArrayLike, classes: int = CLASSES) -> pa.Table:
    """Compare probabilities with what happened: in each class of probabilities the mean, the share, and its Wilson interval.

    Parameters
    ----------
    p, truth : (n,)
        Probabilities, and 0 or 1.
    classes : int
        Of equal width.

    Returns
    -------
    pyarrow.Table
        ``predicted, share, low, high, n``; classes without anybody are left out.

    Examples
    --------
    >>> reliability([0.1, 0.15, 0.9, 0.95], [0, 1, 1, 1], classes=2).select(["predicted", "share", "n"]).to_pylist()
    [{'predicted': 0.125, 'share': 0.5, 'n': 2}, {'predicted': 0.925, 'share': 1.0, 'n': 2}]
    """
    q, t = np.asarray(p, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    place = np.minimum((q * classes).astype(np.intp), classes - 1)
    rows = []
    for c in range(classes):
        own = t[place == c]
        if len(own) == 0:
            continue
        wilson = stats.binomtest(round(float(own.sum())), len(own)).proportion_ci(0.95, method="wilson")
        rows.append(
            {
                "predicted": float(q[place == c].mean()),
                "share": float(own.mean()),
                "low": float(wilson.low),
                "high": float(wilson.high),
                "n": len(own),
            }
        )
    return pa.table({n: [r[n] for r in rows] for n in ("predicted", "share", "low", "high", "n")})


def _numbers(values: npt.NDArray[Any]) -> pa.Array:
    return pa.array(values.astype(np.float64), from_pandas=True)


def _strata_of(labels: Estimates) -> npt.NDArray[Any]:
    if "stratum" in labels.table.column_names:
        return labels["stratum"].astype(str)
    return size_strata(np.maximum(np.round(labels["size"].astype(np.float64)), 1.0))


def _scores_of(labels: Estimates) -> Estimates | None:
    """Score predictions whose labels are known, by size."""
    if "truth" not in labels.table.column_names or labels.level is None:
        return None
    names = ("truth", "estimate", "std_error", "conf_low", "conf_high")
    t, mean, sd, low, high = (labels[n].astype(np.float64) for n in names)
    keep = np.isfinite(t) & np.isfinite(sd) & (sd > 0)
    if not keep.any():
        return None
    ends = np.column_stack([low, high])[keep]
    strata = _strata_of(labels)[keep]
    return calibration_table(t[keep], mean[keep], sd[keep], strata, level=labels.level, interval=ends)


def _strata(scores: Estimates) -> pa.Table:
    """Lay scores out for the chart: a label with the number of bags, coverage or accuracy, the baseline."""
    words = [f"{s} ({int(n):,} bags)" for s, n in zip(scores["stratum"].tolist(), scores["n"].tolist(), strict=True)]
    columns: dict[str, Any] = {
        "label": words,
        **{n: _numbers(scores[n]) for n in ("estimate", "conf_low", "conf_high")},
        "n": scores["n"].astype(np.float64),
        "place": np.arange(len(scores), dtype=np.float64),
    }
    for name in ("baseline_coverage", "baseline_accuracy"):
        if name in scores.table.column_names:
            columns["baseline"] = _numbers(scores[name])
    return pa.table(columns)


def _nominal(scores: Estimates) -> float | None:
    return float(scores["nominal"][0]) if "nominal" in scores.table.column_names else None


def _likeliest(labels: Estimates | None) -> str:
    """Say how often each class is the likeliest and, where classes are known, how often that was right."""
    if labels is None:
        return "There are no predictions."
    classes = list(dict.fromkeys(labels["class"].tolist()))
    p = labels["estimate"].reshape(-1, len(classes))
    best = p.argmax(axis=1)
    counts = ", ".join(f"{c} for {int((best == i).sum()):,}" for i, c in enumerate(classes[:5]))
    said = f"The likeliest class is {counts}{' and others' if len(classes) > 5 else ''} of {len(p):,} bags"
    if "truth" in labels.table.column_names:
        right = labels["truth"].reshape(p.shape)[np.arange(len(p)), best].mean()
        said += f"; it was right for {100 * float(right):.0f} %"
    return f"{said}."


def _sentences(labels: Estimates | None, scores: Estimates | None, crossed: bool) -> Sequence[str]:
    asked = "Which label belongs to a group, given a sample of its members?"
    if labels is not None:
        bags = len(set(labels["bag"].tolist()))
        how = "each predicted from the others" if crossed else "as the model predicts them"
        asked += f" {bags:,} bags of {number(float(labels['size'].min()))} to {number(float(labels['size'].max()))} members, {how}."
    elif scores is not None:
        asked += f" Scores of {int(scores['n'][0]):,} bags, by size."
    nominal = None if scores is None else _nominal(scores)
    if scores is None:
        if labels is not None and labels.level is not None:
            e = labels["estimate"]
            found = f"Predictions lie between {number(float(e.min()))} and {number(float(e.max()))}."
            sure = (
                f"Intervals are {level_words(labels.level)}s of a new label ({labels.interval}), on average "
                f"{number(float((labels['conf_high'] - labels['conf_low']).mean()))} wide."
            )
        else:
            found = _likeliest(labels)
            sure = (
                "Probabilities have no interval; whether they can be taken at their word shows where classes are known."
            )
        return [asked, found, sure]
    share, low, high = (float(scores[n][0]) for n in ("estimate", "conf_low", "conf_high"))
    if nominal is None:
        found = f"The right class was the likeliest for {100 * share:.0f} % of bags"
        if "baseline_accuracy" in scores.table.column_names:
            found += f", against {100 * float(scores['baseline_accuracy'][0]):.0f} % for a guess that knows no members"
        sure = f"The accuracy itself is uncertain: its 95 % Wilson interval is {100 * low:.0f} to {100 * high:.0f} %."
        return [asked, f"{found}.", sure]
    found = f"Predictions are off by {number(float(scores['rmse'][0]))} (root mean square)"
    if "baseline_mse" in scores.table.column_names:
        found += f", against {number(float(np.sqrt(scores['baseline_mse'][0])))} for a guess that knows no members"
    worst = int(np.argmin(scores["estimate"]))
    sure = (
        f"{100 * nominal:.10g} % intervals held {100 * share:.0f} % of labels (95 % Wilson interval {100 * low:.0f} to "
        f"{100 * high:.0f} %)"
    )
    if len(scores) > 1:
        sure += f"; least often for {scores['stratum'][worst]}: {100 * float(scores['estimate'][worst]):.0f} %"
    return [asked, f"{found}.", f"{sure}."]
