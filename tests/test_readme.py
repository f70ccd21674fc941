"""Every example of the README, pasted into a file, prints what the README shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import crosslevel

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", TEXT, re.M | re.S)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def test_there_are_five_examples_of_about_ten_lines_and_each_has_its_output():
    assert len(EXAMPLES) == TEXT.count("```python") == 5
    assert all(len(code.strip().splitlines()) <= 13 for code, _ in EXAMPLES)


@pytest.mark.parametrize("example", range(5))
def test_an_example_pasted_into_a_file_prints_what_the_readme_shows(example, tmp_path):
    code, shown = EXAMPLES[example]
    (tmp_path / "example.py").write_text(code)
    done = subprocess.run([sys.executable, "-W", "ignore", "example.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert NUMBER.split(done.stdout) == NUMBER.split(shown)
    for printed, written in zip(NUMBER.findall(done.stdout), NUMBER.findall(shown), strict=True):
        unit = 10.0 ** -len(written.partition(".")[2])  # another processor rounds a last digit otherwise
        assert float(printed) == pytest.approx(float(written), abs=1.001 * unit, rel=0.005)
    if example == 0:
        assert (tmp_path / "report.html").stat().st_size > 10_000
        assert isinstance(crosslevel.load(tmp_path / "model.crosslevel"), crosslevel.EcologicalInference)


def test_every_link_of_the_readme_leads_to_a_file():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", TEXT)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
