"""Standard errors of a survey's design: another program's numbers, the formula by hand, every kind of statistic, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import crosslevel as cl
from crosslevel.data.readers import read_labels
from crosslevel.ecological import group_counts
from crosslevel.errors import InputError
from crosslevel.results import SurveyDesign

R = 80


def _people() -> pd.DataFrame:
    rng = np.random.default_rng(11)
    n = 240
    d = pd.DataFrame({"stratum": np.repeat(np.arange(6), 40), "psu": np.tile(np.repeat(np.arange(5), 8), 6)})
    d["sex"], d["age"] = rng.integers(1, 3, n), rng.integers(1, 4, n)
    effect = rng.normal(0, 0.8, (6, 5))[d["stratum"], d["psu"]]
    d["ill"] = (rng.random(n) < 1 / (1 + np.exp(-(effect + 0.5 * (d["age"] - 2))))).astype(int)
    d["w"] = np.round(np.exp(rng.normal(4, 0.5, n)), 2)
    for r in range(1, R + 1):
        d[f"w{r}"] = np.round(d["w"] * (1 + rng.choice([-0.7, 0.7, 0], n, p=[0.25, 0.25, 0.5]) * 0.5), 2)
    return d


PEOPLE = _people()
CLUSTERS = SurveyDesign("w", strata="stratum", cluster="psu")
REPLICATES = SurveyDesign("w", replicates="w")
WEIGHTS = PEOPLE[[f"w{r}" for r in range(1, R + 1)]].to_numpy()


def column(found, name="std_error"):
    return np.asarray(found[name], dtype=float)


def test_strata_and_clusters_agree_with_svy():
    """Of svy 0.35.0: Sample(d, Design(stratum=, psu=, wgt=)).estimation.mean("ill", by="sex") and .total("ill")."""
    means, total = CLUSTERS.means(PEOPLE, "ill", by="sex"), CLUSTERS.totals(PEOPLE, "ill")
    np.testing.assert_allclose(column(means, "estimate"), [0.5377511795636577, 0.5657181135606151], rtol=1e-12)
    np.testing.assert_allclose(column(means), [0.06578460583842749, 0.06046861519914268], rtol=1e-10)
    np.testing.assert_allclose(column(means, "conf_low"), [0.4019784261964606, 0.440917025627466], rtol=1e-9)
    np.testing.assert_allclose(
        [column(total, "estimate")[0], column(total)[0]], [8312.47, 818.9301991317698], rtol=1e-10
    )


def test_successive_differences_agree_with_svy_and_by_hand():
    """Of svy 0.35.0: Design(wgt=, rep_wgts=SdrWgts(prefix="w", n_reps=80)), variance around the estimate."""
    means, total = REPLICATES.means(PEOPLE, "ill", by="sex"), REPLICATES.totals(PEOPLE, "ill")
    np.testing.assert_allclose(column(means), [0.027144149562703224, 0.02501221779794186], rtol=1e-10)
    np.testing.assert_allclose(column(means, "conf_high"), [0.5917802577672584, 0.6155036877348502], rtol=1e-9)
    np.testing.assert_allclose(column(total), [432.0803460353181], rtol=1e-10)
    y, w = PEOPLE["ill"].to_numpy(), PEOPLE["w"].to_numpy()
    again = 4 / R * sum((v @ y / v.sum() - w @ y / w.sum()) ** 2 for v in WEIGHTS.T)
    assert column(REPLICATES.means(PEOPLE, "ill"))[0] == pytest.approx(np.sqrt(again))


@pytest.mark.parametrize(
    ("given", "scale"),
    [({"method": "brr"}, 1 / R), ({"method": "jackknife"}, (R - 1) / R), ({"method": "bootstrap"}, 1 / R)],
)
def test_other_replicates_have_their_own_factor(given, scale):
    found = column(SurveyDesign("w", replicates="w", **given).means(PEOPLE, "ill"))[0]
    assert found == pytest.approx(column(REPLICATES.means(PEOPLE, "ill"))[0] * np.sqrt(scale * R / 4))
    fay = column(SurveyDesign("w", replicates="w", method="fay", fay=0.5).means(PEOPLE, "ill"))[0]
    assert fay == pytest.approx(column(REPLICATES.means(PEOPLE, "ill"))[0])


def test_standardized_rates_by_hand():
    standard = {1: 30, 2: 30, 3: 40}
    found = REPLICATES.standardized(PEOPLE, "ill", "age", standard, by="sex")

    def rate(w, sex):
        parts = [
            np.average(PEOPLE["ill"][own], weights=w[own])
            for a in (1, 2, 3)
            for own in [(PEOPLE["age"] == a) & (PEOPLE["sex"] == sex)]
        ]
        return np.dot([0.3, 0.3, 0.4], parts)  # fmt: skip

    for i, sex in enumerate((1, 2)):
        at = rate(PEOPLE["w"], sex)
        error = np.sqrt(4 / R * sum((rate(PEOPLE[f"w{r}"], sex) - at) ** 2 for r in range(1, R + 1)))
        assert column(found, "estimate")[i] == pytest.approx(at)
        assert column(found)[i] == pytest.approx(error)
        assert column(found, "crude")[i] == pytest.approx(
            column(REPLICATES.means(PEOPLE, "ill", by="sex"), "estimate")[i]
        )


def test_linearization_and_bootstrap_agree_on_a_standardized_rate():
    standard = {1: 0.3, 2: 0.3, 3: 0.4}
    linear = column(CLUSTERS.standardized(PEOPLE, "ill", "age", standard))[0]
    ages, ill = PEOPLE["age"].to_numpy(), PEOPLE["ill"].to_numpy()

    def rate(w):
        return sum(s * np.average(ill[ages == a], weights=w[ages == a]) for a, s in standard.items())

    boot = column(CLUSTERS.vary(PEOPLE, rate, n_replicates=800))[0]
    assert boot == pytest.approx(linear, rel=0.1)


def test_bags_embeddings_and_group_counts_carry_the_design():
    """Means of bags, mean embeddings and counts of groups: each as a function of weights, its error as the formula by hand."""
    y, w = PEOPLE["ill"].to_numpy(), PEOPLE["w"].to_numpy()

    def bag_means(weight):
        bags = cl.Bags.from_frame(PEOPLE.assign(w=weight), by="stratum", columns=["ill"], weight="w")
        return [np.average(bags[b].values[:, 0], weights=bags[b].weights) for b in range(len(bags))]

    def by_hand(statistic):
        at = np.asarray(statistic(w))
        return np.sqrt(4 / R * sum((np.asarray(statistic(v)) - at) ** 2 for v in WEIGHTS.T))

    found = REPLICATES.vary(PEOPLE, bag_means, names=[f"stratum {h}" for h in range(6)])
    np.testing.assert_allclose(column(found), column(REPLICATES.means(PEOPLE, "ill", by="stratum")), rtol=1e-9)

    embedding = cl.MeanEmbedding(n_features=8, random_state=0).fit(
        PEOPLE, by="stratum", columns=["ill", "age"], weight="w"
    )

    def embedded(weight):
        return embedding.transform(PEOPLE.assign(w=weight), by="stratum", weight="w").values

    short = SurveyDesign("w", replicates=[f"w{r}" for r in range(1, 9)], method="brr").vary(PEOPLE, embedded)
    at = np.ravel(embedded(w))
    np.testing.assert_allclose(
        column(short), np.sqrt(np.mean([(np.ravel(embedded(v)) - at) ** 2 for v in WEIGHTS.T[:8]], axis=0)), rtol=1e-9
    )

    places = pd.DataFrame({"stratum": np.arange(6), "total": 100.0})

    def counts(weight):
        made = group_counts(
            PEOPLE.assign(w=weight), by="stratum", group="sex", places=places, total="total", weight="w"
        )
        return made[0].to_numpy()

    np.testing.assert_allclose(
        column(REPLICATES.vary(PEOPLE, counts)), by_hand(lambda v: np.ravel(counts(v))), rtol=1e-9
    )
    assert (y >= 0).all()


def test_imputers_carry_the_design_beside_their_own_error():
    means = pd.DataFrame({"stratum": np.arange(6), "smokes": np.linspace(0.2, 0.5, 6)})

    def imputed(weight):
        model = cl.CrossLevelImputer(n_restarts=0)
        return model.fit(PEOPLE[["age", "ill"]], PEOPLE["stratum"], means, sample_weight=weight).estimate("age")

    few = SurveyDesign("w", replicates=["w1", "w2", "w3", "w4"], method="brr")
    with pytest.warns(cl.errors.CrosslevelWarning):
        found, own = few.vary(PEOPLE, imputed), imputed(PEOPLE["w"].to_numpy())
    assert found.keys == own.keys
    np.testing.assert_allclose(column(found) ** 2, column(own) ** 2 + column(found, "design_std_error") ** 2)
    assert (column(found, "design_std_error") > 0).all()


def test_a_lonely_cluster_is_refused_or_treated():
    lone = PEOPLE.assign(stratum=np.where(PEOPLE.index == 7, 99, PEOPLE["stratum"]))
    with pytest.raises(InputError, match="strata="):
        SurveyDesign("w", strata="stratum").means(lone, "ill")
    certain, center = (
        column(SurveyDesign("w", strata="stratum", lonely=how).means(lone, "ill"))[0] for how in ("certainty", "center")
    )
    assert 0 < certain < center


@pytest.mark.parametrize(
    "given",
    [
        {"weight": 3},
        {"weight": "w", "method": "srs"},
        {"weight": "w", "method": "brr"},
        {"weight": "w", "replicates": "w", "strata": "stratum"},
        {"weight": "w", "replicates": "w", "fay": 0.3},
        {"weight": "w", "replicates": "w", "method": "fay"},
        {"weight": "w", "lonely": "center"},
    ],
)
def test_designs_that_cannot_be_are_refused(given):
    with pytest.raises(InputError):
        SurveyDesign(**given)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: SurveyDesign("wt").means(PEOPLE, "ill"),
        lambda: SurveyDesign("w", replicates="pw").means(PEOPLE, "ill"),
        lambda: CLUSTERS.means(PEOPLE, "il"),
        lambda: CLUSTERS.means(PEOPLE.assign(w=-1.0), "ill"),
        lambda: CLUSTERS.means(PEOPLE.assign(ill=np.nan), "ill"),
        lambda: CLUSTERS.standardized(PEOPLE, "ill", "age", {1: 1.0}),
        lambda: CLUSTERS.standardized(PEOPLE, "ill", "age", {1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0}),
        lambda: CLUSTERS.standardized(PEOPLE, "ill", "age", {1: 0.0, 2: 0.0, 3: 0.0}),
        lambda: CLUSTERS.means(PEOPLE.assign(people=PEOPLE["age"]), "ill", by="people"),
        lambda: CLUSTERS.totals(PEOPLE.assign(people=PEOPLE["age"]), by="people"),
        lambda: REPLICATES.vary(PEOPLE, np.sum, n_replicates=9),
        lambda: REPLICATES.vary(PEOPLE, np.sum, names=["a", "b"]),
        lambda: REPLICATES.vary(PEOPLE, lambda w: np.nan),
    ],
)
def test_questions_that_cannot_be_answered_are_refused(ask):
    with pytest.raises(InputError):
        ask()


def test_labels_of_a_codebook_reach_tables_and_reports(tmp_path):
    book = read_labels({"variable": ["sex", "sex", "race"], "code": [1, 2, 1], "label": ["men", "women", "white"]})
    found = CLUSTERS.means(PEOPLE, "ill", by="sex").with_labels(
        book
    )  # race is not in the table, and a codebook may have more
    assert found["sex"].tolist() == ["men", "women"]
    cl.report(CLUSTERS.means(PEOPLE, "ill", by="sex"), tmp_path / "report.html", labels=book)
    assert "women" in (tmp_path / "report.html").read_text(encoding="utf-8")
    with pytest.raises(InputError):
        CLUSTERS.means(PEOPLE, "ill").with_labels(read_labels({"variable": ["race"], "code": [1], "label": ["white"]}))


def test_labels_of_spss_and_stata_files(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    words = {"sex": {1: "men", 2: "women"}}
    small = PEOPLE[["sex", "ill"]]
    pyreadstat.write_sav(small, str(tmp_path / "small.sav"), variable_value_labels=words)
    pyreadstat.write_dta(small, str(tmp_path / "small.dta"), variable_value_labels=words)
    for name in ("small.sav", "small.dta"):
        found = CLUSTERS.means(PEOPLE, "ill", by="sex").with_labels(read_labels(tmp_path / name))
        assert found["sex"].tolist() == ["men", "women"]
    (tmp_path / "bad.sav").write_bytes(b"no")
    for source in (
        tmp_path / "bad.sav",
        tmp_path / "none.dta",
        "codes.txt",
    ):
        with pytest.raises(InputError):
            read_labels(source)


@pytest.mark.parametrize(
    "rows",
    [
        {"variable": ["a", "a"], "code": [1, 1], "label": ["x", "y"]},
        {"variable": [None], "code": [1], "label": ["x"]},
        {"name": ["a"], "code": [1], "label": ["x"]},
    ],
)
def test_codebooks_that_contradict_themselves_are_refused(rows):
    with pytest.raises(InputError):
        read_labels(rows)


def test_brfss_agrees_with_svy():
    """Of svy 0.35.0, Design(stratum=, wgt=, singleton=Singleton("skip")) on the same file: diabetes by age group, 347,326 people."""
    folder = os.environ.get("CROSSLEVEL_DATA")
    file = Path(folder or "") / "brfss2016" / "brfss2016_division.parquet"
    if not folder or not file.is_file():
        pytest.skip("CROSSLEVEL_DATA has no BRFSS extract")
    people = pd.read_parquet(file, columns=["stratum", "weight", "age_group", "diabetes"]).dropna()
    found = SurveyDesign("weight", strata="stratum", lonely="certainty").means(people, "diabetes", by="age_group")
    np.testing.assert_allclose(column(found, "estimate"), BRFSS[0], rtol=1e-9)
    np.testing.assert_allclose(column(found), BRFSS[1], rtol=1e-8)


BRFSS = (
    [
        0.009365272022162906,
        0.018784268724020753,
        0.05434833026005089,
        0.11100177601711164,
        0.17802271809672765,
        0.23373925466544723,
    ],
    [
        0.00086941116920263,
        0.0011939327932316514,
        0.0020021977621435265,
        0.002459724272321332,
        0.0031093460523787917,
        0.0028138361697336374,
    ],
)


FOUR = {"y": [1.0, 0.0, 1.0, 2.0], "w": [1.0] * 4, "r1": [2.0, 0.0, 1.0, 1.0], "r2": [0.0, 2.0, 1.0, 1.0]}


def test_the_weight_itself_is_no_replicate():
    """The column r0 is the weight, under its own name or a copy of it: 1/2 of two squared differences of 1/4 each."""
    for weight in ("r0", "w"):
        found = SurveyDesign(weight, replicates="r", method="brr").means({**FOUR, "r0": FOUR["w"]}, "y")
        np.testing.assert_allclose(column(found), [0.25])


@pytest.mark.parametrize(
    "more",
    [{"r4": FOUR["r1"]}, {"r_2": FOUR["r1"]}],
    ids=["gap", "twice"],
)
def test_replicates_that_are_not_all_there_are_refused(more):
    with pytest.raises(InputError):
        SurveyDesign("w", replicates="r").means({**FOUR, **more}, "y")


def test_one_replicate_is_refused():
    with pytest.raises(InputError, match="replicates="):
        SurveyDesign("w", replicates=["r1"]).means(FOUR, "y")


def test_a_lonely_stratum_is_not_centered_by_the_bootstrap():
    people = {"y": [1.0, 2.0, 3.0, 4.0, 5.0], "w": [1.0] * 5, "s": [1, 1, 2, 2, 3]}
    design = SurveyDesign("w", strata="s", lonely="center")
    assert column(design.means(people, "y"))[0] > 0.4
    with pytest.raises(InputError, match="lonely="):
        design.vary(people, lambda w: w.sum())


def test_one_row_is_refused_with_a_repair_that_works():
    with pytest.raises(InputError):
        SurveyDesign("w").means({"y": [1.0], "w": [1.0]}, "y")


def test_people_of_weight_zero_change_nothing():
    design = SurveyDesign("w", strata="s")
    people = {"y": [1.0, 0.0, 1.0, 1.0], "w": [1.0] * 4, "s": [1] * 4, "age": ["a"] * 4}
    nobody = {
        k: [*v, *more] for (k, v), more in zip(people.items(), ([5.0] * 2, [0.0] * 2, [2] * 2, ["b"] * 2), strict=True)
    }
    for name in ("estimate", "std_error", "design_effect"):
        np.testing.assert_allclose(column(design.means(nobody, "y"), name), column(design.means(people, "y"), name))
    few, more = (design.standardized(p, "y", "age", {"a": 1.0, "b": 0.0}) for p in ({**people}, nobody))
    np.testing.assert_allclose(column(more), column(few))


def test_an_infinite_share_of_a_standard_is_refused():
    with pytest.raises(InputError):
        SurveyDesign("w").standardized({**FOUR, "age": list("aabb")}, "y", "age", {"a": np.inf, "b": 1.0})


@pytest.mark.parametrize("columns", [0, True, float("inf"), "code", ("variable", 1, "label")])
def test_columns_of_a_codebook_are_three_names(columns):
    with pytest.raises(InputError):
        read_labels({"variable": ["sex"], "code": [1], "label": ["men"]}, columns=columns)


def test_replicate_factors_are_refused_and_the_weight_is_no_replicate():
    """Factors near one in place of weights of hundreds left the weights out of every replicate."""
    people = {**FOUR, "w": [100.0, 200.0, 100.0, 100.0]}
    with pytest.raises(InputError):
        SurveyDesign("w", replicates="r").means(people, "y")
    with pytest.raises(InputError):
        SurveyDesign("w", replicates=["w", "r1", "r2"]).means(FOUR, "y")


def test_a_standard_error_of_zero_is_no_certainty():
    people = {"y": [0.7, 0.3, 0.3, 0.3, 0.2, 0.9], "w": [3.0, 1.0, 2.0, 0.7, 1.0, 1.0], "g": list("abbbcc")}
    found = SurveyDesign("w").means(people, "y", by="g")
    assert (column(found)[:2] < 1e-12).all()
    assert column(found)[2] > 0.1
    assert any("y: 2 estimate(s), the first of {'g': 'a'}" in said for said in found.warnings)
    assert not SurveyDesign("w").means(people, "y").warnings


def test_sums_that_cannot_be_held_are_refused():
    for design, people in ((SurveyDesign("w"), {"y": [1e300, 0.0, 1e300], "w": [1.0, 2.0, 1.0]}),):
        with pytest.raises(InputError), np.errstate(all="ignore"):
            design.means(people, "y")
