from __future__ import annotations

import html

import numpy as np
from tests.ecological.margins import counted

from crosslevel import ecological, report
from crosslevel.reports.report import LONGEST, pictures
from crosslevel.results import Estimates, Provenance


def polygons(n, **properties):
    def ring(x):
        return [[[x, 0], [x + 1, 0], [x + 1, 1], [x, 0]]]

    return {
        "features": [
            {
                "properties": {"region": f"r{i}", **{k: v[i] for k, v in properties.items()}},
                "geometry": {"type": "Polygon", "coordinates": ring(i)},
            }
            for i in range(n)
        ]
    }


def estimates(n, sexes=(1, 2), **options):
    columns = {
        "region": np.repeat([f"r{i}" for i in range(n)], len(sexes)),
        "sex": np.array(list(sexes) * n, dtype=object),
        "estimate": np.linspace(0.2, 0.8, n * len(sexes)),
        "bound_low": np.zeros(n * len(sexes)),
        "bound_high": np.ones(n * len(sexes)),
    }
    return Estimates.build(
        columns,
        keys=["region", "sex"],
        method="m",
        level=None,
        interval="none",
        provenance=Provenance.of(call="c"),
        **options,
    )


def test_a_row_per_estimate_with_its_bounds_and_a_map_of_the_first_subgroup():
    drawn = pictures({"votes": estimates(3)}, polygons(3))
    assert list(drawn) == ["votes: the estimate by region for sex 1", "votes"]
    np.testing.assert_allclose(next(iter(drawn.values())).collections[0].get_array(), [0.2, 0.44, 0.68])
    assert len(drawn["votes"].patches) == 6


def test_a_long_result_is_mapped_and_not_drawn_row_by_row():
    long = estimates(LONGEST)
    assert list(pictures({"votes": long}, polygons(LONGEST))) == ["votes: the estimate by region for sex 1"]
    (drawn,) = pictures({"votes": long}).values()
    assert len(drawn.get_yticks()) == LONGEST
    low, high = (pictures({"votes": estimates(n)})["votes"].figure.get_size_inches()[1] for n in (3, 20))
    assert high > 2 * low


def test_a_comparison_is_drawn_method_by_method():
    people, votes = {"a": [30, 90, 50], "b": [70, 10, 50]}, {"y": [80, 20, 60], "n": [20, 80, 40]}
    found = ecological.compare(counted(people, votes), ["goodman", "rxc_em"])
    (ax,) = pictures({"all": found}).values()
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["possible at all (bounds)", "goodman", "rxc_em"]


def test_roll_ups_are_mapped_by_the_property_they_share_with_the_map():
    est = Estimates.build(
        {"state": ["x", "y"], "estimate": [0.1, 0.9]}, keys=["state"], method="m", level=None, interval="none",
        provenance=Provenance.of(call="c"),
    )  # fmt: skip
    drawn = pictures({"by state": est}, polygons(3, state=["x", "x", "y"]))
    assert "by state: the estimate by state" in drawn


def test_a_static_report_with_a_map(monkeypatch):
    monkeypatch.setattr("crosslevel.reports.vega.available", lambda: False)
    page = html.unescape(report({"votes": estimates(3)}, polygons=polygons(3)).html())
    assert page.count("<svg") == 2
    assert "votes: the estimate by region for sex 1" in page
