"""The room as a user meets it: names, saved models, pictures."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import crosslevel as cl
from crosslevel import imputation


@pytest.mark.parametrize("name", imputation.__all__)
def test_every_name_is_there(name):
    assert callable(getattr(imputation, name))
    assert name in dir(imputation)


def test_names_are_loaded_when_used():
    code = "import crosslevel.imputation, sys; print(sorted({'numba', 'sklearn', 'scipy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError):
        _ = imputation.Link


def test_the_estimator_of_the_paper_stands_at_the_front():
    assert cl.CUDIA is imputation.CUDIA


@pytest.mark.parametrize(
    "model",
    [imputation.CrossLevelImputer(shrinkage_groups=16.0), imputation.CUDIA(2, method="map", n_restarts=2)],
    ids=str,
)
def test_saved_models_answer_the_same(world, tmp_path, model):
    model = model.fit(world.people, world.places)
    cl.save(model, tmp_path / "model.crosslevel", allow_rows=True)
    again = cl.load(tmp_path / "model.crosslevel")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    people = world.people
    assert again.transform(people).equals(model.transform(people))
    np.testing.assert_array_equal(again.sample(people, 2), model.sample(people, 2))
    a, b = (one.estimate("age", people) for one in (again, model))
    assert a.equals(b)
    assert (tmp_path / "model.crosslevel").stat().st_size < 500_000


def test_answers_draw_themselves(world):
    import matplotlib.pyplot as plt

    link = imputation.CrossLevelImputer().fit(world.people, world.places)
    found = link.estimate("age")
    ax = found.plot("imputed")
    np.testing.assert_allclose(ax.collections[1].get_offsets(), np.column_stack([found["naive"], found["estimate"]]))
    clusters = cl.CUDIA(2, method="two_stage").fit(world.people, world.places).clusters()
    assert len(clusters.plot("clusters").get_yticklabels()) == 2
    plt.close("all")
