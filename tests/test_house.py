"""The plan of the house: pages never fit, and the map for engineers shows the walk that a fit really takes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests import house

ROOT = house.ROOT


@pytest.mark.parametrize("folder", ["charts", "reports"])
def test_pictures_and_pages_never_fit(folder):
    called = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in ("fit", "fit_transform", "partial_fit", "learn_confounding", "cross_validate"):
                    called.append(f"{path.relative_to(ROOT)}:{node.lineno} {name}")
    assert called == []


def files_by_walk(text: str) -> list[set[str]]:
    """Read the files of each walk; their order may differ with the threads that a pass takes."""
    return [set(re.findall(r"`([\w/]+\.py)`", line)) for line in text.splitlines() if line]


def test_the_architecture_page_shows_the_walks_that_are_taken():
    said = house.PAGE.read_text().split("<!-- walks -->\n")[1].split("<!-- /walks -->")[0]
    assert len(files_by_walk(said)) == 2
    assert files_by_walk(said) == files_by_walk(house.described(house.walks())), "run: python tests/house.py --write"


def test_every_model_folder_has_a_readme():
    folders = {path.parent for path in ROOT.rglob("estimator.py")} - {ROOT / "embedding"}
    without = sorted(str(f.relative_to(ROOT)) for f in folders if not (f / "README.md").is_file())
    assert without == []


def test_files_that_a_machine_wrote_are_not_in_the_tree():
    assert not [p for p in Path(ROOT).rglob("*") if p.suffix in (".orig", ".rej", ".part")]
