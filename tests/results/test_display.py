from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest

from crosslevel.results import display


def table_of(text):
    """Rows of the text table, without the lines above and below."""
    return text.split("\n\n")[1].splitlines()


def test_summary_is_written_exactly(build):
    columns = {
        "group": ["Māori", "日本", None],
        "estimate": [0.5123, -0.25, np.nan],
        "std_error": [0.0131, 0.02, np.nan],
        "conf_low": [0.4867, -0.29, np.nan],
        "conf_high": [0.538, -0.21, np.nan],
        "votes": [12345, None, 7],
        "ok": [True, False, None],
    }
    units = build()
    est = build(
        columns,
        keys=["group"],
        title="Vote",
        units=units,
        warnings=["few people\nin 1 place"],
        diagnostics={"converged": True, "iterations": 1200, "trace": [1, 2], "gap": 1.23456e-7},
    )
    assert est.summary() == "\n".join(
        [
            "Vote (example)",
            "3 rows by group · 2 rows in .units · 95 % interval: wald",
            "Warning: few people in 1 place",
            "Diagnostics: converged yes, iterations 1,200, gap 1.235e-07",
            "",
            "group  estimate  std_error     95 % interval   votes  ok",
            "Māori     0.512      0.013  [ 0.487,  0.538]  12,345  yes",
            "日本     -0.250      0.020  [-0.290, -0.210]       –  NO",
            "–             –          –                 –       7  –",
        ]
    )


@pytest.mark.parametrize(
    ("level", "words"),
    [(0.95, "95 % interval"), (0.9, "90 % interval"), (0.999, "99.9 % interval"), (1 / 3, "33.33333333 % interval")],
)
def test_the_level_is_in_every_heading(build, level, words):
    est = build(level=level)
    assert words in table_of(est.summary())[0]
    assert words in repr(est)
    assert f">{words}</th>" in est._repr_html_()


@pytest.mark.parametrize(
    ("estimate", "error", "shown"),
    [
        ([1234567.8, 2000000.0], [4567.0, 4000.0], ["1,234,568", "2,000,000"]),
        ([0.000123, 0.0002], [0.00001, 0.00001], ["0.000123", "0.000200"]),
        ([1.5e-9, 2e-9], [1e-10, 1e-10], ["1.5e-09", "2e-09"]),
        ([5e12, 1e12], [None, None], ["5e+12", "1e+12"]),
        ([3e-6, 250.0], [1e-7, 12.0], ["3e-06", "250"]),
        ([-0.00001, 1.0], [0.1, 0.1], ["0.00", "1.00"]),
        ([0.42, 150.0], [0.02, 100.0], ["0.42", "150"]),
        ([0.0, 0.0], [0.0, 0.0], ["0.000", "0.000"]),
    ],
)
def test_digits_suit_the_error(build, estimate, error, shown):
    est = build({"place": ["a", "b"], "estimate": estimate, "std_error": error}, level=None, interval="none")
    assert [line.split()[1] for line in table_of(est.summary())[1:]] == shown


def test_long_tables_and_wide_tables_say_what_is_left_out(build):
    n = 30
    extras = {f"a_rather_long_name_{i}": np.ones(n) for i in range(9)}
    est = build({"place": np.arange(n), "estimate": np.ones(n), **extras})
    text = est.summary(max_rows=4)
    assert "… 26 more rows: summary(max_rows=None)" in text
    assert "Further columns: a_rather_long_name_" in text
    assert max(map(len, table_of(text)[:-2])) <= display.WIDEST
    assert len(table_of(est.summary(max_rows=None))) == 1 + n + 1
    assert est.summary(max_rows=10**30) == est.summary(max_rows=None)
    assert len(table_of(est.summary())) == 1 + 20 + 2


def test_columns_align_on_the_screen_whatever_the_letters(build):
    words = ["a", "日本語", "e\u0301", "x y"]
    est = build({"place": words, "estimate": [1.0, 22.0, -3.0, None]}, level=None, interval="none")
    wide = {"日": 2, "本": 2, "語": 2, "\u0301": 0}
    lines = table_of(est.summary())
    assert {sum(wide.get(c, 1) for c in line) for line in lines} == {len(lines[0])}
    assert [line.split("  ")[0].strip() for line in lines] == ["place", *words]


def test_control_characters_stay_out(rich):
    assert not any(ord(c) < 32 and c != "\n" for c in rich.summary())


def test_repr_is_one_line_and_names_the_next_step(rich):
    assert "\n" not in repr(rich)
    assert repr(rich) == str(rich)
    for words in ("4 rows by group, code", "1 warning", ".summary()", ".to_frame()", ".plot()"):
        assert words in repr(rich)


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_html_is_escaped_and_whole(build):
    evil = "<script>alert('x')</script>"
    est = build(
        {"place": [evil, "b"], "estimate": [1, 2], evil: ["a", evil]}, title=evil, warnings=[evil], method="<b>"
    )
    page = Cells()
    page.feed(est._repr_html_())
    assert set(page.tags) == {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert page.tags.count("td") == 2 * page.tags.count("th")
    assert page.texts.count(evil) >= 3
