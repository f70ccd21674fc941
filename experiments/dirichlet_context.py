"""Should the Multinomial-Dirichlet model have a contextual effect, as rxc does?

All of this was declared before the first run on these tables:

* Candidates: contextual slope 0 (the model without a covariate) and 0.35, the value of ``rxc``, which was learned on New Zealand's
  elections of 2002 to 2014; the prior of alpha is eiPack's, Gamma(4, 2), for both.
* Tables and error: those of ``dirichlet_prior.py``; senc is not among them.
* Criterion: 0.35 becomes the default if its mean error over sources is lower, with New Zealand among them and without (it is where the
  value comes from); otherwise the model without a covariate stays the default.
* Cells whose 95 % interval covers the truth are counted beside it, as are tables whose chains converged.
* senc last, for both.

Results of chains already run are kept in a file (--kept), so that a stopped run can be resumed.

    OMP_NUM_THREADS=1 python experiments/dirichlet_context.py --data FOLDER   # about an hour on two idle cores
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from dirichlet_prior import sources
from ecological_data import Known, senc

from crosslevel.ecological.tables.contextual_effect import ContextualEffect, predicted_by_composition
from crosslevel.ecological.tables.dirichlet.sampler import Plan, sample_posterior

CONTEXTS = (0.0, 0.35)
LEARNED_ON = "New Zealand"
PRIOR, PLAN = (4.0, 2.0), Plan(4, 1000, 200, 2000, 0)


def measure(known: Known, b: float) -> dict[str, Any]:
    """Give the percent of people in a wrong cell, the cells inside their intervals, and whether the chains met."""
    tables = known.counts.tables
    effect = ContextualEffect(predicted_by_composition(tables.X, tables.T), b, 0.0)
    found = sample_posterior(tables.X, tables.T, PRIOR, PLAN, effect)
    cells, said = found.cells.reshape(-1, *known.truth.shape), found.diagnostics
    low, high = np.quantile(cells, [0.025, 0.975], axis=0)
    return {
        "error": float(50 * np.abs(found.mean.sum(axis=0) - known.truth).sum() / known.truth.sum()),
        "held": int(np.sum((low <= known.truth) & (known.truth <= high))),
        "cells": known.truth.size,
        "width": float(np.mean((high - low) / known.truth.sum(axis=1, keepdims=True))),
        "converged": said.converged,
        "max_rhat": said.max_rhat,
        "min_ess": min(said.min_ess_bulk, said.min_ess_tail),
        "draws": said.draws,
        "seconds": found.seconds,
    }


def line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given = os.environ.get("CROSSLEVEL_DATA")
    parser.add_argument("--data", type=Path, default=Path(given) if given else None, help="folder of the real data")
    parser.add_argument("--kept", type=Path, default=Path("dirichlet_context.jsonl"), help="results already found")
    args = parser.parse_args()
    if args.data is None:
        parser.error("pass --data, the folder that holds truth/, or set CROSSLEVEL_DATA")
    lines = args.kept.read_text().splitlines() if args.kept.exists() else []
    kept = {tuple(row.pop("key")): row for row in map(json.loads, lines)}

    def result(known: Known, context: float) -> dict[str, Any]:
        key = (known.name, context)
        if key not in kept:
            kept[key] = measure(known, context)
            with args.kept.open("a") as file:
                file.write(json.dumps({"key": key} | kept[key]) + "\n")
        return kept[key]

    by_source = sources(args.data / "truth")
    columns = ["table", *(f"{what}, context {b:g}" for b in CONTEXTS for what in ("error", "cells held", "r-hat"))]
    print(f"{line(columns)}\n{line(['---'] * len(columns))}")
    for known in [known for tables in by_source.values() for known in tables]:
        said = [result(known, b) for b in CONTEXTS]
        row = [(f"{s['error']:.2f}", f"{s['held']} of {s['cells']}", f"{s['max_rhat']:.3f}") for s in said]
        print(line([known.name, *(cell for cells in row for cell in cells)]), flush=True)
    print(f"\n{line(['source', *(f'context {b:g}' for b in CONTEXTS)])}\n{line(['---'] * 3)}")
    errors = {
        source: [float(np.mean([result(known, b)["error"] for known in tables])) for b in CONTEXTS]
        for source, tables in by_source.items()
    }
    others = [row for source, row in errors.items() if source != LEARNED_ON]
    means = {"all sources": np.mean(list(errors.values()), axis=0), f"without {LEARNED_ON}": np.mean(others, axis=0)}
    for source, row in (errors | means).items():
        print(line([source, *(f"{value:.2f}" for value in row)]))
    better = all(row[1] < row[0] for row in means.values())
    print(f"\nby the criterion: context {CONTEXTS[1] if better else CONTEXTS[0]:g}")
    for b in CONTEXTS:
        print(f"senc, context {b:g}: {result(senc(args.data / 'truth'), b)}", flush=True)


if __name__ == "__main__":
    main()
