"""Every door for a moment; ``make harden`` knocks for half an hour."""

from __future__ import annotations

import pytest
from tests.harden.__main__ import DOORS, knock

APART = {"mutants", "memory", "laws", "arguments", "crowds", "orders and threads", "pages"}


@pytest.mark.parametrize("name", [name for name in DOORS if name not in APART])
@pytest.mark.filterwarnings("ignore")
def test_a_moment_at_the_door(name):
    door = knock(name, seed=0, seconds=1.0)
    assert door.cases
    assert not door.failures, "\n".join(door.notes)
