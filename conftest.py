"""Leave no figure open behind a test or the example of a docstring: matplotlib warns of the twenty-first."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_open_figures() -> Iterator[None]:
    """Close what was drawn."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
