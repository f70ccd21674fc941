"""Hostile text in every position of a report, opened in a real browser: it stays text, and the page runs nothing of it.

Every case draws another text from pieces of markup, code, addresses, templates and odd characters, and puts it into every name, label,
heading, warning, call and map of one page. The page must draw its charts, ask for nothing, complain of nothing and show the text.
"""

from __future__ import annotations

import random
import shutil
import time
from typing import Any

import numpy as np
from tests.harden.door import Door, scratch

from crosslevel import report
from crosslevel.errors import CrosslevelError
from crosslevel.results import Estimates, Provenance

__all__ = ["run"]

HIT = "window.hit=1"
PIECES = [
    f'<img src=x onerror="{HIT}">',
    f"</script><script>{HIT}</script>",
    f"</template></style><svg onload={HIT}>",
    f"\"><b onclick='{HIT}'>",
    f"javascript:{HIT}",
    f"'-{HIT}-'",
    f"`${{{HIT}}}`",
    "{{7*7}} ${7*7} {% raw %}",
    "[x].y['z'].datum",
    "__proto__",
    "constructor",
    "\u2028a\u2029",
    "--><!--",
    "]]>",
    "&lt;&amp;&#60;",
    "\u202eright to left",
    "\u0000".replace("\u0000", "\ufffd"),
    "𝒳é漢字🙂",
    "\\u003cscript\\u003e",
    "=cmd|'/c calc'!A0",
    "%3Cimg%20src%3Dx%3E",
    "a" * 400,
]
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
STUCK = 120_000
"""Milliseconds after which a page that has drawn nothing hangs."""


def hostile(rng: random.Random) -> str:
    """Join some pieces, cut somewhere."""
    text = rng.choice(["", " ", " & "]).join(rng.sample(PIECES, rng.randrange(1, 4)))
    return text[rng.randrange(3) :] or "<b>"


def page_of(rng: random.Random) -> tuple[Any, list[str]]:
    """Make a page with another hostile text in every position; give it with the texts that it must show."""
    shown: list[str] = []

    def text(name: str, visible: bool = True) -> str:
        made = f"{name} {hostile(rng)}"
        if visible:
            shown.append(made)
        return made

    places = [f"{text('place', False)} {i}" for i in range(4)]
    who = [f"{text('who', False)} {i}" for i in range(2)]
    key, second = text("key", False), text("second", False)
    n = len(places) * len(who)
    estimate = np.linspace(0.2, 0.8, n)
    found = Estimates.build(
        {
            key: np.repeat(np.array(places, dtype=object), len(who)),
            second: np.tile(np.array(who, dtype=object), len(places)),
            "estimate": estimate,
            "conf_low": estimate - 0.1,
            "conf_high": estimate + 0.1,
            text("more", False): np.arange(n) / 7,
        },
        keys=[key, second],
        method=text("method"),
        level=0.95,
        interval=text("interval"),
        provenance=Provenance.of(call=text("call", False), data={text("data", False): text("value", False)}),
        diagnostics={text("said", False): hostile(rng)},
        warnings=[text("warning")],
        title=text("asked"),
    )
    features = [
        {
            "type": "Feature",
            "id": f"{hostile(rng)} {i}",
            "properties": {key: name, "name": f"{hostile(rng)} {i}", hostile(rng): hostile(rng)},
            "geometry": {"type": "Polygon", "coordinates": [[[x, 0], [x + 9, 0], [x + 9, 9], [x, 9], [x, 0]]]},
        }
        for i, (name, x) in enumerate(zip(places, range(1000, 1400, 100), strict=True))
    ]
    polygons = {"type": "FeatureCollection", "features": features}
    return report({text("heading"): found}, title=text("title"), polygons=polygons), shown


def _seen(text: str) -> str:
    return "".join(c for c in " ".join(text.split()) if c.isprintable())


def _visit(door: Door, browser: Any, path: Any, html: str, shown: list[str], seed: str) -> None:
    path.write_text(html, encoding="utf-8")
    context = browser.new_context(offline=True, viewport={"width": 1200, "height": 900})
    context.set_default_timeout(STUCK)
    page, asked, problems = context.new_page(), [], []
    page.on("request", lambda r: asked.append(r.url))
    page.on("pageerror", lambda e: problems.append(str(e)))
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    page.on("dialog", lambda d: (problems.append("a dialog opened"), d.dismiss()))
    try:
        page.goto(path.as_uri())
        page.wait_for_function(
            """() => { const hosts = [...document.querySelectorAll(".crosslevel-report")];
              const charts = hosts.flatMap((h) => [...h.shadowRoot.querySelectorAll(".chart")]);
              return charts.length && Number(charts[0].dataset.drawn || 0) >= 1; }""",
            timeout=STUCK,
        )
        told = _seen(page.locator("main").inner_text())
        hidden = [text for text in shown if _seen(text) not in told and _seen(text) not in _seen(page.title())]
        if page.evaluate("window.hit") is not None or page.evaluate("({}).polluted") is not None:
            door.note("wrong", f"{seed}: text was run as code")
        elif page.locator("main img, main b, main script, main svg[onload]").count():
            door.note("wrong", f"{seed}: text became markup")
        elif [url for url in asked if url != page.url.split("#")[0]]:
            door.note("wrong", f"{seed}: the page asked for {asked}")
        elif problems:
            door.note("crash", f"{seed}: {problems[:2]}")
        elif hidden:
            door.note("lost", f"{seed}: not shown: {hidden[0]!r}")
    except Exception as error:
        door.note(
            "hang" if "Timeout" in type(error).__name__ else "crash", f"{seed}: {str(error)[:300]} {problems[:2]}"
        )
    finally:
        context.close()


def run(door: Door, rng: random.Random, until: float) -> None:
    """Open page after page in one browser; none where no browser is installed."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        door.notes.append(f"{door.name}: no Chromium is installed, so no page was opened")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver, scratch() as folder:
        browser = driver.chromium.launch(executable_path=found, args=FLAGS)
        while time.monotonic() < until or door.cases < 1:
            seed = f"{rng.random()}"
            door.cases += 1
            try:
                made, shown = page_of(random.Random(seed))
                html = made.html()
            except CrosslevelError:
                continue  # a sentence: two columns of one name, for example
            except Exception as error:
                door.note("crash", f"{seed}: {error!r}")
                continue
            _visit(door, browser, folder / "report.html", html, shown, seed)
        browser.close()
