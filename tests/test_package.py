"""The promises of the package as a whole."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import crosslevel
from crosslevel import charts
from crosslevel.results.estimates import PLOTS

ROOT = Path(__file__).parents[1]


def run(code: str) -> str:
    # coverage's start-up hook would import modules of its own into the child
    env = {k: v for k, v in os.environ.items() if not k.startswith("COV_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    return done.stdout.strip()


def test_import_is_light():
    heavy = "{'jax','pyspark','matplotlib','pandas','numba','scipy','sklearn','pyarrow','numpy'}"
    assert run(f"import crosslevel, sys; print(sorted({heavy} & set(sys.modules)))") == "[]"


def test_using_the_way_in_and_out_imports_no_heavy_neighbor():
    code = (
        "import crosslevel as cl, sys\n"
        "cl.Bags([[1.0]], [0, 1]); cl.Estimates; cl.save\n"
        "print(sorted({'jax','pyspark','matplotlib','numba'} & set(sys.modules)))"
    )
    assert run(code) == "[]"


@pytest.mark.parametrize("name", crosslevel.__all__)
def test_every_public_name_is_there(name):
    assert hasattr(crosslevel, name)
    assert name in dir(crosslevel)


@pytest.mark.parametrize("room", ["binned", "diagnostics", "distribution", "ecological", "imputation", "krls"])
def test_every_name_of_a_rooms_stub_is_there(room):
    package = getattr(crosslevel, room)
    assert package.__all__ == dir(package)
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError):
        _ = package.nothing


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(AttributeError):
        _ = crosslevel.Bag


def test_every_name_in_the_registry_resolves():
    for name in PLOTS.values():
        assert callable(getattr(charts, name))


def test_constraints_are_plain_and_cover_what_we_need():
    lines = [x for x in (ROOT / "constraints.txt").read_text().splitlines() if x and not x.startswith("#")]
    assert all(x.count("==") == 1 and "/" not in x and "@" not in x for x in lines)
    pinned = {x.split("==")[0].lower().replace("_", "-") for x in lines}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(d for ds in extras.values() for d in ds)]
    names = {d.split(">=")[0].split("[")[0].lower() for d in wanted} - {"crosslevel"}
    assert names <= pinned


def test_every_module_imports():
    for path in sorted((ROOT / "src" / "crosslevel").rglob("*.py")):
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
