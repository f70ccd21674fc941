"""Models side by side: only where their scores mean the same."""

from __future__ import annotations

import pytest

from crosslevel.data.simulate import nation
from crosslevel.diagnostics import compare_places
from crosslevel.ecological import EcologicalInference
from crosslevel.errors import InputError


@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_models_of_other_totals_are_not_compared():
    world = nation(12, 40, n_states=2)
    settings = {"categorical": ["sex"], "spatial": None, "hyperparameters": {"effect_variance": 0.2, "nugget": 0.05}}
    given = {"by": "region", "weight": "weight", "columns": ["sex", "race"]}
    models = [
        EcologicalInference(**settings, n_jobs=1).fit(world.people, world.places, **given, successes=yes, trials=n)
        for yes, n in (("dem", "votes"), ("dem", "votes"), ("votes", "population"))
    ]
    assert len(compare_places(models[:2], k=3)) == 2
    with pytest.raises(InputError):
        compare_places(models, k=3)
