"""The examples of the guide say what they print."""

from __future__ import annotations

import doctest
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "binned.md"


def test_the_examples_of_the_guide():
    found = doctest.testfile(str(GUIDE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted >= 7
    assert found.failed == 0
