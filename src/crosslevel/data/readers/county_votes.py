"""Presidential votes by county, in the layouts in which they are published."""

from __future__ import annotations

import os
import warnings

import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data.frames import kind_of
from crosslevel.data.signatures import checked
from crosslevel.data.sql import Local, open_table, quoted
from crosslevel.errors import CrosslevelWarning, FileError, listed, unknown_name

SCHEMA = pa.schema(
    dict.fromkeys(("fips", "state", "county"), pa.string())
    | dict.fromkeys(("year", "votes_dem", "votes_rep", "votes_total"), pa.int64())
)
WIDE = {
    "fips": ("county_fips", "combined_fips", "fips"),
    "state": ("state_po", "state_abbr", "state", "state_name"),
    "county": ("county", "county_name"),
    "year": ("year",),
    "votes_dem": ("votes_dem", "obama12"),
    "votes_rep": ("votes_gop", "votes_rep", "romney12"),
    "votes_total": ("total_votes", "votes_total", "totalvotes"),
}
"""What each column may be called."""
LONG = {name: (name,) for name in ("candidate", "party", "candidatevotes", "mode", "office")}
"""Further columns of a file with a row for each candidate."""


@checked
def read_county_votes(path: str | os.PathLike[str], year: int | None = None) -> pa.Table:
    """Read presidential votes by county.

    Parameters
    ----------
    path : path
        One CSV (or tab-delimited) file, in one of these layouts:

        - MIT Election Lab, ``countypres_2000-2020.csv`` and later: one row per candidate and, in some states, per mode
          of voting. Modes are added up; where a row of the total stands beside them, it alone counts.
        - wide, as in ``2020_US_County_Level_Presidential_Results.csv`` (tonmcg): ``county_fips`` or ``combined_fips``,
          ``votes_dem``, ``votes_gop``, ``total_votes``.
        - HuffPost 2012: ``fips``, ``votes_total``, ``obama12``, ``romney12``.
    year : int, optional
        Only this election; for a file that does not say its year, the year it is of.

    Returns
    -------
    pyarrow.Table
        A row for each county and year: ``fips`` (5 characters), ``state``, ``county``, ``year``, ``votes_dem``,
        ``votes_rep``, ``votes_total``; what the file does not say is null.

    Warns
    -----
    CrosslevelWarning
        When rows without a county code of 5 digits (overseas ballots, statewide write-ins) are left out.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "county.csv"
    ...     _ = file.write_text("state,fips,county,votes_total,obama12,romney12\\nAL,01001,Autauga,23973,6363,17379\\n")
    ...     read_county_votes(file).to_pylist()[0]["votes_rep"]
    17379
    """
    table = open_table(path, "path")
    written = {name.strip().casefold(): name for name in table.schema.names}
    named = {
        field: next((written[name] for name in names if name in written), None)
        for field, names in (WIDE | LONG).items()
    }
    long = all(named[field] for field in ("fips", "party", "candidate", "candidatevotes", "votes_total"))
    if not long and not all(named[field] for field in ("fips", "votes_dem", "votes_rep", "votes_total")):
        raise FileError(
            f"{path} has the columns {listed(written, 12)}, which is none of the known layouts. Rename its columns to fips, votes_dem, "
            "votes_rep and votes_total, or, with a row for each candidate, to county_fips, candidate, party, candidatevotes and totalvotes."
        )
    for name in (name for field, name in named.items() if name and "votes" in field):
        if kind_of(table.schema.field(name).type) == "text":
            raise FileError(f"{path} has text in the column {name!r}; write votes as whole numbers, without commas.")
    parts = {field: _read(field, name) for field, name in named.items()}
    if named["year"] is None and year is not None:
        parts["year"] = str(year)
    fields = ", ".join(f"{sql} as {field}" for field, sql in parts.items())
    rows = Local(table=table.answer(f"select {fields} from people"))
    if year is not None:
        years = rows.answer("select distinct year from people order by year")["year"].to_pylist()
        if None in years or year not in years:
            raise unknown_name("year", year, years, "year")
    counties = rows.answer(
        BY_CANDIDATE if long else "select *, false as twice from people", f"year = {year}" if year else ""
    )
    return _checked(counties, path)


def _read(field: str, name: str | None) -> str:
    """Write the SQL that reads a field from the column of this name."""
    if name is None:
        return "cast(null as varchar)"
    text = f"trim(cast({quoted(name)} as varchar))"
    if field == "fips":  # '1001' and '1001.0', as other programs save them, are '01001'
        code = f"regexp_replace({text}, '\\.0+$', '')"
        return f"repeat('0', 5 - length({code})) || {code}"
    if field == "year":
        return f"cast({quoted(name)} as bigint)"
    return f"cast({quoted(name)} as double)" if "votes" in field else text


def _sum(party: str) -> str:
    """Write the SQL that adds up a party's votes: those of its rows of totals, or of all modes of voting where it has none."""
    own = f"lower(party) like '{party}%'"
    return f"coalesce(sum(candidatevotes) filter ({own} and mode ilike 'total%'), sum(candidatevotes) filter ({own}))"


BY_CANDIDATE = f"""
    select fips, year, min(state) as state, min(county) as county, {_sum("democrat")} as votes_dem,
        {_sum("republic")} as votes_rep, max(votes_total) as votes_total,
        count(*) > count(distinct concat(candidate, '|', party, '|', mode)) as twice
    from (select * replace (coalesce(mode, 'TOTAL') as mode) from people where office is null or office ilike '%president%')
    group by fips, case when fips is null then concat(county, state) end, year order by fips, year"""
"""Adds up the rows of candidates to those of counties."""


def _checked(counties: pa.Table, path: object) -> pa.Table:
    """Refuse repeated rows, leave out what is no county, and tell of votes that are those of a state."""
    repeated = counties.filter(counties["twice"])["county"].to_pylist()
    if repeated:
        raise FileError(
            f"{path} has the same candidate, party and mode of voting a second time in {listed(repeated)}; drop the repeated rows."
        )
    known = pc.fill_null(pc.match_substring_regex(counties["fips"], r"^[0-9]{5}$"), False)
    known = pc.and_not(known, pc.match_substring_regex(pc.fill_null(counties["fips"], ""), r"^00|000$"))
    without = counties.filter(pc.invert(known))
    if without.num_rows:
        warnings.warn(
            f"{path} has {without.num_rows:,} place(s) without a county code of 5 digits (those of a state end in 000), which are left "
            f"out, with {pc.sum(without['votes_total']).as_py():,.0f} votes: {listed(without['county'].to_pylist())}.",
            CrosslevelWarning,
            stacklevel=3,
        )
    found = counties.filter(known).select(SCHEMA.names)
    try:
        return found.cast(SCHEMA)
    except pa.ArrowInvalid as error:
        raise FileError(f"{path} has votes that are no whole numbers: {error}.") from error
