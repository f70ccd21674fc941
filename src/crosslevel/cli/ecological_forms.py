"""``crosslevel ecological`` has two forms, people with places and ``--table``: which one is meant?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from crosslevel.cli import ecological, ecological_table
from crosslevel.errors import InputError, nearest

__all__ = ["is_table", "run"]

OTHERWISE = {"feature_map": "--map", "as_json": "--json"}
"""Options whose name is not that of their argument."""
HINTS = {"group": " For an effect shared by the places of a state write --state-effect COLUMN."}


def run(options: Mapping[str, Any], written: Sequence[str]) -> None:
    """Choose the form and answer.

    Parameters
    ----------
    options : mapping of argument to value
        All of them, defaults included.
    written : sequence of str
        The arguments that were given.
    """
    if is_table(written):
        ecological_table.run(ecological_table.Settings.of_options(options), options["as_json"])
    else:
        ecological.run(ecological.Settings.of_options(options), options["as_json"])


def is_table(written: Sequence[str]) -> bool:
    """Tell the forms apart by what was written; refuse what is neither, or both.

    Examples
    --------
    >>> is_table(["people", "places", "by", "estimate"]), is_table(["table", "group", "outcome"])
    (False, True)
    >>> is_table(["people", "places", "by", "group"])
    Traceback (most recent call last):
    ...
    crosslevel.errors.InputError: --group goes with --table, not with people and places. For an effect shared by ...
    """
    if "table" in written and "people" in written:
        raise InputError(
            "people and --table are both given; name people and places, or counts by unit with --table, not both."
        )
    if "table" not in written and "people" not in written:
        raise InputError(
            "nothing to read; name people and places (crosslevel ecological people.parquet places.csv --by region --estimate sex ...), "
            "or counts by unit (crosslevel ecological --table units.csv --group white --group black --outcome yes --outcome no)."
        )
    table = "table" in written
    if not table and "places" not in written:
        raise InputError("PLACES is missing; after the file of people name the table of places with their totals.")
    forms = {form: {f.name for f in fields(form)} for form in (ecological.Settings, ecological_table.Settings)}
    mine = forms[ecological_table.Settings if table else ecological.Settings]
    for name in written:
        if name in mine or name == "as_json":
            continue
        goes = "people and places, not with --table" if table else "--table, not with people and places"
        hint = HINTS.get(name) or nearest(_option(name), [_option(n) for n in mine])
        raise InputError(f"{_option(name)} goes with {goes}.{hint}")
    return table


def _option(name: str) -> str:
    return OTHERWISE.get(name, "--" + name.replace("_", "-"))
