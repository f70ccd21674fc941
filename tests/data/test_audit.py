"""What is suspicious is found and said, each thing beside an innocent look-alike, and real files raise no alarm."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crosslevel as cl
from crosslevel.data.audit import TESTS
from crosslevel.data.simulate import nation
from crosslevel.errors import CrosslevelWarning, InputError

RNG = np.random.default_rng(0)
N = 60
TOWNS = [f"town {i % 12}" for i in range(N)]
BASE = {"town": TOWNS, "age": RNG.permutation(np.arange(N) % 40 + 18), "sex": RNG.choice(["f", "m"], N)}
BASE |= {"w": RNG.uniform(0.5, 3.0, N)}
VOTES = RNG.integers(300, 5000, 12)
PLACES = {"town": [f"town {i}" for i in range(12)], "votes": VOTES, "dem": RNG.binomial(VOTES, 0.4)}
PLACES |= {"white": RNG.binomial(2 * VOTES, 0.6), "lon": RNG.uniform(-120, -70, 12), "lat": RNG.uniform(25, 49, 12)}
PLACES |= {"black": 2 * VOTES - PLACES["white"]}


def people(by="town", weight="w", categorical=(), columns=None, **changed):
    return cl.People(pa.table(BASE | changed), by=by, weight=weight, categorical=categorical, columns=columns)


def places(coords=("lon", "lat"), **changed):
    rows = {name: changed.pop(name) for name in (*PLACES, "all") if name in changed}
    return cl.Places(
        pa.table(PLACES | rows), **{"by": "town", "successes": "dem", "trials": "votes"} | changed, coords=coords
    )


def counts(columns=("white", "black"), weight=None, **changed):
    return [cl.GroupCounts({"race": list(columns)}, weight), places(**changed)]


def survey(**changed):
    asked = {"age": BASE["age"], "sex": BASE["sex"], "vote": np.arange(N) % 2}
    return [people(), cl.Survey(pa.table(asked | changed), outcome="vote", name="poll")]


def with_total(rows):
    """Put a row below that counts all others together."""
    table = pa.table(PLACES)
    numbers = {n: [*table[n].to_pylist(), sum(table[n].to_pylist())] for n in ("votes", "dem", "white", "black")}
    return {**numbers, "town": [*PLACES["town"], "all"], "lon": [0.0] * 13, "lat": [0.0] * 13}


def subtotals(extra=0):
    """Put a row below every four places that counts them together."""
    rows = []
    for start in range(0, 12, 4):
        part = [{n: int(PLACES[n][i]) for n in ("votes", "dem")} | {"town": f"t{i}"} for i in range(start, start + 4)]
        rows += [*part, {n: sum(r[n] for r in part) + extra for n in ("votes", "dem")} | {"town": f"county {start}"}]
    return cl.Places(pd.DataFrame(rows), by="town", successes="dem", trials="votes")


SHARE, THREE = PLACES["dem"] / VOTES, ("white", "black", "all")
CASES = {  # test: what is found, what is innocent
    "shares": ([places(dem=SHARE)], [places(dem=SHARE * VOTES)]),
    "shares: yes and no": ([places(dem=SHARE > 0.4)], [places(dem=(SHARE > 0.4).astype(int))]),
    "percent": ([places(dem=np.round(100 * SHARE, 1))], [places(dem=np.minimum(PLACES["dem"], VOTES))]),
    "percent: whole numbers": (
        [places(votes=VOTES * 10, dem=np.round(RNG.uniform(20, 80, 12)))],
        [places(votes=np.full(12, 2000), dem=np.round(RNG.uniform(20, 80, 12)))],
    ),
    "percent of groups": (counts(white=np.round(100 * SHARE), black=100 - np.round(100 * SHARE)), counts()),
    "missing code": ([people(age=[999, -9, 999, *[40] * 5, *range(20, 72)])], [people(age=[99, *range(40, 99)])]),
    "missing code: of codes": ([people(sex=[1, 2, 1, 99, 99] * 12)], [people(sex=[1, 2, 1, 99, 99] * 12, categorical=["sex"])]),
    "total row": ([places(**with_total(PLACES))], [places(**{**with_total(PLACES), "votes": [*VOTES, VOTES.sum() + 1]})]),
    "total row: subtotals": ([subtotals()], [subtotals(extra=1)]),
    "total column": (counts(THREE, all=2 * VOTES), counts(THREE, all=2 * VOTES + np.arange(12) % 2)),
    "names alike": ([people(town=["Town 1", *TOWNS[1:]])], [people(town=["town  99", *TOWNS[1:]])]),
    "names alike: a blank": ([people(sex=["f", "m ", *BASE["sex"][2:]])], [people()]),
    "names alike: a letter": ([people(town=["tоwn 1", *TOWNS[1:]])], [people(town=["tüwn 1", *TOWNS[1:]])]),
    "names alike: in places": ([people(), places(town=[f"Town {i}" for i in range(12)])], [people(), places()]),
    "names alike: in counts": (
        [cl.Counts({"unit": ["A", "a", "B"], "x": [3, 4, 5], "y": [5, 6, 9]}, unit="unit", groups=["x", "y"])],
        [cl.Counts({"unit": ["A", "C", "B"], "x": [3, 4, 5], "y": [5, 6, 9]}, unit="unit", groups=["x", "y"])],
    ),
    "missing code: of means": ([places(means=["black"], black=[9, 8, 7, 6, 5] * 2 + [99, 99])], [places(means=["black"])]),
    "numbers as text": (
        [people(age=["90+", *map(str, BASE["age"][1:])])],
        [people(age=["012", *map(str, BASE["age"][1:])])],  # codes
    ),
    "column twice": ([people(years=BASE["age"])], [people(years=RNG.permutation(BASE["age"]))]),
    "column twice: trials": (counts(("white", "black"), white=VOTES, black=VOTES[::-1]), counts()),
    "row number": ([people(id=RNG.permutation(N))], [people(id=RNG.integers(0, N, N))]),
    "row number: text": ([people(id=[f"r{i}" for i in range(N)])], [people(id=[f"r{i % 59}" for i in range(N)])]),
    "row number: strata": ([people(_STSTR=np.arange(N) % 7)], [people(strategy=np.arange(N) % 7)]),
    "overlap": (
        counts(white=VOTES, black=VOTES, population="votes"),
        counts(white=2 * VOTES, black=VOTES * 0, population="white"),
    ),
    "weight": ([people(w=BASE["w"] / BASE["w"].sum())], [people()]),
    "weight: counts": (
        [people(w=np.arange(N) % 50 + 1, age=np.arange(N))],
        [people(w=np.arange(N) % 50 + 1, age=np.arange(N) % 3, town=["a"] * N, sex=["f"] * N)],  # a sample: some are alike
    ),
    "one each": ([people(town=[f"t{i}" for i in range(N)])], [people()]),
    "survey code": (survey(sex=["F", *BASE["sex"][1:]]), survey()),
    "coordinates": ([places(coords=("lat", "lon"))], [places()]),
    "coordinates: far": ([places(lat=PLACES["lon"], lon=PLACES["lat"])], [places(coords=None, lat=PLACES["lon"])]),
    "unlike totals": (
        [people(w=[1e3 ** (i % 12 == 3) for i in range(N)]), places(dem=(VOTES * np.linspace(0.1, 0.9, 12)).astype(int))],
        [people(w=VOTES[np.arange(N) % 12] / 5), places(dem=(VOTES * np.linspace(0.1, 0.9, 12)).astype(int))],
    ),
    "unlike totals: groups": (counts(white=VOTES // 4, black=VOTES // 4), counts()),
}  # fmt: skip


def found_in(nouns):
    return {one.test for one in cl.audit(*nouns)}


@pytest.mark.parametrize("case", CASES)
def test_each_thing_is_found_and_an_innocent_one_is_not(case):
    test = case.partition(":")[0].removesuffix(" of groups")
    suspicious, innocent = CASES[case]
    assert test in found_in(suspicious)
    assert test not in found_in(innocent)


def test_every_test_has_a_case_and_there_are_fifteen():
    assert len(TESTS) == 15
    assert {case.partition(":")[0].removesuffix(" of groups") for case in CASES} == {*TESTS}


def test_shares_of_groups_need_their_whole():
    shares = {"white": SHARE, "black": 1 - SHARE}
    assert "shares" in found_in(counts(**shares))
    assert found_in(counts(weight="votes", **shares)) == set()


def test_a_simulated_nation_raises_no_alarm():
    world = nation(60, 80, turnout=0.6)
    everybody = cl.People(world.people, by="region", weight="weight", categorical=["sex"])
    totals = cl.Places(world.places, by="region", successes="dem", trials="votes", coords=("lon", "lat"))
    poll = cl.Survey(world.survey(200, random_state=0), outcome="voted_dem", by="region")
    bags = cl.Bags.from_frame(world.people.drop_null(), by="region", columns=["age", "income", "sex"])
    found = cl.audit(everybody, totals, [poll], bags)
    assert len(found) == 0, found


def test_what_is_found_is_a_table_and_text_is_data():
    table = pa.table({"town": ["'; drop table people; --", "'; DROP table people; --"] * 30, 'ag"e': [1, 2, 999] * 20})
    found = cl.audit(cl.People(table, by="town"))
    frame = found.to_frame("pandas")
    assert frame["test"].tolist() == ["missing code", "names alike"]
    assert frame["n"].tolist() == [20, 2]
    assert list(frame.columns) == ["test", "where", "what", "n", "to_do"]
    assert len(repr(found).splitlines()) == 3
    assert [one.sentence for one in found] == found.sentences
    assert cl.audit().to_frame().num_rows == 0
    with pytest.raises(InputError):
        cl.audit(cl.GroupCounts({"race": ["a", "b"]}))


def test_files_frames_and_published_shares_are_looked_at(tmp_path):
    pq.write_table(pa.table({"age": [30, 41, 999] * 20}), tmp_path / "people.parquet")
    assert found_in([tmp_path / "people.parquet"]) == {"missing code"}
    assert found_in([pd.DataFrame({"age": [30, 41, 999] * 20})]) == {"missing code"}
    shares = cl.PublishedShares({"subgroup": ["sex = 'f'", "sex = 'm'"], "dem": [0.4, 0.6], "votes": [500, 500]})
    assert found_in([places(), shares]) == {"shares"}


def test_a_fit_says_it_once():
    world = nation(24, 60, n_states=4)
    ages = world.people["age"].to_pylist()
    records = world.people.set_column(world.people.column_names.index("age"), "age", pa.array([999, 999, *ages[2:]]))
    everybody = cl.People(records, by="region", weight="weight", columns=["age", "sex"], categorical=["sex"])
    totals = cl.Places(world.places, by="region", successes="dem", trials="votes")
    models = [
        lambda: cl.EcologicalInference(spatial=None).fit(everybody, totals),
        lambda: cl.ecological.DistributionRegression(64, spatial=None).fit(everybody, totals),
        lambda: cl.MeanEmbedding(64).fit(everybody),
    ]
    for fit in models:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", CrosslevelWarning)
            model = fit()
        assert sum("999" in str(one.message) for one in said) == 1
        assert sum("999" in text for text in model.warnings_) == 1


@pytest.mark.data
def test_real_surveys_raise_no_false_alarm(real_data):
    folder = real_data
    columns = ["age", "female", "eth5", "educ6", "marital", "income", "hours", "tenure"]
    codes = ["female", "eth5", "educ6", "marital", "tenure"]
    described = {"by": "region", "weight": "weight", "columns": columns, "categorical": codes}
    census = cl.People(folder / "us2024" / "persons", **described, where="adult_citizen = 1")
    votes = cl.Places(
        folder / "us2024" / "regions_2024.csv",
        by="region",
        successes="votes_dem_2024",
        trials="total_votes_2024",
        population="pop20",
        coords=("lon", "lat"),
    )
    begun = time.perf_counter()
    assert len(cl.audit(census, votes)) == 0
    assert time.perf_counter() - begun < 5
    health = cl.People(folder / "brfss2016" / "brfss2016_division.parquet", by="state", weight="weight")
    assert found_in([health]) == {"row number"}  # its strata
