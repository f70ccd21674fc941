"""Every benchmark can be read: what it imports from the package exists."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.py")))
def test_a_benchmark_imports_and_has_a_main(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    assert callable(runpy.run_path(str(FOLDER / name), run_name="benchmark")["main"])
