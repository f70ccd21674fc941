from __future__ import annotations

import gzip

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from crosslevel.data.batches import open_batches
from crosslevel.data.queries import parse
from crosslevel.errors import FileError, InputError

ROWS = 1_000


def people(n=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    age = pa.array(rng.integers(0, 95, n), mask=rng.random(n) < 0.1)
    return pa.table(
        {
            "id": np.arange(n),
            "age": age,
            "income": np.round(rng.normal(size=n), 6),
            "state": rng.choice(["AL", "GA", "NC"], n).tolist(),
        }
    )


TABLE = people()


def write(kind, folder, table=TABLE):
    path = folder / f"people.{kind}"
    match kind:
        case "parquet":
            pq.write_table(table, path, row_group_size=130)
        case "csv":
            pacsv.write_csv(table, path)
        case "csv.gz":
            with gzip.open(path, "wb") as handle:
                pacsv.write_csv(table, handle)
        case "tsv":
            pacsv.write_csv(table, path, pacsv.WriteOptions(delimiter="\t"))
        case "feather":
            feather.write_feather(table, path, chunksize=130)
    return path


def sources(folder):
    frames = {"pandas": TABLE.to_pandas(), "polars": pl.from_arrow(TABLE), "pyarrow": TABLE}
    files = {kind: write(kind, folder) for kind in ("parquet", "csv", "csv.gz", "tsv", "feather")}
    return {
        **frames,
        **files,
        "factory": lambda: iter(TABLE.to_batches(max_chunksize=77)),
        "list": [TABLE[:400], TABLE[400:]],
    }


KINDS = ("pandas", "polars", "pyarrow", "parquet", "csv", "csv.gz", "tsv", "feather", "factory", "list")


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_gives_the_same_rows_again_and_again(kind, tmp_path):
    batches = open_batches(sources(tmp_path)[kind], batch_size=64)
    for _ in range(2):
        table = batches.to_table()
        assert table.select(["id", "income"]).equals(TABLE.select(["id", "income"]))
        assert table["state"].to_pylist() == TABLE["state"].to_pylist()
        np.testing.assert_array_equal(table["age"].cast("double").to_pylist(), TABLE["age"].cast("double").to_pylist())
    assert batches.fingerprint() == open_batches(TABLE).fingerprint()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", [None, "age >= 40 and state != 'GA'", "id < 200", "id < 0"])
def test_columns_and_rows_are_chosen_as_in_memory(kind, where, tmp_path):
    batches = open_batches(sources(tmp_path)[kind], columns=["state", "id"], where=where, batch_size=100)
    kept = TABLE if where is None else TABLE.filter(pa.array(parse(where).mask(TABLE)))
    assert batches.schema.names == ["state", "id"]
    assert batches.to_table().to_pylist() == kept.select(["state", "id"]).to_pylist()


def test_files_come_in_the_order_of_their_path_parts(tmp_path):
    for name in ("p_10", "p_2", "P_1"):
        pq.write_table(pa.table({"n": [name]}), tmp_path / f"{name}.parquet")
    (tmp_path / "README.md").write_text("ignored")
    (tmp_path / "_SUCCESS.parquet").write_text("ignored")
    assert open_batches(tmp_path).to_table()["n"].to_pylist() == ["P_1", "p_10", "p_2"]
    assert open_batches(str(tmp_path / "p_*.parquet")).to_table()["n"].to_pylist() == ["p_10", "p_2"]
    chosen = [tmp_path / "p_2.parquet", tmp_path / "P_1.parquet"]
    assert open_batches(chosen).to_table()["n"].to_pylist() == ["p_2", "P_1"]
    assert open_batches(f"{tmp_path.parent}/**/p_1*.parquet").num_rows == 1


def test_memory_stays_flat_on_parquet_and_csv(tmp_path, monkeypatch):
    monkeypatch.setattr("crosslevel.data.batches.delimited.BLOCK", 1 << 15)
    table = people(200_000)
    for path in (write("parquet", tmp_path, table), write("csv", tmp_path, table)):
        before, most = pa.total_allocated_bytes(), 0
        for _ in open_batches(path, batch_size=1_000):
            most = max(most, pa.total_allocated_bytes() - before)
        assert most < table.nbytes / 2, path


def test_a_reader_can_be_read_once():
    batches = open_batches(TABLE.to_reader(max_chunksize=100), where="id < 250")
    assert batches.one_shot
    with pytest.raises(InputError):
        batches.fingerprint()
    assert batches.to_table().num_rows == 250
    with pytest.raises(InputError):
        list(batches)


def test_dictionaries_that_differ_between_batches_are_joined():
    parts = [pa.record_batch({"s": pa.array(v).dictionary_encode()}) for v in (["a", "b"], ["c", "b"], ["d"])]
    batches = open_batches(pa.Table.from_batches(parts), batch_size=4)
    assert [b["s"].to_pylist() for b in batches] == [["a", "b", "c", "b"], ["d"]]


# --- several files, one schema --------------------------------------------------------------------------------------


def two(folder, one, other):
    for name, columns in (("a", one), ("b", other)):
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return folder


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        (pa.array([1, 2]), pa.array([0.5, None]), pa.float64()),
        (pa.array([1, 2], pa.int8()), pa.array([300, None]), pa.int64()),
        (pa.nulls(2), pa.array(["a", None]), pa.string()),
        (pa.array(["a", "b"]), pa.nulls(2), pa.string()),
        (pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", None]), pa.string()),
        (pa.array(["a", "b"]), pa.array(["c", None], pa.large_string()), pa.large_string()),
    ],
)
def test_types_that_may_differ_are_unified(one, other, kind, tmp_path):
    batches = open_batches(two(tmp_path, {"x": one, "y": [1, 2]}, {"y": [3, 4], "x": other}))
    assert batches.schema == pa.schema({"x": kind, "y": pa.int64()})
    assert batches.to_table()["x"].to_pylist() == [*one.to_pylist(), *other.to_pylist()]


def test_a_batch_that_lacks_a_column_or_changes_its_type_is_refused():
    def late(*items):
        return open_batches(lambda: (pa.record_batch(i) for i in items))

    with pytest.raises(InputError):
        list(late({"x": [1], "y": [1]}, {"x": [1]}))
    with pytest.raises(InputError):
        list(late({"x": [1]}, {"x": ["a"]}))
    with pytest.raises(InputError):
        list(late({"x": [1]}, {"x": [2], "y": [1]}))
    both = ({"x": [1], "z": [1]}, {"x": [2], "z": [2], "y": [1]})
    assert late(*both).select(["x"]).to_table()["x"].to_pylist() == [1, 2]


# --- CSV ------------------------------------------------------------------------------------------------------------


def test_codes_with_leading_zeros_stay_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("fips,n,zero,minus\n01001,1,0,-5\n48001,22,0,7\n")
    table = open_batches(path).to_table()
    assert table.to_pylist()[0] == {"fips": "01001", "n": 1, "zero": 0, "minus": -5}
    said = open_batches(path, column_types={"fips": "int64", "n": pa.string()}).to_table()
    assert said.to_pylist()[0] == {"fips": 1001, "n": "1", "zero": 0, "minus": -5}
    assert open_batches(path, where="fips == '01001'").to_table().num_rows == 1


@pytest.mark.parametrize(
    ("first", "second", "read"),
    [
        ("99999999999999999999", "5", ["99999999999999999999", "5"]),
        ("9223372036854775808", "-1", ["9223372036854775808", "-1"]),
        ("9223372036854775807", "-1", [2**63 - 1, -1]),
        ("99999999999999999999", "0.5", [1e20, 0.5]),
        ("+01", "+02", ["+01", "+02"]),
        ("+1", "+2", [1.0, 2.0]),
        ("01001", "0.5", ["01001", "0.5"]),
        (" 01", " 02", [" 01", " 02"]),
        ("0.25", "-0.5", [0.25, -0.5]),
        ("0", "0.0", [0.0, 0.0]),
    ],
)
def test_numbers_that_would_lose_a_digit_stay_text(first, second, read, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"n,x\n{first},1\n{second},2\n,3\n")
    assert open_batches(path, columns=["n"]).to_table()["n"].to_pylist() == [*read, None]


def test_blanks_are_null(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,s\n1,\n,b\nNA,NA\n")
    assert open_batches(path).to_table().to_pylist() == [
        {"x": 1, "s": None},
        {"x": None, "s": "b"},
        {"x": None, "s": None},
    ]


def test_lines_within_quotes_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfx,s\r\n1,"a\r\nb"\r\n2,"c,d"\r\n')
    assert open_batches(path).to_table().to_pylist() == [{"x": 1, "s": "a\r\nb"}, {"x": 2, "s": "c,d"}]


def test_other_encodings(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("county\nDoña Ana\n".encode("latin-1"))
    assert open_batches(path, encoding="latin-1").to_table()["county"].to_pylist() == ["Doña Ana"]
    with pytest.raises(FileError):
        open_batches(path)
    with pytest.raises(InputError, match="encoding="):
        open_batches(path, encoding="klingon")
    path.write_bytes("año,n\n2012,1\n".encode("latin-1"))
    assert open_batches(path, encoding="latin-1").schema.names == ["año", "n"]
    with pytest.raises(FileError):
        open_batches(path)


def test_header_only_repeated_and_delimited_otherwise(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n")
    assert open_batches(path).to_table().num_rows == 0
    path.write_text("x,x\n1,2\n")
    with pytest.raises(FileError):
        open_batches(path)
    path.write_text("x;y\n1;2\n")
    assert open_batches(path, delimiter=";").to_table().to_pylist() == [{"x": 1, "y": 2}]
    for wrong in (";;", "", "é", "\n", 5):
        with pytest.raises(InputError, match="delimiter="):
            open_batches(path, delimiter=wrong)


@pytest.mark.parametrize("late", ["7,2.5", "7,99999999999999999999", "7,west", "7", "7,8,9", "7,01001"])
def test_what_goes_wrong_late_in_a_csv_file_is_refused(late, tmp_path, monkeypatch):
    monkeypatch.setattr("crosslevel.data.batches.delimited.BLOCK", 64)
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{i},{i}\n" for i in range(40)) + late)
    with pytest.raises(FileError):
        list(open_batches(tmp_path / "a.csv"))


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv.gz"])
@pytest.mark.parametrize("share", [0, 2])
def test_a_file_that_is_empty_or_cut_short_is_refused(kind, share, tmp_path):
    path = write(kind, tmp_path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // share if share else 0])
    with pytest.raises(FileError):
        list(open_batches(path))


@pytest.mark.parametrize(
    ("source", "options", "error"),
    [
        ("poeple.csv", {}, FileError),
        ("no/people.csv", {}, FileError),
        ("*.parquet", {}, FileError),
        ("people.xlsx", {}, FileError),
        ("deep", {}, FileError),
        ("mixed", {}, InputError),
        ("twice.parquet", {}, FileError),
        ("unlike", {}, FileError),
        ("lacking", {"columns": ["y"]}, FileError),
        ("people.csv", {"column_types": {"age": "nubmer"}}, InputError),
        ("people.csv", {"column_types": {"aeg": "string"}}, InputError),
        (TABLE, {"column_types": {"age": "string"}}, InputError),
        (iter(TABLE.to_batches()), {}, InputError),
        (3, {}, InputError),
        ([], {}, InputError),
        (list, {}, InputError),
        (TABLE, {"columns": ["aeg"]}, InputError),
        (TABLE, {"columns": "age"}, InputError),
        (TABLE, {"columns": []}, InputError),
        (TABLE, {"columns": ["age", "age"]}, InputError),
        (TABLE, {"where": "aeg > 3", "columns": ["id"]}, InputError),
        (TABLE, {"where": "age > 'x'"}, InputError),
        (TABLE, {"batch_size": 0}, InputError),
    ],
)
def test_what_cannot_be_opened_is_refused(source, options, error, tmp_path):
    write("csv", tmp_path)
    (tmp_path / "people.xlsx").write_text("x")
    (tmp_path / "deep" / "state=AL").mkdir(parents=True)
    for name, one, other in (
        ("mixed", {"x": [1]}, None),
        ("unlike", {"x": [1]}, {"x": ["a"]}),
        ("lacking", {"x": [1], "y": [1]}, {"x": [1]}),
    ):
        (tmp_path / name).mkdir()
        write("csv", tmp_path / name) if other is None else two(tmp_path / name, one, other)
    write("parquet", tmp_path / "mixed")
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(error):
        open_batches(tmp_path / source if isinstance(source, str) else source, **options)


@pytest.mark.data
def test_the_real_people_of_a_nation_in_one_stream(real_data):
    batches = open_batches(real_data / "us2024" / "persons", columns=["puma", "age"], where="age >= 65")
    pieces = [(piece, sum(b.num_rows for b in rows)) for piece, rows in batches.pieces(start=49)]
    assert [piece.index for piece, _ in pieces] == list(range(49, 49 + len(pieces)))
    assert all(0 < kept < piece.n_rows for piece, kept in pieces)
    assert open_batches(real_data / "us2024" / "persons").num_rows == 3_422_888


def test_leading_zeros_that_appear_late_are_not_lost(tmp_path):
    path = tmp_path / "counties.csv"
    rows = "".join(f"{12001 + i % 80000},{i}\n" for i in range(120_000))
    assert len(rows) > 1 << 20
    path.write_text("fips,n\n" + rows + "01001,7\n")
    with pytest.raises(FileError):
        open_batches(path).to_table()
    told = open_batches(path, column_types={"fips": "string"}).to_table()
    assert told["fips"][-1].as_py() == "01001"
    assert open_batches(path, column_types={"fips": "int64"}).to_table()["fips"][-1].as_py() == 1001
    assert open_batches(path, columns=["n"]).to_table()["n"].to_pylist()[-1] == 7


def test_what_stands_in_a_list_twice_is_refused(tmp_path):
    table, file = pa.table({"x": [1, 2]}), tmp_path / "a.csv"
    file.write_text("x\n1\n2\n")
    for source in ([table, table], [file, str(file)], [tmp_path, file]):
        with pytest.raises(InputError):
            open_batches(source)
    assert open_batches([table, pa.table({"x": [1, 2]}), file]).to_table().num_rows == 6
