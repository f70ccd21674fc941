"""The page of imputed values: means of subgroups beside the group means, clusters, totals foretold, and what needs no method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.checks import check_level
from crosslevel.data.frames import to_arrow
from crosslevel.imputation import CUDIA, CrossLevelImputer
from crosslevel.reports.pages import imputation_charts as charts
from crosslevel.reports.pages import imputation_tables as lay
from crosslevel.reports.pages.parts import about, on_map, settled, span
from crosslevel.reports.pages.words import count, number
from crosslevel.reports.views import Choice, Section, View
from crosslevel.results import Estimates
from crosslevel.results.display import level_words

__all__ = ["accepts", "section"]

CITATION = (
    "Park, Y. and Ghosh, J. (2012). CUDIA: probabilistic cross-level imputation using individual auxiliary information. Jackson, C., "
    "Best, N. and Richardson, S. (2008). Hierarchical related regression for combining aggregate and individual data. JRSS A 171."
)
MOST_LEVELS = 12
"""Columns of more values than this are continuous, and have no row for every value."""
MOST_REFITS = 200
"""Groups that are each foretold from the others without being asked."""
DRAWS = 100
ASKED = "What was each person's hidden value, when only its mean in groups was published?"


def accepts(result: Any) -> bool:
    """Tell whether this is a model that imputes, or one of its tables."""
    if isinstance(result, CrossLevelImputer):
        return hasattr(result, "hidden_")
    if isinstance(result, CUDIA):
        return hasattr(result, "parameters_")
    return isinstance(result, Estimates) and _kind(result) is not None


def _kind(found: Estimates) -> str | None:
    names = set(found.table.column_names)
    if found.keys == ("method",) and {"lift", "auc", "brier", "slope"} <= names:
        return "scores"
    if "feature" not in found.keys:
        return None
    for kind, needed in (
        ("means", {"naive", "people"}),
        ("clusters", {"cluster", "share"}),
        ("groups", {"group", "published"}),
        ("learning", {"column", "term", "kept"}),
    ):
        if needed <= names:
            return kind
    return None


def section(
    heading: str,
    result: Any,
    *,
    shapes: Any = None,
    X: Any = None,
    partition: Any = None,
    sample_weight: Any = None,
    scores: Estimates | None = None,
    level: float = 0.95,
) -> Section:
    """Make the page of a fitted model, or of one of its tables.

    Parameters
    ----------
    heading : str
    result : CrossLevelImputer, CUDIA or Estimates
        Estimates of ``estimates()``, ``clusters()``, ``slopes()``, ``check_totals()``, `evaluate` or `evaluate_downstream`.
    shapes : optional
        The map; means by a key that names its places are mapped.
    X, partition, sample_weight : optional
        The people. CUDIA keeps none, so that its means of subgroups need them.
    scores : Estimates, optional
        Of `evaluate`, to stand beside a model: methods that need no imputation, and the calibration.
    level : float
        Of a model's intervals.

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"feature": ["ill", "ill"], "age": [30, 60], "estimate": [0.1, 0.3], "conf_low": [0.05, 0.2],
    ...      "conf_high": [0.2, 0.4], "naive": [0.18, 0.22], "people": [100, 50]},
    ...     keys=["feature", "age"], method="example", level=0.95, interval="posterior",
    ...     provenance=Provenance.of(call="link.estimate(by='age')"),
    ... )
    >>> [view.name for view in section("Ill by age", est).views]
    ['means']
    """
    made = _Page(shapes)
    if isinstance(result, Estimates):
        made.add(result)
        return made.section(heading, result, [*_sentences(result)])
    level = check_level(level)
    parts = _tables(result, X, partition, sample_weight, level)
    for found in [*parts, *([] if scores is None else [scores])]:
        made.add(found)
    main = parts[0]
    sentences = [*_sentences(main)]
    warnings = list(main.warnings)
    if isinstance(result, CUDIA) and X is None:
        warnings.append(
            "CUDIA keeps no people, so that means of subgroups are not shown; pass X and partition, or a table of estimates()."
        )
    for found in parts[1:]:
        if _kind(found) == "groups":
            sentences[2] += f" {_totals_words(found)}"
    if scores is not None:
        sentences[2] += f" {_sentences(scores)[1]}"
    return made.section(heading, main, sentences, warnings)


class _Page:
    """The tables, choices and views as they come."""

    def __init__(self, shapes: Any) -> None:
        self.shapes = shapes
        self.tables: dict[str, pa.Table] = {}
        self.labels: dict[str, str] = {}
        self.choices: list[Choice] = []
        self.views: list[View] = []

    def add(self, found: Estimates) -> None:
        """Add the charts of one table."""
        kind = _kind(found)
        codes: dict[str, str] = {}
        if kind != "scores":
            features = list(dict.fromkeys(str(v) for v in found["feature"].tolist()))
            codes = {f: f"f{i}" for i, f in enumerate(features)}
            if not any(c.name == "feature" for c in self.choices):
                self.choices.append(Choice("feature", "Hidden feature", [(c, f) for f, c in codes.items()]))
        if kind == "means":
            self._means(found, codes)
        elif kind == "clusters":
            self.tables["profiles"], left = lay.profiles(found)
            self.tables["clusters"] = lay.cluster_means(found, codes)
            self.views += [charts.profiles_view(left), charts.clusters_view(found.level)]
        elif kind == "groups":
            self.tables["groups"], self.tables["published_ends"] = lay.group_means(found, codes)
            self.views.append(charts.groups_view(found.level))
        elif kind == "learning":
            self.tables["slopes"] = lay.slopes(found, codes)
            self.views.append(charts.slopes_view(found.level))
        else:
            self.tables["scores"] = lay.baselines(found)
            self.views += [charts.gains_view(found.level), charts.calibration_view()]

    def _means(self, found: Estimates, codes: dict[str, str]) -> None:
        by, self.tables["means"], self.tables["ends"] = lay.means(found, codes)
        if len(by) > 1:
            self.choices.append(Choice("by", "By", [(f"b{i}", words) for i, words in enumerate(by)]))
        self.views.append(charts.means_view(found.level, len(by) > 1, "truth" in found.table.column_names))
        others = [k for k in found.keys if k != "feature"]
        if len(others) == 1 and on_map(self.shapes, found[others[0]].tolist(), others[0]):
            self.views.append(charts.map_view(found.level, self.shapes.dots))
            self.labels["label"] = others[0]

    def section(
        self, heading: str, main: Estimates, sentences: Sequence[str], warnings: Sequence[str] | None = None
    ) -> Section:
        """Put the page together."""
        facts = about(main)
        facts["warnings"] = facts["warnings"] if warnings is None else list(warnings)
        return Section(
            heading=heading,
            kind="imputation",
            sentences=sentences,
            answer=main.table,
            keys=list(main.keys),
            citation=CITATION,
            tables=self.tables,
            labels=self.labels,
            choices=self.choices,
            views=self.views,
            **facts,
        )


def _tables(model: CrossLevelImputer | CUDIA, X: Any, partition: Any, weight: Any, level: float) -> list[Estimates]:
    """Ask a model for all it can tell: means by every column of few values, groups foretold, slopes, clusters."""
    if isinstance(model, CrossLevelImputer):
        values = model._cells.X if X is None else None
        names = _few_valued(model, values, X)
        given: dict[str, Any] = {} if X is None else {"X": X, "partition": partition, "sample_weight": weight}
        means = [model.estimate([n], level=level, **given) for n in names]
        groups = [model.check_totals(level)] if max(len(h.mean) for h in model.hidden_) <= MOST_REFITS else []
        return [lay.stacked(means, names), *groups, model.slopes(level)]
    clusters = model.clusters(level)
    if X is None:
        return [clusters]
    names = _few_valued(model, None, X)
    means = [model.estimate([n], X, partition, weight, level, n_draws=DRAWS) for n in names]
    return [lay.stacked(means, names), clusters]


def _few_valued(model: CrossLevelImputer | CUDIA, values: npt.NDArray[np.float64] | None, X: Any) -> list[str]:
    """Name the columns that have a row for every value; the partition where there is none."""
    columns = model.schema_.columns
    if values is None:
        try:
            table = to_arrow(X, "X")
            counts = [len(set(table[c.name].to_pylist())) for c in columns]
        except (ValueError, KeyError):
            array = np.asarray(X)
            counts = [len(np.unique(array[:, j])) for j in range(array.shape[1])]
    else:
        counts = [len(np.unique(values[:, j])) for j in range(len(columns))]
    few = [c.name for c, n in zip(columns, counts, strict=True) if n <= MOST_LEVELS]
    return few or [model.schema_.partitions[0].name]


def _sentences(found: Estimates) -> Sequence[str]:
    kind = _kind(found)
    e = found["estimate"].astype(np.float64)
    sure = (
        "There is no interval."
        if found.level is None
        else f"Intervals are {level_words(found.level)}s ({found.interval}), on average {number(_width(found))} wide."
    )
    if kind == "scores":
        return _score_sentences(found)
    top = int(np.nanargmax(e))
    name = " · ".join(str(found[k][top]) for k in found.keys)
    largest = f"The largest is that of {name}: {number(float(e[top]))}"
    if found.level is not None:
        largest += f" {span(float(found['conf_low'][top]), float(found['conf_high'][top]))}"
    features = len(set(found["feature"].tolist()))
    if kind == "means":
        apart = settled(float(np.nanmean(np.abs(e - found["naive"].astype(np.float64)))), float(np.nanmax(np.abs(e))))
        asked = f"{ASKED} Means of {count(features, 'hidden feature')} in {count(len(found) // features, 'subgroup')}."
        told = f"{largest}. On average estimates lie {number(apart)} away from what the group means alone would say."
        if "truth" in found.table.column_names:
            t = found["truth"].astype(np.float64)
            naive = float(np.nanmean(np.abs(found["naive"].astype(np.float64) - t)))
            told += f" They miss the truth by {number(float(np.nanmean(np.abs(e - t))))} on average, the group means by {number(naive)}."
        return [asked, told, sure]
    if kind == "clusters":
        K = len(set(found["cluster"].tolist()))
        return [f"{ASKED} {K:,} clusters of people with their hidden means.", f"{largest}.", sure]
    if kind == "groups":
        return [f"{ASKED} Here every group's mean is foretold from the other groups.", _totals_words(found), sure]
    kept = found["kept"].astype(np.float64)
    return [
        f"{ASKED} Slopes of {len(found):,} terms that the means of groups taught.",
        f"{largest} (in logits for yes and no); the means left on average {100 * float(kept.mean()):.0f} % of a slope standing.",
        sure,
    ]


def _totals_words(found: Estimates) -> str:
    """Say how well means follow from the others, and that this says little about persons."""
    t, e = found["published"].astype(np.float64), found["estimate"].astype(np.float64)
    there = np.isfinite(t) & np.isfinite(e)
    off = float(np.sqrt(np.mean((e - t)[there] ** 2)))
    said = (
        f"Of {int(there.sum()):,} published means, each foretold from the others, predictions are off by {number(off)}"
    )
    if found.level is not None:
        held = ((found["conf_low"] <= t) & (t <= found["conf_high"]))[there].mean()
        said += f" and {100 * found.level:.10g} % intervals hold {100 * float(held):.0f} %"
    return f"{said}; that says little about persons."


def _score_sentences(found: Estimates) -> Sequence[str]:
    gain, uses = found["gain"].astype(np.float64), found["uses_truth"].astype(bool)
    rows = np.flatnonzero(~uses)
    best = int(rows[np.argmax(gain[rows])])
    lift = float(found["lift"][best])
    z = 1.96 * float(found["gain_error"][best])
    base = str(found["method"][int(np.flatnonzero(gain == 0.0)[0])])
    top = "saturated x + group" if base == "x" else "full information"
    way = f" and {100 * lift:.0f} % of the way to {top}" if np.isfinite(lift) else ""
    return [
        f"How much closer to the truth are imputed values than answers that need no method? {len(found):,} methods, scored on "
        f"{found.diagnostics.get('people', 0):,} people of {found.diagnostics.get('groups', 0):,} groups.",
        f"Without the truth the best is {found['method'][best]}: a mean log-likelihood of {number(float(found['estimate'][best]))}, "
        f"which is {number(float(gain[best]))} more than {base}{way}.",
        f"That gain has the 95 % interval {span(float(gain[best]) - z, float(gain[best]) + z)} over persons; rows that use the truth "
        "are bounds nobody can reach without it.",
    ]


def _width(found: Estimates) -> float:
    width = float(np.nanmean(found["conf_high"].astype(np.float64) - found["conf_low"].astype(np.float64)))
    return settled(width, float(np.nanmax(np.abs(found["conf_high"].astype(np.float64)))))
