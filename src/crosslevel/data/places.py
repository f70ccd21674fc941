"""``Places``: totals by place, and what else is known of places."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from crosslevel.data import frames
from crosslevel.data.checks import read_list
from crosslevel.data.sql import open_table
from crosslevel.data.totals import PlaceTotals, read_places
from crosslevel.errors import InputError

LONGITUDES, LATITUDES = ("lon", "lng", "long", "longitude"), ("lat", "latitude")
"""Names of columns that are degrees on the sphere; any other two are distances in a plane."""


def read_table(data: Any, argument: str) -> pa.Table:
    """Read a table that fits in memory: a frame, or a file."""
    if isinstance(data, str | os.PathLike):
        return open_table(data, argument).answer("select * from people")
    return frames.to_arrow(data, argument)


@dataclass(frozen=True, eq=False, repr=False)
class Places:
    """Places with what was counted there: one row for each.

    Parameters
    ----------
    data : dataframe or path
    by : str
        Column that names the place.
    successes, trials : str, optional
        Columns of counts: how many did it, of how many. Places without trials are left out.
    outcomes : sequence of str, optional
        Several outcomes, columns of counts, in place of ``successes``; ``trials`` is their sum unless given.
    coords : two column names, optional
        Where the place is. Columns called longitude and latitude (``lon``, ``lng``, ``long``; ``lat``) are degrees, and distances are
        chords of the sphere in kilometers; others are distances in a plane.
    population : str, optional
        Column of everybody who could have been among the trials. Turnout is then modeled too.
    margins : dataframe or path, optional
        Exact counts of columns of people by place, as a census has them: the key of the place and a column for every level, called
        ``column=level`` (``sex=1``, ``sex=2``). The people of each place are raked to them.
    covariates : sequence of str, optional
        Columns that act on everybody in a place: numbers, or text.

    Examples
    --------
    >>> towns = {"town": ["a", "b"], "yes": [3, 5], "all": [9, 9], "lon": [0.1, 0.2], "lat": [50.0, 50.1]}
    >>> Places(towns, by="town", successes="yes", trials="all", coords=("lon", "lat"))
    Places(2 rows by 'town': successes='yes', trials='all', coords=('lon', 'lat'))
    """

    data: Any
    by: str
    successes: str | None = None
    trials: str | None = None
    outcomes: Sequence[str] | None = None
    coords: Sequence[str] | None = None
    population: str | None = None
    margins: Any = None
    covariates: Sequence[str] | None = None
    table: pa.Table = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", read_table(self.data, "places"))
        for argument in ("by", "successes", "trials", "population"):
            name = getattr(self, argument)
            if name is None and argument != "by":
                continue
            if not isinstance(name, str):
                raise InputError(f"{argument}={name!r} is not a column name; names are text here.")
            frames.check_columns(self.table, [name], argument)
        for argument in ("outcomes", "coords", "covariates"):
            names = read_list(getattr(self, argument) or (), argument)
            frames.check_columns(self.table, list(names), argument)
        if self.coords is not None and len(self.coords) != 2:
            raise InputError(f"coords={tuple(self.coords)!r} must name two columns, such as ('lon', 'lat').")

    @property
    def metric(self) -> str:
        """Whether coordinates are degrees on the sphere, or distances in a plane."""
        names = [name.casefold() for name in self.coords or ("", "")]
        return "sphere" if names[0] in LONGITUDES and names[1] in LATITUDES else "plane"

    def read(self) -> PlaceTotals:
        """Check the counts and coordinates."""
        found = read_places(
            self.table,
            self.by,
            self.successes,
            self.trials,
            coords=self.coords,
            outcomes=self.outcomes,
            population=self.population,
        )
        return replace(found, frame=frames.frame_kind(self.data) if frames.is_frame(self.data) else "pyarrow")

    @cached_property
    def margins_table(self) -> pa.Table | None:
        """The counts that people are raked to."""
        return None if self.margins is None else read_table(self.margins, "margins")

    def roles(self) -> dict[str, Any]:
        """Give what each column means, all that is not data."""
        names = ("by", "successes", "trials", "outcomes", "coords", "population", "covariates")
        given = {name: getattr(self, name) for name in names}
        return {n: list(v) if isinstance(v, list | tuple) else v for n, v in given.items() if v is not None}

    def __repr__(self) -> str:
        said = [f"{n}={tuple(v) if isinstance(v, list) else v!r}" for n, v in self.roles().items() if n != "by"]
        said += ["margins"] * (self.margins is not None)
        return f"Places({self.table.num_rows:,} rows by {self.by!r}: {', '.join(said)})"
