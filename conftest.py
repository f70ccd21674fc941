"""For all tests and the examples of docstrings: machine code of their own, and no figure left open."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parent / ".cache" / "numba"))  # before numba is imported


@pytest.fixture(autouse=True)
def no_open_figures() -> Iterator[None]:
    """Close what was drawn: matplotlib warns of the twenty-first figure."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
