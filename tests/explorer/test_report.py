from __future__ import annotations

import base64
import html
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pytest

from crosslevel import ecological, report
from crosslevel.errors import FileError, InputError

GROUPS = {"<b>young</b>": [30, 90, 50], "old & wise": [70, 10, 50]}
VOTES = {"yes": [80, 20, 60], "no": [20, 80, 40]}


@pytest.fixture(scope="module")
def found():
    return ecological.goodman(GROUPS, VOTES)


def test_the_page_holds_every_number_the_level_and_the_warnings(found):
    page = report(found).html()
    assert "95 % intervals" in page
    for value in found["estimate"]:
        assert f"{value:.4f}" in page
    assert found.warnings
    for word in ("HC1", found.provenance.call.split("(")[0], found.provenance.data["groups"]):
        assert word in page


def test_names_from_data_cannot_become_markup(found):
    page = report(found, title="<script>alert(1)</script>").html()
    assert "<script" not in page
    assert "<b>young" not in page
    assert "&lt;b&gt;young&lt;/b&gt;" in page


def test_the_page_asks_nobody_for_anything(found):
    page = report(found).html()
    addresses = set(re.findall(r"(?:src|href)=[\"']([^\"'#]{0,25})", page))
    assert {a[:5] for a in addresses if a} == {"data:"}


def test_the_same_result_gives_the_same_bytes(found):
    assert report(found).html() == report(found).html()


def test_the_description_is_json_with_a_version(found):
    told = json.loads(report({"first": found, "second": found}).json())
    assert told["page_version"] == 1
    assert [s["heading"] for s in told["sections"]] == ["first", "second"]
    assert len(told["sections"][0]["rows"]) == len(found)


def test_it_is_written_whole_or_not_at_all(found, tmp_path):
    made = report(found, tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text() == made.html() == made._repr_html_()
    with pytest.raises(FileError, match="does not exist"):
        report(found, tmp_path / "no" / "a.html")
    with pytest.raises(InputError, match=r"results\['x'\] is a int"):
        report({"x": 3})
    with pytest.raises(InputError, match="results is empty"):
        report({})


def test_every_warning_is_on_the_page():
    X = {"a": [10, 50, 90, 70], "b": [90, 50, 10, 30]}
    found = ecological.goodman(X, {"y": [0, 50, 100, 75], "n": [100, 50, 0, 25]})
    page = html.unescape(report(found).html())
    assert found.warnings
    assert all(w in page for w in found.warnings)


def test_the_file_to_save_is_the_whole_table_and_long_tables_say_so():
    n = 1001
    groups = {"a": np.arange(1, n + 1), "b": np.arange(n, 0, -1)}
    found = ecological.neighbourhood(groups, {"y": np.full(n, 2), "n": np.full(n, n - 1)}).units
    page = report(found, figures={}).html()
    data = base64.b64decode(re.search(r"data:text/csv;base64,([^\"]+)", page)[1])
    table = pv.read_csv(pa.BufferReader(data))
    assert table.num_rows == len(found) == 4 * n
    np.testing.assert_array_equal(table["estimate"], found["estimate"])
    assert "4,004 rows, the first 2,000 shown" in page
    assert page.count("<tr>") == 2001


def test_keys_are_names_and_small_numbers_are_not_zero():
    found = ecological.neighbourhood(
        {"a": [3.0, 1.0], "b": [7.0, 4e6]}, {"y": [5.0, 3.0], "n": [5.0, 4e6 - 2.0]}, units=[2020, 12345]
    )
    page = report(found.units, figures={}).html()
    assert ">2020<" in page
    assert ">12345<" in page
    assert ">7.5e-07<" in page


def test_dollar_signs_are_text():
    found = ecological.bounds({"under $10_k, over $5_": [30, 90], "$_$": [70, 10]}, {"y": [80, 20], "n": [20, 80]})
    page = html.unescape(report(found, title="a $\\x$").html())
    assert "under $10_k, over $5_" in page


def test_odd_results_get_a_sentence(found):
    with pytest.raises(InputError, match="results is a list; pass Estimates"):
        report([found])
