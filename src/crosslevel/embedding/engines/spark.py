"""The workers of Spark: each partition gives partial sums of its bags, which are added up bag by bag where they are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data.people import People
from crosslevel.embedding.chunks import Recipe, number_rows
from crosslevel.embedding.state import BagSums
from crosslevel.numerics.features import FeatureMap

BAGS = 512
"""Bags in a batch of sums: 16 MB of 4,096 features."""
SUMS = pa.schema(
    {"part": pa.int32(), "count": pa.int64(), "weight": pa.float64(), "squares": pa.float64(), "sums": pa.binary()}
)


def sum_on_workers(people: People, recipe: Recipe, feature_map: FeatureMap) -> BagSums:
    """Sum the features of people of Spark over their bags.

    The sums of a partition are a function of its rows, so that a task that runs again changes nothing; those of a bag are added in
    the order of the partitions.
    """
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    frame = people.select(recipe.query)
    fields = [to_arrow_schema(frame.select(*recipe.keys).schema).field(key) for key in recipe.keys]
    fields += [pa.field("subgroup", pa.string())] if recipe.subgroups else []
    schema = pa.schema([*fields, *SUMS])
    keys = [field.name for field in fields]
    wanted = from_arrow_schema(schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of versions of pandas, which is not used here
        partial = frame.mapInArrow(_summer(recipe, feature_map, schema), wanted)
        summed = partial.groupBy(*keys).applyInArrow(_adder(keys), wanted)
    found = people.table.collect(summed)  # type: ignore[union-attr]
    bags = list(zip(*(found[key].to_pylist() for key in keys), strict=True))
    small = np.array([found[name].to_numpy() for name in ("count", "weight", "squares")], dtype=np.float64)
    sums = [np.frombuffer(row.as_buffer(), dtype=np.float64) for row in found["sums"]]
    arrays = {"small": small, "sums": np.array(sums).reshape(len(bags), feature_map.n_features)}
    return BagSums.from_arrays(bags, recipe.names, arrays, recipe.parts)


def _summer(recipe: Recipe, feature_map: FeatureMap, schema: pa.Schema) -> Callable[[Any], Iterator[pa.RecordBatch]]:
    """Give the function that sums a partition."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        from crosslevel.embedding.engines.local import chunk_summer

        add_up, part = chunk_summer(recipe, feature_map), TaskContext.get().partitionId()
        state = BagSums(feature_map.n_features, recipe.names, recipe.parts)
        for chunk in number_rows(batches):
            state.add(add_up(chunk))
        for first in range(0, len(state), BAGS):
            some = slice(first, first + BAGS)
            rows = [state.row(i).tobytes() for i in range(len(state))[some]]
            keys = zip(*state.keys[some], strict=True)
            sums = ([part] * len(rows), state.count[some], state.weight[some], state.weight_squared[some], rows)
            columns = [pa.array(list(values), field.type) for values, field in zip((*keys, *sums), schema, strict=True)]
            yield pa.record_batch(columns, schema=schema)

    return work


def _adder(keys: list[str]) -> Callable[[pa.Table], pa.Table]:
    """Give the function that adds what partitions gave for one bag, in their order."""

    def add(parts: pa.Table) -> pa.Table:
        parts = parts.sort_by("part")
        total = parts.slice(0, 1)
        columns = [total[key] for key in keys]
        columns.append(total["part"])
        columns += [pa.array([sum(parts[name].to_pylist())], SUMS.field(name).type) for name in SUMS.names[1:4]]
        sums = sum(np.frombuffer(row.as_buffer(), dtype=np.float64) for row in parts["sums"])
        columns.append(pa.array([np.asarray(sums).tobytes()], pa.binary()))
        return pa.table(columns, schema=parts.schema)

    return add
