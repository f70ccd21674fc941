"""Does the study of evidence ask what it says, and does a survey help?"""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.data.simulate import nation


@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_a_survey_brings_the_sexes_nearer(experiment):
    study = experiment("evidence")
    world = nation(24, 50, n_states=3, random_state=1)
    asked = study.survey(world, 5000, np.random.default_rng(0))
    truth = [row["rate"] for row in world.true_rates(by="sex", rollup="state").to_pylist()]
    np.testing.assert_allclose(np.array(asked["dem"]) / 5000, truth, atol=0.03)
    assert study.survey(world, 0, np.random.default_rng(0)) is None
    alone, helped = (study.scores(world, size, np.random.default_rng(0)) for size in (0, 5000))
    assert helped[2] < 0.5 * alone[2]
    assert helped[4] == pytest.approx(alone[4])
