"""Small simulated tables with the columns and codes of official files, to try a program on before the files are there.

Each function returns the table, and with ``path`` also writes it as the publisher does, for the reader of the same name in
:mod:`crosslevel.data.readers`. The numbers are drawn, not copied: nothing follows from them.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from crosslevel.data.atomic import whole_file
from crosslevel.data.checks import check_whole, read_seed
from crosslevel.errors import MissingExtraError
from crosslevel.typing import RandomState

PathLike = str | os.PathLike[str] | None
GROUPS = ("White", "Hispanic", "BlackAlone", "AsianAlone", "NativeAlone", "PacificAlone", "OtherAlone", "TwoOrMore")
DEMOCRATIC_SHARE = np.array([0.3, 0.6, 0.9, 0.6, 0.5, 0.5, 0.5, 0.5])
"""Democratic share of the two-party vote by group."""


def pums(n_people: int = 300, *, random_state: RandomState = 0, path: PathLike = None) -> pa.Table:
    """Simulate person records of ACS PUMS, of one state; read by ``read_acs_pums``.

    Parameters
    ----------
    n_people : int
        Rows.
    random_state : int, Generator or None
        Seed.
    path : path, optional
        A CSV file to write, such as ``psam_p01.csv``.

    Returns
    -------
    pyarrow.Table
        With ``SERIALNO``, ``PUMA``, ``STATE``, ``PWGTP``, ``AGEP``, ``SEX``, ``SCHL``, ``RAC1P``, ``CIT``, ``WKHP``,
        ``PINCP``; null where a question is not asked at an age.

    Examples
    --------
    >>> people = pums(3)
    >>> people["STATE"].to_pylist(), people.num_columns
    (['01', '01', '01'], 14)
    """
    n, rng = check_whole(n_people, "n_people", 1), np.random.default_rng(read_seed(random_state))
    household = np.sort(rng.integers(0, 1 + n // 2, n))
    age = rng.integers(0, 96, n)
    first = np.r_[True, household[1:] != household[:-1]]
    order = np.arange(n) - np.maximum.accumulate(np.where(first, np.arange(n), 0)) + 1
    puma = rng.choice(["00100", "00200", "00301"], n)[household]
    columns = {
        "RT": ["P"] * n,
        "SERIALNO": [f"2023HU{h:07d}" for h in household],
        "SPORDER": order,
        "PUMA": puma,
        "STATE": ["01"] * n,
        "PWGTP": rng.integers(5, 200, n),
        "AGEP": age,
        "CIT": rng.choice([1, 3, 4, 5], n, p=[0.88, 0.02, 0.05, 0.05]),
        "SEX": rng.integers(1, 3, n),
        "RAC1P": rng.choice([1, 2, 6, 8, 9], n, p=[0.66, 0.25, 0.02, 0.03, 0.04]),
        "HISP": rng.choice([1, 2, 24], n, p=[0.93, 0.05, 0.02]),
    }
    asked = {
        "SCHL": (3, np.minimum(rng.integers(1, 25, n), np.maximum(age - 2, 1))),
        "WKHP": (16, np.where(rng.random(n) < 0.6, rng.integers(1, 80, n), 0)),
        "PINCP": (15, np.round(np.exp(rng.normal(10.3, 0.9, n)), -1).astype(np.int64)),
    }
    blank = {
        name: pa.array(v, mask=(age < least) | ((name == "WKHP") & (v == 0))) for name, (least, v) in asked.items()
    }
    return _written(pa.table(columns | blank), path)


def county_votes(n_counties: int = 67, *, random_state: RandomState = 0, path: PathLike = None) -> pa.Table:
    """Simulate presidential votes by county in the layout of the MIT Election Lab; read by ``read_county_votes``.

    Parameters
    ----------
    n_counties : int
        Counties, at most the 67 of Alabama; each has four rows, one per candidate.
    random_state : int, Generator or None
        Seed.
    path : path, optional
        A CSV file to write, such as ``countypres_2000-2020.csv``.

    Returns
    -------
    pyarrow.Table
        The year is 2020; counties have numbers for names.

    Examples
    --------
    >>> county_votes(2)["county_fips"].to_pylist()[::4]
    [1001, 1003]
    """
    n, rng = check_whole(n_counties, "n_counties", 1, 67), np.random.default_rng(read_seed(random_state))
    parties = ("DEMOCRAT", "REPUBLICAN", "LIBERTARIAN", "OTHER")
    cast = np.round(np.exp(rng.normal(9.5, 1, n))).astype(np.int64) + 100
    democrat = rng.beta(4, 6, n) * 0.98
    votes = rng.multinomial(cast, np.c_[democrat, 0.98 - democrat, np.full((n, 2), 0.01)])
    columns = {
        "year": np.full(4 * n, 2020),
        "state": ["ALABAMA"] * (4 * n),
        "state_po": ["AL"] * (4 * n),
        "county_name": np.repeat([f"COUNTY {k + 1}" for k in range(n)], 4),
        "county_fips": np.repeat(1001 + 2 * np.arange(n), 4),
        "office": ["US PRESIDENT"] * (4 * n),
        "candidate": [f"CANDIDATE {k}" for k in (1, 2, 3, 4)] * n,
        "party": [*parties] * n,
        "candidatevotes": votes.ravel(),
        "totalvotes": np.repeat(cast, 4),
        "version": np.full(4 * n, 20220315),
        "mode": ["TOTAL"] * (4 * n),
    }
    return _written(pa.table(columns), path)


def brfss(n_people: int = 300, *, random_state: RandomState = 0, path: PathLike = None) -> pa.Table:
    """Simulate respondents of BRFSS; read by ``read_brfss``.

    Parameters
    ----------
    n_people : int
        Rows.
    random_state : int, Generator or None
        Seed.
    path : path, optional
        A SAS transport file to write, such as ``LLCP2023.XPT``; needs pyreadstat and pandas.

    Returns
    -------
    pyarrow.Table
        Numbers as CDC codes them, with 7 and 9 (14 for ``_AGEG5YR``) for "don't know" and "refused". Diabetes is more
        frequent among the old and the heavy.

    Examples
    --------
    >>> brfss(200).column_names[:4]
    ['_STATE', '_PSU', '_STSTR', '_LLCPWT']
    """
    n, rng = check_whole(n_people, "n_people", 1), np.random.default_rng(read_seed(random_state))
    state = rng.choice([1, 2, 13, 36], n)
    age, weight = rng.integers(1, 15, n), rng.integers(1, 5, n)
    ill = rng.random(n) < 0.02 + 0.012 * np.minimum(age, 13) + 0.03 * (weight - 1)
    columns = {
        "_STATE": state,
        "_PSU": 2023_000_000 + np.arange(1, n + 1),
        "_STSTR": state * 1000 + rng.integers(11, 20, n),
        "_LLCPWT": np.round(np.exp(rng.normal(5.5, 1, n)), 2),
        "SEXVAR": rng.integers(1, 3, n),
        "GENHLTH": rng.choice([1, 2, 3, 4, 5, 7, 9], n, p=[0.17, 0.33, 0.31, 0.13, 0.05, 0.005, 0.005]),
        "DIABETE4": np.where(rng.random(n) < 0.01, rng.choice([7, 9], n), np.where(ill, 1, 3)),
        "_AGEG5YR": age,
        "_EDUCAG": rng.choice([1, 2, 3, 4, 9], n, p=[0.1, 0.27, 0.3, 0.32, 0.01]),
    }
    table = pa.table({name: pa.array(np.asarray(v, float)) for name, v in columns.items()})
    table = table.append_column("_BMI5CAT", pa.array(weight.astype(float), mask=rng.random(n) < 0.08))
    if path is not None:
        if not (find_spec("pyreadstat") and find_spec("pandas")):
            raise MissingExtraError("path: writing XPT files needs pip install 'crosslevel[readers]' pandas.")
        import pyreadstat

        with whole_file(path) as beside:
            pyreadstat.write_xport(table.to_pandas(), str(beside), file_format_version=5)
    return table


def ons_ages(n_areas: int = 100, *, random_state: RandomState = 0, path: PathLike = None) -> pa.Table:
    """Simulate population by sex, single year of age and LSOA; read by ``read_ons_ages``.

    Parameters
    ----------
    n_areas : int
        Areas.
    random_state : int, Generator or None
        Seed.
    path : path, optional
        A CSV file to write: a sheet saved from the workbook, with a title above the header.

    Returns
    -------
    pyarrow.Table
        Codes and names of the district and the area, ``Total``, ``F0`` to ``F90``, ``M0`` to ``M90``; 90 is 90 and over.

    Examples
    --------
    >>> ons_ages(2).column_names[2:6]
    ['LSOA 2021 Code', 'LSOA 2021 Name', 'Total', 'F0']
    """
    n, rng = check_whole(n_areas, "n_areas", 1), np.random.default_rng(read_seed(random_state))
    ages = np.arange(91)
    expected = 11 * np.exp(-((ages / 78) ** 6)) * rng.gamma(12, 1 / 12, (n, 1))
    counts = rng.poisson(expected[:, None, :] * np.ones((1, 2, 1)))
    columns = {
        "LAD 2021 Code": ["E08000009"] * n,
        "LAD 2021 Name": ["Simulated"] * n,
        "LSOA 2021 Code": [f"E01{k + 1:06d}" for k in range(n)],
        "LSOA 2021 Name": [f"Simulated {k + 1:03d}A" for k in range(n)],
        "Total": counts.sum(axis=(1, 2)),
    }
    columns |= {f"{sex}{age}": counts[:, s, age] for s, sex in enumerate("FM") for age in ages}
    return _written(
        pa.table(columns), path, "Simulated mid-year population estimates\nUsual residents by sex and age\n"
    )


def vtd(n_districts: int = 200, *, random_state: RandomState = 0, path: PathLike = None) -> pa.Table:
    """Simulate population and votes by voting district; read by ``read_vtd``.

    Parameters
    ----------
    n_districts : int
        Districts.
    random_state : int, Generator or None
        Seed.
    path : path, optional
        A CSV file to write.

    Returns
    -------
    pyarrow.Table
        ``GEOID20``, ``Name``, ``T_20_CENS_Total``, ``V_20_VAP_NH_...`` by group, ``V_20_CVAP_Total``, and the votes
        of two contests, ``E_20_PRES_...`` and ``E_22_SEN_...``. Black voters are drawn to vote Democratic at 90%, white
        ones at 30%.

    Examples
    --------
    >>> table = vtd(50)
    >>> sum(table["V_20_VAP_NH_Total"].to_pylist()) == sum(
    ...     sum(table[c].to_pylist()) for c in table.column_names if c.startswith("V_20_VAP_NH_") and "Total" not in c
    ... )
    True
    """
    n, rng = check_whole(n_districts, "n_districts", 1), np.random.default_rng(read_seed(random_state))
    adults = rng.integers(200, 5000, n)
    people = rng.multinomial(adults, rng.dirichlet([2.5, 0.5, 1.5, 0.2, 0.05, 0.02, 0.05, 0.2], n))
    citizens = rng.binomial(people, 0.93)
    columns = {
        "GEOID20": [f"13{2 * (k // 20) + 1:03d}{k % 20 + 1:06d}" for k in range(n)],
        "Name": [f"Precinct {k + 1}" for k in range(n)],
        "T_20_CENS_Total": adults + rng.binomial(adults, 0.28),
        "V_20_VAP_NH_Total": adults,
        **{f"V_20_VAP_NH_{group}": people[:, g] for g, group in enumerate(GROUPS)},
        "V_20_CVAP_Total": citizens.sum(axis=1),
    }
    for contest, turnout in (("E_20_PRES", 0.65), ("E_22_SEN", 0.5)):
        voters = rng.binomial(citizens, turnout)
        other = rng.binomial(voters, 0.015)
        democrat = rng.binomial(voters - other, DEMOCRATIC_SHARE)
        columns[f"{contest}_Total"] = voters.sum(axis=1)
        columns[f"{contest}_Dem"] = democrat.sum(axis=1)
        columns[f"{contest}_Rep"] = (voters - other - democrat).sum(axis=1)
    return _written(pa.table(columns), path)


def _written(table: pa.Table, path: PathLike, title: str = "") -> pa.Table:
    """Write a table as CSV where a path is given, below its title."""
    if path is not None:
        with whole_file(path) as beside, beside.open("wb") as stream:
            stream.write(title.encode())
            pacsv.write_csv(table, stream)
    return table
