"""Ours beside every peer, each in an environment of its own: processor seconds, memory, error and coverage where truth exists.

    make bench-peers                                  # makes the environments in .cache/peers, writes docs/peers.md
    python benchmarks/peers.py --only GPy PyEI        # some rows, printed
    CROSSLEVEL_PEERS=/opt/peers make bench-peers      # environments that are there already: /opt/peers/GPy/bin/python ...
    CROSSLEVEL_DATA=/data make bench-peers            # with the rows of real tables whose cells were counted

Every task has a world of known truth (``peer_sides/worlds.py``), which is written to a file and given to ours and to the peer
(``peer_sides/sides.py``, ``peer_sides/sides.R``) in separate processes with one thread each. The first run of each is left out where it
compiles; then three repeats, of which the median counts. Seconds are those of the processor, which other work on the machine changes
little; memory is the peak of the process, imports included. A row that we lose stays.
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
from pathlib import Path

import numpy as np
from peer_sides import sides, worlds
from peer_sides.sides import Answer
from peer_sides.worlds import World

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "peers.md"
R_SIDES = Path(__file__).resolve().parent / "peer_sides" / "sides.R"
REPEATS = 3

Theirs = Callable[[World], Answer] | str
"""A side in Python, or the name of one in R."""
Pair = tuple[str, str, Callable[[], World], Callable[[World], Answer], str, Theirs]
PACKAGES = {"GPy": ["numpy<2", "scipy<1.13", "matplotlib", "GPy"], "PyEI": ["pyei"], "tobler": ["tobler", "astropy"]}
R_PACKAGES = {
    "eiPack": "", "ei": "", "mice": "", "survey": "",
    "KRLS": "effects of covariates", "bigKRLS": "effects of covariates", "seine": "tables by unit with covariates",
    "lphom": "tables by unit", "ungroup": "ages behind bins",
}  # fmt: skip
"""Packages in R; those without a row, and what they are for."""
SAMPLED = ("peer_king", "peer_dirichlet")
"""Peers that compile inside every call, and take minutes: no first run."""
VOTES, SENC, MATPROII = (
    "two groups, two candidates, 100 precincts",
    "senc: three races, three parties, 212 precincts (eiPack's example)",
    "matproii: registration by race, 268 counties (ei's example)",
)
DIRICHLET, EIPACK, KING_R = (
    "PyEI multinomial-dirichlet (2 x 1,000 draws)",
    "eiPack ei.MD.bayes (tuned; 20,000 + 20,000 draws)",
    "ei (King; 100 draws, its default)",
)
OURS_DIRICHLET = "`multinomial_dirichlet`, no contextual effect"
MEANS, AREAS = "illness by age band from shares of 60 places", "counts of 100 squares for 64 others"
TASKS: list[Pair] = [
    (
        "means of 2,048 random features, 100,000 people in 20 groups",
        "`MeanEmbedding`",
        worlds.world_features,
        sides.ours_features,
        "scikit-learn RBFSampler",
        sides.peer_features,
    ),
    (
        "a smooth function of three covariates, 1,500 rows",
        "`KRLS`, with effects",
        worlds.world_curve,
        sides.ours_curve,
        "scikit-learn KernelRidge (grid of 9, 5 folds)",
        sides.peer_curve,
    ),
    (
        MEANS,
        "`CrossLevelImputer`",
        worlds.world_means,
        sides.ours_means,
        "scikit-learn IterativeImputer (places as rows)",
        sides.peer_means,
    ),
    (
        MEANS,
        "`CrossLevelImputer`",
        worlds.world_means,
        sides.ours_means,
        "mice (places as rows, 20 imputations)",
        "peer_mice",
    ),
    (
        "the density behind 60 bins, hyperparameters learned",
        "`BinnedGP`",
        worlds.world_bins,
        sides.ours_bins,
        "GPy Integral_Limits",
        sides.peer_gpy,
    ),
    (
        VOTES,
        "`ecological.king`",
        worlds.world_votes,
        sides.ours_king,
        "PyEI king99 (2 x 1,000 draws)",
        sides.peer_king,
    ),
    (VOTES, "`ecological.king`", worlds.world_votes, sides.ours_king, KING_R, "peer_ei"),
    (VOTES, OURS_DIRICHLET, worlds.world_votes, sides.ours_dirichlet, DIRICHLET, sides.peer_dirichlet),
    (VOTES, OURS_DIRICHLET, worlds.world_votes, sides.ours_dirichlet, EIPACK, "peer_eipack"),
    (VOTES, "`ecological.rxc`", worlds.world_votes, sides.ours_rxc, DIRICHLET, sides.peer_dirichlet),
    (SENC, "`ecological.rxc`", worlds.world_senc, sides.ours_rxc, EIPACK, "peer_eipack"),
    (SENC, OURS_DIRICHLET, worlds.world_senc, sides.ours_dirichlet, EIPACK, "peer_eipack"),
    (MATPROII, "`ecological.rxc`", worlds.world_matproii, sides.ours_rxc, KING_R, "peer_ei"),
    (MATPROII, "`ecological.king`", worlds.world_matproii, sides.ours_king, KING_R, "peer_ei"),
    (
        "the vote of 15 groups: totals of 80 regions, 2,000 respondents",
        "`EcologicalInference`, with a survey",
        worlds.world_survey,
        sides.ours_survey,
        "survey (raked to composition and to the votes of states)",
        "peer_survey",
    ),
    (AREAS, "`binned.interpolate`", worlds.world_areas, sides.ours_areas, "tobler area_interpolate", sides.peer_area),
    (AREAS, "`binned.interpolate`", worlds.world_areas, sides.ours_areas, "tobler pycno_interpolate", sides.peer_pycno),
]


def worker(name: str, path: str) -> None:
    """Run one side of a task: once to warm up, then the repeats; print JSON."""
    with np.load(path) as file:
        world = {k: file[k] for k in file.files}
    side = getattr(sides, name)
    seconds, answer = [], {} if name in SAMPLED else side(world)
    for _ in range(REPEATS):
        begun = time.process_time()
        answer = side(world)
        seconds.append(time.process_time() - begun)
    made = {k: np.asarray(v, float).ravel().tolist() for k, v in answer.items()}
    print("\n" + json.dumps({"seconds": seconds, "memory": [_peak()], **made}))


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


def r_version(package: str) -> str:
    """Return the version of a package in R; empty where it, or R, is not installed."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        return ""
    code = f"if (requireNamespace('{package}', quietly = TRUE)) cat(as.character(packageVersion('{package}')))"
    return subprocess.run([rscript, "-e", code], capture_output=True, text=True).stdout.strip()


def command(theirs: Theirs, peer: str, folder: Path) -> tuple[list[str], str]:
    """Return what runs one side on the world in a folder, or why nothing does."""
    if isinstance(theirs, str):
        package = peer.split()[0]
        if not r_version(package):
            return [], f"{package} is not installed in R" if shutil.which("Rscript") else "R is not installed"
        return ["Rscript", str(R_SIDES), theirs, str(folder), str(REPEATS)], ""
    python, why = environment(peer)
    name, world = theirs.__name__, str(folder / "world.npz")
    return ([python, "-W", "ignore", __file__, "--worker", name, world] if python else []), why


def side(function: Theirs, peer: str, folder: Path, limit: float) -> Answer:
    """Run a worker in a process of its own; return its answer, or {"why": ...}."""
    line, why = command(function, peer, folder)
    if not line:
        return {"why": why}
    own = line[0] == sys.executable
    env = dict(os.environ) if own else {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    try:
        done = subprocess.run(line, capture_output=True, text=True, env=env, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"why": f"stopped after {limit:.0f} s"}
    if done.returncode:
        return {"why": (done.stderr.strip().splitlines() or ["no reason given"])[-1][:160]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def write(world: World, folder: Path) -> None:
    """Write a world for both kinds of sides: one file of numpy, and an array to a CSV file for R."""
    np.savez(folder / "world.npz", **world)
    for name, values in world.items():
        if values.size < 100_000:
            np.savetxt(folder / f"{name}.csv", values, delimiter=",", fmt="%s")


def scores(answer: Answer, world: World) -> tuple[str, str]:
    """Root mean square error, with the % of people in a wrong cell of a table, and which part of the truth 95 % intervals hold."""
    estimate, truth = np.array(answer["estimate"]), world["truth"].ravel()
    error = _number(float(np.sqrt(np.mean((estimate - truth) ** 2))))
    if "cells" in world:
        people = np.repeat(world["cells"].sum(axis=1), world["cells"].shape[1]) / world["cells"].sum()
        error += f" ({50 * float(people @ np.abs(estimate - truth)):.2f} %)"
    if "low" not in answer:
        return error, "–"
    return error, f"{np.mean((np.array(answer['low']) <= truth) & (truth <= np.array(answer['high']))):.2f}"


DONE: dict[tuple[Callable[[], World], Theirs], Answer] = {}
"""Sides that stand in two rows are run once."""


def row(task: Pair, limit: float) -> list[str]:
    """Run both sides of a task and lay them out."""
    title, mine, make, ours, peer, theirs = task
    cells = [title, mine, peer]
    try:
        world = make()
    except FileNotFoundError as error:
        return [*cells, str(error), "", "", "", "", ""]
    with tempfile.TemporaryDirectory() as folder:
        write(world, Path(folder))
        for function, name in ((ours, ""), (theirs, peer)):
            if (make, function) not in DONE:
                DONE[make, function] = side(function, name or "crosslevel", Path(folder), limit)
    both = DONE[make, ours], DONE[make, theirs]
    if any("why" in x for x in both):
        return [*cells, *(_lonely(x) for x in both), "", "", "", ""]
    fast = [float(np.median(x["seconds"])) for x in both]
    error, cover = zip(*(scores(x, world) for x in both), strict=True)
    return [
        *cells,
        *(_number(v) + _effective(x) for v, x in zip(fast, both, strict=True)),
        _number(fast[1] / fast[0]),
        " / ".join(f"{x['memory'][0]:.0f}" for x in both),
        " / ".join(error),
        " / ".join(cover),
    ]


def _lonely(x: Answer) -> str:
    return x["why"] if "why" in x else _number(float(np.median(x["seconds"])))


def _effective(x: Answer) -> str:
    return f" ({x['effective'][0]:.0f} effective draws)" if "effective" in x else ""


def _number(v: float) -> str:
    return f"{v:.3g}" if v < 1000 else f"{v:,.0f}"


HEAD = [
    "task", "ours", "peer", "our seconds", "peer's", "ratio", "peak MiB, ours / peer", "error, ours / peer",
    "95 % coverage, ours / peer",
]  # fmt: skip
TEXT = """# Beside other packages

`make bench-peers` makes an environment for each peer in Python, uses the packages of R that are installed, gives both sides the same
world of known truth, one thread each, and takes the median of three repeats after a first run (compilation). Seconds are those of the
processor; *ratio* is the peer's divided by ours, below 1 where the peer is faster. Memory is the peak of the process with its imports.
*Error* is the root mean square distance to the truth; of tables by unit the percentage of people in a wrong cell stands beside it.
Coverage is of 95 % intervals, where a side has them; of tables it is of all cells, and of two by two only 0, .5 or 1. What each world is:
`benchmarks/peer_sides/worlds.py`; what each side is given: `sides.py` and `sides.R` beside it. Options are the defaults, but for what a
cell names. All rows are of one call.

- IterativeImputer and mice know no means of groups. Both are given the places as further rows: a regression of places, carried over to
  people. They cannot make people's values agree with a place's mean, and intervals pooled by Rubin's rules leave out the step from places
  to people. What mice is made for, several columns with holes here and there in people's rows, `CrossLevelImputer` does not do.
- In the world of votes groups behave alike wherever they live, up to chance: that is what King's and the Dirichlet model assume; `rxc`,
  which assumes that people follow their neighbors as in tables of [known truth](guide/ecological-truth.md), is wrong there. senc and
  matproii are real; the constants of `rxc` were chosen with these two among other tables in sight.
- The survey package has no model of places: it is given the composition and, by state, the votes, to which respondents are raked.

{table}

Packages of R without a row:

{r}

Measured on {when} with {versions}. Figures on real data with known truth are in the [studies](studies.md).
"""


def r_rows() -> list[str]:
    """Say for every package in R without a row why it has none."""
    rows = ["| package | for | |", "|---|---|---|"]
    for package, task in R_PACKAGES.items():
        if task:
            there = r_version(package)
            why = (
                "installed, but no task is written for it; not compared"
                if there
                else "not installed, and not among Debian's packages of R; not compared"
            )
            rows.append(f"| {package} | {task} | {why} |")
    return rows


def versions() -> str:
    """Name what was measured."""
    import sklearn

    from crosslevel import __version__

    found = [f"crosslevel {__version__}", f"scikit-learn {sklearn.__version__}", *map(_version, PACKAGES)]
    if shutil.which("Rscript"):
        language = subprocess.run(
            ["Rscript", "-e", "cat(R.version$major, R.version$minor, sep='.')"], capture_output=True
        )
        of_r = [f"{p} {r_version(p)}" for p, task in R_PACKAGES.items() if not task and r_version(p)]
        found += [f"R {language.stdout.decode().strip()}", *of_r]
    return ", ".join(found)


def _version(package: str) -> str:
    python, _ = environment(package)
    if not python:
        return f"no {package}"
    code = f"from importlib.metadata import version; print(version('{package}'))"
    return f"{package} {subprocess.run([python, '-c', code], capture_output=True, text=True).stdout.strip()}"


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
    when = time.strftime("%Y-%m-%d")
    PAGE.write_text(TEXT.format(table="\n".join(lines), r="\n".join(r_rows()), when=when, versions=versions()))


if __name__ == "__main__":
    main()
