"""How large is a report, and how soon does it answer in a browser?

    python benchmarks/report.py                                     # 1,000 regions x 20 subgroups, simulated polygons
    python benchmarks/report.py --counties us-atlas_counties-10m.json   # TopoJSON with a layer "counties", two subgroups

Prints the size of the file, the seconds to write it, and in headless Chromium (offline, from disk) the seconds from opening the page to
the first chart, and from choosing another subgroup to the changed map; beside each the processor seconds of the page's main thread,
which a busy machine does not stretch.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

CHART = "document.querySelector('.crosslevel-report').shadowRoot.querySelector('.chart')"


def estimates(places: list[str], subgroups: list[str]):
    """Make a table with the columns that ecological inference gives."""
    from crosslevel import Estimates
    from crosslevel.results import Provenance

    rng = np.random.default_rng(0)
    n = len(places) * len(subgroups)
    e = rng.uniform(0.25, 0.75, n)
    columns = {
        "region": np.repeat(places, len(subgroups)),
        "subgroup": np.tile(subgroups, len(places)),
        "estimate": e,
        "std_error": rng.uniform(0.01, 0.05, n),
        "conf_low": e - rng.uniform(0.05, 0.1, n),
        "conf_high": e + rng.uniform(0.05, 0.1, n),
        "bound_low": e - rng.uniform(0.1, 0.2, n),
        "bound_high": e + rng.uniform(0.1, 0.2, n),
        **{name: rng.uniform(0.25, 0.75, n) for name in ("neighborhood", "goodman", "model_low", "model_high")},
        **{name: rng.uniform(1, 1e5, n) for name in ("population", "effective_size", "shift")},
    }
    return Estimates.build(
        columns,
        keys=["region", "subgroup"],
        method="example",
        level=0.95,
        interval="wald",
        provenance=Provenance.of(call="benchmarks/report.py"),
    )


def browse(path: Path) -> dict[str, float]:
    """Open the page and choose another subgroup."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(offline=True, viewport={"width": 1200, "height": 900})
        page = context.new_page()
        tools = context.new_cdp_session(page)
        tools.send("Performance.enable", {"timeDomain": "threadTicks"})

        def busy() -> float:
            return {m["name"]: m["value"] for m in tools.send("Performance.getMetrics")["metrics"]}["TaskDuration"]

        start = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_function(f"() => {CHART}.dataset.drawn && {CHART}.querySelector('svg')")
        told = {"first chart": time.perf_counter() - start, "first chart, processor": busy()}
        page.wait_for_timeout(8000)
        before, start = busy(), time.perf_counter()
        page.locator("select").first.select_option(index=1)
        page.wait_for_function(f"() => {CHART}.dataset.drawn > 1")
        told |= {"other subgroup": time.perf_counter() - start, "other subgroup, processor": busy() - before}
        browser.close()
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counties", type=Path, help="TopoJSON of counties")
    asked = parser.parse_args()
    from crosslevel import report

    if asked.counties is None:
        from crosslevel.data.simulate import nation

        world = nation(1000, 1, random_state=0)
        polygons, places, subgroups = world.polygons, world.places["region"].to_pylist(), [f"s{i}" for i in range(20)]
    else:
        polygons = json.loads(asked.counties.read_text())
        places, subgroups = [g["id"] for g in polygons["objects"]["counties"]["geometries"]], ["men", "women"]
    found = estimates(places, subgroups)
    report(found).html()  # imports and the charts' library, once
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        start = time.perf_counter()
        report(found, path, polygons=polygons)
        print(f"{len(places):,} places x {len(subgroups)} subgroups")
        print(f"{'written':<28}{time.perf_counter() - start:8.2f} s   {path.stat().st_size / 1e6:.2f} MB")
        for name, seconds in browse(path).items():
            print(f"{name:<28}{seconds:8.2f} s")


if __name__ == "__main__":
    main()
