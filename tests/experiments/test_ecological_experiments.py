"""Are the known tables read rightly, and are court reports scored by hand?"""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel import ecological


@pytest.fixture
def data(experiment):
    return experiment("ecological_data")


def test_court_reports_are_scored_by_hand(experiment, data):
    """A truth that is the estimate is contained everywhere, and its largest cell is first."""
    court, shares = experiment("court_truth"), np.linspace(10, 90, 9)
    yes = 20 + 0.5 * shares + np.arange(9) % 3
    sides = np.column_stack([shares, 100 - shares]), np.column_stack([yes, 100 - yes])
    tiny = data.Known("tiny", ("a", "b"), ("yes", "no"), *sides, np.zeros((2, 2)))
    table = ecological.rxc(tiny.counts, kind="votes")["count"].reshape(2, 2)
    answers, chance, first = court.one_district(data.Known("tiny", ("a", "b"), ("yes", "no"), *sides, table))
    assert {name: len(held) for name, held in answers.items()} == dict(zip(answers, (4, 2, 2, 2), strict=True))
    assert all(all(held) for held in answers.values())
    assert ((chance > 0.5) == (first == 1)).all()
    assert first.sum() == 2


@pytest.mark.data
def test_known_tables_agree_with_their_margins(real_data, data):
    for known in data.small_tables(real_data / "truth"):
        np.testing.assert_allclose(known.truth.sum(axis=1), known.X.sum(axis=0), rtol=1e-6)
        np.testing.assert_allclose(known.truth.sum(axis=0), known.T.sum(axis=0), rtol=0.03)
    districts = data.new_zealand(real_data / "truth", 2014)
    assert len(districts) == 71
    for known in districts[:10]:
        np.testing.assert_allclose(known.truth.sum(axis=1), known.X.sum(axis=0), rtol=0.02)
