"""Is every kind of table described once, and drawn by both backends from that description?"""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from tests import built

from crosslevel.charts.chart import Map, Mark, Panel, Rows, field_rows
from crosslevel.charts.kinds import KINDS, charts_of
from crosslevel.charts.matplotlib import _FORMS, draw
from crosslevel.reports.shapes import read_points
from crosslevel.reports.vega import _MARKS, spec_of

PLACES = ("north", "south", "west")
SHAPES = read_points({"north": (0.0, 1.0), "south": (0.0, 0.0), "west": (-1.0, 0.0)})
EVIL = " $<b>'x'.y[0]\"</script>"


def filled(chart, spec):
    """Fill a specification with the rows that the page would give it, each list at its start."""
    spec = copy.deepcopy(spec)
    rows = {}
    for name, source in chart.data.items():
        if not isinstance(source, Rows):
            rows[name] = features(chart, source)
            continue
        found = field_rows(chart, name)
        n = len(next(iter(found.values())))
        rows[name] = [{f: plain(v[i]) for f, v in found.items()} for i in range(n)]
    spec["datasets"] = rows
    if spec.get("width") == "container":
        spec["width"] = 500
    return json.dumps(spec, allow_nan=False)


def features(chart, source):
    now = {c.name: c.options[c.start][0] for c in chart.choices}
    table = chart.tables[source.table].to_pylist()
    out = []
    for i, place in enumerate(PLACES):
        sides = {}
        for side, where in source.sides.items():
            own = [
                r for r in table if r[source.place] == place and all(r[c] == now.get(b, r[c]) for c, b in where.items())
            ]
            sides[side] = own[0] | {f: own[0][now[c]] for f, c in source.columns.items()}
        ring = [[i, 0], [i, 1], [i + 1, 1], [i + 1, 0], [i, 0]]
        geometry = {"type": "Polygon", "coordinates": [ring]}
        out.append(
            {"type": "Feature", "properties": {"place": place, "difference": 0.1, **sides}, "geometry": geometry}
        )
    return out


def expressions(part):
    """Walk a Vega specification for the texts that Vega reads as code."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key in ("signal", "expr", "update", "init", "test") and isinstance(value, str):
                yield value
            else:
                yield from expressions(value)
    elif isinstance(part, list):
        for value in part:
            yield from expressions(value)


def plain(value):
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value


@pytest.mark.parametrize("evil", ["", EVIL])
@pytest.mark.parametrize("name", built.KINDS)
def test_every_kind_is_drawn_by_both_backends(name, evil):
    import vl_convert

    estimates = built.KINDS[name](evil)
    charts = charts_of(estimates, SHAPES)
    assert charts
    names = [c.name for c in charts]
    assert len(set(names)) == len(names)
    for chart in charts:
        assert chart.title
        assert chart.caption[-1] in "."
        for table in chart.tables.values():
            assert all(n.isidentifier() for n in table.column_names)
        view = spec_of(chart, SHAPES)
        svg = vl_convert.vegalite_to_svg(filled(chart, view))
        spec = {k: v for k, v in json.loads(filled(chart, view)).items() if k != "datasets"}
        for code in expressions(vl_convert.vegalite_to_vega(json.dumps(spec))):
            assert "</script>" not in code, chart.name  # a user's words are never part of an expression
        for word in ("NaN", "undefined"):
            assert word not in svg, (chart.name, word)
        assert svg.count("<path") > 2
        if isinstance(chart.panels[0], Panel):
            ax = draw(chart)
            ax.figure.canvas.draw()
            drawn = len(ax.lines) + len(ax.collections) + len(ax.patches) + len(ax.images)
            assert drawn >= len({m.form for m in chart.panels[0].marks} - {"text", "trend"})


def test_the_backends_know_the_same_forms_of_marks():
    assert set(_FORMS) == set(_MARKS)
    said = Mark.__doc__.split("}")[0]
    assert all(f'"{form}"' in said for form in _FORMS)


def test_every_kind_has_a_table_here():
    assert {f().kind for f in built.KINDS.values()} == {*KINDS, "estimates"}


def test_the_level_stands_in_the_caption_of_every_chart_with_intervals():
    for make in built.KINDS.values():
        estimates = make()
        for chart in charts_of(estimates):
            marks = [m for p in chart.panels if isinstance(p, Panel) for m in p.marks]
            own = [
                m for m in marks if (m.form == "interval" and str(m.x).endswith("conf_low")) or str(m.y) == "conf_low"
            ]
            if own and estimates.kind not in ("coverage", "classes"):
                assert "95 %" in chart.caption, (estimates.kind, chart.name)


def test_both_backends_draw_the_same_numbers():
    estimates = built.subgroups()
    (chart,) = charts_of(estimates)
    rows = json.loads(filled(chart, spec_of(chart)))["datasets"]["rows"]
    ax = draw(chart)
    dots = next(x for x in ax.lines if x.get_label() == "estimate")
    np.testing.assert_array_equal(dots.get_xdata(), [r["estimate"] for r in rows])
    np.testing.assert_array_equal(sorted(dots.get_xdata()), sorted(estimates["estimate"]))
    ticks = [t.get_text() for t in ax.get_yticklabels()]
    assert ticks[0] == rows[int(np.argmax(dots.get_xdata()))]["label"]  # the largest first


def test_effects_at_rows_are_the_tables_numbers():
    estimates = built.at_rows()
    scatter, spread = charts_of(estimates)
    rows = field_rows(scatter, "rows")
    np.testing.assert_array_equal(rows["effect"], estimates.select(term="age")["estimate"])
    np.testing.assert_array_equal(rows["effect2"], estimates.select(term="income")["estimate"])
    np.testing.assert_array_equal(rows["x"], estimates.select(term="age")["age"])
    assert dict(scatter.choices[-1].options) == {"c0": "fitted outcome, in fifths", "c1": "factor"}
    assert "a random 120 of 600 rows" in scatter.caption
    first = [v for v in field_rows(spread, "rows")["mean"] if np.isfinite(v)]
    own = estimates.select(term="age")["estimate"]
    assert first[0] == pytest.approx(float(own.mean() / np.abs(own).max()))


def test_maps_of_the_mean_and_its_standard_error():
    pair, ranked = charts_of(built.areas(), SHAPES)
    assert [p.title for p in pair.panels] == ["mean", "standard deviation"]
    assert all(isinstance(p, Map) for p in pair.panels)
    assert ranked.name == "ranked"
    assert [c.name for c in charts_of(built.areas())] == ["ranked"]


def test_open_bins_are_named_in_words():
    (chart,) = charts_of(built.bins())
    assert field_rows(chart, "rows")["label"].tolist() == ["0 to under 10", "10 to under 40", "40 and over"]


def test_labels_that_are_not_known_are_ranked():
    (chart,) = charts_of(built.labels(truth=False))
    assert (chart.name, chart.title) == ("ranked", "Predicted labels")
    (chart,) = charts_of(built.classes(truth=False))
    assert [c.label for c in chart.choices][:1] == ["class"]
