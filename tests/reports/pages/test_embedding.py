from __future__ import annotations

import numpy as np
import pyarrow as pa

from crosslevel.embedding import Embeddings
from crosslevel.reports.pages import embedding


def test_bags_with_their_sizes(page):
    keys = pa.table({"region": ["a", "b", "c"], "people": ["x", "y", "z"]})
    size = np.array([8.0, 45.0, 12.5])
    found = Embeddings(np.zeros((3, 4)), keys, np.array([9.0, 40.0, 5.0]), np.array([10, 50, 15]), size)
    section = page.check(embedding.section("Bags", found))
    assert embedding.accepts(found)
    assert not embedding.accepts(keys)
    assert section.tables["bags"]["bag"].to_pylist() == ["a · x", "b · y", "c · z"]
    assert section.tables["bags"]["effective"].to_pylist() == size.tolist()
    assert section.answer.column_names == ["region", "people", "people_", "effective_size", "weight"]
    assert "8 to 45 effective people in a bag, 75 people" in section.sentences[1]
    assert "2 bag(s) have fewer than 30" in section.sentences[2]
