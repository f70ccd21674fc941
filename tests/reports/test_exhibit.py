"""The exhibit: what stands where, in every format, whatever names are in the data."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.ecological.margins import counted

from crosslevel import Counts, ecological, report
from crosslevel.ecological.court.rpv import NAMED
from crosslevel.errors import InputError
from crosslevel.reports.document import Facts, Figure, Heading, Items, Text
from crosslevel.reports.methods import describe_method, references_of
from crosslevel.results.wide import Wide, printable

CANDIDATES = ('<b>O\'Brien & "Sons"</b>', r"100% A_B \input{x} [2cm]")
EVIL = "a\u202eשלום <script>alert(1)</script> {{7*7}} %_#$&~^\\"


def precincts(n=40, seed=5):
    """Precincts with two groups and two contests, one name of each kind hostile."""
    rng = np.random.default_rng(seed)
    people = rng.integers(200, 900, n)
    share = np.linspace(0.03, 0.97, n)
    black = np.rint(people * share).astype(int)
    frame = {"unit": [f"u{i}" for i in range(n)], "Black": black, "white": people - black}
    for contest, (own, other) in {"a": (0.9, 0.2), "b": (0.8, 0.3)}.items():
        voters = np.rint(0.5 * people).astype(int)
        first = np.rint(voters * (own * share + other * (1 - share))).astype(int)
        frame |= {f"{contest}1": first, f"{contest}2": voters - first}
    return frame


@pytest.fixture(scope="module")
def study():
    contests = {
        "Mayor": {CANDIDATES[0]: "a1", CANDIDATES[1]: "a2"},
        EVIL: {"Smith": "b1", "Jones": "b2"},
    }
    counts = Counts(precincts(), unit="unit", groups=["white", "Black"])
    return ecological.rpv(counts, contests, methods=["homogeneous", "goodman", "rxc"], reference="white")


@pytest.fixture(scope="module")
def exhibit(study):
    return report(study, template="exhibit", title=f"A case {EVIL}")


def words_of(path):
    import docx

    document = docx.Document(path)
    return [p.text for p in document.paragraphs] + [
        c.text for t in document.tables for row in t.rows for c in row.cells
    ]


def test_findings_are_on_top_and_every_part_is_there(study, exhibit):
    blocks = exhibit.document.blocks
    heads = [b.text for b in blocks if isinstance(b, Heading) and b.level == 2]
    rest = ["Data", "Methods", "Assumptions and what was checked", "References", "Appendix"]
    assert heads == ["Findings", "All contests", *study.contests, *rest]
    assert isinstance(blocks[1], Items)
    assert blocks[1].start == 1
    assert list(blocks[1].items) == list(study.sentences())
    assert blocks[2].text == study.lead_reason
    figures = [b for b in blocks if isinstance(b, Figure)]
    assert len(figures) == 1 + len(study.contests)
    tables = [b for b in blocks if isinstance(b, Wide)]
    assert all(len(row) == len(t.head) for t in tables for row in t.rows)
    assert max(len(t.rows) for t in tables) <= 12
    mine = next(t for t in tables if t.caption.startswith("Mayor: share"))
    shown = study.contests["Mayor"].voters["rxc"].select(group="Black", outcome=CANDIDATES[0])
    row = next(r for r in mine.rows if r[0][0] == "Black")
    assert row[1][0] == f"{100 * shown['estimate'][0]:.1f}"
    assert row[1][1] == f"{100 * shown['conf_low'][0]:.1f} to {100 * shown['conf_high'][0]:.1f}"


def test_data_methods_and_checks_come_from_the_study(study, exhibit):
    text = " ".join(b.text for b in exhibit.document.blocks if isinstance(b, Text))
    assert "contextual slope of 0.4 ± 0.2" in text
    assert "Goodman's ecological regression" in text
    assert "crosslevel 0." in text
    assert "numpy" in text
    items = [i for b in exhibit.document.blocks if isinstance(b, Items) for i in b.items]
    assert all(note in items for note in study.data_notes)
    assert any("Goodman (1953)" in i for i in items)
    checks = next(
        b for b in exhibit.document.blocks if isinstance(b, Wide) and b.caption.startswith("What was checked")
    )
    p = study.contests["Mayor"].answers["rxc"].diagnostics["car_test_p"]
    assert checks.rows[0][5][0] == f"{p:.3g}"
    facts = dict(b for block in exhibit.document.blocks if isinstance(block, Facts) for b in block.rows)
    assert facts["random_state"] == "0"
    assert f"Fingerprint of the counts read: {study.provenance.data['counts']}." in items


def test_districts_are_a_question_of_their_own(study, tmp_path):
    units = list(study.contests["Mayor"].tables.units)
    found = study.performance({"1": units[:20], "2": units[20:]}, "Black")
    made = report([study, ("Proposed districts", found)], template="exhibit", bundle=tmp_path / "s")
    table = next(b for b in made.document.blocks if isinstance(b, Wide) and b.caption.startswith("Proposed districts"))
    assert table.head == ("contest", "1", "2")
    row = found.select(contest="Mayor", district="2").table.to_pylist()[0]
    assert table.rows[0][2] == (
        f"{row['candidate']} {100 * row['share']:.1f}",
        f"most votes {row['probability_wins']:.2f}",
    )
    assert table.note.endswith(
        "beneath, the probability that the candidate of choice of Black voters received the most."
    )
    said = [i for b in made.document.blocks if isinstance(b, Items) for i in b.items]
    assert found.diagnostics["findings"][0] in said
    assert (tmp_path / "s" / "results" / "districts-01-Proposed-districts.json").is_file()
    assert (tmp_path / "s" / "results" / "summary.json").is_file()


def test_the_share_of_a_named_candidate_is_its_own(study):
    units = list(study.contests["Mayor"].tables.units)
    found = study.performance({"1": units}, "Black")
    names = found.table.column_names
    other = found.table.set_column(names.index("estimate"), "estimate", pa.array([0.123] * len(found)))
    made = report([study, ("Districts", replace(found, table=other))], template="exhibit")
    table = next(b for b in made.document.blocks if isinstance(b, Wide) and b.caption.startswith("Districts"))
    assert [row[1][0] for row in table.rows] == [
        f"{r['candidate']} {100 * r['share']:.1f}" for r in found.table.to_pylist()
    ]


def test_support_outside_zero_to_one_is_an_arrow():
    frame = precincts()
    people = frame["Black"] + frame["white"]
    frame["a1"] = np.rint(np.clip(1.3 * frame["Black"] / people - 0.15, 0, 1) * people).astype(int)
    frame["a2"] = people - frame["a1"]
    counts = Counts(frame, unit="unit", groups=["white", "Black"])
    found = ecological.rpv(counts, {"Mayor": ["a1", "a2"]}, methods=["goodman"], reference="white")
    assert found.contests["Mayor"].voters["goodman"].select(outcome="a1")["estimate"].max() > 1
    figure = next(b for b in report(found, template="exhibit").document.blocks if isinstance(b, Figure))
    marks = figure.chart.panels[0].marks
    assert {"shown", "above"} <= {m.x for m in marks}
    assert "bar" not in {m.form for m in marks}
    assert "arrows are estimates outside 0 to 1" in figure.caption


def test_with_many_contests_their_findings_stand_in_their_sections(study, monkeypatch):
    monkeypatch.setattr("crosslevel.reports.exhibit.ON_TOP", 1)
    numbered = [b for b in report(study, template="exhibit").document.blocks if isinstance(b, Items) and b.start]
    assert [b.start for b in numbered] == [1, 2, 3]
    assert [i for b in numbered for i in b.items] == list(study.sentences())


def test_hostile_names_are_text_in_every_format(exhibit, tmp_path):
    page = exhibit.html()
    body = re.sub(r"<svg.*?</svg>", "", page, flags=re.S)
    assert "<script" not in page
    assert "<b>O'Brien" not in page
    assert "&lt;b&gt;" in body
    assert "{{7*7}}" in page
    assert "\u202e" not in page
    assert "hover" not in page.casefold().replace(":hover", "")
    exhibit.to_docx(tmp_path / "e.docx")
    said = words_of(tmp_path / "e.docx")
    assert any(printable(EVIL) in s for s in said)
    assert any(CANDIDATES[0] in s for s in said)
    json.loads(exhibit.json())


def test_an_exhibit_made_twice_is_the_same_files(study, tmp_path):
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        made = report(study, folder / "e.html", template="exhibit")
        made.to_docx(folder / "e.docx")
    files = sorted(p.name for p in (tmp_path / "a").iterdir())
    assert files == ["e.docx", "e.html"]
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_what_has_no_place_in_an_exhibit_is_refused(study):
    with pytest.raises(InputError, match="template="):
        report(study, template="poster")
    for name in ("labels", "figures", "polygons", "coords"):
        with pytest.raises(InputError):
            report(study, template="exhibit", **{name: {}})
    for other in (study.summary, {"Summary": study.summary}, [study, ("Summary", study.summary)], [study, study], []):
        with pytest.raises(InputError):
            report(other, template="exhibit")


def test_warnings_are_those_of_the_tables_shown_with_their_contest(study):
    name, contest = list(study.contests.items())[1]
    told = contest.voters["goodman"]
    told = replace(told, warnings=("Few voters.",), diagnostics={**told.diagnostics, "converged": False})
    changed = replace(
        study, contests={**study.contests, name: replace(contest, voters={**contest.voters, "goodman": told})}
    )
    units = list(contest.tables.units)
    districts = replace(study.performance({"1": units}, "Black"), warnings=("A unit is not counted.",))
    blocks = report([changed, ("Districts", districts)], template="exhibit").document.blocks
    items = [i for b in blocks if isinstance(b, Items) for i in b.items]
    assert f"{name}: goodman: Few voters." in items
    assert f"{name}: goodman: the search did not converge." in items
    assert "Districts: A unit is not counted." in items
    assert any("did not converge everywhere" in b.text for b in blocks if isinstance(b, Text))


def test_every_method_is_described_as_itself(study):
    people, votes = {"a": [10, 40, 70, 90], "b": [90, 60, 30, 10]}, {"x": [24, 37, 47, 56], "y": [76, 63, 53, 44]}
    free, held = (ecological.goodman(counted(people, votes), bounded=b) for b in (False, True))
    assert "may leave the range" in describe_method("goodman", free)
    assert "may leave the range" not in describe_method("goodman", held)
    found = study.contests["Mayor"].voters["rxc"]
    for name in NAMED:
        assert "–" not in describe_method(
            name, found if name == "rxc" else replace(free, diagnostics={**free.diagnostics, "threshold": 0.9})
        )
        assert set(references_of([name])) >= set(references_of([]))
