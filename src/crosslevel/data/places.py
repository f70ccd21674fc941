"""``Places``: totals and means by place, and what else is known of places; ``Means``: how means were made."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from crosslevel.data import frames
from crosslevel.data.checks import read_list
from crosslevel.data.sql import open_table
from crosslevel.data.totals import PlaceTotals, read_places
from crosslevel.errors import InputError, listed, unknown_name

LONGITUDES, LATITUDES = ("lon", "lng", "long", "longitude"), ("lat", "latitude")
"""Names of columns that are degrees on the sphere; any other two are distances in a plane."""
SAMPLE, POPULATION = "sample", "population"


def read_table(data: Any, argument: str) -> pa.Table:
    """Read a table that fits in memory: a frame, or a file."""
    if isinstance(data, str | os.PathLike):
        return open_table(data, argument).answer("select * from people")
    return frames.to_arrow(data, argument)


@dataclass(frozen=True, eq=False, repr=False)
class Means:
    """Means of hidden features in columns of places: how sure they are, and whose.

    Parameters
    ----------
    columns : str or sequence of str
        Columns of places, each called as the hidden feature. An empty mean is allowed.
    se : mapping of column to column of its standard errors, optional
        The less sure a mean, the less is learned from it.
    known_rates : dataframe or path, optional
        Means of the hidden features in subgroups of all people, such as national rates by age: columns of people that define the
        subgroups, a column per hidden feature and, where known, its standard error as ``<feature>_se`` (that of as many people as are
        here when not given). Slopes follow them as far as they are sure, and intervals narrow.
    of : {"sample", "population"}, default "sample"
        Whether the means were computed on the people that are given, and are kept as published; or on others or on all of a population,
        and move with their errors in draws and intervals.

    Examples
    --------
    >>> Means("ill", se={"ill": "ill_se"}, of="population")
    Means('ill', se={'ill': 'ill_se'}, of='population')
    """

    columns: str | Sequence[str]
    se: Mapping[str, str] | None = None
    known_rates: Any = None
    of: str = SAMPLE

    def __post_init__(self) -> None:
        if self.se is not None and not isinstance(self.se, Mapping):
            raise InputError(
                f"se={self.se!r} is no mapping; name the column of errors of each mean, {{'ill': 'ill_se'}}."
            )
        for name in self.errors:
            if name not in self.names:
                raise unknown_name("se", name, list(self.names))
        if self.of not in (SAMPLE, POPULATION):
            raise unknown_name("of", self.of, (SAMPLE, POPULATION), "choice")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The hidden features."""
        return frames.as_names(self.columns, "means")

    @property
    def errors(self) -> dict[str, str]:
        """Column of the standard errors of each feature that has some."""
        return dict(self.se or {})

    @cached_property
    def rates(self) -> pa.Table | None:
        """The known rates of subgroups."""
        return None if self.known_rates is None else read_table(self.known_rates, "known_rates")

    def __repr__(self) -> str:
        said = (
            [listed(self.names)]
            + [f"se={self.errors}"] * bool(self.se)
            + ["known_rates"] * (self.known_rates is not None)
        )
        return f"Means({', '.join([*said, f'of={self.of!r}'])})"


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
    means : str, sequence of str, or Means, optional
        Columns of means of features that are hidden in people, for the imputers.
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
    means: str | Sequence[str] | Means | None = None
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
        if self.published is not None:
            frames.check_columns(self.table, [*self.published.names, *self.published.errors.values()], "means")
            if self.by in self.published.names:
                raise InputError(f"means names {self.by!r}, which names the place; a column has one role.")
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
    def published(self) -> Means | None:
        """The means, and how they were made."""
        return self.means if self.means is None or isinstance(self.means, Means) else Means(self.means)

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
        said += [] if self.published is None else [f"means={listed(self.published.names)}"]
        said += ["margins"] * (self.margins is not None)
        return f"Places({self.table.num_rows:,} rows by {self.by!r}: {', '.join(said)})"
