"""write_nation writes what nation returns, whole, whatever the number of files."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from crosslevel.data.simulate import files as module
from crosslevel.data.simulate import nation, write_nation


def same_people(written: pa.Table, people: pa.Table) -> bool:
    def decoded(table: pa.Table) -> pa.Table:
        kinds = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in table.schema]
        return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))

    return decoded(written).equals(decoded(people))


@pytest.mark.parametrize("parts", [1, 3, 25])
def test_files_hold_the_same_values_as_the_nation(tmp_path, parts, monkeypatch):
    monkeypatch.setattr(module, "ROWS_PER_GROUP", 200)
    arguments = {"n_regions": 25, "people_per_region": 60, "turnout": 0.7, "random_state": 4}
    world = nation(**arguments)
    seen: list[tuple[int, int]] = []
    written = write_nation(tmp_path / "new" / "world", **arguments, files=parts, progress=lambda *at: seen.append(at))
    assert [p.name for p in written.people] == [f"part-{i:03d}.parquet" for i in range(parts)]
    assert same_people(ds.dataset(list(written.people)).to_table(), world.people)
    assert pq.read_table(written.people[0]).schema.equals(world.people.schema)
    assert pq.read_table(written.places).equals(world.places)
    assert pq.read_table(written.truth).equals(world.truth)
    assert json.loads(written.polygons.read_text()) == world.polygons
    assert (written.n_people, written.n_population) == (
        world.people.num_rows,
        sum(world.places["population"].to_pylist()),
    )
    assert seen == [(i + 1, 25) for i in range(25)]
    if parts == 1:
        assert pq.ParquetFile(written.people[0]).num_row_groups > 3


def test_a_failure_leaves_no_half_file(tmp_path):
    def stop(done: int, total: int) -> None:
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_nation(tmp_path, 10, 20, files=2, progress=stop)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["part-000.parquet"]
