"""Presidential votes by county, in the layouts in which they are published."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from crosslevel.data.batches.delimited import CsvOptions, DelimitedSource, check_alike, header, open_file
from crosslevel.data.batches.formats import find_files
from crosslevel.data.batches.stream import Batches
from crosslevel.data.signatures import checked
from crosslevel.data.text_numbers import WRITTEN
from crosslevel.errors import CrosslevelWarning, FileError, InputError, listed, unknown_name

DELIMITERS = {".csv": ",", ".csv.gz": ",", ".tab": "\t", ".tsv": "\t"}
SCHEMA = pa.schema(
    [
        ("fips", pa.string()),
        ("state", pa.string()),
        ("county", pa.string()),
        ("year", pa.int64()),
        ("votes_dem", pa.int64()),
        ("votes_rep", pa.int64()),
        ("votes_total", pa.int64()),
    ]
)


@dataclass
class Votes:
    """The votes of one county in one year, and what is to be said of the rows they come from."""

    fips: str | None
    state: str | None
    county: str | None
    year: int | None
    votes_dem: int
    votes_rep: int
    votes_total: int
    blank: bool = False
    repeated: int | None = None
    recoded: bool = False


REPEATED = 3
"""Counties of a state with equal votes that are no coincidence."""
COUNTY = re.compile(r"(?!00)\d\d(?!000)\d{3}")
Record = dict[str, str | None]
Place = tuple[int | str | None, ...]
Candidate = tuple[Place, str | None, str | None]


@checked
def read_county_votes(
    path: str | os.PathLike[str],
    year: int | None = None,
    *,
    recode: Mapping[str, str] | None = None,
    duplicates: str = "error",
    encoding: str = "utf-8",
) -> pa.Table:
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
        - the columns of this function's answer.
    year : int, optional
        Only this election; for a file that does not say its year, the year it is of (otherwise one is looked for in
        the file's name).
    recode : mapping of str to str, optional
        County codes to replace, for example ``{"2938000": "29095"}``: the Election Lab counts Kansas City apart.
        Counties that then share a code are added up.
    duplicates : {"error", "sum"}
        What to do when a county, or in the Election Lab's layout a county's candidate of one party and mode, has more
        than one row.
    encoding : str
        The encoding of the file.

    Returns
    -------
    pyarrow.Table
        ``fips`` (5 characters), ``state``, ``county``, ``year``, ``votes_dem``, ``votes_rep``, ``votes_total``; what the
        file does not say is null.

    Warns
    -----
    CrosslevelWarning
        When rows without a county code of 5 digits (overseas ballots, statewide write-ins) are left out, and when a
        candidate's votes are blank in the Election Lab's layout, which counts as none.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "county.csv"
    ...     _ = file.write_text("state,fips,county,votes_total,obama12,romney12\\nAL,01001,Autauga,23973,6363,17379\\n")
    ...     read_county_votes(file).to_pylist()[0]["votes_rep"]
    17379
    """
    if duplicates not in ("error", "sum"):
        raise unknown_name("duplicates", duplicates, ["error", "sum"], "choice")
    replaced = _checked_recode(recode)
    files = find_files(path, DELIMITERS)
    if len(files) > 1:
        raise InputError(
            f"path={str(path)!r} stands for {len(files)} files; read county votes from one file at a time."
        )
    file = files[0]
    records = _records(file, encoding)
    read = _layout(file, list(records[0]) if records else [])
    found = _of_year(list(read(records, file)), year, file)
    coded = _with_code(found, replaced, file)
    _check_rows(coded, duplicates == "sum", file)
    answer = _unique(coded, duplicates == "sum", file)
    _check(answer, file)
    return pa.Table.from_pylist([vars(votes) for votes in answer], schema=SCHEMA)


def _checked_recode(recode: Mapping[str, str] | None) -> Mapping[str, str]:
    if recode is not None and not isinstance(recode, Mapping):
        raise InputError(f"recode={recode!r} is no mapping; pass the new code by the old one.")
    for pair in (recode or {}).items():
        wrong = next((code for code in pair if not isinstance(code, str)), None)
        if wrong is not None:
            raise InputError(f"recode holds {wrong!r}, which is not text; write county codes in quotes: '{wrong:0>5}'.")
    return recode or {}


def _records(path: Path, encoding: str) -> list[Record]:
    delimiter = DELIMITERS[max((e for e in DELIMITERS if path.name.casefold().endswith(e)), key=len)]
    opener = open_file(str(path))
    names = header(str(path), opener, CsvOptions(encoding=encoding, delimiter=delimiter))
    check_alike(str(path), names)
    options = CsvOptions(dict.fromkeys(names, pa.string()), encoding, delimiter)
    table = Batches([DelimitedSource(str(path), opener, options)]).to_table()
    if not table.num_rows:
        raise FileError(f"{path} has a header but no rows.")
    return table.rename_columns([name.strip().casefold() for name in table.column_names]).to_pylist()


def _layout(path: Path, names: list[str]) -> Callable[[list[Record], Path], Iterator[Votes]]:
    for _, columns, read in LAYOUTS:
        if all(any(choice in names for choice in column.split("|")) for column in columns):
            return read
    known = "; ".join(f"{name}: {', '.join(c.replace('|', ' or ') for c in columns)}" for name, columns, _ in LAYOUTS)
    raise FileError(
        f"{path} has the columns {listed(names, 12)}, which is none of the known layouts ({known}). Rename its columns to "
        "one of these."
    )


def _by_candidate(records: list[Record], path: Path) -> Iterator[Votes]:
    """Add up the Election Lab's rows: modes of voting to a candidate's votes, candidates to a county's."""
    counties: dict[Place, Votes] = {}
    totals: dict[Candidate, list[int | None]] = {}
    modes: dict[Candidate, list[int | None]] = {}
    seen: set[tuple[Candidate, str]] = set()
    for row, record in enumerate(records, start=2):
        if record.get("office") and "PRESIDENT" not in str(record["office"]).upper():
            continue
        year = _count(record, "year", path, row)
        fips = _code(record["county_fips"])
        place: Place = (year, fips) if fips else (year, record["state"], record["county_name"])
        if place not in counties:
            state = record.get("state_po") or record["state"]
            counties[place] = Votes(fips, state, record["county_name"], year, 0, 0, 0)
        county = counties[place]
        county.votes_total = max(county.votes_total, _count(record, "totalvotes", path, row) or 0)
        votes = _count(record, "candidatevotes", path, row)
        if _party(record["party"]) is None:
            continue
        candidate = (place, record["candidate"], record["party"])
        mode = str(record.get("mode") or "TOTAL").upper()
        if (candidate, mode) in seen:
            county.repeated = county.repeated or row
        seen.add((candidate, mode))
        (totals if mode.startswith("TOTAL") else modes).setdefault(candidate, []).append(votes)
    if not modes and not totals:
        parties = listed(sorted({str(record["party"]) for record in records}))
        raise FileError(f"{path} has no rows of the party DEMOCRAT or REPUBLICAN, only of {parties}; write them so.")
    for (place, _, party), counts in (modes | totals).items():
        county = counties[place]
        county.blank |= None in counts
        votes = sum(count for count in counts if count is not None)
        if _party(party) == "democrat":
            county.votes_dem += votes
        else:
            county.votes_rep += votes
    yield from counties.values()


def _party(name: str | None) -> str | None:
    return next((party for party in ("democrat", "republican") if str(name).casefold().startswith(party)), None)


def _wide(records: list[Record], path: Path) -> Iterator[Votes]:
    """Read one row per county, whatever its columns are called."""
    names = {
        field: next((c for c in choices if c in records[0]), None)
        for field, choices in {
            "fips": ("county_fips", "combined_fips", "fips"),
            "state": ("state", "state_abbr", "state_name"),
            "county": ("county", "county_name"),
            "votes_dem": ("votes_dem", "obama12"),
            "votes_rep": ("votes_gop", "votes_rep", "romney12"),
            "votes_total": ("total_votes", "votes_total"),
        }.items()
    }
    named = re.findall(r"(?<!\d)(?:19|20)\d\d(?!\d)", path.name)
    known = 2012 if names["votes_dem"] == "obama12" else int(named[0]) if len(named) == 1 else None
    for row, record in enumerate(records, start=2):
        text = {field: record[name] if name else None for field, name in names.items()}
        counts = {f: _count(record, str(names[f]), path, row) for f in ("votes_dem", "votes_rep", "votes_total")}
        blank = next((names[f] for f, count in counts.items() if count is None), None)
        if blank is not None:
            raise FileError(f"{path} has no number in column {blank!r}, row {row:,}; fill it in or drop the row.")
        of = _count(record, "year", path, row) if "year" in record else known
        yield Votes(text["fips"], text["state"], text["county"], of, **counts)  # type: ignore[arg-type]


LAYOUTS: list[tuple[str, tuple[str, ...], Callable[[list[Record], Path], Iterator[Votes]]]] = [
    (
        "MIT Election Lab",
        ("year", "state", "county_name", "county_fips", "candidate", "party", "candidatevotes", "totalvotes"),
        _by_candidate,
    ),
    ("wide", ("county_fips|combined_fips|fips", "votes_dem", "votes_gop|votes_rep", "total_votes|votes_total"), _wide),
    ("HuffPost 2012", ("fips", "votes_total", "obama12", "romney12"), _wide),
]


def _count(record: Record, column: str, path: Path, row: int) -> int | None:
    text = record.get(column)
    if text is None:
        return None
    number = float(text.replace(",", "")) if re.fullmatch(WRITTEN, text.strip()) else -1.0
    if not (number >= 0 and number.is_integer()):
        raise FileError(f"{path} has {text!r} in column {column!r}, row {row:,}, where a whole number is expected.")
    return int(number)


def _of_year(found: list[Votes], year: int | None, path: Path) -> list[Votes]:
    years = sorted({votes.year for votes in found if votes.year is not None})
    if year is None:
        return found
    if not years:
        for votes in found:
            votes.year = year
        return found
    blank = next((votes for votes in found if votes.year is None), None)
    if blank is not None:
        raise FileError(f"{path} has rows of {blank.county} ({blank.fips}) without a year; fill it in or drop them.")
    if year not in years:
        raise InputError(f"year={year!r} is not in {path}; the years there are {listed(years, 12)}.")
    return [votes for votes in found if votes.year == year]


def _with_code(found: list[Votes], recode: Mapping[str, str], path: Path) -> list[Votes]:
    """Write county codes with 5 digits; leave out, and report, rows that have none."""
    coded: list[Votes] = []
    without: list[Votes] = []
    for votes in found:
        written = _code(votes.fips)
        known = [c for c in (written or "", (written or "").lstrip("0")) if c in recode]
        code = recode[known[0]] if known else written
        votes.recoded, votes.fips = code != written, _code(code)
        (coded if COUNTY.fullmatch(votes.fips or "") else without).append(votes)
    if without:
        names = listed(f"{v.county}, {v.state}" + (f" ({v.fips})" if v.fips else "") for v in without)
        warnings.warn(
            f"{path} has {len(without):,} place(s) without a county code of 5 digits (those of a state end in 000), which are left "
            f"out, with {sum(v.votes_total for v in without):,} votes: {names}. Pass recode to give codes that have more digits a county.",
            CrosslevelWarning,
            stacklevel=3,
        )
    return coded


def _code(written: str | None) -> str | None:
    """Write a county code with 5 digits: '1001' and '1001.0', as other programs save it, as '01001'."""
    code = re.sub(r"\.0+$", "", (written or "").strip())
    return code.zfill(5) if code else None


def _check_rows(found: list[Votes], add_up: bool, path: Path) -> None:
    """Refuse a candidate's repeated rows, and tell of the counties where a candidate's votes are blank."""
    twice = next((votes for votes in found if votes.repeated is not None), None)
    if twice is not None and not add_up:
        raise FileError(
            f"{path} has the same candidate, party and mode of voting a second time in row {twice.repeated:,} "
            f"({twice.county}, {twice.fips}); pass duplicates='sum' if these are parts of it, or drop the repeated rows."
        )
    blank = [f"{votes.county} ({votes.fips}), {votes.year}" for votes in found if votes.blank]
    if blank:
        warnings.warn(
            f"{path} does not say the votes of a Democrat or Republican in {len(blank):,} county(ies), where they count as "
            f"none: {listed(blank)}. Fill them in, or drop these counties.",
            CrosslevelWarning,
            stacklevel=3,
        )


def _unique(found: list[Votes], add_up: bool, path: Path) -> list[Votes]:
    seen: dict[tuple[str | None, int | None], Votes] = {}
    for votes in found:
        earlier = seen.setdefault((votes.fips, votes.year), votes)
        if earlier is votes:
            continue
        earlier.recoded |= votes.recoded
        if not add_up and not earlier.recoded:
            raise FileError(
                f"{path} has the county {votes.fips!r} more than once ({earlier.county!r} and {votes.county!r}); pass "
                "duplicates='sum' if these are parts of it, or drop the repeated rows."
            )
        earlier.votes_dem += votes.votes_dem
        earlier.votes_rep += votes.votes_rep
        earlier.votes_total += votes.votes_total
    return list(seen.values())


def _check(answer: list[Votes], path: Path) -> None:
    alike = Counter((v.year, str(v.fips)[:2], v.votes_dem, v.votes_rep, v.votes_total) for v in answer if v.votes_total)
    repeated = [key for key, counties in alike.items() if counties >= REPEATED]
    if repeated:
        warnings.warn(
            f"{path} gives {alike[repeated[0]]:,} counties of the state {repeated[0][1]} the same {repeated[0][-1]:,} votes, as files do "
            "that have a state's votes in the place of each county's: they would be counted again and again. Keep one row for the state.",
            CrosslevelWarning,
            stacklevel=3,
        )
    over = [v for v in answer if v.votes_dem + v.votes_rep > v.votes_total]
    if over:
        raise FileError(
            f"{path} has more votes for the two parties than votes in all in {len(over):,} county(ies): "
            f"{listed([f'{v.county} ({v.fips})' for v in over])}. Correct votes_total there."
        )
