"""A page's charts without a browser: data filled in as the choices say, drawn by Vega-Lite itself."""

from __future__ import annotations

import copy
import json
from types import SimpleNamespace

import pytest

from crosslevel.reports.shapes import read_points
from crosslevel.reports.views import Rows


def chosen_of(section, **chosen):
    return {c.name: c.options[c.start][0] for c in section.choices} | chosen


def rows_of(section, source, **chosen):
    """Give the rows of a chart's data, as the page does."""
    now = chosen_of(section, **chosen)
    table = section.tables[source.table].to_pylist()
    if isinstance(source, Rows):
        kept = [r for r in table if all(r[c] == now[by] for c, by in source.where.items())]
        return [r | {f: r[now[by]] for f, by in source.columns.items()} for r in kept]
    out = []
    for i, place in enumerate(dict.fromkeys(r[source.place] for r in table)):
        sides = {}
        for side, where in source.sides.items():
            own = [r for r in table if r[source.place] == place and all(r[c] == now[b] for c, b in where.items())]
            assert len(own) == 1
            sides[side] = own[0]
        ring = [[i, 0], [i, 1], [i + 1, 1], [i + 1, 0], [i, 0]]
        out.append(
            {
                "type": "Feature",
                "properties": {"place": place, **sides},
                "geometry": {"type": "Polygon", "coordinates": [ring]},
            }
        )
    return out


def filled(section, view, **chosen):
    spec = copy.deepcopy(dict(view.spec))
    spec["datasets"] = {name: rows_of(section, source, **chosen) for name, source in view.data.items()}
    if spec.get("width") == "container":
        spec["width"] = 500
    return json.loads(json.dumps(spec, allow_nan=False))


def draw(section, view, **chosen):
    import vl_convert

    return vl_convert.vegalite_to_svg(json.dumps(filled(section, view, **chosen)))


def check(section):
    """Hold a section to the contract of pages."""
    assert len(section.sentences) == 3
    assert all((s and s[0].isupper()) or s[0] in "'\"0123456789" for s in section.sentences)
    assert section.citation
    names = [v.name for v in section.views]
    assert len(set(names)) == len(names)
    known = {c.name for c in section.choices}
    for view in section.views:
        assert view.name.replace("-", "").isalnum()
        assert set(view.choices) <= known
        for source in view.data.values():
            assert source.table in section.tables
            used = list(source.columns.values())
            used += list(source.where.values()) if isinstance(source, Rows) else []
            assert set(used) <= set(view.choices)
        svg = draw(section, view)
        assert "NaN" not in svg, view.name
        assert "undefined" not in svg, view.name
    for table in section.tables.values():
        assert all(n.isidentifier() for n in table.column_names)
    return section


@pytest.fixture
def page():
    """Functions on sections, and a map of three places."""
    shapes = read_points({"north": (0.0, 1.0), "south": (0.0, 0.0), "west": (-1.0, 0.0)})
    return SimpleNamespace(check=check, draw=draw, rows=rows_of, filled=filled, shapes=shapes)
