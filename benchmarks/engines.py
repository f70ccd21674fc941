"""How long do the engines take over the same people, and in how much memory: threads here, Spark executors?

Simulated people as wide as a census (223 columns, 340 regions) in parquet become 4,096 features per region: columns are learned, then
people embedded. Every engine runs in a process of its own, with two workers; memory is the peak of each
process, summed over driver and workers, the Java process too. The time begins when workers are up and have
loaded the kernels. ``--study`` fits the 2024 study (needs CROSSLEVEL_DATA) to the people as a file, which DuckDB counts here, and as a
DataFrame of Spark, and compares estimates.

    python benchmarks/engines.py                                  # a million people
    python benchmarks/engines.py --full --folder /tmp/people      # 10.8 million; written there unless they are
    python benchmarks/engines.py --study
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from embedding import FULL, N_FEATURES, cores, platform_name, write

EXPERIMENTS = Path(__file__).resolve().parents[1] / "experiments"
sys.path.insert(0, str(EXPERIMENTS))
ENGINES = {"local": None, "spark": 2.5}  # bars: times the local engine
WORKERS = 2
N_DRAWS = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--full", action="store_true", help=f"{FULL:,} people")
    parser.add_argument("--folder", type=Path, help="where the people are written, and kept")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--study", action="store_true", help="the 2024 study, counted by each")
    parser.add_argument("--one", choices=list(ENGINES), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(study(args.one, args.folder) if args.study else measure(args.one, args.folder)))
        return
    print(f"{cores()} cores, load {os.getloadavg()[0]:.1f}; {platform_name()}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = args.folder or Path(name) / "people"
        if not args.study and not (folder.is_dir() and any(folder.iterdir())):
            write(folder, FULL if args.full else args.rows)
        found = {}
        for engine in args.engines:
            found[engine] = apart(engine, folder, args.study)
            report(engine, found, args.study)


def apart(engine: str, folder: Path, of_study: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", engine, "--folder", str(folder), *(["--study"] if of_study else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def report(engine: str, found: dict[str, Any], of_study: bool) -> None:
    here = found[engine]
    line = f"{engine:6} load {here['load']:4.1f}  peak RSS {here['rss']:,.0f} MB"
    if of_study:
        line += f"  passes {here['passes']:.1f} s, fit {here['fit']:.1f} s, estimates {here['estimates']:.1f} s"
        if "local" in found:
            off = max(
                np.abs(np.subtract(here[n], found["local"][n])).max() for n in ("estimate", "conf_low", "conf_high")
            )
            line += f"  largest difference to local {off:.1e} (bar 1e-6)"
    else:
        total = here["fit"] + here["transform"]
        line += f"  fit {here['fit']:.1f} s, transform {here['transform']:.1f} s, together {total:.1f} s"
        line += f" ({here['cpu']:.0f} s of processors), {here['rows'] / total:,.0f} people/s"
        if "local" in found and engine != "local":
            base = found["local"]
            ratio = total / (base["fit"] + base["transform"])
            off = np.abs(np.subtract(here["some"], base["some"])).max() / np.abs(base["some"]).max()
            line += f", {ratio:.2f} times local (bar {ENGINES[engine]}; of processors {here['cpu'] / base['cpu']:.2f}), off by {off:.1e}"
    print(line, flush=True)


def start(engine: str) -> Any:
    """Start two workers on this machine."""
    if engine == "spark":
        os.environ["PYSPARK_PYTHON"] = sys.executable
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(f"local[{WORKERS}]").config("spark.driver.bindAddress", "127.0.0.1")
        for name, value in {"driver.host": "127.0.0.1", "ui.enabled": "false", "driver.memory": "2g"}.items():
            builder = builder.config(f"spark.{name}", value)
        return builder.getOrCreate()
    return "local"


class Watch:
    """Peak memory and processor time of this process and all below it, looked at four times a second."""

    def __init__(self) -> None:
        self.peaks: dict[int, int] = {}
        self.used: dict[int, float] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        import psutil

        here = psutil.Process()
        while True:
            for process in [here, *here.children(recursive=True)]:
                try:
                    self.peaks[process.pid] = max(self.peaks.get(process.pid, 0), process.memory_info().rss)
                    self.used[process.pid] = sum(process.cpu_times()[:2])
                except psutil.Error:
                    continue
            time.sleep(0.25)

    @property
    def megabytes(self) -> float:
        return sum(self.peaks.values()) / 1e6

    @property
    def cpu(self) -> float:
        return sum(self.used.values())


def measure(name: str, folder: Path) -> dict[str, Any]:
    from census import census

    from crosslevel import MeanEmbedding, People

    watch, small = Watch(), census(20_000)
    engine, model = start(name), MeanEmbedding(N_FEATURES)
    roles = {"by": "region", "weight": "weight", "categorical": small.categorical}
    first = next(iter(sorted(folder.iterdir())))
    model.fit_transform(
        People(first if name == "local" else engine.read.parquet(str(first)), **roles)
    )  # loads the kernels
    time.sleep(0.5)
    load, cpu, began = os.getloadavg()[0], watch.cpu, time.perf_counter()
    people = People(folder if name == "local" else engine.read.parquet(str(folder)), **roles)
    model.fit(people)
    fit, began = time.perf_counter() - began, time.perf_counter()
    found = model.transform(people)
    transform = time.perf_counter() - began
    time.sleep(0.5)
    return {
        "cpu": watch.cpu - cpu,
        "fit": fit,
        "transform": transform,
        "rows": int(found.n_rows.sum()),
        "rss": watch.megabytes,
        "load": load,
        "some": found.values[:, ::64].ravel().tolist(),
    }


def study(name: str, folder: Path) -> dict[str, Any]:
    """Fit the 2024 study and estimate the vote of men and women, and of races, in every region."""
    from hidden_labels_data import write_people
    from us2024_people import fitted

    data, people = Path(os.environ["CROSSLEVEL_DATA"]), folder / "people.parquet"
    if not people.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_people(data / "us2024" / "persons", people)
    watch, engine, load = Watch(), start(name), os.getloadavg()[0]
    model = fitted(people if name == "local" else engine.read.parquet(str(people)), data)
    began = time.perf_counter()
    found = [model.estimate(by=by, n_draws=N_DRAWS) for by in ("female", "eth5")]
    taken = {"passes": model.seconds_["people"], "fit": model.seconds_["fit"], "estimates": time.perf_counter() - began}
    numbers = {n: np.concatenate([f[n] for f in found]).tolist() for n in ("estimate", "conf_low", "conf_high")}
    return {**taken, **numbers, "rss": watch.megabytes, "load": load}


if __name__ == "__main__":
    main()
