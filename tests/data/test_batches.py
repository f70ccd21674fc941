from __future__ import annotations

import gzip
import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from crosslevel.data.batches import Batches, Piece, open_batches
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


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_do_not_depend_on_the_batch_size(kind, tmp_path):
    source = sources(tmp_path)[kind]

    def cut(size, **options):
        batches = open_batches(source, batch_size=size, **options)
        return [(p, [b.num_rows for b in bs]) for p, bs in batches.pieces()]

    for where in (None, "age > 50"):
        small, large = cut(7, where=where), cut(10_000, where=where)
        assert [p for p, _ in small] == [p for p, _ in large]
        assert [sum(s) for _, s in small] == [sum(s) for _, s in large]
        assert all(n == 7 for _, sizes in small for n in sizes[:-1])
        assert all(len(sizes) <= 1 for _, sizes in large)
    assert [p.index for p, _ in small] == list(range(len(small)))


@pytest.mark.parametrize("kind", KINDS)
def test_starting_at_a_piece_gives_the_rest(kind, tmp_path):
    batches = open_batches(sources(tmp_path)[kind], batch_size=50, columns=["id"])
    whole = [(p, [b["id"].to_pylist() for b in bs]) for p, bs in batches.pieces()]
    for start in range(len(whole) + 2):
        assert [(p, [b["id"].to_pylist() for b in bs]) for p, bs in batches.pieces(start)] == whole[start:]


def test_pieces_of_each_format(tmp_path):
    files = sources(tmp_path)
    pieces = [p for p, _ in open_batches(files["parquet"]).pieces()]
    assert pieces[:2] == [Piece(str(files["parquet"]), 0, 130, 0), Piece(str(files["parquet"]), 1, 130, 1)]
    assert len(pieces) == 8
    assert [p.n_rows for p, _ in open_batches(files["csv"]).pieces()] == [None]
    assert len(list(open_batches(files["feather"]).pieces())) == 8
    assert [p.n_rows for p, _ in open_batches(files["list"]).pieces()] == [400, 600]


def test_two_parquet_files_number_their_pieces_on(tmp_path):
    for name in ("b", "a"):
        write("parquet", tmp_path).rename(tmp_path / f"{name}.parquet")
    pieces = [p for p, _ in open_batches(tmp_path).pieces(start=7)]
    assert [(p.source[-9:], p.index, p.part) for p in pieces[:2]] == [("a.parquet", 7, 7), ("b.parquet", 8, 0)]
    assert open_batches(tmp_path).num_rows == 2 * ROWS


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


def test_row_groups_that_cannot_match_are_not_read(tmp_path, monkeypatch):
    path = write("parquet", tmp_path)
    read = []
    original = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile, "iter_batches", lambda self, **k: read.append(k["row_groups"]) or original(self, **k)
    )
    table = open_batches(path, where="not (id < 260)").select(where="id < 300").to_table()
    assert table["id"].to_pylist() == list(range(260, 300))
    assert read == [[2]]
    read.clear()
    assert len(list(open_batches(path).pieces(start=6))) == 2
    list(next(iter(open_batches(path).pieces(start=7)))[1])
    assert read == [[7]]


def test_files_before_the_start_are_not_opened(tmp_path):
    for n in range(3):
        pacsv.write_csv(pa.table({"n": [n]}), tmp_path / f"{n}.csv")
    batches = open_batches(tmp_path)
    (tmp_path / "0.csv").unlink()
    assert [b["n"].to_pylist() for _, bs in batches.pieces(start=1) for b in bs] == [[1], [2]]


def test_memory_stays_flat_on_parquet_and_csv(tmp_path, monkeypatch):
    monkeypatch.setattr("crosslevel.data.batches.delimited.BLOCK", 1 << 15)
    table = people(200_000)
    for path in (write("parquet", tmp_path, table), write("csv", tmp_path, table)):
        before, most = pa.total_allocated_bytes(), 0
        for _ in open_batches(path, batch_size=1_000):
            most = max(most, pa.total_allocated_bytes() - before)
        assert most < table.nbytes / 2, path


def test_peeking_at_a_factory_draws_one_batch():
    drawn = []

    def make():
        for i in range(5):
            drawn.append(i)
            yield pa.record_batch({"x": [i]})

    batches = open_batches(make)
    assert drawn == [0]
    assert batches.num_rows is None
    assert [p for p, _ in batches.pieces()] == [Piece("make", 0, None, 0)]
    assert list(batches.pieces(start=1)) == []


@pytest.mark.parametrize("make", [lambda size: lambda: TABLE.to_batches(size), lambda size: TABLE.to_reader(size)])
def test_batches_of_a_factory_or_reader_are_cut_anew_by_row_number(make):
    def cut(size):
        return [b["id"].to_pylist() for b in open_batches(make(size), columns=["id"], batch_size=64)]

    assert cut(7) == cut(77) == cut(1000)
    assert [len(b) for b in cut(77)] == [64] * 15 + [40]


def test_a_factory_is_drawn_from_as_its_batches_are_needed():
    drawn = []

    def make():
        for i in range(5):
            drawn.append(i)
            yield pa.record_batch({"x": [i, i]})

    batches = iter(open_batches(make, batch_size=3))
    drawn.clear()
    assert next(batches)["x"].to_pylist() == [0, 0, 1]
    assert drawn == [0, 1]


def test_dictionaries_with_nulls_are_joined():
    values = [
        pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(d)) for d in (["a", None], [None, "b"])
    ]
    batches = open_batches(lambda: [pa.record_batch({"c": v, "x": [1, 2]}) for v in values])
    (joined,) = batches
    assert joined["c"].to_pylist() == ["a", None, None, "b"]
    assert joined.schema == batches.schema


def test_stamps_tell_changed_files_and_frames(tmp_path):
    path = write("parquet", tmp_path)
    before = open_batches(path).stamps()
    assert before == open_batches(path, columns=["id"], batch_size=7).stamps()
    os.utime(path, ns=(1, 1))
    assert open_batches(path).stamps() != before
    changed = TABLE.set_column(TABLE.column_names.index("id"), "id", pa.array([*range(999), -1]))
    assert open_batches(TABLE).stamps() == open_batches(TABLE.slice(0)).stamps()
    assert open_batches(TABLE).stamps() != open_batches(changed).stamps()


def test_a_factory_may_give_frames_a_reader_or_a_table():
    table = pa.table({"x": [1, 2]})
    for make in (lambda: [pd.DataFrame({"x": [1, 2]})], lambda: table, table.to_reader):
        assert open_batches(make).to_table()["x"].to_pylist() == [1, 2]


def test_a_reader_can_be_read_once():
    batches = open_batches(TABLE.to_reader(max_chunksize=100), where="id < 250")
    assert batches.one_shot
    with pytest.raises(InputError):
        batches.fingerprint()
    assert batches.to_table().num_rows == 250
    with pytest.raises(InputError):
        list(batches)


def test_select_narrows_a_stream(tmp_path):
    batches = open_batches(write("parquet", tmp_path), columns=["id", "age"], where="id < 300 or age > 200")
    narrow = open_batches(batches, columns=["id"], where="age >= 50", batch_size=10)
    expected = [i for i, a in zip(range(300), TABLE["age"].to_pylist(), strict=False) if a is not None and a >= 50]
    assert narrow.to_table()["id"].to_pylist() == expected
    assert narrow.batch_size == 10
    with pytest.raises(InputError):
        batches.select(columns=["state"])
    with pytest.raises(InputError):
        batches.select(where="state == 'AL'")


def test_num_rows_and_description(tmp_path):
    path = write("parquet", tmp_path)
    assert open_batches(path).num_rows == ROWS
    assert open_batches(write("feather", tmp_path)).num_rows == ROWS
    assert open_batches(path, where="age > 3").num_rows is None
    assert open_batches(write("csv", tmp_path)).num_rows is None
    said = open_batches(path, where="age > 3").describe()
    assert said == f"{path}, 8 row groups, 4 columns (id, age, income, state), where age > 3"
    assert isinstance(open_batches(TABLE), Batches)
    assert "\n" not in repr(open_batches(TABLE))


def test_dictionaries_that_differ_between_batches_are_joined():
    parts = [pa.record_batch({"s": pa.array(v).dictionary_encode()}) for v in (["a", "b"], ["c", "b"], ["d"])]
    batches = open_batches(pa.Table.from_batches(parts), batch_size=4)
    assert [b["s"].to_pylist() for b in batches] == [["a", "b", "c", "b"], ["d"]]


def test_string_views_can_be_filtered_and_joined():
    views = pa.table({"s": pa.array(["a", None, "b", "b"], pa.string_view()), "x": [1, 2, 3, 4]})
    assert open_batches(views, where="x != 3").to_table()["s"].to_pylist() == ["a", None, "b"]
    batches = open_batches(lambda: iter(views.to_batches()), where="s == 'b'", batch_size=2)
    assert [b["s"].to_pylist() for b in batches] == [["b", "b"]]


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


def test_types_that_may_not_differ_name_file_and_column(tmp_path):
    folder = two(tmp_path, {"x": [1]}, {"x": ["a"]})
    with pytest.raises(FileError):
        open_batches(folder)


def test_columns_that_differ_name_file_and_column(tmp_path):
    folder = two(tmp_path, {"x": [1], "weight": [1]}, {"x": [1], "wieght": [1]})
    with pytest.raises(FileError):
        open_batches(folder)
    with pytest.raises(FileError):
        open_batches(folder, columns=["weight"])
    assert open_batches(folder, columns=["x"]).num_rows == 2


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


def test_columns_of_one_name_are_refused(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "b"])
    pq.write_table(twice, tmp_path / "a.parquet")
    feather.write_feather(twice, tmp_path / "a.feather")
    for options in ({}, {"columns": ["b"], "where": "b == 3"}):
        with pytest.raises(FileError):
            open_batches(tmp_path / "a.parquet", **options)
    with pytest.raises(FileError):
        open_batches(tmp_path / "a.feather")


# --- CSV ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr("crosslevel.data.batches.delimited.BLOCK", 64)


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


def test_a_file_of_codes_without_zeros_joins_one_with(tmp_path):
    for order in (("01001", "48001"), ("48001", "01001")):
        for name, fips in zip("ab", order, strict=True):
            (tmp_path / f"{name}.csv").write_text(f"fips\n{fips}\n")
        assert open_batches(tmp_path).to_table()["fips"].to_pylist() == list(order)


def test_csv_files_that_disagree_on_integers_and_floats_are_read_as_floats(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,a\n")
    (tmp_path / "b.csv").write_text("y,x\nb,1.5\n")
    assert open_batches(tmp_path).to_table().to_pylist() == [{"x": 1.0, "y": "a"}, {"x": 1.5, "y": "b"}]


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


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "late",
    ["7,2.5", "7,99999999999999999999", "7,west", "7", "7,8,9", "7," + "9" * 200],
)
def test_what_goes_wrong_late_in_a_csv_file_names_row_and_repair(late, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "".join(f"{i},{i}\n" for i in range(40)) + late + "\n")
    batches = open_batches(path)
    with pytest.raises(FileError):
        list(batches)


@pytest.mark.usefixtures("small_blocks")
def test_the_repairs_work(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "".join(f"{i},\n" for i in range(40)) + "7,2.5\n")
    with pytest.raises(FileError):
        list(open_batches(path))
    assert open_batches(path, column_types={"y": "float64"}).to_table()["y"].to_pylist()[-1] == 2.5
    with pytest.raises(FileError):
        list(open_batches(path, column_types={"y": "int64"}))


def test_column_types_are_checked(tmp_path):
    path = write("csv", tmp_path)
    with pytest.raises(InputError):
        open_batches(path, column_types={"age": "nubmer"})
    with pytest.raises(InputError, match="column_types="):
        open_batches(path, column_types={"aeg": "string"})
    for source in (write("parquet", tmp_path), write("feather", tmp_path), TABLE):
        with pytest.raises(InputError):
            open_batches(source, column_types={"age": "string"})
    with pytest.raises(InputError):
        open_batches(open_batches(path), column_types={"age": "string"})


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


# --- files that are not there or not whole --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv.gz"])
def test_a_truncated_file_is_named(kind, tmp_path):
    path = write(kind, tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileError):
        list(open_batches(path))


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv", "csv.gz"])
def test_an_empty_file_is_named(kind, tmp_path):
    path = tmp_path / f"people.{kind}"
    path.write_bytes(b"")
    with pytest.raises(FileError):
        list(open_batches(path))


def test_damage_within_a_parquet_file_is_found_when_it_is_read(tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(TABLE, path, row_group_size=500, compression="zstd", use_dictionary=False)
    whole = bytearray(path.read_bytes())
    whole[40:2_000] = bytes(1_960)
    path.write_bytes(whole)
    with pytest.raises(FileError):
        list(open_batches(path))


def test_what_is_not_there(tmp_path):
    write("csv", tmp_path)
    with pytest.raises(FileError):
        open_batches(tmp_path / "poeple.csv")
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "gone.csv")
    with pytest.raises(FileError):
        open_batches(link)
    link.unlink()
    with pytest.raises(FileError):
        open_batches(tmp_path / "zzz")
    with pytest.raises(FileError):
        open_batches(tmp_path / "no" / "people.csv")
    with pytest.raises(FileError):
        open_batches(str(tmp_path / "*.parquet"))
    (tmp_path / "people.xlsx").write_text("x")
    with pytest.raises(FileError):
        open_batches(tmp_path / "people.xlsx")
    with pytest.raises(FileError):
        open_batches(str(tmp_path / "people.*"))
    write("parquet", tmp_path)
    with pytest.raises(InputError):
        open_batches(tmp_path)
    deep = tmp_path / "deep"
    (deep / "state=AL").mkdir(parents=True)
    with pytest.raises(FileError):
        open_batches(deep)


def test_what_cannot_be_a_source():
    with pytest.raises(InputError):
        open_batches(b for b in TABLE.to_batches())
    with pytest.raises(InputError):
        open_batches(3)
    with pytest.raises(InputError):
        open_batches([])
    with pytest.raises(InputError):
        open_batches(list)
    with pytest.raises(InputError):
        open_batches(lambda: 3)


@pytest.mark.parametrize(
    "options",
    [
        {"columns": ["aeg"]},
        {"columns": "age"},
        {"columns": []},
        {"columns": ["age", "age"]},
        {"where": "aeg > 3"},
        {"where": "age > 'x'", "columns": ["id"]},
        {"where": "aeg > 3", "columns": ["id"]},
        {"batch_size": 0},
    ],
)
def test_what_cannot_be_asked_is_refused_on_opening(options):
    with pytest.raises(InputError):
        open_batches(TABLE, **options)


def test_start_must_be_a_number_of_a_piece():
    with pytest.raises(InputError, match="start="):
        next(open_batches(TABLE).pieces(start=-1))


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


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("late", ["01001", " 01001"])
def test_leading_zeros_late_among_fractions_are_not_lost(late, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "".join(f"{i},{i / 4}\n" for i in range(40)) + f"7,{late}\n")
    with pytest.raises(FileError):
        open_batches(path).to_table()
    assert open_batches(path, column_types={"y": "double"}).to_table()["y"][-1].as_py() == 1001.0


def test_what_stands_in_a_list_twice_is_refused(tmp_path):
    table, file = pa.table({"x": [1, 2]}), tmp_path / "a.csv"
    file.write_text("x\n1\n2\n")
    for source in ([table, table], [file, str(file)], [tmp_path, file]):
        with pytest.raises(InputError):
            open_batches(source)
    assert open_batches([table, pa.table({"x": [1, 2]}), file]).to_table().num_rows == 6
