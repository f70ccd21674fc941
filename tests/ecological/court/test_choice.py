"""Candidate of choice, polarization, margins: draws made so that every chance is known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ecological.margins import counted

import crosslevel as cl
from crosslevel import ecological
from crosslevel.ecological.court.choice import UNDETERMINED, candidate_of_choice, describe_probability
from crosslevel.ecological.court.polarization import margin, polarization
from crosslevel.ecological.tables.layout import Answer, lay_out
from crosslevel.errors import InputError

GROUPS, OUTCOMES = ("black", "white"), ("a", "b", "home")
SHARES = np.array([[0.5, 0.3, 0.2], [0.2, 0.6, 0.2]])
# black: a leads b by .4, .2, .1, -.1, 0 (one draw is level); white: b leads by .5, .4, .3, .2, -.1
DRAWS = np.array(
    [
        [[0.6, 0.2, 0.2], [0.1, 0.6, 0.3]],
        [[0.5, 0.3, 0.2], [0.2, 0.6, 0.2]],
        [[0.4, 0.3, 0.3], [0.2, 0.5, 0.3]],
        [[0.3, 0.4, 0.3], [0.3, 0.5, 0.2]],
        [[0.4, 0.4, 0.2], [0.4, 0.3, 0.3]],
    ]
)


def made(shares=SHARES, draws=DRAWS, groups=GROUPS, outcomes=OUTCOMES, people=(100, 200), **options):
    """An answer of two equal units with these shares; margins are those the shares imply."""
    X = np.tile(np.array(people, dtype=float) / 2, (2, 1))
    cells = X[:, :, None] * np.nan_to_num(shares)
    counts = counted(
        dict(zip(groups, X.T, strict=True)), dict(zip(outcomes, cells.sum(axis=1).T, strict=True)), units=["u", "v"]
    )
    level = None if draws is None else 0.8
    columns = None if draws is None else {"conf_low": shares - 0.01, "conf_high": shares + 0.01}
    answer = Answer(
        cells,
        method="made",
        level=level,
        interval="none" if draws is None else "made",
        columns=columns,
        draws=draws,
        diagnostics={"converged": True, "sensitivity": {"x": [1.0]}},
        warnings=("read this",),
        seed=7,
        **options,
    )
    return lay_out(counts, ("made", {}), answer)


def row(est, **keys):
    """One row as a dict."""
    found = est.select(**keys)
    assert len(found) == 1
    return {n: found.table[n][0].as_py() for n in found.table.column_names}


def test_chances_of_being_first_are_counted_in_the_draws_and_ties_are_split():
    found = candidate_of_choice(made())
    chances = {
        (g, o): p for g, o, p in zip(*(found[n] for n in ("group", "outcome", "probability_first")), strict=True)
    }
    assert chances["black", "a"] == pytest.approx(3.5 / 5)
    assert chances["black", "b"] == pytest.approx(1.5 / 5)
    assert chances["white", "b"] == pytest.approx(4 / 5)
    assert chances["white", "a"] == pytest.approx(1 / 5)
    assert chances["white", "home"] == 0
    assert found["outcome"].tolist()[:3] == ["a", "b", "home"]
    assert found["outcome"].tolist()[3] == "b"
    assert found["rank"].tolist() == [1, 2, 3, 1, 2, 2]


def test_leads_are_over_the_best_of_the_others_with_quantiles_of_the_draws():
    found = row(candidate_of_choice(made()), group="black", outcome="a")
    leads = np.array([0.4, 0.2, 0.1, -0.1, 0.0])
    assert found["lead"] == pytest.approx(0.2)
    assert (found["lead_low"], found["lead_high"]) == pytest.approx(tuple(np.quantile(leads, [0.1, 0.9])))
    assert found["lead_count"] == pytest.approx(20)
    assert found["count"] == pytest.approx(50)
    assert (found["conf_low"], found["conf_high"]) == pytest.approx((0.49, 0.51))  # the method's own
    third = row(candidate_of_choice(made()), group="black", outcome="home")
    assert third["lead"] == pytest.approx(-0.3)


def test_excluded_outcomes_are_nobodys_choice():
    shares = np.array([[0.2, 0.1, 0.7], [0.2, 0.6, 0.2]])
    draws = np.tile(shares, (4, 1, 1))
    assert row(candidate_of_choice(made(shares, draws)), group="black", outcome="home")["rank"] == 1
    found = candidate_of_choice(made(shares, draws), exclude="home")
    assert set(found["outcome"]) == {"a", "b"}
    black = row(found, group="black", outcome="a")
    assert (black["rank"], black["lead"], black["probability_first"]) == pytest.approx((1, 0.1, 1.0))
    assert black["estimate"] == pytest.approx(0.2)  # still a share of the whole group
    assert "leaving out home" in found.title


def test_outcomes_that_are_level_share_the_first_place():
    shares = np.array([[0.4, 0.4, 0.2], [0.2, 0.6, 0.2]])
    found = candidate_of_choice(made(shares, np.tile(shares, (3, 1, 1))))
    black = found.select(group="black")
    assert black["rank"].tolist() == [1, 1, 3]
    assert black["probability_first"].tolist() == [0.5, 0.5, 0.0]
    assert black["lead"].tolist() == pytest.approx([0.0, 0.0, -0.2])
    assert "black: a and b are tied with 0.400 of everybody in the group each." in found.diagnostics["findings"]
    apart = polarization(made(shares, np.tile(shares, (3, 1, 1))), GROUPS)
    assert apart["choices_differ"].tolist() == [None, None, None]
    assert apart["probability_choices_differ"][0] == pytest.approx(0.5)


def test_the_order_of_outcomes_does_not_matter():
    order = [2, 0, 1]
    turned = made(SHARES[:, order], DRAWS[:, :, order], outcomes=tuple(np.array(OUTCOMES)[order]))
    for ask in (candidate_of_choice, lambda r: polarization(r, GROUPS), lambda r: margin(r, ("a", "b"))):
        one, two = ask(made()), ask(turned)
        assert len(one) == len(two)
        for i in range(len(one)):
            keys = {k: one[k][i] for k in one.keys}
            again = row(two, **keys)
            for name in one.table.column_names:
                value = one.table[name][i].as_py()
                same = pytest.approx(value, abs=1e-12) if isinstance(value, float) else value
                assert again[name] == same, (keys, name)


def test_differences_between_groups():
    found = polarization(made(), GROUPS, threshold=0.15)
    a, b = row(found, outcome="a"), row(found, outcome="b")
    differences = np.array([0.5, 0.3, 0.2, 0.0, 0.0])  # a: black less white
    assert a["estimate"] == pytest.approx(0.3)
    assert (a["conf_low"], a["conf_high"]) == pytest.approx(tuple(np.quantile(differences, [0.1, 0.9])))
    assert (a["probability_above"], a["probability_below"]) == (0.6, 0.0)
    assert (b["probability_above"], b["probability_below"]) == (0.0, 0.6)  # -.4 -.3 -.2 -.1 +.1
    assert (a["count_a"], a["count_b"]) == pytest.approx((50, 40))
    assert (a["share_a"], a["share_b"]) == pytest.approx((0.5, 0.2))
    # choices differ in draws 1 to 3; draw 4: b and b; draw 5: black is level, white a, so half
    assert a["probability_choices_differ"] == pytest.approx(3.5 / 5)
    back = row(polarization(made(), GROUPS[::-1]), outcome="a")
    assert back["estimate"] == pytest.approx(-0.3)
    assert (back["lower"], back["upper"]) == pytest.approx((-a["upper"], -a["lower"]))


@pytest.mark.parametrize(("level", "differ"), [(0.6, True), (0.7, True), (0.75, None), (0.95, None)])
def test_whether_choices_differ_is_null_where_a_choice_is_less_probable_than_the_level(level, differ):
    """Black choose a with probability .7, white choose b with .8."""
    assert polarization(made(), GROUPS, level=level)["choices_differ"].tolist() == [differ] * 3
    choice = candidate_of_choice(made(), level=level).diagnostics["findings"]
    assert [UNDETERMINED in text for text in choice] == [level > 0.7, level > 0.8]


def test_leads_in_each_group():
    found = margin(made(), ("a", "b"))
    black = row(found, group="black")
    leads = np.array([0.4, 0.2, 0.1, -0.1, 0.0])
    assert black["estimate"] == pytest.approx(0.2)
    assert black["probability"] == pytest.approx(3 / 5)  # a tie is no lead
    assert black["count"] == pytest.approx(20)
    low, high = np.quantile(leads, [0.1, 0.9])
    assert (black["conf_low"], black["count_low"], black["count_high"]) == pytest.approx((low, 100 * low, 100 * high))
    np.testing.assert_allclose(found.draws[:, 0], leads, atol=1e-12)
    assert row(margin(made(), ("b", "a")), group="black")["estimate"] == pytest.approx(-0.2)


@pytest.mark.parametrize(
    "ask", [candidate_of_choice, lambda r: polarization(r, GROUPS), lambda r: margin(r, ("a", "b"))]
)
def test_the_words_of_the_result_are_carried_over(ask):
    found = ask(made())
    assert "read this" in found.warnings
    assert found.provenance.seed == 7
    assert "(crosslevel.ecological.made(crosslevel.Counts(counts, " in found.provenance.call
    assert set(found.provenance.data) == {"counts"}
    assert found.diagnostics["converged"] is True
    assert "sensitivity" not in found.diagnostics  # its rows are those of another table
    assert "80 % interval" in found.summary()
    assert any("rest on 5 draws" in w for w in found.warnings)
    assert found.title in cl.report(found).html().replace("&#39;", "'")
    assert found.equals(cl.Estimates.from_json(found.to_json()))


@pytest.mark.parametrize(
    "ask", [candidate_of_choice, lambda r: polarization(r, GROUPS), lambda r: margin(r, ("a", "b"))]
)
def test_without_draws_there_is_a_point_and_no_chance(ask):
    found = ask(made(draws=None))
    assert np.isfinite(found["estimate"]).all()
    chances = [n for n in found.table.column_names if n.startswith("probability") or n.endswith(("_low", "_high"))]
    assert len(chances) > 2
    assert all(np.isnan(found[n]).all() for n in chances)
    assert found.level is None
    assert any("rxc, king and multinomial_dirichlet have draws" in w for w in found.warnings)
    assert "no interval" in found.summary()
    cl.report(found).html()


def test_bounds_are_not_estimates_and_comparisons_are_answered_by_method():
    people, votes = {"x": [10, 40, 70, 90], "y": [90, 60, 30, 10]}, {"a": [25, 36, 48, 55], "b": [75, 64, 52, 45]}
    both = candidate_of_choice(ecological.compare(counted(people, votes), methods=["bounds", "goodman"]))
    assert both.keys == ("method", "group", "outcome")
    assert any("Midpoints of bounds are not estimates" in w for w in both.warnings)
    alone = candidate_of_choice(ecological.goodman(counted(people, votes)))
    np.testing.assert_array_equal(both.select(method="goodman")["lead"], alone["lead"])
    assert not any("Midpoints" in w for w in alone.warnings)


def test_a_group_without_people_is_null():
    shares = np.array([[0.5, 0.3, 0.2], [np.nan] * 3])
    draws = DRAWS.copy()
    draws[:, 1] = np.nan
    result = made(shares, draws, people=(100, 0))
    found = candidate_of_choice(result).select(group="white")
    assert found.table["rank"].to_pylist() == [None] * 3
    assert np.isnan(found["probability_first"]).all()
    apart = polarization(result, GROUPS)
    assert np.isnan(apart["estimate"]).all()
    assert np.isnan(apart["probability_choices_differ"]).all()
    assert apart["choices_differ"].tolist() == [None] * 3
    leads = margin(result, ("a", "b"))
    assert np.isnan(leads.select(group="white")["lower"]).all()
    assert np.isfinite(leads.select(group="black")["lower"]).all()


@pytest.fixture(scope="module")
def pooled():
    rng = np.random.default_rng(0)
    people = np.array([rng.multinomial(200, rng.dirichlet([1, 1, 1])) for _ in range(16)])
    rates = np.array([[0.6, 0.2, 0.2], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])
    inner = np.array([[rng.multinomial(n, p) for n, p in zip(unit, rates, strict=True)] for unit in people])
    inner[:8, 0] = 0  # the first district has no first group
    X, T = inner.sum(axis=2), inner.sum(axis=1)
    groups, outcomes = dict(zip("xyz", X.T, strict=True)), dict(zip(("a", "b", "home"), T.T, strict=True))
    return ecological.rxc(counted(groups, outcomes, place=["n"] * 8 + ["s"] * 8), pool="place")


def test_pooled_districts_are_answered_one_by_one(pooled):
    lead = margin(pooled, ("a", "b"))
    assert lead.keys == ("district", "group")
    assert len(lead) == 6
    north, south = (pooled.select(district=d) for d in ("n", "s"))
    for part, name in ((north, "n"), (south, "s")):
        alone = margin(part, ("a", "b"))
        for column in ("estimate", "conf_low", "probability", "lower", "upper"):
            np.testing.assert_array_equal(alone[column], lead.select(district=name)[column])
    assert np.isnan(lead.select(district="n", group="x")["estimate"]).all()
    assert lead.diagnostics["bounds"] == "sharp"
    known = lead.table.filter(np.isfinite(lead["estimate"]))
    assert (known["lower"].to_numpy() <= known["conf_low"].to_numpy() + 1e-9).all()
    choice = candidate_of_choice(pooled, exclude="home")
    assert choice.keys == ("district", "group", "outcome")
    first = choice["rank"] == 1
    assert first.sum() == 5  # one group is missing in one district
    apart = polarization(pooled, ("y", "z"), exclude="home")
    assert len(apart) == 4
    assert len(apart.diagnostics["findings"]) == 2
    assert apart.diagnostics["findings"][0].startswith("n: y choose ")


@pytest.mark.parametrize(
    "ask",
    [
        lambda r: candidate_of_choice(r, exclude="hme"),
        lambda r: candidate_of_choice(r, exclude=["a", "b"]),
        lambda r: candidate_of_choice(r, level=95),
        lambda r: candidate_of_choice(r, exclude=3),
        lambda r: polarization(r, ("black", "whte")),
        lambda r: polarization(r, "black"),
        lambda r: polarization(r, ("black", "black")),
        lambda r: polarization(r, GROUPS, outcome="c"),
        lambda r: polarization(r, GROUPS, threshold=10),
        lambda r: polarization(r, GROUPS, threshold=True),
        lambda r: margin(r, ("a",)),
        lambda r: margin(r, ("a", "B2")),
        lambda r: margin({"a": 1}, ("a", "b")),
        lambda r: margin(margin(r, ("a", "b")), ("a", "b")),
        lambda r: margin(made(draws=None), ("a", "b"), level=0.9),
        lambda r: candidate_of_choice(made(draws=None), level=0.9),
    ],
)
def test_mistakes_get_a_sentence(ask):
    with pytest.raises(InputError):
        ask(made())


def test_a_chance_is_never_said_to_be_certain():
    assert describe_probability(1.0, 100) == "above 0.99"
    assert describe_probability(0.995, 200) == "0.995"
    assert describe_probability(0.0, 50) == "below 0.02"
