"""Three plain sentences for each kind of table: what was asked, what was found, how sure; and the paper to cite."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from crosslevel.charts.cells import cells_of
from crosslevel.charts.words import count, describe_intervals, number, percent, plain, points, span
from crosslevel.results import Estimates
from crosslevel.results.table import midpoints, on_unit_scale
from crosslevel.typing import FloatArray

HIDDEN = "What was each person's hidden value, when only its mean in groups was published?"
LABELS = "Which label belongs to a group, given a sample of its members?"
NAIVE = ("naive", "area_weighted", "people_weighted")
"""Columns of the answer that needs no method."""
FEW = 30
"""Effective people below which the mean of a bag is mostly noise."""

_BAYESIAN = (
    "Law, H. C. L., Sutherland, D. J., Sejdinovic, D. and Flaxman, S. (2018). Bayesian approaches to distribution regression. "
    "Proceedings of the 21st International Conference on Artificial Intelligence and Statistics."
)
_KRLS = (
    "Hainmueller, J. and Hazlett, C. (2014). Kernel regularized least squares. Political Analysis 22. Mohanty, P. and Shaffer, R. "
    "(2019). Messy data, robust inference? Navigating obstacles to inference with bigKRLS. Political Analysis 27."
)
_CUDIA = (
    "Park, Y. and Ghosh, J. (2012). CUDIA: probabilistic cross-level imputation using individual auxiliary information. Jackson, C., "
    "Best, N. and Richardson, S. (2008). Hierarchical related regression for combining aggregate and individual data. JRSS A 171."
)
_BINNED = "Smith, M. T., Alvarez, M. A. and Lawrence, N. D. (2018). Gaussian process regression for binned data. arXiv:1809.02010."
_FLAXMAN = "Flaxman, Wang and Smola (2015), Who supported Obama in 2012? Ecological inference through distribution regression, KDD."
CITATIONS = {
    **dict.fromkeys(("labels", "classes", "coverage"), _BAYESIAN),
    **dict.fromkeys(("effects", "pointwise_effects"), _KRLS),
    **dict.fromkeys(("imputed", "clusters", "published", "slopes"), _CUDIA),
    "binned": _BINNED,
    "bag_sizes": _FLAXMAN,
    "surveyed": "Gelman and Little (1997), Poststratification into many categories using hierarchical logistic regression, Survey "
    "Methodology 23.",
}
"""Kind of table -> the papers behind it."""
PAPERS = {
    "distribution regression": _FLAXMAN,
    "Goodman": "Goodman (1953), Ecological regressions and behavior of individuals, American Sociological Review 18.",
    "bounds": "Duncan and Davis (1953), An alternative to ecological correlation, American Sociological Review 18.",
    "King": "King (1997), A Solution to the Ecological Inference Problem, Princeton University Press.",
    "multinomial": "Rosen, Jiang, King and Tanner (2001), Bayesian and frequentist inference for ecological inference: the R x C "
    "case, Statistica Neerlandica 55.",
    "contextual R x C": "Brown and Payne (1986), Aggregate data, ecological regression, and voting transitions, Journal of the American "
    "Statistical Association 81.",
    "homogeneous units": "Loewen and Grofman (1989), Recent developments in methods used in vote dilution litigation, Urban Lawyer 21.",
    "neighborhood": "Freedman, Klein, Sacks, Smyth and Everett (1991), Ecological regression and voting rights, Evaluation Review 15.",
}
"""Words of a method -> the paper behind it."""


def citation_of(estimates: Estimates) -> str:
    """Give the paper to cite, by the kind of the table or by the words of its method."""
    if estimates.kind in CITATIONS:
        return CITATIONS[estimates.kind]
    methods = estimates["method"].tolist() if "method" in estimates.keys else []
    said = " ".join([estimates.method, *map(str, methods)]).casefold()
    return " ".join(paper for words, paper in PAPERS.items() if words.casefold() in said)


def sentences_of(estimates: Estimates) -> list[str]:
    """Say what was asked, what was found and how sure.

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"g": ["a", "b"], "estimate": [0.2, 0.6], "conf_low": [0.1, 0.5], "conf_high": [0.3, 0.7]}, keys=["g"], method="m",
    ...     level=0.9, interval="wald", provenance=Provenance.of(call="c"), title="Who did it",
    ... )
    >>> for sentence in sentences_of(est):
    ...     print(sentence)
    Asked: Who did it.
    Found: 2 estimates, from 20.0 % (a) to 60.0 % (b).
    How sure: 90 % intervals (wald); the median width is 20.0 points.
    """
    own = _OWN.get(estimates.kind)
    asked, found, sure = own(estimates) if own is not None else ("", "", "")
    return [asked or _asked(estimates), found or _found(estimates), sure or _sure(estimates)]


def _asked(estimates: Estimates) -> str:
    keys = estimates.keys
    title = estimates.title or f"an estimate for {'each ' + ' and '.join(keys) if keys else 'everything'}"
    return f"Asked: {title}{'' if title.endswith(('.', '?', '!')) else '.'}"


def _found(estimates: Estimates) -> str:
    """Say how many answers there are, the lowest and the highest, and how far they are from the naive ones."""
    values = np.where(midpoints(estimates), np.nan, _numbers(estimates, "estimate"))
    cells = cells_of(estimates)
    good = np.flatnonzero(np.isfinite(values))
    if not good.size and midpoints(estimates).any():
        return f"Found: what is possible for {count(len(estimates), 'row')}, and no estimate."
    if not good.size:
        return f"Found: {count(len(estimates), 'row')}, none with an estimate."
    say = percent if on_unit_scale(estimates) else number
    if good.size == 1:
        return f"Found: {say(values[good[0]])} for {cells.label(int(good[0]))}."
    low, high = (int(good[f(values[good])]) for f in (np.argmin, np.argmax))
    names = [cells.label(i) for i in (low, high)]
    said = f"Found: {count(good.size, 'estimate')}, from {say(values[low])} ({names[0]}) to {say(values[high])} ({names[1]})."
    naive = next((n for n in NAIVE if n in estimates.table.column_names), None)
    if naive is not None:
        apart = np.abs(values - _numbers(estimates, naive))
        apart = apart[np.isfinite(apart)]
        if apart.size:
            mean = _settled(float(apart.mean()), float(np.nanmax(np.abs(values))))
            said += f" On average they differ by {number(mean)} from the naive answer ({naive})."
    return said


def _sure(estimates: Estimates) -> str:
    """Say the level, the median width of the intervals, and how many contain the truth where it is known."""
    if estimates.level is None:
        return _bounded(estimates)
    low, high = (_numbers(estimates, n) for n in ("conf_low", "conf_high"))
    good = np.isfinite(low) & np.isfinite(high)
    if not good.any():
        return "How sure: no row has an interval."
    width = _settled(float(np.median((high - low)[good])), float(np.abs(high[good]).max()))
    size = points(width) if on_unit_scale(estimates) else number(width)
    said = f"How sure: {describe_intervals(estimates.level, estimates.interval)}; the median width is {size}."
    if width == 0.0 and estimates.kind == "binned":
        said = f"How sure: {describe_intervals(estimates.level, estimates.interval)}; these totals were observed and are kept exactly."
    if "truth" in estimates.table.column_names:
        truth = _numbers(estimates, "truth")
        known = good & np.isfinite(truth)
        if known.any():
            inside = int(((low <= truth) & (truth <= high))[known].sum())
            said += f" {inside:,} of {int(known.sum()):,} contain the truth, which is known here."
    left = estimates.diagnostics.get("leave_one_out")
    if isinstance(left, dict) and left.get("coverage") is not None:
        said += f" With each region held out, 95 % intervals cover {100 * left['coverage']:.0f} % of the totals."
    return said


def _bounded(estimates: Estimates) -> str:
    """Say how sure without an interval: by the bounds, where there are any."""
    said = "How sure: this method gives no interval"
    for low, high in (("bound_low", "bound_high"), ("lower", "upper")):
        if {low, high} <= set(estimates.table.column_names) - set(estimates.keys):
            width = _numbers(estimates, high) - _numbers(estimates, low)
            width = width[np.isfinite(width)]
            if width.size:
                middle = float(np.median(width))
                size = points(middle) if on_unit_scale(estimates) else number(middle)
                return f"{said}, but bounds that hold whatever people did; their median width is {size}."
    return f"{said}, so these numbers say nothing of their own error."


def _effects(found: Estimates) -> tuple[str, str, str]:
    terms = list(dict.fromkeys(found["term"].tolist()))
    others = [k for k in found.keys if k != "term"]
    by = f" by {', '.join(others)}" if others else ""
    d = found.diagnostics
    fit = "" if d.get("r2") is None else f"The fit explains {100 * d['r2']:.0f} % of the variance. "
    p = _numbers(found, "p_value")
    error = np.where(found["std_error"] > 0, found["std_error"], np.nan)
    top = int(np.argmax(np.nan_to_num(np.abs(found["estimate"] / error))))
    what = " · ".join("–" if found[k][top] is None else str(found[k][top]) for k in found.keys)
    target = {"sample": "these rows", "population": "the population they stand for"}.get(
        str(d.get("target")), "the rows"
    )
    return (
        f"How does the outcome respond to {count(len(terms), 'term')}{by}, with no functional form assumed? {found.title}.",
        f"{fit}The clearest effect is {what}: {number(float(found['estimate'][top]))} "
        f"{span(float(found['conf_low'][top]), float(found['conf_high'][top]))}; {int(np.sum(p < 0.05)):,} of {len(found):,} have "
        "p < .05.",
        f"Intervals are at the level of {100 * (found.level or 0):.10g} % ({found.interval}), for the average over {target}; stars: "
        f"* p < .05, ** p < .01, *** p < .001, each test by itself. Penalty {plain(d.get('penalty'))} ({plain(d.get('rule'))}).",
    )


def _pointwise(found: Estimates) -> tuple[str, str, str]:
    excluded = (found["conf_low"] > 0) | (found["conf_high"] < 0)
    terms = len(set(found["term"].tolist()))
    return (
        f"How large are the effects of {count(terms, 'term')} at {count(len(found) // max(terms, 1), 'row')}?",
        f"They range from {number(float(found['estimate'].min()))} to {number(float(found['estimate'].max()))}; "
        f"{int(excluded.sum()):,} of {len(found):,} intervals exclude zero.",
        "",
    )


def _labels(found: Estimates) -> tuple[str, str, str]:
    size = _numbers(found, "size")
    bags = len(set(found["bag"].tolist()))
    asked = f"{LABELS} {bags:,} bags of {number(float(size.min()))} to {number(float(size.max()))} members."
    if "class" not in found.keys:
        unknown = "" if "truth" in found.table.column_names else " The labels of these bags are not known."
        return asked, "", _sure(found) + unknown
    classes = list(dict.fromkeys(found["class"].tolist()))
    p = found["estimate"].reshape(-1, len(classes))
    best = p.argmax(axis=1)
    counts = ", ".join(f"{c} for {int((best == i).sum()):,}" for i, c in enumerate(classes[:5]))
    said = f"The likeliest class is {counts}{' and others' if len(classes) > 5 else ''} of {len(p):,} bags"
    if "truth" in found.table.column_names:
        right = found["truth"].reshape(p.shape)[np.arange(len(p)), best].mean()
        said += f"; it was right for {100 * float(right):.0f} %"
    return (
        asked,
        f"{said}.",
        "Probabilities have no interval; whether they are calibrated shows where classes are known.",
    )


def _coverage(scores: Estimates) -> tuple[str, str, str]:
    names = scores.table.column_names
    share, low, high = (float(scores[n][0]) for n in ("estimate", "conf_low", "conf_high"))
    asked = f"{LABELS} Scores of {int(scores['n'][0]):,} bags, by size."
    if "nominal" not in names:
        found = f"The right class was the likeliest for {100 * share:.0f} % of bags"
        if "baseline_accuracy" in names:
            found += f", against {100 * float(scores['baseline_accuracy'][0]):.0f} % for a guess that knows no members"
        sure = f"The accuracy itself is uncertain: its 95 % Wilson interval is {100 * low:.0f} to {100 * high:.0f} %."
        return asked, f"{found}.", sure
    found = (
        f"Predictions are off by {number(float(scores['rmse'][0]))} (root mean square)"
        if "rmse" in names
        else "Coverage"
    )
    if "baseline_mse" in names:
        found += f", against {number(float(np.sqrt(scores['baseline_mse'][0])))} for a guess that knows no members"
    worst = int(np.argmin(scores["estimate"]))
    sure = (
        f"{100 * float(scores['nominal'][0]):.10g} % intervals held {100 * share:.0f} % of labels (95 % Wilson interval "
        f"{100 * low:.0f} to {100 * high:.0f} %)"
    )
    if len(scores) > 1:
        sure += f"; least often for {scores['stratum'][worst]}: {100 * float(scores['estimate'][worst]):.0f} %"
    return asked, f"{found}.", f"{sure}."


def _imputed(found: Estimates) -> tuple[str, str, str]:
    features = len(set(found["feature"].tolist()))
    if found.kind == "clusters":
        return (
            f"{HIDDEN} {count(len(set(found['cluster'].tolist())), 'cluster')} of people with their hidden means.",
            "",
            "",
        )
    if found.kind == "slopes":
        kept = _numbers(found, "kept")
        told = f"{_found(found)} The means left on average {100 * float(kept.mean()):.0f} % of a slope standing."
        return f"{HIDDEN} {count(len(found), 'slope')} that the means of groups taught.", told, ""
    asked = f"{HIDDEN} Means of {count(features, 'hidden feature')} in {count(len(found) // features, 'subgroup')}."
    told = _found(found)
    if "truth" in found.table.column_names:
        t = _numbers(found, "truth")
        off, naive = (float(np.nanmean(np.abs(_numbers(found, n) - t))) for n in ("estimate", "naive"))
        told += f" They miss the truth by {number(off)} on average, the group means by {number(naive)}."
    return asked, told, ""


def _published(found: Estimates) -> tuple[str, str, str]:
    """Say how well means follow from the others, and that this says little about persons."""
    t, e = (_numbers(found, n) for n in ("published", "estimate"))
    there = np.isfinite(t) & np.isfinite(e)
    off = float(np.sqrt(np.mean((e - t)[there] ** 2)))
    said = f"Of {int(there.sum()):,} published means, each held out and predicted from the others, predictions are off by {number(off)}"
    if found.level is not None:
        held = ((found["conf_low"] <= t) & (t <= found["conf_high"]))[there].mean()
        said += f" and {100 * found.level:.10g} % intervals cover {100 * float(held):.0f} %"
    return (
        f"{HIDDEN} Here every group's mean is predicted from the other groups.",
        f"{said}; that says little about persons.",
        "",
    )


def _bag_sizes(found: Estimates) -> tuple[str, str, str]:
    size, people = _numbers(found, "estimate"), _numbers(found, "people")
    few = int((size < FEW).sum())
    return (
        f"Who are the people of each bag, as one vector? {count(len(found), 'bag')} by {', '.join(found.keys)}.",
        f"There are {number(float(size.min()))} to {number(float(size.max()))} effective people in a bag, "
        f"{number(float(people.sum()))} people in all.",
        f"A vector is a mean of its people, and as precise as such a mean: {count(few, 'bag')} with fewer than {FEW} effective people. "
        "There is no interval.",
    )


_OWN: dict[str, Callable[[Estimates], Sequence[str]]] = {
    "bag_sizes": _bag_sizes, "classes": _labels, "clusters": _imputed, "coverage": _coverage, "effects": _effects,
    "imputed": _imputed, "labels": _labels, "pointwise_effects": _pointwise,
    "published": _published, "slopes": _imputed,
}  # fmt: skip


def _numbers(estimates: Estimates, name: str) -> FloatArray:
    return np.asarray(estimates[name], dtype=np.float64)


def _settled(value: float, scale: float) -> float:
    """Give a number that is rounding error beside the scale as zero."""
    return 0.0 if abs(value) <= 1e-8 * abs(scale) else value
