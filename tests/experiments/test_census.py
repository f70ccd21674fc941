"""A census has exactly the width asked for, shows every level, and does not depend on how it is cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

SMALL = {"n_regions": 12, "n_categorical": 20, "n_real": 6, "n_encoded": 400}


@pytest.fixture
def census(experiment):
    return experiment("census").census


@pytest.fixture
def write_census(experiment):
    return experiment("census_files").write_census


def encoded_width(people: pa.Table, categorical: tuple[str, ...], numeric: tuple[str, ...]) -> int:
    """Count positions from the values alone: distinct codes, missing being one; an amount, and one more if missing."""
    levels = sum(len(pc.unique(people[name])) for name in categorical)
    return levels + sum(1 + (people[name].null_count > 0) for name in numeric)


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("seed", [0, 7])
def test_width_is_exact_and_every_level_occurs(census, sort, seed):
    plan = census(2_000, **SMALL, sort=sort, random_state=seed)
    people = plan.table()
    assert people.schema == plan.schema
    assert people.num_rows == 2_000
    assert encoded_width(people, plan.categorical, plan.numeric) == 400 == sum(plan.widths)
    for name, width in zip(plan.categorical, plan.widths, strict=False):
        column = people[name]
        levels = width - (column.null_count > 0)
        assert sorted(pc.unique(column.drop_null()).to_pylist()) == list(range(levels))


def test_as_wide_as_the_real_thing(census):
    plan = census(20_000)
    assert (len(plan.categorical), len(plan.numeric), sum(plan.widths)) == (200, 23, 3251)
    assert encoded_width(plan.table(), plan.categorical, plan.numeric) == 3251
    widths = np.sort(plan.widths[:200])
    assert widths[0] == 2
    assert np.median(widths) < 10
    assert 200 < widths[-1] < 1000


@pytest.mark.parametrize("sort", [True, False])
def test_people_do_not_depend_on_batches_groups_or_files(census, write_census, tmp_path, sort):
    n = 40_000
    plan = census(n, **SMALL, sort=sort, random_state=3)
    whole = plan.table().combine_chunks()
    for size in (997, 16_384, n):
        assert pa.Table.from_batches(plan.batches(size)).combine_chunks().equals(whole)
    assert (
        pa.Table.from_batches(plan.batches(5_000, start=12_345, stop=33_333))
        .combine_chunks()
        .equals(whole.slice(12_345, 20_988).combine_chunks())
    )
    for i, (rows, files) in enumerate([(65_536, None), (1_000, 3), (20_001, 1)]):
        written = write_census(
            tmp_path / str(i), n, **SMALL, sort=sort, random_state=3, rows_per_group=rows, files=files
        )
        assert len(written.people) == (files or 1)
        assert pq.read_table(written.folder).combine_chunks().equals(whole)
        sizes = {pq.ParquetFile(p).metadata.row_group(0).num_rows for p in written.people}
        assert sizes <= {min(rows, -(-n // (files or 1))), min(rows, n // (files or 1))}
    assert (written.n_people, written.n_encoded, written.categorical) == (n, 400, plan.categorical)
    other = census(n, **SMALL, sort=sort, random_state=4).table().combine_chunks()
    assert not other.equals(whole)
