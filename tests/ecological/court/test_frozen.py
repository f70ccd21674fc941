"""The frozen words and probabilities of the court reports: three fixed inputs, and what is written of them.

``python tests/ecological/court/test_frozen.py`` writes the file anew; the commit that changes it says why.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crosslevel import Counts
from crosslevel.ecological import candidate_of_choice, polarization, rpv

PATH = Path(__file__).parents[2] / "golden" / "court.json"
SUMMARY = ("candidate", "estimate", "probability_first", "vote_share", "won", "probability_lost")
SUMMARY += ("winner", "choices_differ", "probability_choices_differ", "turnout")


def _runoff() -> dict[str, Any]:
    """Three candidates of whom none has half of the votes, three groups, and people who stayed at home."""
    rng = np.random.default_rng(11)
    share = rng.dirichlet([1.0, 0.5, 1.6], 40)
    people = np.round(1200 * share)
    rates = [[[0.46, 0.03, 0.01], [0.16, 0.13, 0.02], [0.12, 0.42, 0.04]], [[0.4, 0.1], [0.2, 0.17], [0.2, 0.36]]]
    table: dict[str, Any] = {"precinct": [f"p{i}" for i in range(40)]}
    table |= dict(zip(("Black", "Latino", "white"), people.T, strict=True))
    for contest, own in zip(("general", "runoff"), rates, strict=True):
        votes = np.array(
            [sum(rng.multinomial(int(k), [*p, 1 - sum(p)])[:-1] for k, p in zip(x, own, strict=True)) for x in people]
        )
        table |= {f"{contest} {c}": votes[:, j] for j, c in enumerate(("Ames", "Brown", "Clark")[: votes.shape[1]])}
    return table


def _close() -> dict[str, Any]:
    """Few precincts, in which nobody can tell whom one of the groups chose."""
    rng = np.random.default_rng(4)
    share = rng.uniform(0.15, 0.55, 12)
    small, large = np.round(500 * share), 500 - np.round(500 * share)
    votes = np.array(
        [rng.binomial(int(a), 0.52) + rng.binomial(int(b), 0.43) for a, b in zip(small, large, strict=True)]
    )
    return {"Asian": small, "rest": large, "Day": votes, "Evans": 500 - votes}


def _tied() -> dict[str, Any]:
    lean = [90, 70, 50, 30, 10]
    return {"unit": list("vwxyz"), "a": lean, "b": lean[::-1], "x": [99, 90, 50, 10, 1], "y": [1, 10, 50, 90, 99]}


def made() -> dict[str, Any]:
    """Run the three studies and give what is frozen, as plain values."""
    runoff = {
        c: {n: f"{c} {n}" for n in names}
        for c, names in (("general", ("Ames", "Brown", "Clark")), ("runoff", ("Ames", "Brown")))
    }
    groups, methods = ["Black", "Latino", "white"], ["goodman", "rxc"]
    table = _runoff()
    studies = {
        "runoff": rpv(Counts(table, unit="precinct", groups=groups), runoff, methods=methods),
        "close": rpv(Counts(_close(), groups=["Asian", "rest"]), {"Clerk": ["Day", "Evans"]}, methods=methods),
        "tied": rpv(
            Counts(_tied(), unit="unit", groups=["a", "b"]), {"Mayor": ["x", "y"]}, methods=["goodman"], reference="b"
        ),
    }
    found: dict[str, Any] = {}
    for name, study in studies.items():
        own: dict[str, Any] = {"sentences": list(study.sentences()), "lead": study.lead}
        own["summary"] = [
            {k: row[k] for k in ("contest", "group", *SUMMARY)} for row in study.summary.table.to_pylist()
        ]
        own["tally"] = [{k: v for k, v in row.items() if k != "method"} for row in study.tally.table.to_pylist()]
        for contest, held in study.contests.items():
            voters = held.voters[study.lead]
            other = study.groups[0]
            own[contest] = {
                "choice": candidate_of_choice(voters, abstention=None).diagnostics["findings"],
                "polarization": polarization(voters, (other, study.reference), abstention=None).diagnostics["findings"],
                "title": polarization(voters, (other, study.reference), abstention=None).title,
            }
        found[name] = own
    black = [u for u, b in zip(table["precinct"], table["Black"], strict=True) if b > 500]
    rows = studies["runoff"].performance({"new": black, "all": table["precinct"]}, "Black")
    found["districts"] = {
        "findings": rows.diagnostics["findings"],
        "rows": [
            {k: row[k] for k in ("district", "contest", "candidate", "share", "probability_wins", "winner", "won")}
            for row in rows.table.to_pylist()
        ],
    }
    plain: dict[str, Any] = _plain(found)
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.6g}")
    return value


def _compare(found: Any, frozen: Any, where: str) -> None:
    assert type(found) is type(frozen), where
    if isinstance(frozen, dict):
        assert list(found) == list(frozen), where
        for name in frozen:
            _compare(found[name], frozen[name], f"{where}/{name}")
    elif isinstance(frozen, list):
        assert len(found) == len(frozen), where
        for i, (one, other) in enumerate(zip(found, frozen, strict=True)):
            _compare(one, other, f"{where}/{i}")
    elif isinstance(frozen, float):
        assert found == pytest.approx(frozen, rel=1e-4, abs=1e-6), where
    else:
        assert found == frozen, where


def test_words_and_probabilities_are_those_that_were_frozen():
    _compare(made(), json.loads(PATH.read_text(encoding="utf-8")), "")


if __name__ == "__main__":
    PATH.write_text(json.dumps(made(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
