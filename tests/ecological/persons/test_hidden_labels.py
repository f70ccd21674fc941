"""Labels that are hidden: which can be, what the model may see, and where their errors cannot be learned from."""

import datetime
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import crosslevel as cl
from crosslevel.data.simulate import nation
from crosslevel.ecological import EcologicalInference
from crosslevel.ecological.confounding import SHIPPED
from crosslevel.ecological.covariance import Hyperparameters
from crosslevel.ecological.estimate import open_people
from crosslevel.ecological.persons import hidden_labels
from crosslevel.ecological.persons.aggregate import fit_aggregate
from crosslevel.ecological.persons.hidden_labels import Half
from crosslevel.ecological.persons.labels import alike, comparison, hide_all, read_labels
from crosslevel.ecological.persons.learner import Learner, learn_confounding
from crosslevel.errors import CrosslevelWarning, InputError

COUNTS = {"by": "region", "weight": "weight", "successes": "dem", "trials": "votes", "coords": ("lon", "lat")}
FIXED = {"effect_variance": 0.3, "spatial": 0.1, "length": 300.0, "nugget": 0.02}


@pytest.fixture(scope="module")
def world():
    return nation(20, 60, n_states=4, random_state=1)


@pytest.fixture(scope="module")
def people(world):
    rng = np.random.default_rng(0)
    frame = world.people.to_pandas()
    n = len(frame)
    frame["owner"] = rng.random(n) < 0.6
    frame["hours worked"] = (frame.hours > 30).astype(int)
    frame["wave"] = np.where(rng.random(n) < 0.5, datetime.date(2020, 1, 1), datetime.date(2021, 1, 1))
    frame["answer"] = np.where(rng.random(n) < 0.5, "don't know", "yes")
    frame["disabled"] = np.where(rng.random(n) < 0.2, np.nan, (rng.random(n) < 0.3).astype(float))
    states = dict(zip(world.places["region"].to_pylist(), world.places["state"].to_pylist(), strict=True))
    return frame.assign(state=frame.region.map(states), always=1)


def fit(people, world, cluster=None, covariates=None, **settings):
    settings = {"categorical": ["sex"], "n_jobs": 1, "hyperparameters": FIXED} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return EcologicalInference(**settings).fit(
            people,
            world.places,
            **COUNTS,
            columns=["sex", "race", "education"],
            cluster=cluster,
            covariates=covariates,
        )


@pytest.fixture(scope="module")
def model(people, world):
    return fit(people, world)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Take the scales of hidden columns as known: a mode in place of dozens."""

    def given(design, terms, likelihood, people, *, n_jobs=1):
        return fit_aggregate(design, terms, likelihood, people, fixed=Hyperparameters(**FIXED), n_jobs=n_jobs)

    monkeypatch.setattr(hidden_labels, "fit_aggregate", given)


def only_labels(model, people, labels, by=None, hide=hide_all, **options):
    stream = open_people(people, None)
    bins, cuts = comparison(model, stream, by)
    return hide(model, stream, bins, cuts, read_labels(labels, None, stream, model), **options)


@pytest.mark.parametrize("label", ["owner", "hours worked", "disabled"])
def test_a_column_of_two_values_is_a_label(model, people, label):
    """Whatever its type and name; people of whom it is not known are left out."""
    ((one, two),) = only_labels(model, people, [label], ["race"])
    known = people[people[label].notna()]
    assert (
        one.share == two.share == pytest.approx(np.average(known[label].astype(float), weights=known.weight), rel=1e-9)
    )


def test_labels_that_are_found_can_be_asked(people, model):
    stream = open_people(people, None)
    found = {label.name: label.query.text for label in read_labels("auto", None, stream, model)}
    assert found["owner"] == "`owner` == true"
    assert found["hours worked"] == "`hours worked` == 1"
    assert found["wave"].startswith("`wave` == '202")
    assert found["answer"] in (r"`answer` == 'don\'t know'", "`answer` == 'yes'")
    assert not {"always", "region", "weight"} & set(found)


def test_a_property_of_places_is_no_label(model, people, monkeypatch):
    """Everybody in a place has it, or nobody: each group is its place, no error can be seen, and tau would be too small."""
    state = people.state.value_counts().index[0]
    with pytest.raises(InputError):
        only_labels(model, people, {"here": f"state == '{state}'"}, ["race"])
    told: list[str] = []
    found = only_labels(
        model, people, {"here": f"state == '{state}'", "owner": "owner == true"}, ["race"], refused=told
    )
    assert [one.label for one, _ in found] == ["owner"]
    assert "nearly the same" in told[0]
    with pytest.raises(InputError):
        only_labels(model, people, {"here": f"state == '{state}'"}, ["race"], refused=[])


def test_composition_totals_and_truth_are_of_different_people(people, world, monkeypatch):
    """One half says who lives where, the other what the totals are, and everybody what is true; then the other way round."""
    frame = people.assign(house=np.arange(len(people)) // 2)
    model = fit(frame, world, cluster="house")
    seen = []

    def look(design, terms, likelihood, *rest, **options):
        seen.append((design, likelihood))
        return fit_aggregate(design, terms, likelihood, *rest, fixed=Hyperparameters(**FIXED), **options)

    monkeypatch.setattr(hidden_labels, "fit_aggregate", look)
    monkeypatch.setattr(hidden_labels, "_smoothed", lambda model, bins, levels, pairs, size: pairs.weight)
    ((one, two),) = only_labels(model, frame, ["owner"], ["race"])
    first = Half("house", model.seed_).mask(pa.RecordBatch.from_pandas(frame[["house"]]))
    assert 0.4 < first.mean() < 0.6
    for hidden, (design, totals), mine in ((one, seen[0], first), (two, seen[1], ~first)):
        own, other = frame[mine], frame[~mine]
        rate = other.groupby("region")[["owner", "weight"]].apply(lambda g: np.average(g.owner, weights=g.weight))
        np.testing.assert_allclose(totals.successes / totals.trials, rate, rtol=1e-9)
        kish = other.groupby("region").weight.agg(lambda w: w.sum() ** 2 / (w**2).sum())
        np.testing.assert_allclose(totals.trials, kish, rtol=1e-9)
        everybody = frame.groupby("region")[["owner", "weight"]].apply(lambda g: np.average(g.owner, weights=g.weight))
        np.testing.assert_allclose(hidden.total, everybody, rtol=1e-9)
        np.testing.assert_allclose(hidden.people, frame.groupby("region").weight.sum(), rtol=1e-9)
        (d,) = hidden.dimensions
        share = np.zeros((len(hidden.total), len(d.names)))
        np.add.at(share, (design.pairs.place, d.group), design.pairs.weight)
        expected = own.pivot_table(index="region", columns="race", values="weight", aggfunc="sum", fill_value=0.0)
        expected = expected.div(expected.sum(axis=1), axis=0)[list(d.names)]
        np.testing.assert_allclose(share, expected, atol=1e-9)
        yes = frame.assign(yes=frame.owner * frame.weight).pivot_table(
            index="region", columns="race", values=["yes", "weight"], aggfunc="sum", fill_value=0.0
        )
        np.testing.assert_allclose(d.yes, yes["yes"][list(d.names)], rtol=1e-9)
        np.testing.assert_allclose(d.weight, yes["weight"][list(d.names)], rtol=1e-9)


def test_halves_do_not_depend_on_the_order_of_rows():
    names = np.array([f"h{k}" for k in range(500)])
    order = np.random.default_rng(0).permutation(500)
    plain, mixed = (
        Half("h", 3).mask(pa.RecordBatch.from_pydict({"h": values.tolist()})) for values in (names, names[order])
    )
    np.testing.assert_array_equal(plain[order], mixed)
    assert 0.4 < plain.mean() < 0.6
    other = Half("h", 4).mask(pa.RecordBatch.from_pydict({"h": names.tolist()}))
    assert 0.3 < (plain == other).mean() < 0.7
    nobody = Half("h", 3).mask(pa.RecordBatch.from_pydict({"h": pa.nulls(500, pa.string())}))
    assert 0.4 < nobody.mean() < 0.6  # people without a household are households of their own
    whole = Half(None, 3)
    batch = pa.RecordBatch.from_pydict({"x": list(range(250))})
    both = np.append(whole.mask(batch), whole.mask(batch))
    np.testing.assert_array_equal(both, Half(None, 3).mask(pa.RecordBatch.from_pydict({"x": list(range(500))})))


def test_labels_that_go_together_are_a_family(model, people):
    frame = people.assign(tenant=~people.owner, coin=np.random.default_rng(1).random(len(people)) < 0.5)
    stream = open_people(frame, None)
    wanted = read_labels(["owner", "tenant", "coin", "disabled"], None, stream, model)
    assert alike(stream, wanted) == {"owner": "owner", "tenant": "owner", "coin": "coin", "disabled": "disabled"}


def test_scores_without_places_of_enough_people_are_saved(model, people, world, tmp_path):
    """Sixty people a place: no group has a hundred, so there is no coverage within places to save."""
    own = fit(people, world)
    found = only_labels(model, people, ["owner", "hours worked"], ["sex", "race"])
    families = {"owner": "home", "hours worked": "work"}
    own.confounding_ = learn_confounding(Learner(found, families, SHIPPED, {"race": 0.45}))
    assert np.isnan(own.confounding_.place_coverage)
    cl.save(own, tmp_path / "m.crosslevel")
    again = cl.load(tmp_path / "m.crosslevel")
    assert np.isnan(again.confounding_.place_coverage)
    assert again.confounding_.describe() == own.confounding_.describe()
    old, new = own.confounding_.table.to_pandas(), again.confounding_.table.to_pandas()
    pd.testing.assert_frame_equal(old, new)
    asked = {"by": "race", "rollup": "all", "n_draws": 50}
    assert again.estimate(**asked, people=people).equals(own.estimate(**asked))
