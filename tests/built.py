"""Tables of every kind, built by hand: what charts and pages are tested on. ``evil`` is put into every name a user chooses."""

from __future__ import annotations

import numpy as np

from crosslevel.results import Estimates, Provenance

__all__ = ["KINDS", "build", "squares"]


def build(columns, keys, *, kind="estimates", half=0.1, **options):
    """Make Estimates of columns, with intervals of ``half`` on both sides where that is not None."""
    told = {"method": "example", "level": 0.95, "interval": "wald"} | options
    estimate = np.asarray(columns["estimate"], dtype=float)
    if half is None:
        told |= {"level": None, "interval": "none"}
    elif "conf_low" not in columns:
        columns = {
            **columns,
            "conf_low": estimate - half,
            "conf_high": estimate + half,
            "std_error": np.full(len(estimate), half / 2),
        }
    provenance = told.pop("provenance", Provenance.of(call="example()"))
    return Estimates.build(columns, keys=keys, kind=kind, provenance=provenance, **told)


def squares(names, key="region"):
    """Make a map of squares in a row, far from the ranges of longitude and latitude."""
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {key: name},
                "geometry": {
                    "type": "Polygon",
                    "coordinates": [[[x, 0], [x + 100, 0], [x + 100, 100], [x, 100], [x, 0]]],
                },
            }
            for name, x in zip(names, range(1000, 1000 + 100 * len(names), 100), strict=True)
        ],
    }


def effects(evil=""):
    columns = {
        "term": [f"age{evil}", f"arm: letter{evil}", f"treated{evil}"],
        "estimate": [0.4, -0.2, 0.05],
        "plug_in": [0.3, -0.15, 0.04],
        "p_value": [0.0001, 0.03, 0.6],
        "kind": ["slope", "contrast", "contrast"],
        "contrast": ["slope", f"letter - control{evil}", "1 - 0"],
    }
    told = {"r2": 0.5, "penalty": 0.2, "rule": "loo", "target": "sample"}
    return build(columns, ["term"], kind="effects", half=0.2, title="Average marginal effects", diagnostics=told)


def effects_by_place(evil="", places=("north", "south", "west")):
    terms = [f"age{evil}", f"treated{evil}"]
    n = len(places)
    columns = {
        "term": np.repeat(terms, n), "place": np.tile(places, 2), "estimate": np.linspace(-0.3, 0.5, 2 * n),
        "plug_in": np.linspace(-0.2, 0.4, 2 * n), "p_value": np.full(2 * n, 0.04), "kind": ["slope"] * 2 * n,
        "contrast": ["slope"] * 2 * n,
    }  # fmt: skip
    return build(columns, ["term", "place"], kind="effects", title="Average effects by place")


def at_rows(evil="", n=120):
    rng = np.random.default_rng(0)
    age, income = rng.normal(50, 10, n), rng.gamma(2, 10, n)
    effect = np.column_stack([np.cos((age - 50) / 8), 0.02 * income])
    columns = {
        "term": np.repeat([f"age{evil}", f"income{evil}"], n), "row": np.tile(np.arange(n), 2), "estimate": effect.T.ravel(),
        f"age{evil}": np.tile(age, 2), f"income{evil}": np.tile(income, 2), f"factor{evil}": ["a", f"b{evil}"] * n,
        "fitted": np.tile(np.sin((age - 50) / 8), 2),
    }  # fmt: skip
    return build(columns, ["term", "row"], kind="pointwise_effects", half=None, diagnostics={"rows": 5 * n})


def bands(evil=""):
    n = 40
    x = np.linspace(-2, 2, n)
    columns = {
        "term": np.repeat([f"age{evil}", f"income{evil}"], n), "row": np.tile(np.arange(n), 2),
        "estimate": np.concatenate([np.cos(x), 0.5 * x]), "value": np.tile(x, 2),
    }  # fmt: skip
    return build(columns, ["term", "row"], kind="pointwise_effects")


def labels(evil="", truth=True):
    rng = np.random.default_rng(1)
    n = 60
    size = rng.choice([5.0, 60.0], n)
    mean = rng.uniform(1, 3, n)
    columns = {
        "bag": [f"{i}{evil}" for i in range(n)],
        "estimate": mean,
        "size": size,
        "stratum": [f"{s:g}" for s in size],
    }
    if truth:
        columns["truth"] = mean + rng.normal(0, 0.1, n)
    return build(columns, ["bag"], kind="labels", half=0.3)


def classes(evil="", truth=True):
    p = np.linspace(0.05, 0.95, 30)
    columns = {
        "bag": np.repeat([f"{i}{evil}" for i in range(30)], 2), "class": [f"wide{evil}", f"narrow{evil}"] * 30,
        "estimate": np.column_stack([p, 1 - p]).ravel(), "size": np.repeat(np.arange(1.0, 31), 2),
    }  # fmt: skip
    if truth:
        columns["truth"] = np.column_stack([p > 0.4, p <= 0.4]).astype(float).ravel()
    return build(columns, ["bag", "class"], kind="classes", half=None)


def coverage(evil=""):
    columns = {
        "stratum": ["all", "5", "20"], "estimate": [0.9, 0.8, 0.96], "conf_low": [0.85, 0.7, 0.9], "conf_high": [0.95, 0.88, 0.99],
        "nominal": [0.95] * 3, "n": [90, 45, 45], "rmse": [0.4, 0.5, 0.3], "baseline_coverage": [0.99] * 3,
        "baseline_mse": [1.0] * 3,
    }  # fmt: skip
    return build(columns, ["stratum"], kind="coverage")


def curve(evil=""):
    x = np.linspace(0, 60, 61)
    y = np.exp(-((x - 25) ** 2) / 200)
    columns = {
        f"sex{evil}": np.repeat([f"women{evil}", f"men{evil}"], 61), "point": np.tile(x, 2), "estimate": np.append(y, 0.5 * y),
        "area_weighted": np.tile(np.repeat([0.3, 0.8, 0.1], [20, 21, 20]), 2),
    }  # fmt: skip
    return build(columns, [f"sex{evil}", "point"], kind="binned", half=0.02, method="counts, total")


def bins(evil=""):
    columns = {
        "lower": [0.0, 10.0, 40.0], "upper": [10.0, 40.0, None], "estimate": [12.0, 50.0, 9.0],
        "area_weighted": [11.0, 55.0, 9.0],
    }  # fmt: skip
    return build(columns, ["lower", "upper"], kind="binned", half=2.0, method="counts, total")


def areas(evil="", places=("north", "south", "west")):
    return build({"place": list(places), "estimate": [3.0, 5.0, 9.0]}, ["place"], kind="binned", half=1.0)


def imputed(evil="", truth=True):
    rows = [
        (f, c, v) for f in (f"ill{evil}", "well") for c, v in (("age", "0"), ("age", "1"), (f"sex{evil}", f"w{evil}"))
    ]
    columns = {
        "feature": [r[0] for r in rows], "column": [r[1] for r in rows], "value": [r[2] for r in rows],
        "estimate": [0.1, 0.3, 0.2, 0.9, 0.7, 0.8], "naive": [0.18, 0.22, 0.2, 0.82, 0.78, 0.8],
        "people": [100, 50, 70, 100, 50, 70],
    }  # fmt: skip
    if truth:
        columns["truth"] = [0.12, 0.33, 0.2, 0.88, 0.67, 0.8]
    return build(columns, ["feature", "column", "value"], kind="imputed")


def clusters(evil=""):
    columns = {
        "feature": [f"ill{evil}"] * 2 + ["well"] * 2, "cluster": [1, 2] * 2, "estimate": [0.1, 0.4, 0.9, 0.6],
        "share": [0.6, 0.4] * 2, f"age{evil}": [35.0, 61.0] * 2, "sex: w": [0.5, 0.52] * 2,
    }  # fmt: skip
    return build(columns, ["feature", "cluster"], kind="clusters")


def published(evil=""):
    t = np.linspace(0.1, 0.6, 20)
    columns = {
        "feature": np.repeat([f"ill{evil}", "well"], 20), "group": [f"g{i}{evil}" for i in range(20)] * 2,
        "estimate": np.append(0.2 + 0.4 * t, 0.9 - t), "published": np.append(t, 1 - t),
    }  # fmt: skip
    return build(columns, ["feature", "group"], kind="published")


def slopes(evil=""):
    columns = {
        "feature": np.repeat([f"ill{evil}", "well"], 2), "column": ["age", f"sex{evil}"] * 2, "term": ["linear", f"w{evil}"] * 2,
        "estimate": [0.3, 0.1, -0.3, -0.1], "kept": [0.5] * 4, "between_sd": [0.2] * 4, "prior_sd": [0.45] * 4,
    }  # fmt: skip
    return build(columns, ["feature", "column", "term"], kind="slopes", half=0.4)


def comparison(evil=""):
    cells = [
        (g, o, m) for g in (f"young{evil}", "old") for o in ("yes", "no") for m in ("bounds", "goodman", f"rxc{evil}")
    ]
    n = len(cells)
    columns = {
        "group": [c[0] for c in cells], "outcome": [c[1] for c in cells], "method": [c[2] for c in cells],
        "estimate": np.linspace(0.2, 0.8, n), "lower": np.full(n, 0.1), "upper": np.full(n, 0.95),
        "truth": np.repeat([0.3, 0.7, 0.6, 0.4], 3),
    }  # fmt: skip
    return build(columns, ["group", "outcome", "method"], kind="comparison")


def surveyed(evil=""):
    rows = [("race", level, m) for level in (f"white{evil}", "black") for m in ("totals", "survey and totals", "MRP")]
    columns = {
        "question": ["dem"] * 6, "column": [r[0] for r in rows], "level": [r[1] for r in rows], "method": [r[2] for r in rows],
        "estimate": np.linspace(0.3, 0.8, 6),
    }  # fmt: skip
    return build(columns, ["question", "column", "level", "method"], kind="surveyed")


def cells(evil=""):
    columns = {
        "group": [f"young{evil}"] * 2 + ["old"] * 2, "outcome": [f"yes{evil}", "no"] * 2, "estimate": [0.6, 0.4, 0.25, 0.75],
        "lower": [0.3, 0.1, 0.0, 0.5], "upper": [0.9, 0.7, 0.5, 1.0], "count": [60, 40, 25, 75],
    }  # fmt: skip
    return build(columns, ["group", "outcome"], kind="cells")


def margin(evil=""):
    draws = np.random.default_rng(3).normal([0.1, -0.2], 0.1, (200, 2))
    columns = {"group": [f"young{evil}", "old"], "estimate": [0.1, -0.2]}
    return build(columns, ["group"], kind="margins", draws=draws, title="Lead: of yes over no")


def context(evil=""):
    columns = {
        "contextual_variance": np.repeat([0.0, 0.1, 0.3], 2), "sex": [f"women{evil}", "men"] * 3,
        "estimate": [0.55, 0.4, 0.5, 0.41, 0.47, 0.42], "neighborhood": [0.5] * 6, "changes_sign": [True, False] * 3,
    }  # fmt: skip
    return build(columns, ["contextual_variance", "sex"], kind="contextual_variance")


def validation(evil=""):
    t = np.linspace(0.2, 0.8, 12)
    columns = {
        "region": [f"r{i}{evil}" for i in range(12)],
        "estimate": 0.1 + 0.8 * t,
        "truth": t,
        "log_density": np.ones(12),
    }
    return build(columns, ["region"], kind="held_out", diagnostics={"coverage": 0.75}, method="distribution regression")


def bag_sizes(evil=""):
    columns = {
        "region": [f"a{evil}", "b", "c"],
        "estimate": [8.0, 45.0, 20.0],
        "people": [10, 50, 20],
        "weight": [9.0, 40.0, 20.0],
    }
    return build(columns, ["region"], kind="bag_sizes", half=None)


def subgroups(evil="", places=("north", "south", "west"), who=("men", "women", "others")):
    n = len(places) * len(who)
    estimate = np.linspace(0.25, 0.75, n)
    columns = {
        "place": np.repeat(places, len(who)), f"who{evil}": np.tile([f"{w}{evil}" for w in who], len(places)), "estimate": estimate,
        "bound_low": estimate - 0.2, "bound_high": estimate + 0.2, "neighborhood": estimate[::-1], "goodman": estimate,
        "population": np.linspace(1e3, 1e5, n), "truth": estimate + 0.02,
    }  # fmt: skip
    return build(columns, ["place", f"who{evil}"])


KINDS = {
    f.__name__: f
    for f in (
        effects, effects_by_place, at_rows, bands, labels, classes, coverage, curve, bins, areas, imputed, clusters, published,
        slopes, comparison, surveyed, cells, margin, context, validation, bag_sizes, subgroups,
    )
}  # fmt: skip
"""Name -> a function that builds a table."""
