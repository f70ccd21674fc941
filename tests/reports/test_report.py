from __future__ import annotations

import base64
import hashlib
import html
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pytest
from tests.ecological.margins import counted

from crosslevel import ecological, report
from crosslevel.charts.chart import Chart, Choice, Mark, Panel, Places, Rows
from crosslevel.errors import FileError, InputError
from crosslevel.reports import Report
from crosslevel.reports.page import MAX_CSV, PAGE_VERSION, describe_page
from crosslevel.reports.sections import Section
from crosslevel.results import Estimates, Provenance

GROUPS = {"<b>young</b>": [30, 90, 50], "old & wise": [70, 10, 50]}
VOTES = {"yes": [80, 20, 60], "no": [20, 80, 40]}


@pytest.fixture(scope="module")
def found():
    return ecological.goodman(counted(GROUPS, VOTES))


def test_the_page_holds_every_number_the_level_and_the_warnings(found):
    page = report(found).html()
    assert "95 % intervals" in page
    for value in found["estimate"]:
        assert f"{value:.4f}" in page
    assert found.warnings
    for word in ("HC1", found.provenance.call.split("(")[0], found.provenance.data["counts"]):
        assert word in page


def test_names_from_data_cannot_become_markup(found):
    page = report(found, title="<script>alert(1)</script>").html()
    assert "<script>alert" not in page
    assert "<b>young" not in page
    assert "&lt;b&gt;young&lt;/b&gt;" in page


def test_the_page_asks_nobody_for_anything(found):
    page = report(found).html()
    body = re.sub(r"(?s)<script>.*?</script>", "", page)
    addresses = set(re.findall(r"(?:src|href)=[\"']([^\"'#]{0,25})", body))
    assert {a[:5] for a in addresses if a} == {"data:"}
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1])
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "script-src 'sha256-" in policy


def test_only_the_scripts_of_the_policy_stand_in_the_page(found):
    page = report(found).html()
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1])
    scripts = re.findall(r"(?s)<script>(.*?)</script>", page)
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert len(scripts) == 2
    assert re.findall(r"sha256-([^']+)'", policy) == digests


def test_the_same_result_gives_the_same_bytes(found):
    assert report(found).html() == report(found).html()


def test_the_description_is_json_with_a_version(found):
    told = json.loads(report({"first": found, "second": found}).json())
    assert told["page_version"] == PAGE_VERSION == 2
    assert [s["heading"] for s in told["sections"]] == ["first", "second"]
    assert len(told["sections"][0]["rows"]) == len(found)


def test_it_is_written_whole_or_not_at_all(found, tmp_path):
    made = report(found, tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text() == made.html()
    with pytest.raises(FileError):
        report(found, tmp_path / "no" / "a.html")
    with pytest.raises(InputError):
        report({"x": 3})
    with pytest.raises(InputError):
        report({})


def test_every_warning_is_on_the_page():
    X = {"a": [10, 50, 90, 70], "b": [90, 50, 10, 30]}
    found = ecological.goodman(counted(X, {"y": [0, 50, 100, 75], "n": [100, 50, 0, 25]}))
    page = html.unescape(report(found).html())
    assert found.warnings
    assert all(w in page for w in found.warnings)


def test_the_file_to_save_is_the_whole_table_and_long_tables_say_so():
    n = 501
    groups = {"a": np.arange(1, n + 1), "b": np.arange(n, 0, -1)}
    found = ecological.neighborhood(counted(groups, {"y": np.full(n, 2), "n": np.full(n, n - 1)})).units
    page = report(found, figures={}).html()
    data = base64.b64decode(re.search(r"data:text/csv;base64,([^\"]+)", page)[1])
    table = pv.read_csv(pa.BufferReader(data))
    assert table.num_rows == len(found) == 4 * n
    np.testing.assert_array_equal(table["estimate"], found["estimate"])
    assert "2,004 rows, the first 2,000 shown" in page
    assert re.sub(r"(?s)<script>.*?</script>", "", page).count("<tr>") == 2001


def test_keys_are_names_and_small_numbers_are_not_zero():
    found = ecological.neighborhood(
        counted({"a": [3.0, 1.0], "b": [7.0, 4e6]}, {"y": [5.0, 3.0], "n": [5.0, 4e6 - 2.0]}, units=[2020, 12345])
    )
    page = report(found.units, figures={}).html()
    assert ">2020<" in page
    assert ">12345<" in page
    assert ">7.5e-07<" in page


def test_a_notebook_gets_the_report_without_head_and_policy(found):
    shown = re.sub(r"(?s)<script>.*?</script>", "", report(found)._repr_html_())
    assert shown.startswith('<div class="crosslevel-report">')
    assert "<html" not in shown
    assert "Content-Security-Policy" not in shown
    assert "trust this notebook" in shown


def test_without_the_extra_the_page_is_static_and_says_so(found, monkeypatch):
    monkeypatch.setattr("crosslevel.reports.vega.available", lambda: False)
    made = report(found)
    page = html.unescape(made.html())
    assert "pip install 'crosslevel[report]'" in page
    assert page.count("<svg") == 1
    assert "<script" not in page
    assert "script-src" not in page
    assert made.page["sections"][0]["tables"] == {}


def test_figures_of_the_caller_stand_in_a_block_of_their_own(found):
    page = re.sub(r"(?s)<script>.*?</script>", "", report(found, figures={"drawn by hand": found.plot()}).html())
    assert page.count("<svg") == 1
    assert "The same as pictures" in page


def test_a_long_table_is_written_once_and_saved_by_the_script(by_place):
    found = by_place([f"r{i}" for i in range(1500)])
    made = report(found)
    (section,) = made.page["sections"]
    assert section["csv"] == ""
    assert len(section["rows"]) == 2000
    assert section["n_rows"] == 4500
    assert 'data-save="answer"' in made.html()
    small = report(by_place(["r0", "r1"])).page["sections"][0]
    assert 0 < len(small["csv"]) < MAX_CSV
    # the answer names the columns of the chart's table instead of repeating them
    columns = section["tables"]["answer"]["columns"]
    assert columns["c2"] == {"same": ["cells", "estimate"]}
    assert section["tables"]["answer"]["names"] == found.table.column_names


def test_a_thousand_regions_of_twenty_subgroups_are_under_five_megabytes(by_place):
    from crosslevel.data.simulate import nation

    world = nation(1000, 1, random_state=0)
    found = by_place(world.places["region"].to_pylist(), [f"subgroup {i}" for i in range(20)])
    page = report(found, polygons=world.polygons).html()
    assert len(page.encode()) < 5_000_000


def section(*charts, n=1):
    told = {"method": "m", "level": None, "interval": "none", "provenance": Provenance.of(call="c")}
    columns = {"row": np.arange(n), "estimate": np.random.default_rng(0).normal(size=n)}
    return Section("h", [Estimates.build(columns, keys=["row"], **told)], charts)


def chart(**parts):
    which = Choice("which", "which", [("u", "U"), ("v", "V")])
    given = {
        "panels": [Panel([Mark("dot", "n", "n")])], "tables": {"t": pa.table({"a": ["u", "v"], "n": [1, 2]})},
        "data": {"rows": Rows("t", {"a": "which"})}, "choices": [which],
    }  # fmt: skip
    return Chart("v", "t", "c", **(given | parts))


def test_a_page_without_charts_needs_no_script_and_keeps_its_file():
    made = Report(describe_page([section(n=30_000)], "t"))
    assert "<script" not in made.html()
    assert len(made.page["sections"][0]["csv"]) > MAX_CSV
    assert "1 row " in Report(describe_page([section()], "t")).html().replace("\n", " ")


@pytest.mark.parametrize(
    "parts",
    [
        {"data": {"rows": Rows("nowhere")}},
        {"data": {"rows": Rows("t", {"a": "what"})}},
        {"data": {"rows": Rows("t", columns={"shade": "what"})}},
        {"panels": [Panel([Mark("dot", "a[0].b", "n")])]},
        {"tables": {"t": pa.table({"my column": [1]})}},
        {"data": {"rows": Places("t", "a", {"a": {}})}},
    ],
)
def test_a_section_that_cannot_be_shown_gets_a_sentence(parts):
    with pytest.raises(InputError):
        describe_page([section(chart(**parts))], "t")


def test_a_specification_that_names_an_address_is_refused(monkeypatch):
    monkeypatch.setattr("crosslevel.reports.page.spec_of", lambda *_: {"data": {"url": "x.csv"}})
    with pytest.raises(InputError):
        describe_page([section(chart())], "t")


@pytest.mark.parametrize(
    "given", [lambda e: [e], lambda e: [("a", e), ("a", e)], lambda e: {1: e, "1": e}, lambda e: object()]
)
def test_what_is_no_result_is_refused(found, given):
    with pytest.raises(InputError):
        report(given(found))
