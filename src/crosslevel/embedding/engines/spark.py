"""The workers of Spark: each partition gives partial sums of its bags, which are added up bag by bag where they are."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data.people import People
from crosslevel.embedding.chunks import Recipe, number_rows
from crosslevel.embedding.state import BagSums
from crosslevel.numerics.features import FeatureMap

BAGS = 512
"""Bags in a batch of sums: 16 MB of 4,096 features."""


def sum_on_workers(people: People, recipe: Recipe, feature_map: FeatureMap) -> BagSums:
    """Sum the features of people of Spark over their bags.

    The sums of a partition are a function of its rows, so that a task that runs again changes nothing; those of a bag are added in
    the order of the partitions.
    """
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    rows = people.select(recipe.query)
    fields = [to_arrow_schema(rows.select(key).schema).field(0) for key in recipe.keys]
    fields += [pa.field("subgroup", pa.string())] if recipe.subgroups else []
    schema = pa.schema([*fields, ("part", pa.int32()), ("sums", pa.binary())])

    def sum_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        from crosslevel.embedding.engines.local import chunk_summer

        sum_chunk, part = chunk_summer(recipe, feature_map), TaskContext.get().partitionId()
        state = BagSums(recipe.names, recipe.parts)
        for chunk in number_rows(batches):
            state.add(sum_chunk(chunk))
        bags = [(*key, part, sums.tobytes()) for key, sums in state.bags.items()]
        for first in range(0, len(bags), BAGS):
            columns = zip(*bags[first : first + BAGS], strict=True)
            yield pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)

    def add_bag(partial: pa.Table) -> pa.Table:
        partial = partial.sort_by("part")
        sums = np.sum([np.frombuffer(row.as_buffer()) for row in partial["sums"]], axis=0)
        return partial.slice(0, 1).set_column(len(schema) - 1, schema.field("sums"), pa.array([sums.tobytes()]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of versions of pandas, which is not used here
        bags: Any = rows.mapInArrow(sum_partition, from_arrow_schema(schema)).groupBy(*schema.names[:-2])
        summed = bags.applyInArrow(add_bag, from_arrow_schema(schema))
    found = people.table.collect(summed)  # type: ignore[union-attr]
    state = BagSums(recipe.names, recipe.parts)
    state.restore(found.select(schema.names[:-2]), np.array([np.frombuffer(row.as_buffer()) for row in found["sums"]]))
    return state
