"""The hidden-label test: hide a column of people, estimate it from its totals, and score each method against the truth.

Composition and totals come from different households, so that the sampling noise of the one cannot tell the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, cast

import numpy as np
import pyarrow as pa
from scipy import stats
from sklearn.base import clone

from crosslevel.data.batches import Batches, open_batches
from crosslevel.data.columns import check_names, read_weights
from crosslevel.data.frames import group_rows
from crosslevel.data.progress import count_steps
from crosslevel.data.queries import Query, read_query
from crosslevel.ecological.estimate import PlaceEstimator
from crosslevel.ecological.persons.estimator import EcologicalInference
from crosslevel.ecological.persons.hidden_labels import Half, describe_split
from crosslevel.ecological.persons.labels import value_query
from crosslevel.ecological.regression.estimator import DistributionRegression
from crosslevel.errors import CrosslevelWarning, InputError, unknown_name
from crosslevel.results import Estimates, Provenance
from crosslevel.results.scores import coverage, interval_score
from crosslevel.typing import FloatArray, Progress

METHODS = ("persons", "regression", "neighborhood", "goodman")
LEAST_PEOPLE = 100


def hidden_label(
    model: PlaceEstimator,
    people: Any,
    column: str,
    *,
    by: Sequence[str],
    hidden: Sequence[str] = (),
    methods: Sequence[str] = METHODS,
    interval: str = "confounding",
    level: float = 0.95,
    n_draws: int = 200,
    progress: Progress | None = None,
) -> Estimates:
    """Hide a column of people, learn it back from its sums by place, and score every subgroup against the truth.

    It needs no survey: the column is known. A method that misses it by so much will hardly do better on what is not known. Clusters
    (``cluster`` of the fit; persons where none was named, with a warning) are split in halves: who lives where is taken from one half,
    the totals from the other, the truth from everybody; then the other way round, and both are scored together.

    Parameters
    ----------
    model : EcologicalInference or DistributionRegression
        Fitted: its settings, places, coordinates and features are used, and the confounding it learned. To see how well that does
        on a column it has not seen, learn confounding without the column.
    people : path, frame or stream, or None
        With the column; None for those of the fit.
    column : str
        A column of 0 and 1, or a query such as ``"tenure == 1"``. People of whom it is not known are left out.
    by : sequence of str
        Columns whose groups are asked for, one after another.
    hidden : sequence of str
        Columns that must leave the features too, because they tell the label.
    methods : sequence of {"persons", "regression", "neighborhood", "goodman"}
    interval : {"confounding", "model"}, default "confounding"
        Of the model of persons; distribution regression has the model's only.
    level : float, default 0.95
    n_draws : int, default 200
    progress : bool or callable, optional
        True for a bar on stderr, or a function of what is done and all there is to do.

    Returns
    -------
    Estimates
        A row for every method and column of ``by``, and ``"all"`` together: ``estimate`` is the mean absolute error over groups of all
        places; ``place_rmse`` the error within places, weighted by people, where at least 100 were asked; ``coverage``, ``width`` and
        ``score`` of the intervals and the same within places. All in shares.

    Examples
    --------
    >>> import warnings
    >>> from crosslevel.data.simulate import nation
    >>> from crosslevel.ecological import EcologicalInference
    >>> world = nation(40, 150, n_states=4)
    >>> model = EcologicalInference(categorical=["sex"], spatial=None)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     model = model.fit(
    ...         world.people, world.places, by="region", weight="weight", successes="dem", trials="votes",
    ...         columns=["sex", "race", "education", "age"],
    ...     )
    ...     found = hidden_label(model, world.people, "education == 'bachelor'", by=["race"], methods=["persons", "neighborhood"])
    >>> found.keys
    ('method', 'by')
    >>> bool(0 < found.select(method="persons", by="race")["estimate"][0] < 0.2)
    True
    """
    if not hasattr(model, "model_"):
        raise InputError("model is not fitted; fit it to your totals first: its places and features are used.")
    if not methods:
        raise InputError(f"methods is empty; name some of {list(METHODS)}.")
    for name in methods:
        if name not in METHODS:
            raise unknown_name("methods", name, list(METHODS), "method")
    if isinstance(by, str) or not by:
        raise InputError(f"by={by!r} is no list of columns; pass by=['sex', 'race'].")
    stream = model._open_people(people)
    text = value_query(column, stream.schema) if column in stream.schema.names else column
    query = read_query(text, "column", stream.schema)
    known = " and ".join(f"`{c}` is not null" for c in query.columns)
    stream = stream.select(where=known)
    truth = {name: _truth(stream, query, model, name) for name in by}
    hidden = check_names(hidden, stream.schema.names, "hidden")
    left = [c for c in model.columns_ if c not in (*query.columns, *hidden)]
    if not left:
        raise InputError(f"without {column!r} no feature is left to learn it from; name more columns in fit.")
    asked = [name for name in by if name not in query.columns and name not in hidden]
    if not asked:
        raise InputError(f"by={list(by)!r} names only columns that are hidden with {column!r}; name others.")
    cluster = model.arguments_.get("cluster")
    if cluster is None:
        warnings.warn(describe_split(model), CrosslevelWarning, stacklevel=2)
    everybody = _sums(stream, query, model, None)
    share = sum(v[0] for v in everybody.values()) / sum(v[1] for v in everybody.values())
    if share in (0.0, 1.0):
        who = "everybody" if share else "nobody"
        raise InputError(
            f"column={column!r} ({text}) is true of {who}; name a column of 0 and 1, or a query true of some."
        )
    halves = [_half(stream, cluster, model.seed_, first) for first in (True, False)]
    sums = [_sums(half, query, model, None) for half in halves]
    models = [name for name in ("persons", "regression") if name in methods] or ["persons"]
    parts: dict[tuple[str, str], list[_Scored]] = {}
    number = len(halves) * len(models) * (1 + len(asked))
    with count_steps(progress, f"Hiding {column}", number, "fits and answers") as step:
        for side, method in product((0, 1), models):
            places = _places(sums[1 - side], sums[side], everybody, model)
            fitted = _fitted(model, method, halves[side], places, left)
            if step is not None:
                step()
            for name in asked:
                answers = _answers(fitted, name, interval, level, n_draws)
                found = _Scored.of(truth[name], *answers, model.places_.by, name)
                parts.setdefault((method, name), []).append(found)
                if method == models[0]:
                    for other in [m for m in ("neighborhood", "goodman") if m in methods]:
                        plain = _Scored.of(truth[name], *answers, model.places_.by, name, other)
                        parts.setdefault((other, name), []).append(plain)
                if step is not None:
                    step()
    scored = {key: _Scored.together(both) for key, both in parts.items()}
    rows = []
    for method in [m for m in METHODS if m in methods]:
        mine = [scored[method, name] for name in asked]
        rows += [{"method": method, "by": name, **one.scores(level)} for name, one in zip(asked, mine, strict=True)]
        rows.append({"method": method, "by": "all", **_Scored.together(mine).scores(level)})
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return Estimates.build(
        columns,
        keys=("method", "by"),
        method="hidden-label test",
        level=level,
        interval="none: errors against the truth",
        provenance=Provenance.of(call=f"hidden_label({column!r}, by={list(by)!r})", seed=model.seed_, data=model.data_),
        diagnostics={"label": column, "share": share, "hidden": [*query.columns, *hidden]},
        title=f"How far off is each method when {column!r} is hidden?",
    )


SHARED = ("categorical", "spatial", "metric", "group", "match_totals", "sampling_error", "n_jobs")
"""Settings that both models have."""


def _fitted(model: PlaceEstimator, method: str, people: Batches, places: dict[str, Any], columns: list[str]) -> Any:
    wanted = DistributionRegression if method == "regression" else EcologicalInference
    if isinstance(model, wanted):
        fitted: Any = clone(model).set_params(hyperparameters=None)
    else:
        fitted = wanted(**{name: getattr(model, name) for name in SHARED})
    fitted.set_params(random_state=model.seed_)
    if isinstance(fitted, EcologicalInference):
        left = [pair for pair in fitted.interactions or () if set(pair) <= set(columns)]
        fitted.set_params(interactions=left or None)
    asked = {
        **model.arguments_,
        "columns": columns,
        "successes": "__yes",
        "trials": "__all",
        "outcomes": None,
        "population": None,
    }
    if getattr(fitted, "likelihood", None) != "aggregate":  # takes people as they are
        asked.pop("cluster", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        fitted.fit(people, places["table"], unmatched="drop", **{**asked, "where": None})
    if isinstance(fitted, EcologicalInference):
        fitted.confounding_ = model.confounding_
    # answers add up to the totals of everybody, which the fit has not seen
    totals = fitted.places_.totals
    rate = np.array([places["rates"][key] for key in fitted.places_.keys])
    matched = replace(totals, successes=(rate * totals.trials[0])[None])
    fitted.places_ = replace(fitted.places_, totals=matched)
    return fitted


def _answers(fitted: Any, name: str, interval: str, level: float, n_draws: int) -> tuple[Estimates, Estimates]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        own = "model" if isinstance(fitted, DistributionRegression) else interval
        options: dict[str, Any] = {"interval": own, "level": level, "n_draws": n_draws}
        return fitted.estimate(by=name, rollup="all", **options), fitted.estimate(by=name, **options)


def _half(stream: Batches, cluster: str | None, seed: int, first: bool) -> Batches:
    """Keep one half of the clusters."""

    def read() -> pa.RecordBatchReader:
        half = Half(cluster, seed)
        chosen = (batch.filter(pa.array(half.mask(batch) == first)) for batch in stream)
        return pa.RecordBatchReader.from_batches(stream.schema, chosen)

    return open_batches(read)


Sums = dict[tuple[Any, Any], tuple[float, ...]]


def _places(totals: Sums, composition: Sums, everybody: Sums, model: PlaceEstimator) -> dict[str, Any]:
    """Make the table of places with the label's totals in one half, as many trials as people are behind them; and those of everybody."""
    table, by = model.places_.table, model.places_.by
    keys = table[by].to_pylist()
    known = [(i, (key, None)) for i, key in enumerate(keys)]
    kept = [(i, key) for i, key in known if totals.get(key, (0, 0))[1] > 0 and composition.get(key, (0, 0))[1] > 0]
    if len(kept) < 3:
        raise InputError("the label is known in both halves of fewer than three places; check column.")
    yes, weight, square, _ = np.array([totals[key] for _, key in kept]).T
    n = weight**2 / square
    rows = table.take(pa.array([i for i, _ in kept]))
    rows = rows.append_column("__yes", pa.array(yes / weight * n)).append_column("__all", pa.array(n))
    whole = {key[0]: everybody[key][0] / everybody[key][1] for _, key in kept}
    return {"table": rows, "rates": whole}


def _truth(stream: Batches, query: Query, model: PlaceEstimator, name: str) -> dict[tuple[Any, Any], tuple[float, ...]]:
    if name not in stream.schema.names:
        raise unknown_name("by", name, stream.schema.names)
    return _sums(stream, query, model, name)


def _sums(
    stream: Batches, query: Query, model: PlaceEstimator, name: str | None
) -> dict[tuple[Any, Any], tuple[float, ...]]:
    """Sum by place and group: weight with the label, weight, squared weight, people."""
    weight, by = model.weight_, model.places_.by
    keys = [by] if name is None else [by, name]
    columns = list(dict.fromkeys([*keys, *query.columns, *([weight] if weight else [])]))
    known = set(model.places_.keys)
    sums: dict[tuple[Any, Any], list[float]] = {}
    row = 0
    for batch in stream.select(columns):
        w = read_weights(batch, weight, row)
        row += batch.num_rows
        groups = group_rows(pa.Table.from_batches([batch.select(keys)]), keys, "by")
        has = query.mask(batch)
        found = zip(*(groups.keys[k].to_pylist() for k in keys), strict=True)
        totals = [np.bincount(groups.codes, weights=v) for v in (w * has, w, w**2, np.ones(len(w)))]
        for j, key in enumerate(found):
            if key[0] in known:
                old = sums.setdefault((key[0], key[1] if name else None), [0.0] * 4)
                for i, total in enumerate(totals):
                    old[i] += float(total[j])
    return {key: tuple(values) for key, values in sums.items()}


class _Scored:
    """Errors and intervals of one method, over all places and within them."""

    def __init__(self, nation: dict[str, FloatArray], local: dict[str, FloatArray]) -> None:
        self.nation, self.local = nation, local

    @classmethod
    def of(
        cls,
        truth: dict[tuple[Any, Any], tuple[float, ...]],
        nation: Estimates,
        local: Estimates,
        by: str,
        name: str,
        column: str | None = None,
    ) -> _Scored:
        """Put answers and truth together; ``column`` takes a baseline in place of the estimate."""
        whole: dict[Any, FloatArray] = {}
        for (_, group), values in truth.items():
            whole[group] = whole.get(group, np.zeros(4)) + np.array(values)
        real = np.array([whole[g][0] / whole[g][1] for g in nation[name].tolist()])
        keys = zip(local[by].tolist(), local[name].tolist(), strict=True)
        found = np.array([truth[key] for key in keys])
        enough = found[:, 3] >= LEAST_PEOPLE
        rate = np.divide(found[:, 0], found[:, 1])
        what = column or "estimate"
        n = found[:, 1] ** 2 / found[:, 2]
        people: dict[Any, float] = {}
        for (place, _), values in truth.items():
            people[place] = people.get(place, 0.0) + values[1]
        share = local["population"] / np.array([people[place] for place in local[by].tolist()])
        noise = np.clip(1.0 - share, 0.0, 1.0) * rate * (1.0 - rate) / n
        return cls(
            {"estimate": nation[what], "truth": real, **_ends(nation, column)},
            {
                "estimate": local[what][enough],
                "truth": rate[enough],
                "weight": local["population"][enough],
                "noise": noise[enough],
                **{k: v[enough] for k, v in _ends(local, column).items()},
            },
        )

    @classmethod
    def together(cls, several: Sequence[_Scored]) -> _Scored:
        """Pool the groups of several columns."""
        return cls(
            {k: np.concatenate([s.nation[k] for s in several]) for k in several[0].nation},
            {k: np.concatenate([s.local[k] for s in several]) for k in several[0].local},
        )

    def scores(self, level: float) -> dict[str, Any]:
        """Score, NaN where a method has no intervals."""
        a, b = self.nation, self.local
        said: dict[str, Any] = {
            "estimate": float(np.nanmean(np.abs(a["estimate"] - a["truth"]))),
            "groups": len(a["truth"]) // 2,  # each stands there twice, once for each half
        }
        w = b["weight"] / b["weight"].sum() if len(b["weight"]) else b["weight"]
        good = np.isfinite(b["estimate"])
        square = (b["estimate"] - b["truth"]) ** 2
        said["place_rmse"] = float(np.sqrt(np.average(square[good], weights=w[good]))) if good.any() else np.nan
        names = ("coverage", "width", "score", "place_coverage", "place_width", "place_score")
        if "low" not in a:
            return said | dict.fromkeys(names, np.nan)
        # the truth within places is a sample share: its own noise widens what must hold it
        extra = float(stats.norm.ppf(0.5 * (1.0 + level))) * np.sqrt(b["noise"])
        middle = 0.5 * (b["low"] + b["high"])
        half = np.sqrt((0.5 * (b["high"] - b["low"])) ** 2 + extra**2)
        low, high = middle - half, middle + half
        return said | {
            "coverage": coverage(a["low"], a["high"], a["truth"]),
            "width": float(np.mean(a["high"] - a["low"])),
            "score": interval_score(a["low"], a["high"], a["truth"], level),
            "place_coverage": float(w @ ((low <= b["truth"]) & (b["truth"] <= high))) if len(w) else np.nan,
            "place_width": float(w @ (b["high"] - b["low"])) if len(w) else np.nan,
            "place_score": interval_score(low, high, b["truth"], level, w) if len(w) else np.nan,
        }


def _ends(found: Estimates, column: str | None) -> dict[str, FloatArray]:
    return (
        {} if column else {"low": cast("FloatArray", found["conf_low"]), "high": cast("FloatArray", found["conf_high"])}
    )
