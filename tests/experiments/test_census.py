"""A census has exactly the width asked for, shows every level, and does not depend on how it is cut."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from crosslevel.errors import FileError, InputError

EXPERIMENTS = Path(__file__).parents[2] / "experiments"

SMALL = {"n_regions": 12, "n_categorical": 20, "n_real": 6, "n_encoded": 400}


@pytest.fixture
def census(monkeypatch):
    """Import the script, which is in no package."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("census").census


@pytest.fixture
def write_census(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("census_files").write_census


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


def test_fewest_people_still_show_every_level(census):
    widest = max(census(2_000, **SMALL).widths)
    people = census(widest, **SMALL)
    assert encoded_width(people.table(), people.categorical, people.numeric) == 400


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


def test_order_of_regions(census):
    region = census(5_000, **SMALL).table()["region"].to_numpy()
    assert (np.diff(region) >= 0).all()
    assert len(np.unique(region)) == 12
    shuffled = census(5_000, **SMALL, sort=False).table()["region"].to_numpy()
    assert (np.diff(shuffled) < 0).sum() > 1_000
    shares = [np.bincount(r, minlength=12) / 5_000 for r in (region, shuffled)]
    assert np.abs(shares[0] - shares[1]).max() < 0.03  # five standard errors of a share


def test_regions_differ_and_columns_hang_together(census):
    """Without composition or sides these would be draws of chance: 340 regions of 150 would differ by 1/150 of a variance."""
    people = census(51_000, n_categorical=16, n_real=8, n_encoded=200).table()
    region = people["region"].to_numpy()
    x = np.log(people["x00"].to_numpy())
    n = np.bincount(region)
    means = np.bincount(region, x) / n
    between = np.average((means - x.mean()) ** 2, weights=n) / x.var()
    assert between > 3 / n.mean()
    names = [f"x{j:02d}" for j in (0, 1, 3, 4, 6, 7)]
    r = np.corrcoef(np.log([people[name].to_numpy() for name in names]))
    assert np.abs(r[np.triu_indices(len(names), 1)]).max() > 0.1
    weight = people["weight"].to_numpy()
    assert weight.min() > 0
    assert weight.std() > 1


def test_progress_counts_up_to_everybody(write_census, tmp_path):
    seen: list[tuple[int, int]] = []
    write_census(tmp_path, 5_000, **SMALL, rows_per_group=1_000, progress=lambda *at: seen.append(at))
    assert seen == [(k * 1_000, 5_000) for k in range(1, 6)]


def test_a_failure_leaves_no_half_file(write_census, tmp_path):
    def stop(done: int, total: int) -> None:
        if done > 2_000:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError):
        write_census(tmp_path, 6_000, **SMALL, rows_per_group=500, files=3, progress=stop)
    assert all(pq.read_table(path).num_rows == 2_000 for path in tmp_path.iterdir())
    assert len(list(tmp_path.iterdir())) < 3


def test_bad_arguments_get_a_sentence(census, write_census, tmp_path):
    for name in ("n_people", "n_regions", "n_categorical", "n_encoded"):
        with pytest.raises(InputError):
            census(**({"n_people": 2_000, **SMALL} | {name: 0}))
    with pytest.raises(InputError, match="random_state="):
        census(2_000, **SMALL, random_state=None)
    with pytest.raises(InputError):
        census(2_000, **(SMALL | {"n_encoded": 50}))
    with pytest.raises(InputError):
        census(2_000, **(SMALL | {"n_encoded": 1_000_000}))
    with pytest.raises(InputError, match="n_people="):
        census(20, **SMALL)
    with pytest.raises(InputError, match="files="):
        write_census(tmp_path, 2_000, **SMALL, files=0)
    with pytest.raises(InputError, match="rows_per_group="):
        write_census(tmp_path, 2_000, **SMALL, rows_per_group=1.5)


def test_a_folder_with_files_is_not_mixed_with_another_census(write_census, tmp_path):
    write_census(tmp_path, 2_000, **SMALL)
    with pytest.raises(FileError):
        write_census(tmp_path, 2_000, **SMALL)
    with pytest.raises(FileError):
        write_census(tmp_path / "part-000.parquet", 2_000, **SMALL)
