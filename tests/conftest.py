"""Shared by all tests: where the real data lies, and no silent skips in CI."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import hypothesis
import matplotlib
import pytest

matplotlib.use("Agg")

# what a terminal is said to be like: output is compared as a file gets it
for name in ("FORCE_COLOR", "PY_COLORS", "CLICOLOR_FORCE", "GITHUB_ACTIONS", "TTY_COMPATIBLE", "COLUMNS", "LINES"):
    os.environ.pop(name, None)

IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}

# speed is never a test, and every run tries the same examples; fresh ones are drawn by make harden
hypothesis.settings.register_profile(
    "crosslevel", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("crosslevel")


def _missing(reason: str) -> None:
    """Skip on a newcomer's machine, fail in CI."""
    if IN_CI:
        pytest.fail(f"{reason} (a skip here is a failure in CI)")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of the real data sets; tests that use it carry the mark ``data``."""
    folder = os.environ.get("CROSSLEVEL_DATA")
    if not folder or not Path(folder).is_dir():
        _missing("set CROSSLEVEL_DATA to the folder of real data to run this test")
    return Path(str(folder))


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of an installed Chromium; tests that use it carry the mark ``browser``."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        _missing("install Chromium (Debian: apt-get install chromium) to run the browser tests")
    return str(found)
