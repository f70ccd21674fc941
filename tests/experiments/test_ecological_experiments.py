"""Are the known tables read rightly, and does the flagship keep its error and coverage on a few of them?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crosslevel.ecological.tables.compare import METHODS


@pytest.fixture
def data(experiment):
    return experiment("ecological_data")


@pytest.fixture
def study(experiment):
    return experiment("ecological_truth")


def test_every_method_is_scored_and_tells_its_convergence(study, monkeypatch):
    monkeypatch.setattr(study, "small_tables", lambda folder: [study.TINY])
    rows = {row[1]: row for row in study.small_rows(Path())}
    assert {name.split(",")[0].split(" ")[0] for name in rows} == set(METHODS)
    assert all(len(row) == len(study.COLUMNS) for row in rows.values())
    for name, words in (("king", "effective draws"), ("multinomial_dirichlet", "r-hat"), ("rxc", "gradient")):
        assert words in rows[name][-1]
        assert rows[name][5].endswith("of 4")
    assert rows["goodman"][-1] == "–"


def test_the_contextual_effect_is_judged_by_what_was_declared(experiment, study, monkeypatch, tmp_path, capsys):
    """The contextual effect wins where it is nearer with and without the source it was learned on; results are kept and not made again."""
    study_of_slopes = experiment("dirichlet_context")
    tables = {"elsewhere": [replace(study.TINY, name="a")], study_of_slopes.LEARNED_ON: [replace(study.TINY, name="b")]}
    monkeypatch.setattr(study_of_slopes, "sources", lambda folder: tables)
    monkeypatch.setattr(study_of_slopes, "senc", lambda folder: replace(study.TINY, name="senc"))
    monkeypatch.setattr(study_of_slopes, "PLAN", study_of_slopes.Plan(2, 50, 20, 50, 0))
    measured = study_of_slopes.measure(study.TINY, 0.35)
    assert measured["cells"] == 4
    assert 0 < measured["error"] < 20
    assert measured["error"] != study_of_slopes.measure(study.TINY, 0.0)["error"]
    for errors, winner in (({"a": 1.0, "b": 2.5}, "0.35"), ({"a": 3.0, "b": 0.1}, "0"), ({"a": 1.9, "b": 9.0}, "0")):
        kept = tmp_path / f"{winner}{errors['b']}.jsonl"
        asked = []

        def measure(known, b, errors=errors, asked=asked):
            asked.append((known.name, b))
            return {**measured, "error": errors.get(known.name, 2.0) if b else 2.0}

        monkeypatch.setattr(study_of_slopes, "measure", measure)
        monkeypatch.setattr("sys.argv", ["x", "--data", str(tmp_path), "--kept", str(kept)])
        study_of_slopes.main()
        study_of_slopes.main()
        assert len(asked) == len(set(asked)) == 6
        assert f"by the criterion: context {winner}\n" in capsys.readouterr().out


@pytest.fixture
def court(experiment):
    return experiment("court_truth")


def test_court_reports_are_scored_by_hand(court, study):
    """A truth that is the estimate is contained everywhere, and its largest cell is first."""
    table = study.ecological.rxc(study.TINY.counts, kind="votes")["count"].reshape(2, 2)
    answers, chance, first = court.one_district(replace(study.TINY, truth=table))
    assert {name: len(held) for name, held in answers.items()} == dict(zip(answers, (4, 2, 2, 2), strict=True))
    assert all(all(held) for held in answers.values())
    assert ((chance > 0.5) == (first == 1)).all()
    assert first.sum() == 2


@pytest.mark.data
def test_known_tables_agree_with_their_margins(real_data, data):
    for known in data.small_tables(real_data / "truth"):
        np.testing.assert_allclose(known.truth.sum(axis=1), known.X.sum(axis=0), rtol=1e-6)
        np.testing.assert_allclose(known.truth.sum(axis=0), known.T.sum(axis=0), rtol=0.03)
    districts = data.new_zealand(real_data / "truth", 2014)
    assert len(districts) == 71
    for known in districts[:10]:
        np.testing.assert_allclose(known.truth.sum(axis=1), known.X.sum(axis=0), rtol=0.02)


@pytest.mark.data
def test_ten_electorates_alone_and_pooled(real_data, data, study):
    districts = data.new_zealand(real_data / "truth", 2008)[::7]
    alone = [study.timed(k, study.vote_methods()["rxc"]) for k in districts]
    assert np.mean([s.wrong for s in alone]) < 7.5
    covered = np.concatenate([s.covered for s in alone])
    assert 0.9 < covered.mean() < 0.99
    together = study.pooled(districts, symmetric=True)
    assert np.mean([s.wrong for s in together]) < 5.6
    clipped = [study.timed(k, study.clipped).wrong for k in districts]
    assert np.mean([s.wrong for s in alone]) < 0.7 * np.mean(clipped)
