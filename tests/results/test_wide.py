"""Wide tables, words for codes, LaTeX and Word."""

from __future__ import annotations

import shutil
import subprocess
import zipfile

import numpy as np
import pytest
from tests.ecological.margins import counted

from crosslevel import ecological
from crosslevel.errors import InputError
from crosslevel.results import Estimates, Provenance
from crosslevel.results.wide import MOST_ACROSS, latex_words, printable

HOSTILE = [
    '<b>O\'Brien & "Sons"</b>',
    "100% of A_B #1 $x^2~",
    r"\input{/etc/passwd}\\[9cm]",
    "[2cm] * {a}",
    "שלום عربي",
    "a\u202eb\u2066c\x00\x1bd\ne",
    "a|b `c' --d <!-- ]]> {{7*7}}",
]


def table(outcomes, groups=("a", "b"), **options):
    n = len(outcomes) * len(groups)
    x = np.linspace(0.1, 0.9, n)
    columns = {
        "group": np.repeat(np.array(groups, dtype=object), len(outcomes)),
        "outcome": np.tile(np.array(outcomes, dtype=object), len(groups)),
        "estimate": x,
        "conf_low": x - 0.05,
        "conf_high": x + 0.05,
    }
    told = {
        "kind": "cells",
        "method": "example",
        "level": 0.9,
        "interval": "wald",
        "provenance": Provenance.of(call="c"),
    } | options
    return Estimates.build(columns, keys=["group", "outcome"], **told)


def words_of(path):
    """Every paragraph and cell of a Word file."""
    import docx

    document = docx.Document(path)
    cells = [c.text for t in document.tables for row in t.rows for c in row.cells]
    return [p.text for p in document.paragraphs] + cells


def test_pivot_is_groups_by_candidates_with_gaps():
    est = table(["x", "y"])
    assert est.pivot().to_pylist() == [
        {"group": "a", "x": est["estimate"][0], "y": est["estimate"][1]},
        {"group": "b", "x": est["estimate"][2], "y": est["estimate"][3]},
    ]
    assert est.pivot("group", values="conf_low").column_names == ["outcome", "a", "b"]
    part = Estimates.build(
        {"g": [1, 1, 2], "o": ["x", "y", "x"], "estimate": [1.0, 2.0, 3.0]}, keys=["g", "o"], method="m", level=None,
        interval="none", provenance=Provenance.of(call="c"), frame="pandas",
    )  # fmt: skip
    wide = part.pivot()
    assert type(wide).__module__.startswith("pandas")
    assert wide["g"].tolist() == [1, 2]
    assert np.isnan(wide["y"][1])


def test_codes_become_words_here_and_in_units():
    unit = Estimates.build(
        {"place": ["p", "p"], "eth5": [1, 2], "estimate": [0.1, 0.2]}, keys=["place", "eth5"], method="m", level=None,
        interval="none", provenance=Provenance.of(call="c"),
    )  # fmt: skip
    est = Estimates.build(
        {"eth5": [1, 2, 3], "estimate": [0.1, 0.2, 0.3]}, keys=["eth5"], method="m", level=None, interval="none",
        provenance=Provenance.of(call="c"), units=unit, kind="cells",
    )  # fmt: skip
    for labels in ({"eth5": {1: "white", 2: "Black"}}, {"eth5": {"1": "white", "2": "Black"}}):
        named = est.with_labels(labels)
        assert named["eth5"].tolist() == ["white", "Black", "3"]
        assert named.units["eth5"].tolist() == ["white", "Black"]
        assert np.array_equal(named["estimate"], est["estimate"])
    assert "white" in [t.get_text() for t in est.plot(labels={"eth5": {1: "white"}}).get_yticklabels()]
    assert "white & 10.0" in est.to_latex(labels={"eth5": {1: "white"}})
    assert est["eth5"].tolist() == [1, 2, 3]
    with pytest.raises(InputError, match="labels="):
        est.with_labels({"eth6": {1: "white"}})
    with pytest.raises(InputError):
        est.with_labels({"eth5": {1: "white", 2: "white"}})
    with pytest.raises(InputError):
        est.with_labels({"eth5": ["white"]})
    with pytest.raises(InputError):
        est.with_labels({"eth5": {1: "3"}})
    with pytest.raises(InputError):
        est.with_labels({"eth5": {1: "white", 9: "other"}})
    assert est.with_labels({"eth5": {1.0: "white"}})["eth5"].tolist() == ["white", "2", "3"]
    with pytest.raises(InputError):
        est.with_labels({"estimate": {1: "white"}})


def test_one_line_of_diagnostics_and_the_rest_on_request(build):
    many = {f"measure_{i}": i + 0.5 for i in range(20)} | {"converged": True, "by_method": {"king": {"r": 1}}}
    est = build(diagnostics=many)
    lines = [line for line in est.summary().splitlines() if "measure_" in line or "converged" in line]
    assert len(lines) == 1
    assert len(lines[0]) < 120
    assert lines[0].startswith("Diagnostics: converged yes, measure_0 0.5")
    assert lines[0].endswith("18 more in .diagnostics")
    every = est.summary(diagnostics=True).splitlines()
    assert "measure_19: 19.5" in every
    assert "by_method: king r 1" in every
    assert "<details>" in est._repr_html_()


def test_midpoints_of_bounds_are_not_shown():
    found = ecological.bounds(counted({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]}))
    assert found["estimate"][0] == pytest.approx(0.2917, abs=1e-4)
    head = found.summary().split("\n\n")[1].splitlines()[0].split()
    assert head[:2] == ["group", "outcome"]
    assert not {"estimate", "count"} & set(head)
    assert "16.7 to 41.7" in found.to_latex()
    assert "29.2" not in found.to_latex()


def test_midpoints_do_not_come_back_under_another_name():
    people, votes = {"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]}
    side = ecological.compare(counted(people, votes), methods=["bounds", "neighborhood"])
    named = side.with_labels({"method": {"bounds": "Duncan and Davis"}})
    assert np.isnan(named.select(method="Duncan and Davis")["estimate"]).all()
    assert np.array_equal(
        named.select(method="neighborhood")["estimate"], side.select(method="neighborhood")["estimate"]
    )


def test_a_candidate_stands_before_the_support(tmp_path):
    est = table(["x", "y"])
    named = Estimates.build({**{n: est[n] for n in est.table.column_names}, "candidate": ["Ames", "Brown", None, "Ames"]}, keys=est.keys,
                            method="m", level=0.9, interval="wald", provenance=Provenance.of(call="c"), kind="cells")  # fmt: skip
    text = named.to_latex()
    assert "a & Ames 10.0 & Brown 36.7" in text
    assert "b & -- 63.3 & Ames 90.0" in text
    named.to_docx(tmp_path / "t.docx")
    assert "Ames 10.0\n5.0 to 15.0" in words_of(tmp_path / "t.docx")


def test_shares_outside_zero_to_one_are_written_as_they_are():
    people = {"a": [90, 10, 50], "b": [10, 90, 50]}
    votes = {"yes": [95, 1, 60], "no": [5, 99, 40]}
    assert "-" in ecological.goodman(counted(people, votes)).to_latex()


def test_effects_and_differences_are_never_percent():
    for kind in ("effects", "pointwise_effects", "contrast", "estimates", "margins"):
        text = table(["x", "y"], kind=kind).to_latex()
        assert "Percent" not in text, kind
        assert "Estimates, with the 90" in text, kind
    for options in ({"kind": "places"}, {"kind": "margins", "title": "Share of each group that voted"}):
        assert "Percent, with the 90" in table(["x", "y"], **options).to_latex()
    people, votes = {"a": [60, 20, 40], "b": [40, 80, 60]}, {"x": [70, 30, 50], "y": [30, 70, 50]}
    apart = ecological.polarization(ecological.bounds(counted(people, votes)), ("a", "b"))
    assert "Percent" not in apart.to_latex()


def test_a_wide_table_continues():
    est = table([f"c{i}" for i in range(MOST_ACROSS + 2)])
    text = est.to_latex(caption="Votes")
    assert text.count(r"\begin{tabular}") == 2
    assert "Votes (continued)" in text
    assert r"\begin{tabular}{l" + "r" * MOST_ACROSS + "}" in text


def test_hostile_words_are_printed_and_never_obeyed(tmp_path):
    est = table(HOSTILE, title=" ".join(HOSTILE))
    text = est.to_latex(tmp_path / "t.tex")
    assert (tmp_path / "t.tex").read_text(encoding="utf-8") == text
    body = text.replace(r"\input", "")
    for word in (r"\input{", "<", ">", "\u202e", "\u2066", "\x00", "--d", r"\\[", "\\\\*"):
        assert word not in body.replace(r"\textbackslash{}input", ""), word
    assert r"100\% of A\_B \#1 \$x\textasciicircum{}2\textasciitilde{}" in text
    assert "שלום عربي" in text
    for columns, key in ((None, "outcome"), ("group", "group")):
        est.to_docx(tmp_path / "t.docx", columns=columns)
        said = words_of(tmp_path / "t.docx")
        if key == "outcome":
            assert [printable(w) for w in HOSTILE if printable(w) in said] == [printable(w) for w in HOSTILE]
    with zipfile.ZipFile(tmp_path / "t.docx") as made:
        assert b"<b>O" not in made.read("word/document.xml")


def test_a_word_file_made_twice_is_the_same_file(tmp_path):
    for name in ("a", "b"):
        table(["x", "y"]).to_docx(tmp_path / f"{name}.docx", labels={"group": {"a": "Asian"}}, caption="Votes")
    assert (tmp_path / "a.docx").read_bytes() == (tmp_path / "b.docx").read_bytes()
    said = words_of(tmp_path / "a.docx")
    assert {"Votes", "Asian", "10.0\n5.0 to 15.0", "x"} <= set(said)
    assert "Percent, with the 90 % interval beneath." in said


@pytest.mark.parametrize("sign", list("\\{}#$%&_~^<>|\"[]*-`'"))
def test_every_sign_of_latex_is_escaped(sign):
    said = latex_words(sign)
    assert said != sign
    assert latex_words(f"a{sign}b") == f"a{said}b"


def has_latex():
    if shutil.which("pdflatex") is None or shutil.which("kpsewhich") is None:
        return False
    return bool(subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True, timeout=300).stdout.strip())


@pytest.mark.slow  # what a LaTeX of some machine lacks is not ours
def test_latex_takes_it(tmp_path):
    if not has_latex():
        pytest.skip("needs pdflatex with booktabs")
    plain = [w for w in HOSTILE if w.isascii() or "\u202e" in w]
    text = table(plain, title=" ".join(plain)).to_latex()
    page = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n" + text + "\\end{document}\n"
    (tmp_path / "t.tex").write_text(page, encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"],
        cwd=tmp_path,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize(
    ("groups", "options"),
    [
        (["x", "y"], {"columns": "party"}),
        (["x", "y"], {"values": "votes"}),
        (["group", "y"], {}),
    ],
)
def test_pivot_refuses_what_it_cannot_do(groups, options):
    with pytest.raises(InputError):
        table(groups).pivot(**options)
