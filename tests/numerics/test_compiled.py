"""Does a kernel run what its source says, also when only a kernel that it calls has changed?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest

from crosslevel.numerics import compiled

CALLEE = """
from crosslevel.numerics.compiled import njit
from crosslevel.numerics.constants import FACTOR

@njit(nogil=True)
def inner(x):
    return FACTOR * x
"""
CALLER = """
from crosslevel.numerics.callee import inner
from crosslevel.numerics.compiled import njit

@njit(nogil=True)
def outer(x):
    return inner(x) + 1
"""
ASK = """
import numba
from crosslevel.numerics.caller import outer
print(outer(5), bool(numba.config.CACHE_DIR), sum(outer.stats.cache_hits.values()))
"""


@pytest.fixture
def package(tmp_path):
    """A copy of what the kernels need, with a kernel that calls another."""
    root = tmp_path / "src" / "crosslevel"
    (root / "numerics").mkdir(parents=True)
    for name in ("__init__.py", "__init__.pyi", "lazy.py", "numerics/__init__.py", "numerics/compiled.py", "errors.py"):
        shutil.copy(compiled.PACKAGE / name, root / name)
    (root / "numerics" / "constants.py").write_text("FACTOR = 2\n")
    (root / "numerics" / "callee.py").write_text(CALLEE)
    (root / "numerics" / "caller.py").write_text(CALLER)
    return root


def ask(package, **environment):
    said = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    said |= {"PYTHONPATH": str(package.parent), **environment}
    done = subprocess.run([sys.executable, "-c", ASK], env=said, capture_output=True, text=True, check=True)
    answer, set_by_us, hits = done.stdout.split()
    return int(answer), set_by_us == "True", int(hits)


def folders(base):
    return sorted(base.glob(f"{compiled.PREFIX}*"))


def test_a_changed_callee_is_never_run_from_old_machine_code(package):
    assert ask(package) == (11, False, 0)
    assert ask(package) == (11, False, 1)
    callee = package / "numerics" / "callee.py"
    callee.write_text(CALLEE.replace("FACTOR * x", "FACTOR * x + 100"))
    assert ask(package) == (111, False, 0)
    (package / "numerics" / "constants.py").write_text("FACTOR = 3\n")
    assert ask(package) == (116, False, 0)
    assert len(folders(package / "__pycache__")) == 3


def test_the_users_folder_is_used_and_unused_ones_are_removed(package, tmp_path):
    own = tmp_path / "own"
    old, other = own / f"{compiled.PREFIX}old", own / "numba"
    for folder in (old, other):
        folder.mkdir(parents=True)
        os.utime(folder, (time.time() - 40 * 86_400,) * 2)
    assert ask(package, NUMBA_CACHE_DIR=str(own)) == (11, True, 0)
    assert ask(package, NUMBA_CACHE_DIR=str(own)) == (11, True, 1)
    assert not old.exists()
    assert other.exists()
    assert len(folders(own)) == 1
    assert not folders(package / "__pycache__")


def test_every_kernel_is_compiled_here():
    for path in sorted(compiled.PACKAGE.rglob("*.py")):
        text = path.read_text()
        assert path.name == "compiled.py" or ("numba import njit" not in text and "numba.njit" not in text), path
