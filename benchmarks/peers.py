"""Ours beside every peer, each in an environment of its own: processor seconds, memory, error and coverage where truth exists.

    make bench-peers                                  # makes the environments in .cache/peers, writes docs/peers.md
    python benchmarks/peers.py --only GPy PyEI        # some rows, printed
    CROSSLEVEL_PEERS=/opt/peers make bench-peers      # environments that are there already: /opt/peers/GPy/bin/python ...

Every task simulates a world of known truth, writes it to a file, and gives it to ours and to the peer in separate processes with one
thread each. The first run of each is left out where it compiles; then three repeats, of which the median counts. Seconds are those of the
processor, which other work on the machine does not change; memory is the peak of the process, imports included. A row that we lose stays.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "peers.md"
REPEATS = 3
World = dict[str, np.ndarray]
Answer = dict[str, Any]

# ---------------------------------------------------------------- worlds: what both are given, and the truth that scores them


def world_features() -> World:
    """100,000 people in 20 groups; the truth is the exact kernel between the means of groups, on some of the people."""
    rng = np.random.default_rng(0)
    group = np.sort(rng.integers(0, 20, 100_000))
    x = rng.normal(size=(100_000, 5)) + rng.normal(0, 0.5, (20, 5))[group]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    few = np.concatenate([np.flatnonzero(group == g)[:300] for g in range(20)])
    z = x[few].reshape(20, 300, 5)
    truth = np.empty((20, 20))
    for a in range(20):
        for b in range(a + 1):
            square = ((z[a][:, None] - z[b][None]) ** 2).sum(-1)
            truth[a, b] = truth[b, a] = np.exp(-square / (2 * 4.0)).mean()
    return {"x": x[few], "group": group[few], "all_x": x, "all_group": group, "truth": truth}


def world_curve() -> World:
    """1,500 rows of a smooth function of three covariates; the truth is the function at 500 new rows."""
    rng = np.random.default_rng(1)
    x, new = rng.normal(size=(1500, 3)), rng.normal(size=(500, 3))

    def f(x: np.ndarray) -> np.ndarray:
        return np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2]

    return {"x": x, "y": f(x) + rng.normal(0, 0.5, 1500), "new": new, "truth": f(new)}


def world_means() -> World:
    """6,000 people of 60 places: age in six bands and schooling known, illness as the share of each place; truth by band."""
    rng = np.random.default_rng(2)
    place = np.repeat(np.arange(60), 100)
    tilt = rng.normal(0, 0.8, 60)[place]
    age = np.clip(np.round(2.5 + tilt + rng.normal(0, 1.5, 6000)), 0, 5)
    school = np.clip(np.round(1.5 - 0.3 * tilt + rng.normal(0, 1, 6000)), 0, 3)
    logit = -3 + 0.6 * age - 0.4 * school + rng.normal(0, 0.3, 60)[place]
    ill = (rng.random(6000) < 1 / (1 + np.exp(-logit))).astype(float)
    share = np.bincount(place, ill) / 100
    truth = np.array([ill[age == a].mean() for a in range(6)])
    return {"age": age, "school": school, "place": place, "share": share, "truth": truth}


def world_bins() -> World:
    """60 bins of a smooth density with normal noise; the truth is the density at 200 points."""
    rng = np.random.default_rng(3)
    edges = np.linspace(0, 100, 61)
    total = 2 * np.diff(edges) - 5 * np.diff(np.cos(edges / 5))
    points = np.linspace(1, 99, 200)
    return {"edges": edges, "y": total + rng.normal(0, 0.1, 60), "points": points, "truth": 2 + np.sin(points / 5)}


def world_votes() -> World:
    """100 precincts, two groups, two candidates; a group's rates vary by chance, as King's model has it. Truth: rate of each group."""
    rng = np.random.default_rng(4)
    share, people = rng.beta(1.2, 1.2, 100), rng.integers(200, 1500, 100)
    first = rng.binomial(people, share)
    groups = np.column_stack([first, people - first])
    rates = np.column_stack([rng.beta(16, 4, 100), rng.beta(6, 14, 100)])
    votes = np.column_stack([rng.binomial(groups[:, g], rates[:, g]) for g in range(2)])
    yes = votes.sum(axis=1)
    return {
        "groups": groups,
        "outcomes": np.column_stack([yes, people - yes]),
        "truth": votes.sum(axis=0) / groups.sum(axis=0),
    }


def world_areas() -> World:
    """Counts of 100 squares, asked for 64 squares of another grid; people follow a smooth surface with three towns."""
    rng = np.random.default_rng(5)
    people = np.concatenate(
        [rng.normal(c, s, (n, 2)) for c, s, n in (((30, 30), 14, 20000), ((70, 60), 9, 15000), ((45, 80), 5, 6000))]
    )
    people = np.concatenate([people, rng.uniform(0, 100, (9000, 2))])
    people = people[((people > 0) & (people < 100)).all(axis=1)]
    source, target = np.linspace(0, 100, 11), np.linspace(0, 100, 9)
    return {
        "source": source,
        "target": target,
        "y": np.histogram2d(people[:, 0], people[:, 1], [source, source])[0].ravel(),
        "truth": np.histogram2d(people[:, 0], people[:, 1], [target, target])[0].ravel(),
    }


def squares(edges: np.ndarray) -> list[list[list[float]]]:
    """Corners of the squares of a grid."""
    e = edges.tolist()
    return [[[a, c], [b, c], [b, d], [a, d]] for a, b in pairwise(e) for c, d in pairwise(e)]


# ---------------------------------------------------------------- workers: a world in, {"estimate", "low", "high"} out


def ours_features(w: World) -> Answer:
    import pyarrow as pa

    import crosslevel as cl

    table = pa.table({"g": w["all_group"], **{f"x{j}": w["all_x"][:, j] for j in range(5)}})
    few = pa.table({"g": w["group"], **{f"x{j}": w["x"][:, j] for j in range(5)}})
    emb = cl.MeanEmbedding(n_features=2048, bandwidth=2.0, random_state=0).fit(table, by="g")
    emb.transform(table, by="g")
    values = emb.transform(few, by="g").values
    return {"estimate": values @ values.T}


def peer_features(w: World) -> Answer:
    from sklearn.kernel_approximation import RBFSampler

    sampler = RBFSampler(gamma=1 / 8.0, n_components=2048, random_state=0).fit(w["all_x"][:2])

    def means(x: np.ndarray, g: np.ndarray) -> np.ndarray:
        total = np.zeros((20, 2048))
        for i in range(0, len(x), 10_000):
            member = (g[i : i + 10_000, None] == np.arange(20)).astype(float)
            total += member.T @ sampler.transform(x[i : i + 10_000])
        return total / np.bincount(g, minlength=20)[:, None]

    means(w["all_x"], w["all_group"])
    values = means(w["x"], w["group"])
    return {"estimate": values @ values.T}


def ours_curve(w: World) -> Answer:
    import crosslevel as cl

    model = cl.KRLS().fit(w["x"], w["y"])
    model.effects()
    mean, std = model.predict(w["new"], return_std=True)
    return {"estimate": mean, "low": mean - 1.96 * std, "high": mean + 1.96 * std}


def peer_curve(w: World) -> Answer:
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV

    grid = GridSearchCV(KernelRidge(kernel="rbf", gamma=1 / 3), {"alpha": np.logspace(-2, 2, 9)}, cv=5)
    return {"estimate": grid.fit(w["x"], w["y"]).predict(w["new"])}


def ours_means(w: World) -> Answer:
    import pandas as pd

    import crosslevel as cl

    people = pd.DataFrame({"age": w["age"].astype(int).astype(str), "school": w["school"].astype(int).astype(str)})
    means = pd.DataFrame({"place": np.arange(60), "ill": w["share"]})
    found = cl.CrossLevelImputer().fit(people, w["place"], means).estimate(by="age").to_frame("pandas")
    found = found.sort_values(found.columns[found.columns.get_loc("estimate") - 1])
    return {"estimate": found["estimate"], "low": found["conf_low"], "high": found["conf_high"]}


def peer_means(w: World) -> Answer:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    person = np.column_stack([w["age"], w["school"], np.full(6000, np.nan)])
    of_place = np.column_stack([np.bincount(w["place"], w[c]) / 100 for c in ("age", "school")] + [w["share"]])
    filled = IterativeImputer(
        random_state=0, min_value=[-np.inf, -np.inf, 0.0], max_value=[np.inf, np.inf, 1.0]
    ).fit_transform(np.concatenate([of_place, person]))[60:, 2]
    return {"estimate": [filled[w["age"] == a].mean() for a in range(6)]}


def ours_bins(w: World) -> Answer:
    import crosslevel as cl

    gp = cl.BinnedGP(kernel="eq").fit(cl.Intervals(w["edges"][:-1], w["edges"][1:]), w["y"], quantity="total")
    mean, std = gp.predict(w["points"], quantity="density", return_std=True)
    return {"estimate": mean, "low": mean - 1.96 * std, "high": mean + 1.96 * std}


def peer_gpy(w: World) -> Answer:
    import GPy

    kernel = GPy.kern.Integral_Limits(input_dim=2, variances=1.0, lengthscale=10.0)
    model = GPy.models.GPRegression(np.column_stack([w["edges"][1:], w["edges"][:-1]]), w["y"][:, None], kernel)
    model.optimize()
    mean, variance = model.predict_noiseless(
        np.column_stack([w["points"], w["points"]])
    )  # of the density, not of integrals
    mean, std = mean[:, 0], np.sqrt(np.maximum(variance[:, 0], 0))
    return {"estimate": mean, "low": mean - 1.96 * std, "high": mean + 1.96 * std}


def _first(found: Any) -> Answer:
    table = found.to_frame("pyarrow").to_pylist()
    rows = [r for r in table if str(r["outcome"]) == str(table[0]["outcome"])]
    return {
        "estimate": [r["estimate"] for r in rows],
        "low": [r["conf_low"] for r in rows],
        "high": [r["conf_high"] for r in rows],
    }


def ours_king(w: World) -> Answer:
    import crosslevel as cl

    return _first(cl.ecological.king(w["groups"], w["outcomes"]))


def peer_king(w: World) -> Answer:
    from pyei.two_by_two import TwoByTwoEI

    people = w["groups"].sum(axis=1)
    model = TwoByTwoEI("king99_pareto_modification", pareto_scale=15, pareto_shape=2)
    model.fit(w["groups"][:, 0] / people, w["outcomes"][:, 0] / people, people, **SAMPLING)
    draws = np.asarray(model.sampled_voting_prefs)
    return _of_draws(draws)


def ours_dirichlet(w: World) -> Answer:
    import crosslevel as cl

    return _first(
        cl.ecological.multinomial_dirichlet(w["groups"], w["outcomes"], contextual_slope=0, contextual_slope_sd=0)
    )


def peer_dirichlet(w: World) -> Answer:
    from pyei.r_by_c import RowByColumnEI

    people = w["groups"].sum(axis=1)
    model = RowByColumnEI("multinomial-dirichlet")
    model.fit((w["groups"] / people[:, None]).T, (w["outcomes"] / people[:, None]).T, people, **SAMPLING)
    return _of_draws(np.asarray(model.sampled_voting_prefs)[:, :, 0].T)


def ours_rxc(w: World) -> Answer:
    import crosslevel as cl

    return _first(cl.ecological.rxc(w["groups"], w["outcomes"], kind="demographic"))


SAMPLING: dict[str, Any] = {
    "draws": 1000,
    "tune": 1000,
    "chains": 2,
    "cores": 1,
    "target_accept": 0.9,
    "random_seed": 0,
    "progressbar": False,
}


def _of_draws(draws: np.ndarray) -> Answer:
    draws = draws if draws.shape[0] == 2 else draws.T
    low, high = np.quantile(draws, [0.025, 0.975], axis=1)
    return {"estimate": draws.mean(axis=1), "low": low, "high": high}


def ours_areas(w: World) -> Answer:
    import crosslevel as cl

    source, target = (cl.Polygons(squares(w[n])) for n in ("source", "target"))
    found = cl.binned.interpolate(source, target, w["y"])
    return {"estimate": found["estimate"], "low": found["conf_low"], "high": found["conf_high"]}


def _frames(w: World) -> tuple[Any, Any]:
    import geopandas
    from shapely.geometry import Polygon

    source, target = (
        geopandas.GeoDataFrame(geometry=[Polygon(s) for s in squares(w[n])], crs="EPSG:3857")
        for n in ("source", "target")
    )
    source["n"] = w["y"]
    return source, target


def peer_area(w: World) -> Answer:
    from tobler.area_weighted import area_interpolate

    return {"estimate": area_interpolate(*_frames(w), extensive_variables=["n"])["n"]}


def peer_pycno(w: World) -> Answer:
    from tobler.pycno import pycno_interpolate

    return {"estimate": pycno_interpolate(*_frames(w), variables=["n"], cellsize=1)["n"]}


# ---------------------------------------------------------------- the table

Pair = tuple[str, str, Callable[[], World], Callable[[World], Answer], str, Callable[[World], Answer]]
PACKAGES = {"GPy": ["numpy<2", "scipy<1.13", "matplotlib", "GPy"], "PyEI": ["pyei"], "tobler": ["tobler", "astropy"]}
VOTES, DIRICHLET = "two groups, two candidates, 100 precincts", "PyEI multinomial-dirichlet (2 x 1,000 draws)"
TASKS: list[Pair] = [
    (
        "means of 2,048 random features, 100,000 people in 20 groups",
        "`MeanEmbedding`",
        world_features,
        ours_features,
        "scikit-learn RBFSampler",
        peer_features,
    ),
    (
        "a smooth function of three covariates, 1,500 rows",
        "`KRLS`, with effects",
        world_curve,
        ours_curve,
        "scikit-learn KernelRidge (grid of 9, 5 folds)",
        peer_curve,
    ),
    (
        "illness by age band from shares of 60 places",
        "`CrossLevelImputer`",
        world_means,
        ours_means,
        "scikit-learn IterativeImputer (places as rows)",
        peer_means,
    ),
    (
        "the density behind 60 bins, hyperparameters learned",
        "`BinnedGP`",
        world_bins,
        ours_bins,
        "GPy Integral_Limits",
        peer_gpy,
    ),
    (VOTES, "`ecological.king`", world_votes, ours_king, "PyEI king99 (2 x 1,000 draws)", peer_king),
    (VOTES, "`multinomial_dirichlet`, no contextual effect", world_votes, ours_dirichlet, DIRICHLET, peer_dirichlet),
    (VOTES, "`ecological.rxc`", world_votes, ours_rxc, DIRICHLET, peer_dirichlet),
    (
        "counts of 100 squares for 64 others",
        "`binned.interpolate`",
        world_areas,
        ours_areas,
        "tobler area_interpolate",
        peer_area,
    ),
    ("the same", "`binned.interpolate`", world_areas, ours_areas, "tobler pycno_interpolate", peer_pycno),
]
R_PACKAGES = {
    "KRLS": "effects", "bigKRLS": "effects", "eiPack": "tables by unit", "ei": "tables by unit", "seine": "tables by unit",
    "lphom": "tables by unit", "ungroup": "ages behind bins",
}  # fmt: skip


def worker(name: str, path: str) -> None:
    """Run one side of a task: once to warm up, then the repeats; print JSON."""
    with np.load(path) as file:
        world = {k: file[k] for k in file.files}
    side = globals()[name]
    sampled = name in (
        "peer_king",
        "peer_dirichlet",
    )  # a draw more or less of minutes of sampling; compiled inside every call
    seconds, answer = [], {} if sampled else side(world)
    for _ in range(REPEATS):
        begun = time.process_time()
        answer = side(world)
        seconds.append(time.process_time() - begun)
    made = {k: np.asarray(v, float).ravel().tolist() for k, v in answer.items()}
    print("\n" + json.dumps({"seconds": seconds, "memory": _peak(), **made}))


def _peak() -> float:
    """MiB at the peak of this process; the kernel's other counter includes the process that started it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return float("nan")


def environment(peer: str) -> tuple[str, str]:
    """Return the Python of a peer's environment, made where it is not there; or why there is none."""
    package = peer.split()[0]
    if package not in PACKAGES:
        return sys.executable, ""
    folder = Path(os.environ.get("CROSSLEVEL_PEERS", ROOT / ".cache" / "peers")) / package
    python = folder / "bin" / "python"
    if not (folder / ".done").exists():
        print(f"making an environment for {package} in {folder} ...", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        done = subprocess.run(
            [python, "-m", "pip", "-q", "install", *PACKAGES[package]], capture_output=True, text=True
        )
        if done.returncode:
            return "", f"pip cannot install {package}: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}"
        (folder / ".done").touch()
    return str(python), ""


def side(python: str, function: Callable[[World], Answer], path: str, limit: float) -> Answer:
    """Run a worker in a process of its own; return its answer, or {"why": ...}."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} if python != sys.executable else dict(os.environ)
    env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    command = [python, "-W", "ignore", __file__, "--worker", function.__name__, path]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"why": f"stopped after {limit:.0f} s"}
    if done.returncode:
        return {"why": (done.stderr.strip().splitlines() or ["no reason given"])[-1][:160]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def scores(answer: Answer, truth: np.ndarray) -> tuple[float, float | None]:
    """Root mean square error, and which part of the truth the 95 % intervals hold."""
    estimate = np.array(answer["estimate"])
    error = float(np.sqrt(np.mean((estimate - truth) ** 2)))
    if "low" not in answer:
        return error, None
    return error, float(np.mean((np.array(answer["low"]) <= truth) & (truth <= np.array(answer["high"]))))


DONE: dict[Callable[[World], Answer], Answer] = {}
"""Sides that stand in two rows are run once."""


def row(task: Pair, limit: float) -> list[str]:
    """Run both sides of a task and lay them out."""
    title, mine, make, ours, peer, theirs = task
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "world.npz")
        world = make()
        np.savez(path, **world)
        python, why = environment(peer)
        a = DONE.get(ours) or side(sys.executable, ours, path, limit)
        b = DONE.get(theirs) or (side(python, theirs, path, limit) if python else {"why": why})
    DONE.update({ours: a, theirs: b})
    cells = [title, mine, peer]
    if "why" in a or "why" in b:
        return [*cells, *(_lonely(x) for x in (a, b)), "", "", ""]
    fast = [float(np.median(x["seconds"])) for x in (a, b)]
    error, cover = zip(*(scores(x, world["truth"].ravel()) for x in (a, b)), strict=True)
    return [
        *cells,
        *(_number(v) for v in fast),
        _number(fast[1] / fast[0]),
        " / ".join(f"{x['memory']:.0f}" for x in (a, b)),
        " / ".join(_number(v) for v in error),
        " / ".join("–" if v is None else f"{v:.2f}" for v in cover),
    ]


def _lonely(x: Answer) -> str:
    return x["why"] if "why" in x else _number(float(np.median(x["seconds"])))


def _number(v: float) -> str:
    return f"{v:.3g}" if v < 1000 else f"{v:,.0f}"


HEAD = [
    "task", "ours", "peer", "our seconds", "peer's", "ratio", "peak MiB, ours / peer", "error, ours / peer",
    "95 % coverage, ours / peer",
]  # fmt: skip
TEXT = """# Beside other packages

`make bench-peers` makes an environment for each peer, gives both sides the same simulated world of known truth, one thread
each, and takes the median of three repeats after a first run (compilation). Seconds are those of the processor; *ratio* is the
peer's divided by ours, below 1 where the peer is faster. Memory is the peak of the process with its imports. *Error* is the root
mean square distance to the truth. Coverage is of 95 % intervals, where a side has them; in the rows of votes it is of two rates,
and can only be 0, .5 or 1. What each world is: the functions `world_...` of `benchmarks/peers.py`. Options are the defaults, but
for what a cell names. IterativeImputer knows no group means; it is given the places as further rows.
In the world of votes groups behave alike wherever they live, up to chance: that is what King's and the
Dirichlet model assume; `rxc`, which assumes that people follow their neighbors as in tables of
[known truth](guide/ecological-truth.md), is wrong there.

{table}

R packages (through `Rscript`, where it is installed):

{r}

Measured on {when} with {versions}, two shared processors. Figures on real data with known truth are in the
[studies](studies.md).
"""


def r_rows() -> list[str]:
    """Say for every R package whether it could be run here."""
    rscript = shutil.which("Rscript")
    rows = ["| package | for | |", "|---|---|---|"]
    for package, task in R_PACKAGES.items():
        why = "R is not installed on this machine; not compared"
        if rscript:
            there = subprocess.run(
                [rscript, "-e", f"quit(status = !requireNamespace('{package}', quietly = TRUE))"], capture_output=True
            )
            why = (
                "installed, but no task is written for it yet; not compared"
                if there.returncode == 0
                else "the package is not installed; not compared"
            )
        rows.append(f"| {package} | {task} | {why} |")
    return rows


def main() -> None:
    """Run the rows and write the page, or print those asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", nargs=2)
    parser.add_argument("--only", nargs="*", help="peers whose name contains one of these; printed, nothing is written")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which a side is stopped")
    given = parser.parse_args()
    if given.worker:
        worker(*given.worker)
        return
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for task in TASKS:
        if given.only and not any(o.lower() in task[4].lower() for o in given.only):
            continue
        lines.append("| " + " | ".join(row(task, given.limit)) + " |")
        print(lines[-1], flush=True)
    if given.only:
        return
    import sklearn

    from crosslevel import __version__

    versions = f"crosslevel {__version__}, scikit-learn {sklearn.__version__}, " + ", ".join(
        _version(p) for p in PACKAGES
    )
    when = time.strftime("%Y-%m-%d")
    PAGE.write_text(TEXT.format(table="\n".join(lines), r="\n".join(r_rows()), when=when, versions=versions))


def _version(package: str) -> str:
    python, _ = environment(package)
    if not python:
        return f"no {package}"
    code = f"from importlib.metadata import version; print(version('{package}'))"
    return f"{package} {subprocess.run([python, '-c', code], capture_output=True, text=True).stdout.strip()}"


if __name__ == "__main__":
    main()
