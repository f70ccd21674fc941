from __future__ import annotations

import json
import re

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
