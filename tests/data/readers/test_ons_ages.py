"""Ages by area: both layouts of the publisher, as CSV and as a workbook; what does not add up is refused."""

from __future__ import annotations

import csv
import zipfile
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd
import pytest

from crosslevel import Intervals
from crosslevel.data.readers import read_ons_ages
from crosslevel.data.simulate import ons_ages
from crosslevel.errors import CrosslevelError, CrosslevelWarning, FileError, InputError

AGES = [*map(str, range(90)), "90+"]
MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
RELATED = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'


def persons(n=3, **changed):
    """Rows of the older layout: a title, the header, areas, and a note."""
    header = ["LSOA Code", "LSOA Name", "LA Code (2020 boundaries)", "All Ages", *AGES]
    areas = [[f"E0100000{k}", f"Town {k}", "E08000009", "1,001", *["11"] * 90, "11"] for k in range(n)]
    for row, column, value in changed.get("cells", ()):
        areas[row][header.index(column)] = value
    return [["Mid-2020 Persons"], [], header, *areas, [], ["Source: ONS"]]


def written(path, rows):
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return path


def reference(column):
    return reference(column // 26 - 1) + chr(65 + column % 26) if column >= 26 else chr(65 + column)


def workbook(path, sheets):
    """Write a workbook as spreadsheet programs do: texts shared, blank cells left out."""
    texts: list[str] = []

    def cell(row, column, value):
        at = f"{reference(column)}{row}"
        if value.isdigit():
            return f'<c r="{at}"><v>{value}</v></c>'
        texts.append(value)
        return f'<c r="{at}" t="s"><v>{len(texts) - 1}</v></c>'

    with zipfile.ZipFile(path, "w") as archive:
        for k, rows in enumerate(sheets.values()):
            lines = "".join(
                f'<row r="{r}">{"".join(cell(r, c, v) for c, v in enumerate(row) if v)}</row>'
                for r, row in enumerate(rows, start=1)
            )
            archive.writestr(
                f"xl/worksheets/sheet{k}.xml", f"<worksheet {MAIN}><sheetData>{lines}</sheetData></worksheet>"
            )
        named = "".join(f'<sheet name="{s}" sheetId="{k + 1}" r:id="rId{k}"/>' for k, s in enumerate(sheets))
        archive.writestr("xl/workbook.xml", f"<workbook {MAIN} {RELATED}><sheets>{named}</sheets></workbook>")
        links = "".join(f'<Relationship Id="rId{k}" Target="worksheets/sheet{k}.xml"/>' for k in range(len(sheets)))
        archive.writestr("xl/_rels/workbook.xml.rels", f"<Relationships>{links}</Relationships>")
        shared = "".join(f"<si><t>{escape(text)}</t></si>" for text in texts)
        archive.writestr("xl/sharedStrings.xml", f"<sst {MAIN}>{shared}</sst>")
    return path


def test_a_stand_in_is_read_back(tmp_path):
    file = tmp_path / "mid2022.csv"
    made = ons_ages(40, random_state=3, path=file).to_pandas()
    for sex, letters in ((None, "FM"), ("persons", "FM"), ("females", "F"), ("males", "M")):
        found = read_ons_ages(file, sex=sex).to_pandas()
        for age, name in enumerate(AGES):
            assert (found[name] == sum(made[f"{letter}{age}"] for letter in letters)).all()
        assert (found["all_ages"] == found[AGES].sum(axis=1)).all()
    assert list(found["area_code"]) == list(made["LSOA 2021 Code"])
    assert read_ons_ages(file)["all_ages"].to_pylist() == list(made["Total"])


def test_column_names_are_ages_that_intervals_read(tmp_path):
    found = read_ons_ages(written(tmp_path / "a.csv", persons()))
    assert found.column_names == ["area_code", "area_name", "all_ages", *AGES]
    assert Intervals.ages(found.column_names[3:]).lower.ravel().tolist() == list(range(91))


def test_a_title_above_and_notes_below_are_passed_over(tmp_path):
    found = read_ons_ages(written(tmp_path / "a.csv", persons()))
    assert found["area_code"].to_pylist() == ["E01000000", "E01000001", "E01000002"]
    assert found["all_ages"].to_pylist() == [1001] * 3
    assert found["90+"].to_pylist() == [11] * 3


def test_a_workbook_is_read_like_its_sheet(tmp_path):
    rows = [[cell.replace(",", "") for cell in row] for row in persons()]
    for row in rows[2:6]:
        row.insert(40, "Note" if row is rows[2] else "")  # a cell that no area has, beyond column Z
    book = workbook(tmp_path / "book.xlsx", {"Notes": [["Contents & notes"]], "Mid-2020 Persons": rows})
    assert read_ons_ages(book).equals(read_ons_ages(written(tmp_path / "a.csv", rows)))
    two = workbook(tmp_path / "two.xlsx", {"Mid-2020 Persons": rows, "Mid-2020 Males": rows[:4]})
    assert read_ons_ages(two, "Mid-2020 Males").num_rows == 1
    with pytest.raises(InputError, match="sheet="):
        read_ons_ages(two)
    with pytest.raises(InputError, match="sheet="):
        read_ons_ages(two, "Mid-2021 Males")


@pytest.mark.parametrize(
    "cells",
    [
        [(1, "5", "12")],
        [(1, "5", "")],
        [(1, "90+", "many")],
        [(1, "5", "-3")],
        [(1, "All Ages", "1001.5")],
        [(2, "LSOA Code", "E01000000")],
        [(2, "LSOA Code", "")],
    ],
)
def test_what_is_wrong_in_a_row_is_named(tmp_path, cells):
    with pytest.raises(FileError):
        read_ons_ages(written(tmp_path / "a.csv", persons(cells=cells)))


def test_another_layout_is_refused_with_what_was_expected_and_found(tmp_path):
    rows = persons()
    rows[2] = [{"90+": "90-94"}.get(cell, cell) for cell in rows[2]]
    with pytest.raises(FileError):
        read_ons_ages(written(tmp_path / "a.csv", rows))
    with pytest.raises(FileError):
        read_ons_ages(written(tmp_path / "b.csv", persons()[:3]))
    damaged = tmp_path / "c.xlsx"
    damaged.write_bytes(b"PK nothing")
    with pytest.raises(FileError):
        read_ons_ages(damaged)


def test_arguments_that_do_not_fit_the_file_are_refused(tmp_path):
    file = written(tmp_path / "a.csv", persons())
    for argument, value in (("sex", "females"), ("sex", "women"), ("sheet", "Persons"), ("encoding", "nonsense")):
        with pytest.raises(CrosslevelError):
            read_ons_ages(file, **{argument: value})
    written(tmp_path / "b.csv", persons())
    with pytest.raises(InputError):
        read_ons_ages(tmp_path)


@pytest.mark.data
@pytest.mark.parametrize(("level", "areas"), [("lsoa", 139), ("msoa", 28)])
def test_the_real_table_of_trafford(real_data, level, areas):
    file = real_data / "ages" / f"trafford_{level}_mid2024_age1.csv"
    raw = pd.read_csv(file)
    for sex in ("Persons", "Females", "Males"):
        found = read_ons_ages(file, sex=sex.lower())
        rows = raw[raw["sex"] == sex]
        assert found.num_rows == areas == len(rows)
        assert found["area_code"].to_pylist() == list(rows["area_code"])
        np.testing.assert_array_equal(found.select(AGES).to_pandas(), rows[[*map(str, range(91))]])
        assert found["all_ages"].to_pylist() == list(rows["all_ages"])
    assert read_ons_ages(file).equals(read_ons_ages(file, sex="persons"))


@pytest.mark.parametrize("total", ["1,001", ""])
def test_an_area_of_which_nothing_is_published_is_not_dropped(tmp_path, total):
    cells = [(1, age, "") for age in AGES] + [(1, "All Ages", total)]
    with pytest.raises(FileError):
        read_ons_ages(written(tmp_path / "a.csv", persons(cells=cells)))


@pytest.mark.parametrize("count", ["1,1", "11,00"])
def test_a_comma_stands_before_three_digits(tmp_path, count):
    with pytest.raises(FileError):
        read_ons_ages(written(tmp_path / "a.csv", persons(cells=[(1, "4", count)])))


def test_areas_that_hold_others_are_named(tmp_path):
    file = written(tmp_path / "a.csv", persons(cells=[(0, "LSOA Code", "E92000001"), (0, "LSOA Name", "England")]))
    with pytest.warns(CrosslevelWarning):
        assert read_ons_ages(file).num_rows == 3


def test_a_cell_beyond_the_last_column_of_a_workbook_is_refused(tmp_path):
    file = tmp_path / "a.xlsx"
    workbook(file, {"2020": persons()})
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part.replace(b'r="A1"', b'r="ZZZZZZ1"'))
    with pytest.raises(FileError):
        read_ons_ages(file)
