"""EcologicalInference with a survey: what is read, what is answered, what is refused and what is kept."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import crosslevel as cl
from crosslevel.cli.ecological import _confounding
from crosslevel.data.simulate import nation
from crosslevel.ecological.confounding import SHIPPED, LearnedConfounding, Tail
from crosslevel.errors import CrosslevelWarning, InputError

COLUMNS = ["age_group", "race", "sex"]
PEOPLE = {"by": "region", "weight": "weight", "columns": COLUMNS, "categorical": ["sex"]}
PLACES = {"by": "region", "successes": "dem", "trials": "votes"}
SCALES = {"effect_variance": 0.2, "nugget": 0.05}
ASKED = {"outcome": "voted_dem", "by": "region"}


def fitted(world, *surveys, unmatched="error", **people):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return cl.EcologicalInference(spatial=None, hyperparameters=SCALES).fit(
            cl.People(world.people, **PEOPLE | people),
            cl.Places(world.places, **PLACES),
            list(surveys),
            unmatched=unmatched,
        )


def poll(data, **given):
    return cl.Survey(data, **{**ASKED, **given})


def rates(model, by="race", **options):
    return model.estimate(by=by, **{"rollup": "all", "n_draws": 200, **options})


@pytest.fixture(scope="module")
def world():
    return nation(24, 400, n_states=4, contextual=0.15, spatial=0.12, random_state=3)


@pytest.fixture(scope="module")
def plain(world):
    return fitted(world)


@pytest.fixture(scope="module")
def asked(world):
    return world.survey(1500, shift=0.3, random_state=2)


@pytest.fixture(scope="module")
def model(world, asked):
    return fitted(world, poll(asked))


def truth(world, by, names):
    found = {tuple(row[n] for n in names): row["rate"] for row in world.true_rates(by=by, rollup="all").to_pylist()}
    return found


def test_a_survey_comes_nearer_to_the_truth_and_says_by_how_much_it_is_off(world, plain, model):
    known = truth(world, "race", ["race"])
    errors = []
    for one in (plain, model):
        found = rates(one)
        real = np.array([known[(level,)] for level in found["race"]])
        errors.append(np.abs(found["estimate"] - real).mean())
    assert (found["conf_low"] <= real).all()
    assert (real <= found["conf_high"]).all()
    assert errors[1] < 0.5 * errors[0]
    width = [np.mean(rates(one)["conf_high"] - rates(one)["conf_low"]) for one in (plain, model)]
    assert width[1] < 0.5 * width[0]
    row = model.survey_.surveys.to_pylist()[0]
    assert row["respondents"] == row["effective"] == 1500
    assert row["offset"] == pytest.approx(0.3, abs=0.12)
    assert row["points_low"] < 0.07 < row["points_high"]
    assert any("points above the totals" in text for text in rates(model).warnings)
    assert any("not measured" in text for text in rates(model).warnings)
    assert model.convergence_["selection_sd"] == 0.1


def test_what_is_said_of_confounding_is_what_the_intervals_allow_for(plain, model, monkeypatch):
    """Heavy tails and their tau from totals alone, a normal law and its tau with a survey."""
    constants = replace(SHIPPED, tau=0.31, n_labels=9, tail=Tail(4.0, 0.17, 0.5))
    table = pa.table({"label": list("abcdefghi")})
    learned = LearnedConfounding(constants, {}, tuple("abcdefghi"), 0.95, 0.95, table, 0.95)
    for one, tau in ((plain, 0.17), (model, 0.31)):
        monkeypatch.setattr(one, "confounding_", learned)
        found = rates(one)
        assert found.diagnostics["tau"] == tau
        assert ("tail_degrees" in found.diagnostics) == (one.survey_ is None)
        assert f"tau {tau}" in found.interval
        assert any(f"confounding: tau {tau} from 9 columns" in text for text in found.warnings)
        told = _confounding(one)
        assert told["tau"] == tau
        assert told["words"].startswith(f"tau {tau} from 9 columns")


def test_every_draw_meets_every_total(world, model):
    found = rates(model, by=["race", "sex"], rollup=None)
    frame, votes = found.to_frame("pandas"), world.places.to_pandas().set_index("region")
    whole = found.draws * frame["population"].to_numpy()
    for region, rows in frame.groupby("region").indices.items():
        share = whole[:, rows].sum(axis=1) / frame["population"].to_numpy()[rows].sum()
        np.testing.assert_allclose(share, votes.dem[region] / votes.votes[region], atol=1e-8)


def test_confounding_is_in_the_prior_and_not_added_again(model):
    found = rates(model, n_draws=2000)
    wide, own = found["conf_high"] - found["conf_low"], found["model_high"] - found["model_low"]
    np.testing.assert_allclose(wide, own, rtol=0.05)  # but for omega of every place
    alone = rates(model, interval="model", n_draws=2000)
    told = found["race"] != "other"  # of them neither totals nor respondents say much
    assert ((alone["conf_high"] - alone["conf_low"]) < wide)[told].all()


def test_nobody_who_answers_is_no_survey(world, plain, asked):
    nobody = asked.set_column(7, "voted_dem", pa.nulls(asked.num_rows, pa.int8()))
    found = fitted(world, poll(nobody))
    assert any("No respondent" in text for text in found.warnings_)
    assert any("1,500 without an answer" in text for text in found.warnings_)
    assert found.model_.surveyed is None
    for name in ("estimate", "conf_low", "conf_high"):
        np.testing.assert_array_equal(rates(found)[name], rates(plain)[name])


def test_order_of_respondents_and_of_columns_changes_rounding_only(world, model, asked):
    order = np.random.default_rng(0).permutation(asked.num_rows)
    mixed = asked.take(pa.array(order)).select(asked.column_names[::-1])
    found = fitted(world, poll(mixed))
    np.testing.assert_allclose(rates(found)["conf_low"], rates(model)["conf_low"], atol=1e-8)
    turned = fitted(world, poll(asked), columns=COLUMNS[::-1])
    np.testing.assert_allclose(rates(turned)["conf_low"], rates(model)["conf_low"], atol=1e-8)


def test_regions_are_hardly_needed(world, model, asked):
    """Where respondents live is known by region, by state, of some, or of nobody."""
    some = np.random.default_rng(0).uniform(size=asked.num_rows) < 0.5
    region = pa.array([None if s else r for s, r in zip(some, asked["region"].to_pylist(), strict=True)])
    half = asked.set_column(0, "region", region)
    best = rates(model)["estimate"]
    for survey, by in ((asked, "state"), (asked.drop_columns(["region", "state"]), None), (half, "region")):
        found = rates(fitted(world, poll(survey, by=by)))
        np.testing.assert_allclose(found["estimate"], best, atol=0.03)
        assert not np.array_equal(found["estimate"], best)


def test_weights_count_as_many_as_they_leave(world, asked):
    even = asked.append_column("w", pa.array(np.full(asked.num_rows, 3.0)))
    found = fitted(world, poll(even, weight="w"))
    np.testing.assert_allclose(rates(found)["conf_low"], rates(fitted(world, poll(asked)))["conf_low"])
    odd = asked.append_column("w", pa.array(np.where(np.arange(asked.num_rows) % 2, 3.0, 1.0)))
    found = fitted(world, poll(odd, weight="w"))
    assert found.survey_.surveys["effective"].to_pylist() == [pytest.approx(1500 * 16 / 20)]
    # replicates that hardly move the share: everybody counts
    moved = np.where(np.arange(1500) % 3, 1.001, 0.999) * odd["w"].to_numpy()
    again = odd.append_column("r1", pa.array(moved)).append_column("r2", odd["w"])
    found = fitted(world, poll(again, weight=["w", "r1", "r2"]))
    assert found.survey_.surveys["effective"].to_pylist() == [1500]
    rng = np.random.default_rng(0)
    for j in range(40):
        w = odd["w"].to_numpy() * rng.poisson(1.0, asked.num_rows)
        odd = odd.append_column(f"b{j}", pa.array(w))
    boot = fitted(world, poll(odd, weight=["w", *(f"b{j}" for j in range(40))]))
    assert boot.survey_.surveys["effective"][0].as_py() == pytest.approx(1200, rel=0.5)


def test_several_surveys_have_offsets_of_their_own(world):
    one, two = world.survey(800, shift=0.5, random_state=1), world.survey(700, shift=-0.5, random_state=2)
    named = fitted(world, poll(one, name="a"), poll(two, name="b"))
    assert named.survey_.surveys["survey"].to_pylist() == ["a", "b"]
    np.testing.assert_allclose(named.survey_.surveys["offset"].to_numpy(), [0.5, -0.5], atol=0.2)
    turned = fitted(world, poll(two, name="b"), poll(one, name="a"))
    np.testing.assert_allclose(rates(turned)["estimate"], rates(named)["estimate"], atol=1e-9)
    with pytest.raises(InputError):
        fitted(world, poll(one), poll(two))


def test_published_shares_say_the_same_as_respondents(world, plain, asked):
    frame = asked.to_pandas()
    rows = []
    for column in ("race", "sex"):
        for level, part in frame.groupby(column):
            query = f"{column} == {level!r}" if column == "race" else f"sex == {level}"
            rows.append({"subgroup": query, "dem": int(part.voted_dem.sum()), "votes": len(part), "source": "poll"})
    found = fitted(world, cl.PublishedShares(pa.Table.from_pylist(rows)))
    known = truth(world, "race", ["race"])
    real = np.array([known[(level,)] for level in rates(found)["race"]])
    error = [np.abs(rates(one)["estimate"] - real).mean() for one in (plain, found)]
    assert error[1] < 0.5 * error[0]
    row = found.survey_.surveys.to_pylist()[0]
    assert row["survey"] == "poll"
    assert row["offset"] == pytest.approx(0.3, abs=0.2)
    # both tables ask the same people, so each counts less than alone
    assert row["respondents"] == pytest.approx(3000 / np.sqrt(2))
    more = fitted(world, poll(asked), cl.PublishedShares(pa.Table.from_pylist(rows)))
    assert more.survey_.surveys["survey"].to_pylist() == ["survey", "poll"]
    with pytest.raises(InputError):
        fitted(world, cl.PublishedShares({"subgroup": ["sex == 9"], "dem": [1], "votes": [2]}))
    with pytest.raises(InputError):
        fitted(world, cl.PublishedShares(pa.Table.from_pylist([*rows[:4], rows[0]])))


def test_several_outcomes_and_turnout(world, asked):
    places = world.places.to_pandas()
    places["rep"] = ((places.votes - places.dem) * 0.7).round()
    places["other"] = places.votes - places.dem - places.rep
    names = np.where(asked["voted_dem"].to_numpy() == 1, "dem", np.where(np.arange(1500) % 3 == 0, "other", "rep"))
    survey = asked.append_column("choice", pa.array(names))
    known, model = cl.People(world.people, **PEOPLE), cl.EcologicalInference(spatial=None, hyperparameters=SCALES)
    named = {"by": "region", "trials": "votes", "outcomes": ["dem", "rep", "other"], "population": "population"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        found = model.fit(known, cl.Places(places, **named), poll(survey, outcome="choice"))
    assert [p is None for p in found.model_.surveyed.confounding] == [True, False, False]
    table = found.estimate(by="race", rollup="all", n_draws=80)
    shares = table.to_frame("pandas").groupby("race").estimate.sum()
    np.testing.assert_allclose(shares, 1.0, atol=1e-6)
    first, *others = found.model_.surveyed.confounding
    assert first is None
    assert set(found.survey_.moved["question"].to_pylist()) == set(found.survey_.compared["question"].to_pylist())
    assert len(set(found.survey_.moved["question"].to_pylist())) == len(others)
    wrong = survey.set_column(survey.num_columns - 1, "choice", pa.array(np.where(names == "other", "x", names)))
    with pytest.raises(InputError):
        model.fit(known, cl.Places(places, **named), poll(wrong, outcome="choice"))


def test_what_a_survey_moved_is_told(model, asked):
    moved = model.survey_.moved.to_pandas()
    assert set(moved.column) == set(COLUMNS)
    assert (moved.from_survey > 0.5).all()
    black = moved[(moved.column == "race") & (moved.level == "black")].iloc[0]
    frame = asked.to_pandas()
    assert black.direct == pytest.approx(frame[frame.race == "black"].voted_dem.mean())
    assert black.n == (frame.race == "black").sum()
    assert black.with_survey == pytest.approx(
        rates(model)["estimate"][list(rates(model)["race"]).index("black")], abs=0.01
    )


@pytest.fixture(scope="module")
def compared(world, asked):
    return fitted(world, poll(asked, compare=True))


def test_simpler_methods_stand_beside_it(world, model, compared):
    table = compared.survey_.compared.to_pandas()
    assert list(dict.fromkeys(table.method)) == ["totals", "survey and totals", "respondents", "MRP", "calibrated MRP"]
    assert set(model.survey_.compared["method"].to_pylist()) == {"totals", "survey and totals", "respondents"}
    assert compared.survey_.moved.equals(model.survey_.moved)
    np.testing.assert_array_equal(rates(compared)["estimate"], rates(model)["estimate"])
    known = truth(world, "race", ["race"])
    race = table[table.column == "race"]
    error = (race.estimate - [known[(level,)] for level in race.level]).abs().groupby(race.method).mean()
    assert error["calibrated MRP"] < 0.5 * error["MRP"]  # those who voted dem answer more readily
    assert error["survey and totals"] < 0.5 * error["totals"]
    assert (table.conf_low < table.estimate).all()
    assert (table.estimate < table.conf_high).all()
    moved = compared.survey_.moved.to_pandas()
    for name, method in (("without", "totals"), ("with_survey", "survey and totals"), ("direct", "respondents")):
        np.testing.assert_allclose(moved[name], table[table.method == method].estimate, rtol=1e-12)


def test_respondents_who_all_agree_are_not_certain(world, asked):
    frame = asked.to_pandas()
    frame.loc[frame.race == "black", "voted_dem"] = 1
    table = fitted(world, poll(frame)).survey_.compared.to_pandas()
    row = table[(table.method == "respondents") & (table.level == "black")].iloc[0]
    n, z = (frame.race == "black").sum(), 1.959964
    assert [row.estimate, row.conf_low, row.conf_high] == pytest.approx([1.0, n / (n + z**2), 1.0], abs=1e-9)
    assert row.std_error == pytest.approx((row.conf_high - row.conf_low) / (2 * z), rel=1e-6)


def test_a_report_says_what_the_survey_moved(compared, plain):
    page = cl.report(compared).page
    assert [view["title"] for view in page["sections"][0]["views"]][-1] == "What the survey moved"
    found = compared._report_tables()["survey"]
    assert found.keys == ("question", "column", "level", "method")
    assert any("points above the totals" in text for text in found.warnings)
    assert list(plain._report_tables()) == ["places"]


def test_surprising_evidence_converges():
    """Steps gain little each where published shares are far from what totals say: fifty were too few in a window of sizes."""
    n, far = 1000, nation(40, 60, n_states=4, random_state=0)
    known = cl.People(far.people, **PEOPLE | {"columns": ["race", "sex", "education"]})
    shares = {"subgroup": ["race == 'black'", "race == 'white'"], "dem": [0.8 * n, 0.3 * n], "votes": [n, n]}
    places = cl.Places(far.places, **PLACES, coords=("lon", "lat"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        found = cl.EcologicalInference().fit(known, places, cl.PublishedShares(shares))
    assert found.estimate(by="race", rollup="all", n_draws=50)["estimate"].max() > 0.7


def test_a_survey_of_something_else_is_warned_of(world, asked):
    turned = asked.set_column(7, "voted_dem", pa.array([int(r != "white") for r in asked["race"].to_pylist()]))
    assert any("standard deviations" in text for text in fitted(world, poll(turned)).warnings_)
    yes = asked.set_column(7, "voted_dem", pa.array(np.where(np.arange(1500) % 20, 1, 0)))
    assert any("The offset of 'survey'" in text for text in fitted(world, poll(yes)).warnings_)


def test_a_saved_model_answers_alike_and_holds_no_respondent(world, model, tmp_path):
    file = tmp_path / "model.crosslevel"
    cl.save(model, file)
    again = cl.load(file)
    one, two = rates(model), rates(again, people=world.people)
    np.testing.assert_array_equal(one["conf_low"], two["conf_low"])
    assert again.survey_.surveys.equals(model.survey_.surveys)
    for kept in (again, pickle.loads(pickle.dumps(model))):
        assert not hasattr(kept, "surveyed_")
        assert not hasattr(kept, "survey_given_")
    # nothing of the length of the survey, or of its rows of equal people
    rows = {1500, model.surveyed_.respondents.trials.shape[1]}

    def sizes(value):
        if isinstance(value, np.ndarray):
            return set(value.shape)
        if isinstance(value, pa.Table):
            return {value.num_rows}
        if isinstance(value, dict):
            return set().union(*(sizes(v) for v in value.values()), set())
        if isinstance(value, list | tuple):
            return {len(value)}.union(*(sizes(v) for v in value), set())
        return sizes(vars(value)) if hasattr(value, "__dict__") else set()

    assert not rows & sizes(vars(again))


def test_selection_widens(world, asked, model):
    width = []
    for selection in (0.0, "measured", 0.3):
        found = rates(fitted(world, poll(asked, selection=selection)))
        width.append(np.mean(found["conf_high"] - found["conf_low"]))
    assert width[0] < width[1] < width[2]


def test_sensitivity_asks_the_survey_again(world, asked):
    model = fitted(world, poll(asked))
    found = model.sensitivity("race", contextual_variance=(0.0, 0.1), n_draws=50)
    assert set(found["contextual_variance"]) == {0.0, 0.1}
    wide = [found["conf_high"][found["contextual_variance"] == v] for v in (0.0, 0.1)]
    assert not np.array_equal(*wide)
    np.testing.assert_allclose(*wide, atol=0.05)  # who was asked says the same


def test_codes_that_people_lack_are_named(world, asked):
    race = asked.column_names.index("race")
    strange = asked.set_column(race, "race", pa.array(["martian", *asked["race"].to_pylist()[1:]]))
    with pytest.raises(InputError):
        fitted(world, poll(strange))
    missing = asked.set_column(race, "race", pa.array([None, *asked["race"].to_pylist()[1:]]))
    with pytest.raises(InputError):
        fitted(world, poll(missing))
    with pytest.raises(InputError):
        fitted(world, poll(asked.drop_columns(["race"])))
    place = asked.set_column(0, "region", pa.array(["nowhere", *asked["region"].to_pylist()[1:]]))
    with pytest.raises(InputError):
        fitted(world, poll(place))
    kept = fitted(world, poll(place), unmatched="drop")
    assert kept.survey_.surveys["respondents"].to_pylist() == [1499]
    assert any("1 respondent" in text for text in kept.warnings_)


def test_where_is_for_respondents_too(world, asked):
    """As far as a survey has the columns that it names."""
    found = fitted(world, poll(asked), where="sex == 2", columns=["age_group", "race"])
    assert found.survey_.surveys["respondents"].to_pylist() == [int((asked["sex"].to_numpy() == 2).sum())]
    assert fitted(world, poll(asked), where="income > 0").survey_.surveys["respondents"].to_pylist() == [1500]
