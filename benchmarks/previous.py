"""Install version 0.2 beside the present code, so that a later version is timed and scored against it in one run.

    python benchmarks/previous.py             # makes .cache/0.2, once; prints its interpreter
    .cache/0.2/bin/python -c "import crosslevel; print(crosslevel.__version__)"

The sources come from this repository's own history, the packages are those that version was tested with.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".cache" / "0.2"
COMMIT = "5eb1304"
EXTRAS = "bayes,geo,report"


def interpreter() -> Path:
    """Return the interpreter of the environment of 0.2, which is made on first use."""
    python = FOLDER / "bin" / "python"
    done = FOLDER / "complete"
    if done.exists():
        return python
    archive = subprocess.run(["git", "archive", COMMIT], cwd=ROOT, check=True, capture_output=True)
    venv.create(FOLDER, with_pip=True, clear=True)
    with tempfile.TemporaryDirectory() as sources:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(sources, filter="data")
        install = [str(python), "-m", "pip", "install", "--quiet", "-c", "constraints.txt", f".[{EXTRAS}]", "pandas"]
        subprocess.run(install, cwd=sources, check=True)
    done.touch()
    return python


def main() -> int:
    """Make the environment and print its interpreter."""
    print(interpreter())
    return 0


if __name__ == "__main__":
    sys.exit(main())
