"""Chains of questions: votes of parts add up to votes of places in every draw, and bounds hold against every table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from crosslevel.data.places import Totals, chain
from crosslevel.ecological.quantities import facts, quantities, summing

Q, PARTS, DRAWS = 12, 3, 25
PLACE = np.repeat(np.arange(Q), PARTS)


def shares(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(PARTS), Q).ravel()


def world(n_outcomes: int, *, exhaustive: bool, turnout: bool) -> tuple[Totals, np.ndarray]:
    """Give totals and the counts of every outcome; some places have nobody left at a later question."""
    rng = np.random.default_rng(1)
    population, voters = np.full(Q, 1000.0), rng.integers(300, 900, Q).astype(float)
    counts = np.array([rng.multinomial(int(v), rng.dirichlet(np.ones(n_outcomes + 1))) for v in voters]).T.astype(float)
    counts[:, 0] = 0
    counts[0, 0] = voters[0]  # everybody for the first: nobody is asked again
    counts[:, 1] = 0
    counts[-1, 1] = voters[1]  # nobody for any of them
    if exhaustive:
        counts[-2] += counts[-1]
    counts = counts[:-1]
    k, left = chain(counts, voters, exhaustive)
    names = tuple(f"o{i}" for i in range(n_outcomes))
    if turnout:
        return Totals(names, np.vstack([voters, k]), np.vstack([population, left]), True), counts
    return Totals(names, k, left, False), counts


def logits(totals: Totals, scale: float = 1.5) -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    return [scale * rng.standard_normal((DRAWS, Q * PARTS)) for _ in totals.trials]


def people_of(part: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Add up over the parts of each place, (n_draws, q)."""
    return (summing(PLACE, Q) @ (part * share).T).T


CASES = [
    (1, False, False),
    (1, False, True),
    (3, True, False),
    (3, True, True),
    (3, False, True),
    (2, True, True),
]


@pytest.mark.parametrize(("n", "exhaustive", "turnout"), CASES)
def test_votes_and_successes_add_up_in_every_draw(n: int, exhaustive: bool, turnout: bool) -> None:
    totals, counts = world(n, exhaustive=exhaustive, turnout=turnout)
    share = shares()
    found, _ = quantities(logits(totals), totals, share, PLACE, share_of="voters")
    base = totals.trials[0]
    for quantity, count in zip(found, counts, strict=True):
        got = people_of(quantity.numerator, share) * base
        np.testing.assert_allclose(got, np.tile(count, (DRAWS, 1)), atol=1e-9 * 1000)
        assert np.all(quantity.numerator >= 0)
        if turnout:
            assert quantity.denominator is not None
            votes = people_of(quantity.denominator, share) * base
            np.testing.assert_allclose(votes, np.tile(totals.successes[0], (DRAWS, 1)), atol=1e-9 * 1000)
            assert np.all(quantity.numerator <= quantity.denominator + 1e-15)
        else:
            assert quantity.denominator is None
    if exhaustive:
        whole = sum(q.numerator for q in found)
        expected = found[0].denominator if turnout else np.ones_like(whole)
        np.testing.assert_allclose(whole, expected, atol=1e-12)


@pytest.mark.parametrize("turnout", [False, True])
def test_outcomes_add_up_to_one_among_voters_without_accounting_too(turnout: bool) -> None:
    totals, _ = world(3, exhaustive=True, turnout=turnout)
    found, shift = quantities(logits(totals), totals, shares(), PLACE, match_totals=False)
    below = found[0].denominator if turnout else 1.0
    np.testing.assert_allclose(sum(q.numerator for q in found) / below, 1.0, rtol=1e-12)
    assert np.isnan(shift).all()


def test_without_accounting_rates_are_those_of_the_logits() -> None:
    totals, _ = world(1, exhaustive=False, turnout=True)
    f = logits(totals)
    f[0][0, 0] = -800.0  # must not overflow
    found, _ = quantities(f, totals, shares(), PLACE, match_totals=False)
    denominator = found[0].denominator
    assert denominator is not None
    np.testing.assert_allclose(denominator, special.expit(f[0]))
    np.testing.assert_allclose(found[0].numerator, special.expit(f[0]) * special.expit(f[1]))


def test_turnout_and_shares_of_people() -> None:
    totals, counts = world(2, exhaustive=True, turnout=True)
    share, f = shares(), logits(totals)
    people, _ = quantities(f, totals, share, PLACE, share_of="people")
    assert [q.denominator for q in people] == [None, None]
    np.testing.assert_allclose(people_of(people[1].numerator, share), np.tile(counts[1] / 1000, (DRAWS, 1)), atol=1e-12)
    only = Totals(("turnout",), totals.successes[:1], totals.trials[:1], True)
    turnout, _ = quantities(f[:1], only, share, PLACE, share_of="turnout")
    assert [q.outcome for q in turnout] == ["turnout"]
    np.testing.assert_allclose(people_of(turnout[0].numerator, share), np.tile(totals.successes[0] / 1000, (DRAWS, 1)))
    voters, _ = quantities(f, totals, share, PLACE, share_of="voters")
    assert voters[0].denominator is not None
    np.testing.assert_allclose(voters[0].denominator, turnout[0].numerator)


def test_places_where_nobody_is_asked_again_have_no_shift() -> None:
    totals, _ = world(3, exhaustive=True, turnout=True)
    assert totals.trials[-1, 0] == 0
    found, shift = quantities(logits(totals), totals, shares(), PLACE)
    assert np.isnan(shift[:, 0]).all()
    assert np.isfinite(shift[:, 2:]).all()
    for quantity in found:
        assert np.isfinite(quantity.numerator).all()


@pytest.mark.parametrize(("n", "exhaustive", "turnout"), CASES)
@pytest.mark.parametrize("of", ["voters", "people"])
def test_rates_stay_inside_the_bounds(n: int, exhaustive: bool, turnout: bool, of: str) -> None:
    totals, counts = world(n, exhaustive=exhaustive, turnout=turnout)
    share = shares(3)
    found, _ = quantities(logits(totals, 6.0), totals, share, PLACE, share_of=of)
    known = facts(totals, share, PLACE, of)
    for quantity, fact, count in zip(found, known, counts, strict=True):
        rate = quantity.numerator / (1.0 if quantity.denominator is None else quantity.denominator)
        assert np.all(rate >= fact.low - 1e-9)
        assert np.all(rate <= fact.high + 1e-9)
        whole = totals.successes[0] if turnout and of == "voters" else totals.trials[0]
        np.testing.assert_allclose(fact.place_rate, count / whole)
        np.testing.assert_array_equal(fact.trials, whole)
        assert fact.fixed == (not (turnout and of == "voters"))
        assert np.all((fact.low <= fact.place_rate[PLACE]) & (fact.place_rate[PLACE] <= fact.high))


@pytest.mark.parametrize(
    ("people", "own", "voters", "yes"),
    [
        (12, 5, 8, 3),
        (12, 5, 12, 3),
        (12, 10, 8, 3),
        (12, 10, 8, 7),
        (6, 3, 4, 4),
        (6, 3, 4, 0),
        (9, 8, 9, 2),
        (9, 1, 3, 1),
        (9, 3, 4, 4),
        (9, 3, 4, 0),
    ],
)
def test_bounds_among_voters_by_enumeration(people: int, own: int, voters: int, yes: int) -> None:
    """Every table of whole people: a of the part say yes, b say no, the rest of the votes must fit elsewhere."""
    rates = [
        a / (a + b)
        for a in range(yes + 1)
        for b in range(voters - yes + 1)
        if 0 < a + b <= own and voters - a - b <= people - own
    ]
    totals = Totals(("yes",), np.array([[voters], [yes]], float), np.array([[people], [voters]], float), True)
    fact = facts(totals, np.array([own / people]), np.array([0]))[0]
    assert fact.low[0] == pytest.approx(min(rates), abs=1e-12)
    assert fact.high[0] == pytest.approx(max(rates), abs=1e-12)
