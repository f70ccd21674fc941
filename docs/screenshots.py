"""Pictures of report pages for the guide: each page is made of a small simulated result and photographed by Chromium."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "_static" / "screens"
WIDTH, HEIGHT = 1200, 1000
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def ecological() -> Any:
    """Men and women of a simulated nation, region by region: the truth as a table of estimates, with errors put on."""
    import numpy as np

    from crosslevel import Estimates, report
    from crosslevel.data.simulate import nation
    from crosslevel.results import Provenance

    world = nation(120, 50, random_state=0)
    truth = world.true_rates(by="sex").sort_by([("region", "ascending"), ("sex", "ascending")])
    rate = truth["rate"].to_numpy()
    rng = np.random.default_rng(0)
    error = rng.normal(0, 0.04, len(rate))
    estimate = np.clip(rate + error, 0.01, 0.99)
    observed = {p["region"]: p["dem"] / p["votes"] for p in world.places.to_pylist() if p["votes"]}
    share = np.array([observed.get(r, np.nan) for r in truth["region"].to_pylist()])
    words = {"1": "men", "2": "women"}
    found = Estimates.build(
        {
            "region": truth["region"],
            "sex": [words.get(str(v), str(v)) for v in truth["sex"].to_pylist()],
            "estimate": estimate,
            "std_error": np.full(len(rate), 0.04),
            "conf_low": estimate - 0.08,
            "conf_high": estimate + 0.08,
            "bound_low": np.clip(2 * share - 1, 0, 1),
            "bound_high": np.clip(2 * share, 0, 1),
            "neighborhood": share,
            "truth": rate,
        },
        keys=["region", "sex"],
        method="example: the truth with errors of 4 points",
        level=0.95,
        interval="wald",
        provenance=Provenance.of(call="docs/screenshots.py", seed=0),
        title="How men and women voted in each region",
    )
    return report({"Men and women in each region": found}, title="A simulated nation", polygons=world.polygons)


def krls() -> Any:
    """A simulated experiment: a letter works for the young, a call for nobody, and people differ by age."""
    import numpy as np

    from crosslevel import KRLS, report

    rng = np.random.default_rng(0)
    n = 500
    X = {
        "age": rng.normal(50, 14, n).clip(18, 90).round(),
        "income": rng.gamma(3, 12, n).round(1),
        "arm": rng.choice(["control", "letter", "call"], n),
    }
    letter = (X["arm"] == "letter") * (75 - X["age"]) / 40
    y = np.sin((X["age"] - 50) / 14) + 0.01 * X["income"] + letter + rng.normal(0, 0.6, n)
    model = KRLS(reference={"arm": "control"}).fit(X, y)
    region = rng.choice(["north", "south", "west"], n)
    shown = [model, model.effects(by={"region": region})]
    return report({"Who answers to a letter?": shown}, title="A simulated experiment")


def distribution() -> Any:
    """Groups of 5, 20 and 100 people whose spread is the label; half of them are predicted from the others."""
    import numpy as np

    from crosslevel import report
    from crosslevel.distribution import MeanShrinkage

    rng = np.random.default_rng(0)
    y = rng.uniform(1, 3, 150)
    bags = [rng.normal(0, s, size=(n, 1)) for s, n in zip(y, rng.choice([5, 20, 100], 150), strict=True)]
    found = MeanShrinkage(n_landmarks=12).fit(bags[:75], y[:75]).estimate(bags[75:], y=y[75:])
    return report({"The spread of each group": found}, title="Labels of groups from their members")


def binned() -> Any:
    """An audience that is known by age group and gender."""
    from crosslevel import BinnedCountGP, Intervals, report

    lower, upper = [18, 25, 35, 45, 55, 65] * 2, [25, 35, 45, 55, 65, 80] * 2
    people = [310, 520, 610, 480, 300, 160, 290, 610, 720, 510, 260, 120]
    gender = {"gender": ["women"] * 6 + ["men"] * 6}
    model = BinnedCountGP().fit(Intervals(lower, upper), people, pool=gender)
    new = Intervals([18, 21, 30, 42, 67], [21, 30, 42, 67, 80])
    return report({"Ages of an audience": [model.estimate(new), model]}, title="What lies behind age groups?")


def imputation() -> Any:
    """People whose illness was published as means of places only, with the truth beside."""
    import numpy as np

    from crosslevel import CrossLevelImputer, People, Places, report

    rng = np.random.default_rng(0)
    n, places = 4000, 40
    place = rng.integers(0, places, n)
    age = np.clip(np.round(2.5 + rng.normal(size=places)[place] + rng.normal(size=n)), 0, 5).astype(int)
    X = {"age group": age, "sex": rng.choice(["men", "women"], n)}
    ill = (rng.random(n) < 1 / (1 + np.exp(2.5 - 0.7 * age - 0.4 * (X["sex"] == "women")))).astype(float)
    means = {"place": np.arange(places), "ill": np.bincount(place, ill) / np.bincount(place)}
    people = People({**X, "place": place}, by="place")
    imputer = CrossLevelImputer().fit(people, Places(means, by="place", means=["ill"]))
    return report({"Who is ill?": [imputer, imputer.check_totals()]}, title="Hidden values from published means")


PAGES: dict[str, Callable[[], Any]] = {
    "ecological": ecological,
    "krls": krls,
    "distribution": distribution,
    "binned": binned,
    "imputation": imputation,
}
"""Name of the picture -> a function that makes its report. Rooms are imported inside the functions."""


def make(names: Iterable[str] | None = None, folder: Path = FOLDER) -> list[Path]:
    """Photograph pages; those that are there already are left, and an empty picture stands in where there is no browser."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [folder / f"{name}.png" for name in (PAGES if names is None else names)]
    missing = [path for path in wanted if not path.exists()]
    if not missing:
        return wanted
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if sync_playwright is None or chromium is None:
        for path in missing:
            _stand_in(path)
        return wanted
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as scratch:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        for path in missing:
            page = browser.new_context(offline=True, viewport={"width": WIDTH, "height": HEIGHT}).new_page()
            page.goto(PAGES[path.stem]().save(Path(scratch) / f"{path.stem}.html").as_uri())
            page.wait_for_selector(".chart[data-drawn] svg")
            # charts below the fold are drawn in quiet moments
            page.evaluate("dispatchEvent(new Event('beforeprint'))")
            page.wait_for_function(
                "() => [...document.querySelector('.crosslevel-report').shadowRoot.querySelectorAll('.chart')].every(c => c.dataset.drawn)"
            )
            page.screenshot(path=path)
            page.close()
        browser.close()
    return wanted


def _stand_in(path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 1))
    figure.text(0.5, 0.5, "Install Chromium and playwright to see this page.", ha="center", va="center")
    figure.savefig(path)


if __name__ == "__main__":
    for made in make():
        print(made)
