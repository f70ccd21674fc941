"""Standard errors of a survey's design: another program's numbers, the formula by hand, every kind of statistic, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import crosslevel as cl
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
FOUR = {"y": [1.0, 0.0, 1.0, 2.0], "w": [1.0] * 4, "r1": [2.0, 0.0, 1.0, 1.0], "r2": [0.0, 2.0, 1.0, 1.0]}


def column(found, name="std_error"):
    return np.asarray(found[name], dtype=float)


def test_strata_and_clusters_agree_with_svy():
    """Of svy 0.35.0: Sample(d, Design(stratum=, psu=, wgt=)).estimation.mean("ill", by="sex")."""
    means = CLUSTERS.means(PEOPLE, "ill", by="sex")
    np.testing.assert_allclose(column(means, "estimate"), [0.5377511795636577, 0.5657181135606151], rtol=1e-12)
    np.testing.assert_allclose(column(means), [0.06578460583842749, 0.06046861519914268], rtol=1e-10)
    np.testing.assert_allclose(column(means, "conf_low"), [0.4019784261964606, 0.440917025627466], rtol=1e-9)


def test_successive_differences_agree_with_svy_and_by_hand():
    """Of svy 0.35.0: Design(wgt=, rep_wgts=SdrWgts(prefix="w", n_reps=80)), variance around the estimate."""
    means = REPLICATES.means(PEOPLE, "ill", by="sex")
    np.testing.assert_allclose(column(means), [0.027144149562703224, 0.02501221779794186], rtol=1e-10)
    np.testing.assert_allclose(column(means, "conf_high"), [0.5917802577672584, 0.6155036877348502], rtol=1e-9)
    y, w = PEOPLE["ill"].to_numpy(), PEOPLE["w"].to_numpy()
    again = 4 / R * sum((v @ y / v.sum() - w @ y / w.sum()) ** 2 for v in WEIGHTS.T)
    assert column(REPLICATES.means(PEOPLE, "ill"))[0] == pytest.approx(np.sqrt(again))


@pytest.mark.parametrize(("method", "scale"), [("brr", 1 / R), ("jackknife", (R - 1) / R), ("bootstrap", 1 / R)])
def test_other_replicates_have_their_own_factor(method, scale):
    found = column(SurveyDesign("w", replicates="w", method=method).means(PEOPLE, "ill"))[0]
    assert found == pytest.approx(column(REPLICATES.means(PEOPLE, "ill"))[0] * np.sqrt(scale * R / 4))


def test_linearization_and_bootstrap_agree_on_a_mean():
    ill = PEOPLE["ill"].to_numpy()
    linear = column(CLUSTERS.means(PEOPLE, "ill"))[0]
    boot = column(CLUSTERS.vary(PEOPLE, lambda w: np.average(ill, weights=w), n_replicates=800))[0]
    assert boot == pytest.approx(linear, rel=0.1)


def test_bags_embeddings_and_group_counts_carry_the_design():
    """Means of bags, mean embeddings and counts of groups: each as a function of weights, its error as the formula by hand."""
    w = PEOPLE["w"].to_numpy()

    def bag_means(weight):
        bags = cl.Bags.from_frame(PEOPLE.assign(w=weight), by="stratum", columns=["ill"], weight="w")
        return [np.average(bags[b].values[:, 0], weights=bags[b].weights) for b in range(len(bags))]

    found = REPLICATES.vary(PEOPLE, bag_means, names=[f"stratum {h}" for h in range(6)])
    np.testing.assert_allclose(column(found), column(REPLICATES.means(PEOPLE, "ill", by="stratum")), rtol=1e-9)

    embedding = cl.MeanEmbedding(n_features=8, random_state=0).fit(
        cl.People(PEOPLE, by="stratum", columns=["ill", "age"], weight="w")
    )
    places = pd.DataFrame({"stratum": np.arange(6), "total": 100.0})

    def embedded(weight):
        return embedding.transform(cl.People(PEOPLE.assign(w=weight), by="stratum", weight="w")).values

    def counts(weight):
        own = PEOPLE.assign(w=weight)
        return group_counts(own, by="stratum", group="sex", places=places, total="total", weight="w").values

    few = SurveyDesign("w", replicates=[f"w{r}" for r in range(1, 9)], method="brr")
    for statistic in (embedded, counts):
        at = np.ravel(statistic(w))
        by_hand = np.sqrt(np.mean([(np.ravel(statistic(v)) - at) ** 2 for v in WEIGHTS.T[:8]], axis=0))
        np.testing.assert_allclose(column(few.vary(PEOPLE, statistic)), by_hand, rtol=1e-9)


def test_imputers_carry_the_design_beside_their_own_error():
    means = {"stratum": np.arange(6), "smokes": np.linspace(0.2, 0.5, 6)}
    places = cl.Places(means, by="stratum", means=["smokes"])

    def imputed(weight):
        people = cl.People(PEOPLE.assign(w=weight), by="stratum", weight="w", columns=["age", "ill"])
        return cl.CrossLevelImputer(n_restarts=0).fit(people, places).estimate("age")

    few = SurveyDesign("w", replicates=["w1", "w2", "w3", "w4"], method="brr")
    with pytest.warns(cl.errors.CrosslevelWarning):
        found, own = few.vary(PEOPLE, imputed), imputed(PEOPLE["w"].to_numpy())
    assert found.keys == own.keys
    np.testing.assert_allclose(column(found) ** 2, column(own) ** 2 + column(found, "design_std_error") ** 2)
    assert (column(found, "design_std_error") > 0).all()


def test_a_lonely_cluster_is_refused_or_without_variance():
    lone = PEOPLE.assign(stratum=np.where(PEOPLE.index == 7, 99, PEOPLE["stratum"]))
    with pytest.raises(InputError):
        SurveyDesign("w", strata="stratum").means(lone, "ill")
    certain = column(SurveyDesign("w", strata="stratum", lonely="certainty").means(lone, "ill"))[0]
    y, w = lone["ill"].to_numpy(), lone["w"].to_numpy()
    z = w * (y - np.average(y, weights=w)) / w.sum()
    parts = [z[lone["stratum"] == h] for h in lone["stratum"].unique() if h != 99]
    assert certain == pytest.approx(np.sqrt(sum(len(p) * p.var(ddof=1) for p in parts)))


@pytest.mark.parametrize(
    "ask",
    [
        lambda: SurveyDesign(3),
        lambda: SurveyDesign("w", method="srs"),
        lambda: SurveyDesign("w", method="brr"),
        lambda: SurveyDesign("w", replicates="w", strata="stratum"),
        lambda: SurveyDesign("w", lonely="certainty"),
        lambda: SurveyDesign("wt").means(PEOPLE, "ill"),
        lambda: SurveyDesign("w", replicates="pw").means(PEOPLE, "ill"),
        lambda: CLUSTERS.means(PEOPLE, "il"),
        lambda: CLUSTERS.means(PEOPLE.assign(w=-1.0), "ill"),
        lambda: CLUSTERS.means(PEOPLE.assign(ill=np.nan), "ill"),
        lambda: CLUSTERS.means(PEOPLE.assign(people=PEOPLE["age"]), "ill", by="people"),
        lambda: REPLICATES.vary(PEOPLE, np.sum, n_replicates=9),
        lambda: REPLICATES.vary(PEOPLE, np.sum, names=["a", "b"]),
        lambda: REPLICATES.vary(PEOPLE, lambda w: np.nan),
        lambda: SurveyDesign("w", replicates="r").means({**FOUR, "r4": FOUR["r1"]}, "y"),  # a gap
        lambda: SurveyDesign("w", replicates="r").means({**FOUR, "r_2": FOUR["r1"]}, "y"),  # twice
        lambda: SurveyDesign("w", replicates="r").means({**FOUR, "w": [100.0] * 4}, "y"),  # factors in place of weights
        lambda: SurveyDesign("w", replicates=["r1"]).means(FOUR, "y"),
        lambda: SurveyDesign("w", replicates=["w", "r1", "r2"]).means(FOUR, "y"),
        lambda: SurveyDesign("w").means({"y": [1.0], "w": [1.0]}, "y"),
        lambda: SurveyDesign("w").means({"y": [1e300, 0.0, 1e300], "w": [1.0, 2.0, 1.0]}, "y"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_what_cannot_be_answered_is_refused(ask):
    with pytest.raises(InputError), np.errstate(all="ignore"):
        ask()


def test_brfss_agrees_with_svy():
    """Of svy 0.35.0, Design(stratum=, wgt=, singleton=Singleton("skip")) on the same file: diabetes by age group, 347,326 people."""
    folder = os.environ.get("CROSSLEVEL_DATA")
    file = Path(folder or "") / "brfss2016" / "brfss2016_division.parquet"
    if not folder or not file.is_file():
        pytest.skip("CROSSLEVEL_DATA has no BRFSS extract")
    people = pd.read_parquet(file, columns=["stratum", "weight", "age_group", "diabetes"]).dropna()
    found = SurveyDesign("weight", strata="stratum", lonely="certainty").means(people, "diabetes", by="age_group")
    means = [0.009365272022, 0.018784268724, 0.054348330260, 0.111001776017, 0.178022718097, 0.233739254665]
    errors = [0.00086941117, 0.00119393279, 0.00200219776, 0.00245972427, 0.00310934605, 0.00281383617]
    np.testing.assert_allclose(column(found, "estimate"), means, rtol=1e-9)
    np.testing.assert_allclose(column(found), errors, rtol=1e-8)


def test_the_weight_itself_is_no_replicate():
    """The column r0 is the weight, under its own name or a copy of it: 1/2 of two squared differences of 1/4 each."""
    for weight in ("r0", "w"):
        found = SurveyDesign(weight, replicates="r", method="brr").means({**FOUR, "r0": FOUR["w"]}, "y")
        np.testing.assert_allclose(column(found), [0.25])


def test_people_of_weight_zero_change_nothing():
    design = SurveyDesign("w", strata="s")
    people = {"y": [1.0, 0.0, 1.0, 1.0], "w": [1.0] * 4, "s": [1] * 4}
    nobody = {k: [*people[k], *more] for k, more in {"y": [5.0] * 2, "w": [0.0] * 2, "s": [2] * 2}.items()}
    for name in ("estimate", "std_error", "design_effect"):
        np.testing.assert_allclose(column(design.means(nobody, "y"), name), column(design.means(people, "y"), name))


def test_a_standard_error_of_zero_is_no_certainty():
    people = {"y": [0.7, 0.3, 0.3, 0.3, 0.2, 0.9], "w": [3.0, 1.0, 2.0, 0.7, 1.0, 1.0], "g": list("abbbcc")}
    found = SurveyDesign("w").means(people, "y", by="g")
    assert (column(found)[:2] < 1e-12).all()
    assert column(found)[2] > 0.1
    assert any("2 estimate(s), the first of {'g': 'a'}" in said for said in found.warnings)
    assert not SurveyDesign("w").means(people, "y").warnings
