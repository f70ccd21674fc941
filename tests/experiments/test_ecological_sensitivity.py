"""Is the slope learned as the page says, and do the small tables agree with the default?"""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def study(experiment):
    return experiment("ecological_sensitivity")


def answer(study, source, method, need):
    return study.Answer(source, source, method, None, np.zeros(len(need)), np.array(need))


def test_sources_weigh_alike_and_the_one_scored_is_left_out(study):
    many = [0.0] * 98 + [0.5] * 2
    found = [answer(study, "big", "goodman", many), answer(study, "small", "goodman", [0.1, 0.3])]
    assert study.learned(found, ("goodman",), None) == pytest.approx(0.3)
    assert study.learned(found, ("goodman",), "small") == 0.0
    assert study.learned(found, ("goodman",), "big") == pytest.approx(0.3)
    found.append(answer(study, "small", "rxc", [0.4, 0.4]))
    assert study.learned(found, ("goodman", "rxc"), None) == pytest.approx(0.4)


@pytest.mark.data
def test_the_small_tables_ask_for_no_more_than_the_default(real_data, study):
    found = []
    for known in study.small_tables(real_data / "truth")[:4]:
        truth = (known.truth / known.truth.sum(axis=1, keepdims=True)).ravel()
        for name in study.LEARN:
            result = study.methods()[name](known.counts)
            source = study.SOURCES[known.name]
            found.append(study.Answer(known.name, source, name, result, truth, study.needed(result, truth)))
    assert 0.1 <= study.learned(found, study.LEARN, None) <= study.SLOPE
    slopes = {row[:2]: row[3] for row in study.slope_rows(real_data / "truth")}
    assert slopes["eco_reg", "first"] == "-5.9, +5.9"
