"""Groups known only as probabilities: sums with their error, and what it does to an answer."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from crosslevel import Counts
from crosslevel.ecological import goodman, group_counts, rxc
from crosslevel.ecological.tables.contextual.adjustments import extrapolated
from crosslevel.ecological.tables.contextual.intervals import TablePosterior
from crosslevel.ecological.tables.contextual.pooling import District
from crosslevel.errors import InputError


def beside(sums, votes, **more):
    """Counts of votes beside sums of memberships."""
    return Counts({"unit": list(sums.keys), **votes}, unit="unit", groups=sums, outcomes=list(votes), **more)


def register(n_units=30, size=300, seed=2, misplaced=0.4):
    """People with a race that is hidden behind a class of names, and a choice that depends on race alone."""
    rng = np.random.default_rng(seed)
    share = rng.beta(1.0, 1.2, n_units)
    unit = np.repeat(np.arange(n_units), size)
    race = (rng.random(len(unit)) > share[unit]).astype(int)
    tells = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
    name = (rng.random(len(unit))[:, None] > np.cumsum(tells, axis=1)[race]).sum(axis=1)
    odds = share / (1 - share) * np.exp(rng.normal(0, misplaced, n_units))
    ratio = odds[unit] * tells[0][name] / tells[1][name]
    choice = rng.random(len(unit)) < np.array([0.8, 0.3])[race]
    people = {"unit": unit, "a": ratio / (1 + ratio), "b": 1 / (1 + ratio)}
    return people, race, choice, {"unit": np.arange(n_units)}


def test_sums_and_their_covariances_are_those_of_independent_memberships():
    people, *_, places = register(n_units=4, size=50)
    found = group_counts(people, by="unit", probabilities=["a", "b"], places=places, calibration_sd=0.3)
    assert found.keys == (0, 1, 2, 3)
    rng = np.random.default_rng(0)
    own = np.asarray(people["a"])[:50]
    drawn = (rng.random((20_000, 50)) < own).sum(axis=1)
    np.testing.assert_allclose(found.counts["a"][0].as_py(), own.sum())
    np.testing.assert_allclose(found.covariance[0, 0, 0, 0], drawn.var(), rtol=0.05)
    np.testing.assert_allclose(found.covariance[:, :, 0, 1], -found.covariance[:, :, 0, 0])
    # log odds off by a little for everybody move the sum by V times that
    off = 1 / (1 + (1 - own) / own * np.exp(-0.01))
    V = found.covariance[0, 0, 0, 0]
    np.testing.assert_allclose((off.sum() - own.sum()) / 0.01, V, rtol=0.01)
    # with two groups: log odds off by 0.3 for everybody of a unit, drawn
    odds = (own / (1 - own))[:, None] * np.exp(rng.normal(0, 0.3, 20_000))
    np.testing.assert_allclose(found.covariance[1, 0, 0, 0], (odds / (1 + odds)).sum(axis=0).var(), rtol=0.05)


def test_log_odds_between_any_two_of_three_groups_are_off_by_the_sd_stated():
    rng = np.random.default_rng(5)
    P = rng.dirichlet([1.0, 2.0, 1.5], 40)
    people = {"unit": np.zeros(40, int), **{g: P[:, r] for r, g in enumerate("abc")}}
    found = group_counts(people, by="unit", probabilities=["a", "b", "c"], places={"unit": [0]}, calibration_sd=0.2)
    e = rng.normal(0, 0.2 / np.sqrt(2), (20_000, 3))
    np.testing.assert_allclose((e[:, 0] - e[:, 2]).std(), 0.2, rtol=0.02)
    off = P * np.exp(e)[:, None, :]
    off = (off / off.sum(axis=2, keepdims=True)).sum(axis=1)
    np.testing.assert_allclose(found.covariance[1, 0], np.cov(off.T), rtol=0.1, atol=0.02)


def test_the_unit_of_the_weights_does_not_matter():
    people, _, choice, places = register(n_units=12, size=60)
    votes = {"yes": np.bincount(people["unit"], choice, 12), "no": np.bincount(people["unit"], ~choice, 12)}
    weight = 0.5 + np.arange(len(choice)) % 3
    found = []
    for times in (1.0, 16.0):  # a power of two, so that nothing is rounded
        given = {**people, "w": times * weight}, {**places, "votes": [60.0] * 12, "w": times * 60.0 * np.ones(12)}
        options = {"by": "unit", "probabilities": ["a", "b"], "weight": "w", "calibration_sd": 0.4}
        wide = group_counts(given[0], places=given[1], total="w", **options)
        counts = group_counts(given[0], places=given[1], total="votes", **options)
        found.append((wide.covariance / times**2, rxc(beside(counts, votes))))
    np.testing.assert_allclose(found[1][0], found[0][0])
    for column in ("estimate", "conf_low", "conf_high"):
        np.testing.assert_allclose(found[1][1][column], found[0][1][column], atol=1e-9)


def test_units_carry_both_errors_and_the_note_says_what_is_not_carried():
    people, _, choice, places = register(n_units=12, size=300)
    votes = {"yes": np.bincount(people["unit"], choice, 12), "no": np.bincount(people["unit"], ~choice, 12)}
    whole = {**places, "votes": [300.0] * 12}
    options = {"by": "unit", "probabilities": ["a", "b"], "calibration_sd": 0.5}
    counts = group_counts(people, places=places, **options)
    found = rxc(beside(counts, votes))
    own = beside(replace(counts, covariance=counts.covariance * np.array([1.0, 1e-12])[:, None, None, None]), votes)
    move = np.array(found.diagnostics["membership_move"])
    # the move of the district alone would widen every unit alike; the error of a unit's own sums comes on top
    grown = found.units["std_error"] ** 2 - rxc(own).units["std_error"] ** 2
    assert np.median(grown) > 3 * (move**2).max()
    assert "people listed" not in counts.note
    assert "the people listed may differ" in group_counts(people, places=whole, total="votes", **options).note


def test_total_and_weight_scale_the_sums():
    people, *_, places = register(n_units=4, size=50)
    whole = {**places, "votes": [100.0] * 4}
    one = group_counts(people, by="unit", probabilities={"x": "a", "y": "b"}, places=places)
    two = group_counts(people, by="unit", probabilities={"x": "a", "y": "b"}, places=whole, total="votes")
    assert two.counts.column_names == ["x", "y"]
    np.testing.assert_allclose(two.counts["x"].to_numpy(), 2 * one.counts["x"].to_numpy())
    np.testing.assert_allclose(two.covariance, 4 * one.covariance)


@pytest.mark.parametrize(
    "options",
    [{"a": [0.5, 0.2, 0.1, p]} for p in (0.7, 1.2, -0.1)] + [{"calibration_sd": 1.5}, {"w": [1.0, 1e200, 1, 1]}],
)
def test_what_is_no_probability_is_refused(options):
    people = {"unit": [0, 0, 1, 1], "a": [0.5, 0.2, 0.1, 0.4], "b": [0.5, 0.8, 0.9, 0.6], "w": [1.0] * 4}
    sd = {name: options.pop(name) for name in ("calibration_sd",) if name in options}
    with pytest.raises(InputError):
        group_counts(
            {**people, **options}, by="unit", probabilities=["a", "b"], places={"unit": [0, 1]}, weight="w", **sd
        )


def test_error_of_the_sums_is_undone_and_widens_the_interval():
    people, race, choice, places = register()
    n = len(places["unit"])
    votes = {"yes": np.bincount(people["unit"], choice, n), "no": np.bincount(people["unit"], ~choice, n)}
    truth = np.array([choice[race == r].mean() for r in (0, 1)])
    counts = group_counts(people, by="unit", probabilities=["a", "b"], places=places, calibration_sd=0.4)
    taken, carried = rxc(beside(replace(counts, covariance=None), votes)), rxc(beside(counts, votes))
    plain = np.array([np.average(choice, weights=people[g]) for g in ("a", "b")])
    # attenuated: the groups are pulled toward each other by weighting, less by sums, least when the error is undone
    apart = [values[0] - values[1] for values in (plain, taken["estimate"][[0, 2]], carried["estimate"][[0, 2]], truth)]
    assert apart == sorted(apart)
    assert (carried["std_error"] > taken["std_error"]).all()
    assert "sums of membership probabilities" in carried.warnings[-1]
    assert "sums of membership probabilities" in goodman(beside(counts, votes)).warnings[-1]
    exact = group_counts(people, by="unit", probabilities=["a", "b"], places=places)
    np.testing.assert_array_equal(rxc(beside(exact, votes))["estimate"], taken["estimate"])
    np.testing.assert_allclose(carried["estimate"].reshape(2, 2).sum(axis=1), 1)


def test_repairs_keep_the_covariance_with_its_unit():
    people, _, choice, places = register(n_units=5, size=40)
    yes, no = (np.bincount(people["unit"], c, 5).astype(float) for c in (choice, ~choice))
    yes[2] = np.nan
    no[4] += 40
    counts = group_counts(people, by="unit", probabilities=["a", "b"], places=places)
    whole = beside(counts, {"yes": yes, "no": no}, repair={"missing": "drop", "rest": "none", "excess": "raise"})
    assert whole.tables.units == (0, 1, 3, 4)
    np.testing.assert_allclose(whole.tables.membership[:, 2], counts.covariance[:, 3])
    np.testing.assert_allclose(whole.tables.membership[:, 3], 4 * counts.covariance[:, 4])
    for wrong in (
        {"repair": {"duplicates": "sum"}},
        {"unit": None},
        {"data": {"unit": [7], "yes": [1.0], "no": [1.0]}},
    ):
        with pytest.raises(InputError):
            replace(whole, **wrong).tables  # noqa: B018
    with pytest.raises(InputError):
        rxc(whole, pool="unit")


PEOPLE = {"p": ["a", "a", "b", "a"], "g": [2, 1, 1, 2], "w": [1.0, 2.0, 5.0, 1.0]}
PLACES = {"p": ["b", "a"], "n": [10, 100]}


def test_people_of_known_groups_add_up_to_the_places_totals_and_are_matched_by_name():
    sums = group_counts(PEOPLE, by="p", group="g", places=PLACES, total="n", weight="w")
    assert sums.to_frame().to_pydict() == {"p": ["b", "a"], "1": [10.0, 50.0], "2": [0.0, 50.0]}
    unweighted = group_counts(PEOPLE, by="p", group="g", places=PLACES, total="n")
    np.testing.assert_allclose(unweighted.values[:, 1], [0, 200 / 3])
    found = Counts({"p": ["a", "b"], "y": [60, 4], "n": [40, 6]}, unit="p", groups=sums, outcomes=["y", "n"]).tables
    np.testing.assert_array_equal(found.X, [[50, 50], [10, 0]])
    assert found.membership is None
    assert found.notes == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"places": {"p": ["b"], "n": [10]}},
        {"places": {"p": ["b", "a", "c"], "n": [10, 100, 1]}},
        {"places": {"p": ["b", "a", "a"], "n": [10, 100, 1]}},
        {"places": {"p": ["b", "a"], "n": [10, -1]}},
        {"places": {"p": [1, 2], "n": [10, 100]}},
        {"people": {**PEOPLE, "w": [1, -1, 1, 1]}},
        {"by": "q"},
        {"group": "gg"},
        {"group": 3},
        {"group": None},
    ],
)
def test_bad_people_and_places_get_a_sentence(changed):
    with pytest.raises(InputError):
        group_counts(
            **{"people": PEOPLE, "by": "p", "group": "g", "places": PLACES, "total": "n", "weight": "w", **changed}
        )


def test_the_answer_is_followed_back_along_a_parabola_and_scatter_is_variance():
    x = np.full((4000, 2), 500.0)
    V = np.broadcast_to(np.array([[400.0, -400.0], [-400.0, 400.0]]), (4000, 2, 2))
    both = np.arange(2)
    part = District(np.arange(4000), both, both, x, x.copy(), np.zeros((2, 2)), both, both)
    people = x.sum(axis=0)

    def refit(part):  # an answer that depends on the size of the error, curved, and on its sign
        size = np.mean((part.x[:, 0] - 500) ** 2) / 400
        share = 0.8 - 0.1 * size + 0.01 * size**2 + 0.5 * np.mean(part.x[:, 0] - 500)
        table = np.array([[share, 1 - share], [1 - share, share]])
        return SimpleNamespace(table=table * part.x.sum(axis=0)[:, None])

    start = np.array([[0.8, 0.2], [0.2, 0.8]]) * people[:, None]
    fit = TablePosterior(start, *[np.zeros((2, 2))] * 2, *[np.zeros((1, 2, 2))] * 2, 0.0, 0.0, 0, 1.0)
    found, move, chance = extrapolated(part, fit, V, refit, 0)
    np.testing.assert_allclose(move[0, 0], -0.11, atol=0.01)
    np.testing.assert_allclose(found.table[0, 0] / people[0], 0.91, atol=0.01)
    np.testing.assert_allclose(chance, 0.25 * 400 / 4000, rtol=0.9)
