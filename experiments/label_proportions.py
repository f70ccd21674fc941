"""Learning from label proportions on ten tasks of the American Community Survey, beside the baselines of that literature.

Adults in households, ACS 2024, all states but California and Texas (whose files lack most columns). A label is known by its proportion in
bags of the 16,384 training people; AUC, log loss and calibration are of 10,000 people of other bags. Bags are drawn at random (8 to 512
people), or are 256 PUMAs of 64 people or 36 states of 455: then the people scored live in other PUMAs or states. Methods see the same
scores of the columns (the net without the kernel's).

    mean label   logistic regression, everybody labeled with the proportions of the own bag
    EM           logistic regression, labels of persons from the last fit, shifted to the proportions of their bags, 20 rounds
    net          two hidden layers of 64, cross entropy of bag means and proportions, Adam, 30 epochs (where torch is installed)
    labels       logistic regression on the labels themselves, which nobody here has

    CROSSLEVEL_DATA=... python experiments/label_proportions.py --bags 8,32 --out part.json      # minutes for each kind of bags
    python experiments/label_proportions.py --page part*.json                                    # tables of the page
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy import linalg, special
from sklearn.metrics import roc_auc_score

from crosslevel.data.atomic import whole_file
from crosslevel.imputation import LabelProportions
from crosslevel.numerics.logit_shift import shift_to_total

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "label-proportions.md"
TRAIN, TEST = 16_384, 10_000
KINDS = ("8", "32", "128", "512", "PUMA", "state")
CODES = ("eth5", "marital", "tenure", "military", "class_worker", "citizenship", "work")
WHO = ["age", "female", "eth5", "educ6", "marital"]
METHODS = ("mean label", "EM", "net", "LabelProportions", "labels")
TIE = 0.002


def read(folder: Path) -> pd.DataFrame:
    """Adults in households of 49 states, with what the tasks need."""
    names = [
        "state_fips",
        "puma",
        "age",
        "female",
        "eth5",
        "citizenship",
        "educ6",
        "marital",
        "employment",
        "class_worker",
        "hours",
    ]
    names += [
        "income",
        "poverty_pct",
        "nativity",
        "military",
        "health_ins",
        "disability",
        "hh_income",
        "tenure",
        "group_quarters",
    ]
    parts = []
    for file in sorted((folder / "us2024" / "persons").glob("p_*.parquet")):
        if file.stem in ("p_06", "p_48"):
            continue
        table = pq.read_table(file, columns=names)
        parts.append(table.filter(pc.and_(pc.greater_equal(table["age"], 18), pc.equal(table["group_quarters"], 0))))
    people = pa.concat_tables(parts, promote_options="permissive").to_pandas()
    people["hours"], people["class_worker"] = people["hours"].fillna(0), people["class_worker"].fillna(0)
    people["work"] = np.select([people["employment"] <= 2, people["employment"] == 3], [1, 2], 3)
    people["place"] = people["state_fips"].astype(str) + "-" + people["puma"].astype(str)
    return people


def tasks(people: pd.DataFrame) -> dict[str, tuple[IntArray, list[str]]]:
    """Label of every person, and the columns that predict it: eight yes or no, two of three classes."""
    p = people
    more = [*WHO, "disability", "nativity"]
    return {
        "income over 50,000": ((p["income"] > 50_000), [*WHO, "class_worker", "hours", "disability", "nativity"]),
        "employed": ((p["work"] == 1), [*more, "military"]),
        "no health insurance": ((p["health_ins"] == 2), [*more, "work", "tenure"]),
        "below twice the poverty line": ((p["poverty_pct"] < 200), [*more, "work"]),
        "owns the home": ((p["tenure"] <= 2), [*more, "work"]),
        "household over 100,000": ((p["hh_income"] > 100_000), [*more, "work"]),
        "disability": ((p["disability"] == 1), [*WHO, "nativity", "work", "military"]),
        "not a citizen": ((p["citizenship"] == 5), ["age", "female", "eth5", "educ6", "marital", "tenure", "work"]),
        "education (3)": (np.digitize(p["educ6"], [3, 5]), ["age", "female", "eth5", "marital", "tenure", "work", "nativity"]),
        "marital status (3)": (
            np.select([p["marital"] == 1, p["marital"] == 5], [0, 2], 1),
            ["age", "female", "eth5", "educ6", "tenure", "work", "disability"],
        ),
    }  # fmt: skip


def split(people: pd.DataFrame, kind: str, rng: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
    """Rows of training people, their bags, and rows of people scored, of other bags."""
    order = rng.permutation(len(people))
    if kind.isdigit():
        return order[:TRAIN], np.arange(TRAIN) // int(kind), order[TRAIN : TRAIN + TEST]
    code = np.unique(people["place" if kind == "PUMA" else "state_fips"], return_inverse=True)[1][order]
    chosen = rng.permutation(code.max() + 1)[: 256 if kind == "PUMA" else 36]
    train = np.concatenate([order[code == c][: TRAIN // len(chosen)] for c in chosen])
    bags = np.repeat(np.arange(len(chosen)), [min(TRAIN // len(chosen), int((code == c).sum())) for c in chosen])
    return train, bags, order[~np.isin(code, chosen)][:TEST]


def logistic(A: FloatArray, y: FloatArray, theta: FloatArray | None = None, steps: int = 25) -> FloatArray:
    """Logistic regression with labels between 0 and 1 and a ridge of one (scikit-learn's default), by Newton's method."""
    theta = np.zeros(A.shape[1]) if theta is None else theta
    ridge = np.r_[1e-6, np.ones(A.shape[1] - 1)]
    for _ in range(steps):
        p = special.expit(A @ theta)
        H = (A.T * np.maximum(p * (1 - p), 1e-6)) @ A + np.diag(ridge)
        move = linalg.solve(H, A.T @ (y - p) - ridge * theta, assume_a="pos")
        theta = theta + move
        if np.abs(move).max() < 1e-4:
            break
    return theta


def mean_label(A: FloatArray, bags: IntArray, s: FloatArray) -> FloatArray:
    """Label everybody with the proportion of the own bag."""
    return logistic(A, s[bags])


def em(A: FloatArray, bags: IntArray, s: FloatArray, rounds: int = 20) -> FloatArray:
    """Label persons by the last fit, shifted to the proportion of their bag, and fit again."""
    theta = mean_label(A, bags, s)
    for _ in range(rounds):
        y = shift_to_total((A @ theta)[None], np.ones(len(bags)), bags, s).rate[0]
        theta = logistic(A, y, theta, 3)
    return theta


def net(Z: FloatArray, bags: IntArray, shares: FloatArray, Z_new: FloatArray, seed: int) -> FloatArray:
    """Match the mean prediction of bags to their proportions with a neural network."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    x, new = (torch.tensor(v, dtype=torch.float32) for v in (Z, Z_new))
    target = torch.tensor(shares, dtype=torch.float32)
    layers = [torch.nn.Linear(Z.shape[1], 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(64, shares.shape[1]))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)
    members = [torch.tensor(np.flatnonzero(bags == b)) for b in range(len(shares))]
    at_once = max(1, 512 * len(shares) // len(bags))  # bags of about 512 people together
    rng = np.random.default_rng(seed)
    for _ in range(30):
        order = rng.permutation(len(shares))
        for start in range(0, len(order), at_once):
            chosen = order[start : start + at_once]
            rows = torch.cat([members[b] for b in chosen])
            which = torch.repeat_interleave(torch.arange(len(chosen)), torch.tensor([len(members[b]) for b in chosen]))
            p = torch.softmax(model(x[rows]), 1)
            total = torch.zeros(len(chosen), shares.shape[1]).index_add(0, which, p)
            mean = total / torch.bincount(which)[:, None]
            loss = -(target[chosen] * torch.log(mean.clamp(1e-6))).sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        return torch.softmax(model(new), 1).numpy().astype(np.float64)


def scores(y: IntArray, p: FloatArray) -> dict[str, float]:
    """AUC, log loss and calibration error (ten equal bins of people), mean over classes."""
    p = np.clip(p, 1e-6, 1)
    p = p / p.sum(1, keepdims=True)
    loss = -np.log(p[np.arange(len(y)), y])
    classes = range(p.shape[1]) if p.shape[1] > 2 else [1]
    auc = np.mean([roc_auc_score(y == k, p[:, k]) for k in classes])
    off = []
    for k in classes:
        order = np.argsort(p[:, k], kind="stable")
        gaps = [abs(p[part, k].mean() - (y[part] == k).mean()) for part in np.array_split(order, 10)]
        off.append(np.mean(gaps))
    return {"auc": float(auc), "loss": float(loss.mean()), "off": float(np.mean(off))}


def one_task(people: pd.DataFrame, kind: str, label: IntArray, columns: list[str], seed: int) -> dict[str, Any]:
    """Fit and score every method on one task and kind of bags."""
    train, bags, test = split(people, kind, np.random.default_rng(seed))
    X, new = people.iloc[train][columns].reset_index(drop=True), people.iloc[test][columns].reset_index(drop=True)
    classes = int(label.max()) + 1
    shares = (
        np.column_stack([np.bincount(bags, label[train] == k) for k in range(classes)]) / np.bincount(bags)[:, None]
    )
    start = time.perf_counter()
    model = LabelProportions(categorical=[c for c in columns if c in CODES])
    model.fit(X, bags, shares[:, 1] if classes == 2 else shares)
    answers = {"LabelProportions": model.predict_proba(new)}
    seconds = {"LabelProportions": time.perf_counter() - start}
    codes = [{v: i for i, v in enumerate(c.labels)} if hasattr(c, "labels") else None for c in model.schema_.columns]
    A, A_new = (
        model.basis_.matrix(np.column_stack([f[n].map(c) if c else f[n] for n, c in zip(columns, codes, strict=True)]).astype(float))
        for f in (X, new)
    )  # fmt: skip
    fitted = {
        "mean label": lambda k: mean_label(A, bags, shares[:, k]),
        "EM": lambda k: em(A, bags, shares[:, k]),
        "labels": lambda k: logistic(A, (label[train] == k).astype(float)),
    }
    for name, fit in fitted.items():
        start = time.perf_counter()
        p = np.column_stack([special.expit(A_new @ fit(k)) for k in (range(classes) if classes > 2 else [1])])
        answers[name] = p if classes > 2 else np.column_stack([1 - p, p])
        seconds[name] = time.perf_counter() - start
    try:
        import torch  # noqa: F401
    except ImportError:
        print("torch is not installed: no net", file=sys.stderr)
    else:
        plain = 1 + int((model.basis_.block < 2).sum())
        start = time.perf_counter()
        answers["net"] = net(A[:, 1:plain], bags, shares, A_new[:, 1:plain], seed)
        seconds["net"] = time.perf_counter() - start
    y = label[test]
    found = {name: scores(y, p) for name, p in answers.items()}
    return {"kind": kind, "assignment": model.assignment_, "bags": len(shares)} | {
        name: s | {"seconds": seconds[name]} for name, s in found.items()
    }


def lay(rows: list[list[str]]) -> str:
    """A table in Markdown, first row the heading."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"| --- {'| ---: ' * (len(rows[0]) - 1)}|", *lines[1:]])


def tables(found: list[dict[str, Any]]) -> dict[str, str]:
    """The tables of the page: means over tasks by kind of bags, and every task."""
    methods = [m for m in METHODS if all(m in one for one in found)]
    rivals = [m for m in methods if m not in ("LabelProportions", "labels")]
    kinds = [k for k in KINDS if any(one["kind"] == k for one in found)]
    rows = [["bags of", "method", "AUC", "log loss", "calibration error", "seconds"]]
    wins = [["bags of", "tasks", "best or tied, log loss", "best or tied, AUC", "taken for"]]
    for kind in kinds:
        own = [one for one in found if one["kind"] == kind]
        for m in methods:
            mean = {q: np.mean([one[m][q] for one in own]) for q in ("auc", "loss", "off", "seconds")}
            rows.append(
                [kind, m, f"{mean['auc']:.3f}", f"{mean['loss']:.4f}", f"{mean['off']:.3f}", f"{mean['seconds']:.1f}"]
            )
        best = sum(all(one["LabelProportions"]["loss"] <= one[m]["loss"] + TIE for m in rivals) for one in own)
        auc = sum(all(one["LabelProportions"]["auc"] >= one[m]["auc"] - TIE for m in rivals) for one in own)
        taken = ", ".join(sorted({one["assignment"] for one in own}))
        wins.append([kind, f"{len(own)}", f"{best}", f"{auc}", taken])
    each = [["task", "bags of", *(f"{m}" for m in methods)]]
    for one in found:
        each.append([one["task"], one["kind"], *(f"{one[m]['auc']:.3f}, {one[m]['loss']:.3f}" for m in methods)])
    return {"means": lay(rows), "wins": lay(wins), "tasks": lay(each)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bags", default=",".join(KINDS))
    parser.add_argument("--tasks", type=int, nargs="*", default=list(range(10)), help="numbers of tasks, from 0")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path, nargs="*", help="files of --out, whose tables go into the page")
    args = parser.parse_args()
    if args.page:
        found = [one for file in args.page for one in json.loads(file.read_text())]
        text = PAGE.read_text(encoding="utf-8")
        for name, part in tables(found).items():
            before, rest = text.split(f"<!-- {name} -->\n")
            text = f"{before}<!-- {name} -->\n{part}\n<!-- /{name} -->{rest.split(f'<!-- /{name} -->')[1]}"
        with whole_file(PAGE) as beside:
            beside.write_text(text, encoding="utf-8")
        return
    folder = os.environ.get("CROSSLEVEL_DATA")
    if not folder:
        sys.exit("set CROSSLEVEL_DATA to the folder of real data")
    warnings.simplefilter("ignore")
    people = read(Path(folder))
    found = []
    for number, (task, (label, columns)) in enumerate(tasks(people).items()):
        if number not in args.tasks:
            continue
        for kind in args.bags.split(","):
            one = {"task": task} | one_task(people, kind, np.asarray(label).astype(np.intp), columns, number)
            found.append(one)
            shown = {m: [round(v, 4) for v in one[m].values()] for m in METHODS if m in one}
            print(task, kind, one["assignment"], shown, file=sys.stderr, flush=True)
            if args.out:
                args.out.write_text(json.dumps(found))
    for table in tables(found).values():
        print(table, end="\n\n")


if __name__ == "__main__":
    main()
