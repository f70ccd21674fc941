"""Files are read as they are: nothing is guessed, skipped or read beside them."""

from __future__ import annotations

import gzip
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crosslevel.data.people import People
from crosslevel.data.sql import open_table
from crosslevel.errors import CrosslevelError, FileError, InputError

READ = {
    "a,b\n1,x\nNA,\n,NA\n3,nan\n": {"a": [1, None, None, 3], "b": ["x", None, None, None]},
    "a;b\n1,5;2\n": {"a": ["1,5"], "b": [2]},
    "a|b\r\n1.5|+2\r\n": {"a": [1.5], "b": [2]},
    '\ufeffa,b\n"x, ""y""\nz",-1\n': {"a": ['x, "y"\nz'], "b": [-1]},
    "a,b\n01001,1\n1002,007\n": {"a": ["01001", "1002"], "b": ["1", "007"]},
    "a,b\n0,0.5\n10,00.5\n": {"a": [0, 10], "b": [0.5, 0.5]},
    "a,b\n12345678901234567890,inf\n12,1_2\n": {"a": ["12345678901234567890", "12"], "b": ["inf", "1_2"]},
    "a,b\n#1,true\n2,2020-01-01\n": {"a": ["#1", "2"], "b": ["true", "2020-01-01"]},
    'größe,it\'s "x"\n1,2\n': {"größe": [1], 'it\'s "x"': [2]},
    "a,\n1,2\n": {"a": [1], "column1": [2]},
    "a,b\n": {"a": [], "b": []},
}
REFUSED = [
    "",
    "a,b\n1\n2,3\n",
    "a,b\n1,2,3\n",
    "a,b\n1,2\n3,4,5\n",
    'a,b\n"x,1\n',
    "a,A\n1,2\n",
    "\na,b\n1,2\n",
]
REFUSED += ["# said\na,b\n1,2\n", "name,age\nJosé,3\n".encode("latin-1"), b"a,b\n" + b"1,2\n" * 30_000 + b"3\n"]


def written(folder, content, name="people.csv"):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / name


@pytest.mark.parametrize("text", READ)
def test_delimited_text_holds_what_it_says(text, tmp_path):
    for name in ("it's; drop.csv", "x[1].txt"):
        assert People(written(tmp_path, text, name)).table.answer("select * from people").to_pydict() == READ[text]
    packed = People(written(tmp_path, gzip.compress(text.encode()), "people.CSV.gz"))
    assert packed.answer("select * from people").to_pydict() == READ[text]


@pytest.mark.parametrize("content", REFUSED)
def test_text_that_is_no_table_is_refused(content, tmp_path):
    with pytest.raises(CrosslevelError):
        People(written(tmp_path, content)).answer("select * from people")


@pytest.mark.parametrize("late", ["01001", "A12"])
def test_one_late_code_makes_its_column_text(late, tmp_path):
    """Behind all rows that anybody looks at to guess."""
    people = People(
        written(tmp_path, "c\tx\n" + "".join(f"{i}\t{i}\n" for i in range(30_000)) + f"{late}\t1\n", "p.tsv")
    )
    assert [str(kind) for kind in people.schema.types] == ["string", "int64"]
    assert people.answer(f"select c from people where c = '{late}' or c = '7'")["c"].to_pylist() == ["7", late]


def test_what_is_not_one_set_of_files_is_refused(tmp_path):
    csv, other = written(tmp_path, "a\n1\n"), written(tmp_path, "a;b\n5;2\n", "other.csv")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "p.parquet")
    (tmp_path / "link.csv").symlink_to(csv)
    for data in (
        "",
        [str(csv), ""],
        [csv, tmp_path / "p.parquet"],
        [csv, csv],
        [csv, f"{tmp_path}/./people.csv"],
        [csv, other],
    ):
        with pytest.raises(FileError):
            People(data)
    for data in (
        [csv, tmp_path / "link.csv"],
        tmp_path,
        tmp_path / "*.feather",
        tmp_path / "none.csv",
        tmp_path / "x.xlsx",
    ):
        with pytest.raises(FileError):
            People(data)
    for name in ("bad.parquet", "bad.arrow", "bad.csv.gz"):
        with pytest.raises(FileError):
            People(written(tmp_path, "PAR1 and so on", name))
    for data in ([], 3, None, b"people.csv", [csv, {"a": [1]}], [{"a": [1]}, {"a": ["x"]}], {"a": [1, "x"]}):
        with pytest.raises(InputError):
            People(data)
    assert People([{"a": [1]}, {"a": [1.5], "b": ["x"]}]).answer("select * from people").to_pydict() == {
        "a": [1.0, 1.5],
        "b": [None, "x"],
    }


def test_a_forked_process_opens_a_database_of_its_own():
    table = open_table({"age": [30, 41]})
    assert table.answer("select max(age) as age from people")["age"].to_pylist() == [41]
    child = os.fork()
    if child == 0:
        found = table.answer("select max(age) as age from people")["age"].to_pylist()
        os._exit(0 if found == [41] else 1)
    assert os.waitpid(child, 0)[1] == 0
