"""Does the study of areas hide the truth from the methods, and score them by it?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("shapely")


@pytest.fixture
def areas(experiment):
    return experiment("areas")


@pytest.mark.data
def test_small_areas_from_large(areas, real_data):
    data = areas.read_borough(real_data / "ages")
    answers, found = areas.solve(data, "20 to 29", full=False)
    truth = data.small_ages[:, 20:30].sum(axis=1)
    by_name = {a.name: a for a in answers}
    assert areas.rmse(by_name["nested rate"].mean, truth) == pytest.approx(64.57, abs=0.01)
    assert areas.rmse(found["estimate"], truth) < 1.02 * 64.57
    for a in answers:
        if a.name != "rate of the borough":
            np.testing.assert_allclose(
                np.bincount(data.parent, a.mean), data.large_ages[:, 20:30].sum(axis=1), rtol=1e-9
            )
    # shuffling who lives where inside the large areas changes scores, and no estimate
    other = replace(data, small_ages=data.small_ages[::-1])
    again, _ = areas.solve(other, "20 to 29", full=False)
    for a, b in zip(answers, again, strict=True):
        np.testing.assert_array_equal(a.mean, b.mean)


@pytest.mark.data
def test_borders_tell_where_people_are(experiment, monkeypatch, real_data):
    """People of MSOAs carried over to LSOAs without knowing who lives where: far closer than by area, with intervals that cover."""
    study = experiment("interpolation")
    task = next(study.trafford(real_data / "ages"))
    monkeypatch.setattr(study, "pycnophylactic", lambda task: np.full(len(task.truth), np.nan))
    found = study.answer(task)
    off = {k: np.sqrt(np.mean((found[k] - task.truth) ** 2)) for k in ("ours", "area")}
    assert off["area"] == pytest.approx(1319.5, abs=1.0)
    assert off["ours"] < 0.25 * off["area"]
    assert 0.92 <= np.mean((found["low"] <= task.truth) & (task.truth <= found["high"])) <= 0.99
