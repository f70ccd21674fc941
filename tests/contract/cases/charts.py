"""Charts of tables built by hand, compared by all that is drawn; pages and files of the same tables."""

from __future__ import annotations

import functools
import io
import tempfile
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from tests import built
from tests.contract.case import FunctionCase, With, method
from tests.contract.cases.ecological_tables import BESIDE, EM, PEOPLE, VOTES
from tests.ecological.margins import counted

from crosslevel import KRLS, Estimates, charts, ecological, load, report, save

FOLDER = Path(tempfile.mkdtemp(prefix="crosslevel-contract-"))
MAP = built.squares(["north", "south", "west"], key="place")
AREAS = built.areas()
ROWS = np.linspace(0.0, 1.0, 8)
CURVE = built.build(
    {"point": ROWS, "estimate": ROWS**2, "truth": ROWS}, ["point"], kind="binned", method="counts, total"
)
TWO = {"groups": {"a": [30, 90, 50], "b": [70, 10, 50]}, "outcomes": {"yes": [80, 20, 60], "no": [20, 80, 40]}}
RXC = ecological.rxc_em(counted(**TWO, units=["north", "south", "west"]))
SENSITIVE = ecological.sensitivity(EM, counts=BESIDE)
KING = ecological.king(counted(PEOPLE, VOTES), n_draws=100)
LEADS = built.build(
    {"group": ["young", "old"], "estimate": [0.1, -0.2], "lower": [-0.5, -0.7], "upper": [0.6, 0.3]},
    ["group"],
    kind="margins",
    draws=np.random.default_rng(3).normal([0.1, -0.2], 0.1, (200, 2)),
)
WHERE = {"ax": "where it is drawn"}
SIDES = {"vmin": [1.0], "vmax": [20.0], "cmap": ["viridis"]}


def drawn(found):
    """All that is drawn, as the text of an SVG."""
    figure = (found[0] if isinstance(found, tuple) else found).figure
    page = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "contract", "svg.fonttype": "none"}):
        figure.savefig(page, format="svg", metadata={"Date": None})
    plt.close(figure)
    return np.array(page.getvalue())


def styled(found):
    with found:
        return np.array(str(dict(mpl.rcParams)))


def chart(function, arguments, variants, data):
    return FunctionCase(function, arguments, drawn, variants=variants, neutral=WHERE, data=data)


CASES = []
FUNCTIONS = [
    chart(charts.bag_calibration, {"scores": built.coverage()}, {}, ["scores"]),
    chart(
        charts.choropleth,
        {"polygons": MAP, "values": {"north": 3.0, "south": 5.0, "west": 9.0}, "key": "place"},
        {
            "key": ["nobody"],
            "label": ["people"],
            "plane": [True],
            **SIDES,
        },
        ["polygons", "values"],
    ),
    chart(charts.cluster_profiles, {"result": built.clusters()}, {"max_columns": [1, 0]}, ["result"]),
    chart(
        charts.contextual_variance, {"answer": built.context()}, {"max_lines": [1, 0], "legend": [False]}, ["answer"]
    ),
    chart(
        charts.effect_curve,
        {"x": ROWS, "effect": ROWS**2, "low": ROWS**2 - 1, "high": ROWS**2 + 1},
        {
            "color": [ROWS],
            "x_label": ["age"],
            "y_label": ["votes"],
            "color_label": [With("votes", color=ROWS), "votes"],
            "level": [0.8],
            "left_out": [3],
        },
        ["x", "effect", "low", "high"],
    ),
    chart(
        charts.effect_distributions,
        {"effects": np.random.default_rng(0).normal(size=(40, 2)), "names": ["age", "sex"]},
        {"names": [["age", "race"]], "weights": [np.arange(1.0, 41)], "scaled": [False]},
        ["effects"],
    ),
    chart(charts.effect_ranking, {"estimates": built.effects()}, {}, ["estimates"]),
    chart(
        charts.estimate_map,
        {"estimates": AREAS, "polygons": MAP, "by": "place"},
        {
            "column": ["conf_low", "nobody"],
            "by": ["nobody"],
            "key": ["nobody"],
            "select": [{"place": "north"}, {"nobody": 1}],
            "label": ["people"],
            "plane": [True],
            **SIDES,
        },
        ["estimates", "polygons"],
    ),
    chart(
        charts.estimate_pair,
        {"estimates": AREAS, "polygons": MAP, "by": "place"},
        {
            "by": ["nobody"],
            "select": [{"place": "north"}, {"nobody": 1}],
            "label": ["people"],
            "cmap": ["Blues"],
            "plane": [True],
        },
        ["estimates", "polygons"],
    ),
    chart(
        charts.histogram,
        {"estimates": CURVE},
        {
            "observed": [([0, 20], [20, 60], [5.0, 9.0])],
            "totals": [With(False, observed=([0, 20], [20, 60], [5.0, 9.0]))],
            "truth": [False],
            "color": ["black"],
            "xlabel": ["age"],
            "ylabel": ["people"],
            "legend": [False],
        },
        ["estimates"],
    ),
    chart(
        charts.imputed_means,
        {"result": built.imputed(), "feature": "ill"},
        {"feature": ["well", "nobody"], "label": [False]},
        ["result"],
    ),
    chart(
        charts.intervals,
        {"estimates": built.subgroups()},
        {
            "truth": [False],
            "bounds": [False],
            "baselines": [["goodman"], ["nobody"]],
            "sort": [True],
            "max_rows": [4, 0],
            "color": ["black"],
            "legend": [False],
        },
        ["estimates"],
    ),
    chart(
        charts.margins,
        {"result": LEADS},
        {"threshold": [0.1], "bounds": [True, With(True, result=built.margin())], "max_rows": [1, 0]},
        ["result"],
    ),
    chart(charts.methods, {"comparison": built.comparison()}, {"max_cells": [2, 0], "legend": [False]}, ["comparison"]),
    chart(
        charts.predicted_bags,
        {"estimates": built.labels()},
        {"sizes": [(5.0, 9.0)], "intervals": [False], "limits": [(-9.0, 9.0)], "colorbar": [False]},
        ["estimates"],
    ),
    chart(
        charts.transfers,
        {"result": built.cells()},
        {"counts": [True], "intervals": [False], "cmap": ["viridis"]},
        ["result"],
    ),
    chart(
        charts.unit_map,
        {
            "result": RXC,
            "polygons": built.squares(["north", "south", "west"], key="unit"),
            "group": "a",
            "outcome": "yes",
        },
        {
            "group": ["b", "nobody"],
            "outcome": ["no", "nobody"],
            "column": ["width", "nobody"],
            "key": ["nobody"],
            "cmap": ["Blues"],
        },
        ["result", "polygons"],
    ),
    chart(
        charts.contour,
        {"answer": SENSITIVE, "group": "g0", "outcome": "o0"},
        {
            "group": ["g1", "nobody"],
            "outcome": ["o1", "nobody"],
            "district": ["nobody"],
            "limit": [0.9, -1.0],
            "names": [0, -1],
        },
        ["answer"],
    ),
    chart(
        charts.slope_curve,
        {"answer": SENSITIVE, "group": "g0", "outcome": "o0"},
        {"group": ["g1", "nobody"], "outcome": ["o1", "nobody"]},
        ["answer"],
    ),
    chart(
        charts.tomography,
        TWO,
        {
            "units": [[1], [9]],
            "estimates": [RXC],
            "truth": [[[0.5, 0.5]] * 3, True],
            "legend": [With(False, estimates=RXC)],
        },
        list(TWO),
    ),
    chart(
        charts.xt,
        {"groups": PEOPLE, "outcomes": VOTES},
        {"estimates": [KING, RXC], "legend": [With(False, estimates=KING)]},
        list(TWO),
    ),
    FunctionCase(charts.style, {}, styled, variants={"grid": ["y"]}),
]


@functools.wraps(save)
def written(obj, path, **options):
    """What a file holds that has been written."""
    save(obj, path, **options)
    return path.stat().st_size, path.name


def figures():
    return {"a picture": charts.intervals(built.areas())}


ROWS_OF = KRLS(penalty=1.0).fit(np.column_stack([ROWS, ROWS**2]), ROWS)
save(AREAS, FOLDER / "areas.crosslevel")
save(built.bins(), FOLDER / "bins.crosslevel")
FUNCTIONS += [
    FunctionCase(
        report,
        {"results": AREAS},
        lambda found: np.array(found.json()),
        variants={
            "title": ["A page"],
            "figures": [figures()],
            "polygons": [MAP],
            "labels": [{"place": {"north": "The North"}}, {"no": {}}],
            "template": ["exhibit", "poster"],
            "bundle": ["no exhibit"],
            "inputs": [[]],
            "coords": [{"north": (0, 1), "south": (0, 0), "west": (-1, 0)}, {}],
        },
        neutral={"path": "where the same page is written"},
        data=["results"],
    ),
    FunctionCase(
        written,
        {"obj": ROWS_OF, "path": FOLDER / "model.crosslevel"},
        np.array,
        variants={"path": [FOLDER / "other.crosslevel", FOLDER / "no path" / "x"], "allow_rows": [False, "no"]},
        data=["obj"],
    ),
    FunctionCase(
        load,
        {"path": FOLDER / "areas.crosslevel"},
        lambda found: found,
        variants={"path": [FOLDER / "bins.crosslevel"]},
    ),
]
CELLS = ecological.neighborhood(counted(**TWO))
NAMED = {"group": {"a": "Asian"}}


ON_PAPER = {"columns": ["group", "no"], "labels": [NAMED, {"no": {}}], "caption": ["Votes"]}
FUNCTIONS += [
    FunctionCase(
        method(Estimates, "pivot", lambda: CELLS),
        {},
        lambda found: np.array(
            [found.column_names, *map(list, zip(*found.to_pydict().values(), strict=True))], dtype=object
        ),
        variants={"columns": ["group", "no"], "values": ["count", "no"], "labels": [NAMED, {"no": {}}]},
    ),
    FunctionCase(
        method(Estimates, "to_latex", lambda: CELLS),
        {},
        np.array,
        variants=ON_PAPER,
        neutral={"path": "where it is written"},
    ),
    FunctionCase(
        method(Estimates, "to_docx", lambda: CELLS),
        {"path": FOLDER / "t.docx"},
        lambda path: np.array(path.read_bytes()),
        variants=ON_PAPER,
        neutral={"path": "where it is written"},
    ),
    FunctionCase(
        method(Estimates, "summary", lambda: CELLS),
        {},
        np.array,
        variants={"max_rows": [1, "one"], "diagnostics": [True]},
    ),
    FunctionCase(
        method(Estimates, "with_labels", lambda: CELLS), {"labels": {}}, lambda e: e, variants={"labels": [NAMED, 3]}
    ),
]
plt.close("all")
