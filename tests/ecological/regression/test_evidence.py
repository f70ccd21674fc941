"""What is known of subgroups: read, placed, weighed, and what it does to the estimates."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.data.simulate import nation
from crosslevel.data.surveys import PublishedShares
from crosslevel.data.totals import read_places
from crosslevel.ecological import DistributionRegression
from crosslevel.ecological.claims import read_evidence
from crosslevel.ecological.regression.evidence import weigh_evidence
from crosslevel.embedding import Embeddings, MeanEmbedding
from crosslevel.errors import CrosslevelWarning, InputError

FIXED = {"effect_variance": 2.0, "spatial": 0.1, "length": 400.0, "nugget": 0.02}
COUNTS = {"by": "region", "weight": "weight", "successes": "dem", "trials": "votes", "coords": ("lon", "lat")}
SCHEMA = pa.schema({"sex": pa.int64(), "age": pa.int64(), "town": pa.string()})

TOWNS = read_places(
    {"town": ["a", "b", "c"], "state": ["S", "S", "T"], "number": [1, 2, 3], "yes": [3, 5, 1], "all": [9, 9, 4]},
    "town",
    "yes",
    "all",
)


def read(frame, places=TOWNS, **options):
    options = {"successes": "yes", "trials": "all"} | options
    return read_evidence(PublishedShares(frame), places, SCHEMA, **options)


def poll(**changed):
    return {"subgroup": ["sex == 2", None], "state": ["S", None], "yes": [4.5, 2], "all": [10, 5]} | changed


# read ---------------------------------------------------------------------------------------------------------------


def test_rows_say_who_where_and_how_many():
    found = read(poll())
    assert sorted(found.label(r) for r in range(2)) == ["'sex == 2', state='S'", "everybody"]
    assert list(found.queries.values()) == ["sex == 2"]
    assert sorted(found.n) == [5, 10]
    assert found.notes == ()


def test_the_order_of_the_rows_means_nothing():
    frame = poll(subgroup=["sex == 2", "sex == 1"], state=["S", "T"])
    back = {name: values[::-1] for name, values in frame.items()}
    one, two = read(frame), read(back)
    assert one.where == two.where
    assert one.n.tolist() == two.n.tolist()
    assert [one.label(r) for r in range(2)] == [two.label(r) for r in range(2)]


def test_rows_without_trials_are_left_out_and_said():
    found = read(poll(yes=[0, 2], all=[0, 5], subgroup=["no such column == 1", ""]))
    assert (found.rows, found.queries) == ([1], {})
    assert found.notes == ("1 row(s) of evidence without any trials were left out.",)


@pytest.mark.parametrize(
    "frame",
    [
        poll(subgroup=["sx == 2", None]),
        poll(subgroup=[None, "sex =="]),
        poll(subgroup=[1.0, None]),
        poll(state=["U", None]),
        poll(state=[None, "s"]),
        poll(number=["1", None]),
        poll(sate=["S", "S"]),
        poll(yes=[11, 2]),
        poll(yes=[-1, 2]),
        poll(all=[None, 5]),
        {"subgroup": ["sex == 2"], "yes": [1]},
        [1, 2],
    ],
)
def test_what_cannot_be_used_is_refused(frame):
    with pytest.raises(InputError):
        read(frame)


def test_counts_and_coordinates_of_places_do_not_say_where():
    places = read_places(
        {"town": ["a", "b"], "lon": [0.0, 1.0], "lat": [0.0, 1.0], "yes": [1, 1], "all": [2, 2], "adults": [3, 3]},
        "town",
        "yes",
        "all",
        coords=("lon", "lat"),
        population="adults",
    )
    for column in ("lon", "adults"):
        with pytest.raises(InputError):
            read({"subgroup": [None], "yes": [1], "all": [2], column: [3]}, places, population="adults")


def test_outcomes_that_add_up_in_places_must_add_up_here():
    places = read_places({"town": ["a"], "x": [1], "y": [2]}, "town", None, None, outcomes=["x", "y"])
    options = {"successes": None, "trials": "n", "outcomes": ["x", "y"]}
    with pytest.raises(InputError):
        read({"subgroup": [None], "x": [1], "y": [1], "n": [3]}, places, **options)
    assert read({"subgroup": [None], "x": [1], "y": [2], "n": [3]}, places, **options).n.tolist() == [3]


# weigh --------------------------------------------------------------------------------------------------------------


def embedded(rng, q=3, p=4):
    """People of two sexes in three towns, as bags and summed."""
    weight = rng.uniform(1, 3, (q, 2))
    values = rng.normal(size=(q, 2, p))
    whole = np.einsum("ij,ijk->ik", weight, values) / weight.sum(axis=1, keepdims=True)
    keys = pa.table({"town": ["a", "b", "c"]})
    ones = np.ones(q)
    bags = Embeddings(whole, keys, weight.sum(axis=1), ones.astype(np.int64), ones)
    rows = [(t, name) for t in "abc" for name in ("all", "evidence 0")]
    both = np.concatenate([np.stack([whole[i], values[i, 1]]) for i in range(q)])
    weights = np.concatenate([[weight[i].sum(), weight[i, 1]] for i in range(q)])
    table = pa.table({"town": [r[0] for r in rows], "subgroup": [r[1] for r in rows]})
    found = Embeddings(both, table, weights, np.ones(2 * q, np.int64), np.ones(2 * q))
    return bags, found, weight, values


def test_a_row_is_the_weighted_mean_of_its_people():
    whole, found, weight, values = embedded(np.random.default_rng(0))
    got = weigh_evidence(read(poll()), found, whole, TOWNS)
    women, everybody = (got.labels.index(label) for label in ("'sex == 2', state='S'", "everybody"))
    share = weight[:2, 1] / weight[:2, 1].sum()
    assert np.allclose(got.A[women], [*share, 0.0], rtol=1e-14)
    assert np.allclose(got.M[women], share @ values[:2, 1], rtol=1e-13)
    assert np.allclose(got.A[everybody], weight.sum(axis=1) / weight.sum(), rtol=1e-14)
    assert np.allclose(got.M[everybody], np.einsum("ij,ijk->k", weight, values) / weight.sum(), rtol=1e-13)
    assert got.successes[0, [women, everybody]].tolist() == [4.5, 2]
    assert got.trials[0, [women, everybody]].tolist() == [10, 5]


def test_turnout_is_not_asked():
    whole, found, _, _ = embedded(np.random.default_rng(1))
    places = read_places(
        {"town": ["a", "b", "c"], "state": ["S", "S", "T"], "yes": [3, 5, 1], "all": [9, 9, 4], "adults": [20, 20, 20]},
        "town",
        "yes",
        "all",
        population="adults",
    )
    got = weigh_evidence(read(poll(), places, population="adults"), found, whole, places)
    assert got.trials[0].tolist() == [0, 0]
    assert sorted(got.trials[1]) == [5, 10]


def test_a_subgroup_without_people_is_refused():
    whole, found, _, _ = embedded(np.random.default_rng(2))
    only = found.select("not (subgroup == 'evidence 0' and town in ('a', 'b'))")
    with pytest.raises(InputError):
        weigh_evidence(read(poll()), only, whole, TOWNS)


def test_places_that_exclude_one_another_are_refused():
    whole, found, _, _ = embedded(np.random.default_rng(2))
    claims = read(poll(town=["c", None]))
    with pytest.raises(InputError):
        weigh_evidence(claims, found, whole, TOWNS)


def test_evidence_that_the_totals_exclude_is_said():
    whole, found, _, _ = embedded(np.random.default_rng(3))
    far = {"subgroup": [None], "town": ["a"], "yes": [900.0], "all": [1000.0]}
    (note,) = weigh_evidence(read(far), found, whole, TOWNS).notes
    assert note.startswith("evidence row 0 (everybody, town='a') says 0.900, but the totals allow 0.333 to 0.333")
    near = far | {"yes": [340.0]}
    assert weigh_evidence(read(near), found, whole, TOWNS).notes == ()
    few = far | {"yes": [3.0], "all": [4.0]}  # far, but within chance
    assert weigh_evidence(read(few), found, whole, TOWNS).notes == ()


# what it does -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world():
    return nation(40, 100, n_states=4, random_state=2)


def fitted(world, evidence=None, hyperparameters=FIXED, **options):
    model = DistributionRegression(n_features=64, categorical=["sex"], hyperparameters=hyperparameters)
    return model.fit(world.people, world.places, evidence=evidence, **COUNTS | options)


def women(model, **options):
    return model.estimate(by="sex", rollup="all", n_draws=400, **options)["estimate"][1]


def test_evidence_draws_the_estimate_toward_it_as_it_grows(world):
    plain = women(fitted(world))
    target = 0.75
    found = [
        women(fitted(world, {"subgroup": ["sex == 2"], "dem": [target * n], "votes": [n]}))
        for n in (1e-9, 20.0, 400.0, 40_000.0)
    ]
    assert found[0] == pytest.approx(plain, abs=0.01)  # other draws, the same posterior
    gaps = np.abs(np.array(found) - target)
    assert (np.diff(gaps) < 0).all()
    assert gaps[-1] < 0.01


def test_with_no_trials_left_nothing_changes(world):
    empty = {"subgroup": ["sex == 2"], "dem": [0.0], "votes": [0.0]}
    with pytest.warns(CrosslevelWarning):
        model = fitted(world, empty)
    assert women(model) == women(fitted(world))
    assert model.evidence_ is None


def test_vanishing_evidence_leaves_the_posterior_where_it_was(world):
    plain = fitted(world)
    tiny = fitted(world, {"subgroup": ["sex == 2"], "dem": [6e-10], "votes": [1e-9]})
    one, two = (m.predict_places() for m in (plain, tiny))
    for column in ("estimate", "std_error", "conf_low"):
        assert np.allclose(one[column], two[column], rtol=1e-7)


def test_weights_decide_who_the_subgroup_is(world):
    """Evidence on a subgroup is evidence on its weighted people: doubling all weights changes nothing."""
    rows = {"subgroup": ["sex == 2"], "state": [world.places["state"][0].as_py()], "dem": [60.0], "votes": [100.0]}
    doubled = world.people.set_column(
        world.people.column_names.index("weight"), "weight", pa.compute.multiply(world.people["weight"], 2.0)
    )
    one = fitted(world, rows)
    two = DistributionRegression(n_features=64, categorical=["sex"], hyperparameters=FIXED)
    two.fit(doubled, world.places, evidence=rows, **COUNTS)
    assert np.allclose(one.evidence_.A, two.evidence_.A, rtol=1e-12)
    assert np.allclose(one.evidence_.M, two.evidence_.M, rtol=1e-9, atol=1e-12)


def test_evidence_rows_agree_with_embedding_the_subgroup_alone(world):
    rows = {"subgroup": ["sex == 2 and age >= 65"], "dem": [6.0], "votes": [10.0]}
    model = fitted(world, rows)
    old = pa.array(np.full(world.people.num_rows, "everywhere"))
    alone = model.embedder_.transform(
        world.people.append_column("land", old), by="land", where="sex == 2 and age >= 65"
    )
    assert isinstance(model.embedder_, MeanEmbedding)
    assert np.allclose(model.evidence_.M[0], alone.values[0], rtol=1e-9, atol=1e-12)


def survey(world, n, seed):
    """Ask n women and n men in every state."""
    truth = world.true_rates(by="sex", rollup="state").to_pylist()
    rng = np.random.default_rng(seed)
    return {
        "subgroup": [f"sex == {row['sex']}" for row in truth],
        "state": [row["state"] for row in truth],
        "dem": [float(rng.binomial(n, row["rate"])) for row in truth],
        "votes": [float(n)] * len(truth),
    }


def test_a_survey_by_state_repairs_what_composition_cannot_tell():
    """Women are half of every place, so totals say nothing of sex; asking 500 of each by state does."""
    world = nation(60, 200, n_states=6, random_state=2)
    truth = world.true_rates(by="sex")
    scores = {}
    for name, evidence in (("totals", None), ("survey", survey(world, 500, 1))):
        model = fitted(world, evidence, None)  # hyperparameters are learned with evidence too
        found = model.estimate(by="sex").with_truth(truth, "rate")
        scores[name] = found.score()
    assert scores["totals"]["rmse"] > 0.04
    assert scores["survey"]["rmse"] < 0.4 * scores["totals"]["rmse"]
    assert scores["survey"]["coverage"] > 0.9


def test_evidence_is_in_convergence_and_the_provenance(world):
    model = fitted(world, {"subgroup": ["sex == 2"], "dem": [6.0], "votes": [10.0]})
    found = model.estimate(by="sex", rollup="all", n_draws=100)
    assert found.diagnostics["evidence_rows"] == 1
    assert found.provenance.data["evidence"].startswith("sha256:")
    assert model.evidence_.labels == ("'sex == 2'",)


def test_cross_validation_and_prediction_work_with_evidence(world):
    model = fitted(world, survey(world, 50, 0))
    found = model.cross_validate(4)
    assert found.diagnostics["rmse"] < found.diagnostics["rmse_national_mean"]
    assert len(model.predict_places()) == 40


def test_with_turnout_evidence_is_of_the_vote(world):
    rows = {"subgroup": ["sex == 2"], "dem": [7_500.0], "votes": [10_000.0]}
    plain, told = (fitted(world, e, population="population") for e in (None, rows))
    assert len(told.model_.fits) == 2
    one, two = (
        m.estimate(by="sex", rollup="all", denominator="turnout", n_draws=200)["estimate"] for m in (plain, told)
    )
    assert np.allclose(one, two, atol=1e-12)
    assert women(told) > women(plain) + 0.02
