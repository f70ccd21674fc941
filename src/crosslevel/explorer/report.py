"""The report: one HTML file with the table, the picture and the words a reader needs."""

from __future__ import annotations

import json
import os
import tempfile
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crosslevel.data.atomic import whole_file
from crosslevel.errors import InputError
from crosslevel.explorer.page import describe_page, figure_svg
from crosslevel.explorer.pictures import pictures
from crosslevel.results import Estimates

__all__ = ["Report", "report"]


@dataclass(frozen=True)
class Report:
    """A page ready to be written, shown or mailed.

    Attributes
    ----------
    page : dict
        The plain, versioned description the page is made from.
    """

    page: dict[str, Any]

    def html(self) -> str:
        """Give the whole page as text; it needs no other file and no network."""
        import jinja2

        loader = jinja2.PackageLoader("crosslevel.explorer")
        environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
        return environment.get_template("report.html").render(page=self.page)

    def json(self) -> str:
        """Give the page's description as strict JSON."""
        return json.dumps(self.page, ensure_ascii=False, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page; the file appears whole or not at all."""
        with whole_file(path) as beside:
            beside.write_text(self.html(), encoding="utf-8")
        return Path(path)

    def open(self) -> Path:
        """Write the page to a temporary file and show it in the browser."""
        path = self.save(Path(tempfile.mkdtemp(prefix="crosslevel-")) / "report.html")
        webbrowser.open(path.as_uri())
        return path

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        return f"Report({self.page['title']!r}; .save(path) or .open())"


def report(
    results: Estimates | Mapping[str, Estimates],
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    figures: Mapping[str, Any] | None = None,
    polygons: Mapping[str, Any] | None = None,
) -> Report:
    """Make one self-contained HTML page of results.

    Parameters
    ----------
    results : Estimates or mapping of heading to Estimates
    path : path, optional
        Where to write the page; nothing is written when not given.
    title : str, optional
        Heading of the page.
    figures : mapping of caption to matplotlib Axes, optional
        Pictures to show first; by default the interval plot of each result (that of all methods, for a comparison), and with
        ``polygons`` a map of its first subgroup.
    polygons : mapping, optional
        A GeoJSON FeatureCollection for the maps: results are mapped that have a key by the name of a property of the features.

    Returns
    -------
    Report

    Examples
    --------
    >>> from crosslevel import ecological
    >>> found = ecological.bounds({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]})
    >>> page = report(found, title="Young and old")
    >>> page
    Report('Young and old'; .save(path) or .open())
    >>> "<svg" in page.html()
    True
    """
    if not isinstance(results, Estimates | Mapping):
        raise InputError(
            f"results is a {type(results).__name__}; pass Estimates, or a mapping of heading to Estimates."
        )
    named = {results.title or results.method: results} if isinstance(results, Estimates) else dict(results)
    for heading, estimates in named.items():
        if not isinstance(estimates, Estimates):
            raise InputError(
                f"results[{heading!r}] is a {type(estimates).__name__}; pass Estimates, or a mapping of heading to Estimates."
            )
    if not named:
        raise InputError("results is empty; pass at least one Estimates.")
    shown = pictures(named, polygons) if figures is None else figures
    drawn = {caption: figure_svg(ax) for caption, ax in shown.items()}
    made = Report(describe_page(named, title or next(iter(named)), drawn))
    if path is not None:
        made.save(path)
    return made
