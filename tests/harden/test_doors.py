"""Every door for a moment; ``make harden`` knocks for half an hour."""

from __future__ import annotations

import json

import pytest
from tests.harden import mutants
from tests.harden.__main__ import DOORS, _apart, knock
from tests.harden.door import Door, child
from tests.harden.memory import grows

BROWSER = {"pages"}
FORKS = {"memory", "arguments", "files", "crowds", "full disk", "permissions"}
"""They fork: a process that has run other tests has threads (of JAX, of Arrow), which a fork does not survive."""
MOMENTS = {"killed", "interrupted", "two writers", "mutants"}
"""What these try depends on the moment and the machine; they are left to ``make test-all`` and ``make harden``."""


def test_a_moment_at_the_doors_that_fork():
    code = (
        "import json, sys\nfrom tests.harden.__main__ import knock\n"
        "print(json.dumps([knock(name, seed=0, seconds=0.0).facts() for name in sys.argv[1:]]))"
    )
    done = child(code, *sorted(FORKS), timeout=1800.0)
    assert done.returncode == 0, done.stderr
    doors = [Door(**facts) for facts in json.loads(done.stdout.splitlines()[-1])]
    assert all(door.cases for door in doors)
    assert not any(door.failures for door in doors), "\n".join(note for door in doors for note in door.notes)


@pytest.mark.parametrize("name", [name for name in DOORS if name not in BROWSER | MOMENTS | FORKS])
@pytest.mark.filterwarnings("ignore")
def test_a_moment_at_the_door(name):
    door = knock(name, seed=0, seconds=0.0)  # the least of every door: the same cases on every machine
    assert door.cases
    assert not door.failures, "\n".join(door.notes)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MOMENTS - {"mutants"}))
def test_a_disturbed_writer_at_the_door(name):
    door = _apart(name, 0, 1.0, [])
    assert door.cases
    assert not door.failures, "\n".join(door.notes)


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore")
def test_a_hostile_page_is_opened(chromium):
    door = knock("pages", seed=0, seconds=0.0)
    assert door.cases
    assert not door.failures, "\n".join(door.notes)


@pytest.mark.slow
def test_a_mutant_is_noticed():
    door = _apart("mutants", 0, 1.0, [])
    assert door.cases, door.notes
    assert not door.crash + door.hang, door.notes
    assert door.wrong < door.cases, door.notes


def test_every_formula_has_mutants_and_tests():
    path = mutants.PACKAGE / "numerics" / "logit_shift.py"
    assert len(mutants.mutants_of(path)) > 20
    assert mutants.tests_of(path)[:2] == [
        "src/crosslevel/numerics/logit_shift.py",
        "tests/numerics/test_logit_shift.py",
    ]


def test_growing_memory_is_told_from_noise():
    assert not grows([100 * 2**20 + (i % 7) * 2**18 for i in range(100)])
    assert grows([100 * 2**20 + i * 2**18 for i in range(100)])


def test_listed_survivors_are_mutants_of_the_code_as_it_is():
    rows = [row for row in mutants.listed() if not row.startswith("file |")]
    files = {mutants.PACKAGE / row.split(" | ")[0] for row in rows}
    known = {mutants.name_of(mutant) for path in files for mutant in mutants.mutants_of(path)}
    known |= {f"{name.rsplit(' | ', 1)[0]} | any" for name in known}
    assert not set(rows) - known
