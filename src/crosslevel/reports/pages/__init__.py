"""Results to sections of a page: one module for each kind of result."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from crosslevel.errors import InputError

if TYPE_CHECKING:
    from crosslevel.reports.shapes import Shapes
    from crosslevel.reports.views import Section

__all__ = ["section_for"]

KINDS = ("krls", "distribution", "binned", "imputation", "embedding", "ecological", "table")
"""Modules asked in turn whether they show a result; the last shows any Estimates."""


def section_for(heading: str, result: Any, *, shapes: Shapes | None = None) -> Section:
    """Make the section of a result: by its type for a fitted model, by what they hold for Estimates.

    Parameters
    ----------
    heading : str
    result : Estimates or a fitted model
    shapes : Shapes, optional
        Places that maps can show.

    Returns
    -------
    Section

    Examples
    --------
    >>> from crosslevel import ecological
    >>> found = ecological.bounds({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]})
    >>> section_for("Young and old", found).kind
    'ecological'
    """
    for kind in KINDS:
        page = importlib.import_module(f"{__name__}.{kind}")
        if page.accepts(result):
            return page.section(heading, result, shapes=shapes)
    raise InputError(
        f"results[{heading!r}] is a {type(result).__name__}; pass Estimates or a fitted model, or a mapping of heading to these."
    )
