"""The engine of an accelerator: threads make chunks ready while the device sums those before them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crosslevel.data.checks import count_jobs
from crosslevel.data.columns import Category, Encoder
from crosslevel.embedding.chunks import Chunk, Recipe, bag_keys, in_threads, prepare
from crosslevel.embedding.state import ChunkSums
from crosslevel.errors import MissingExtraError
from crosslevel.numerics.features import FeatureMap

if TYPE_CHECKING:
    from crosslevel.numerics.fused_jax import Packed

CHUNK_ROWS = {"cpu": 16_384}
"""Rows of a chunk by platform: a processor gains nothing from long ones."""

ACCELERATOR_ROWS = 65_536
"""An accelerator's chunk takes some ten milliseconds, much longer than the overhead of starting it."""

Prepared = tuple[int, list[tuple[Any, ...]], "Packed"]


class JaxEngine:
    """A device of jax: a GPU where there is one, otherwise the processor; threads read and encode for it.

    Features are float32 (those of landmarks float64), sums over a chunk float32, sums of chunks float64: the answer
    agrees with the local engine's to about 1e-6 of a bag's largest entry.
    """

    def __init__(self) -> None:
        try:
            import jax
        except ImportError as error:
            raise MissingExtraError(
                "engine='jax' needs jax, which is not installed; pip install crosslevel[bayes], or use engine='local'."
            ) from error
        self.device = jax.devices()[0]
        self.chunk_rows = CHUNK_ROWS.get(self.device.platform, ACCELERATOR_ROWS)

    def sum_chunks(self, recipe: Recipe, feature_map: FeatureMap, chunks: Iterable[Chunk]) -> Iterator[ChunkSums]:
        """Give the sums of each chunk, in order; a few chunks are being made ready and three are on the device."""
        from crosslevel.numerics.fused_jax import DeviceMap, pack, sum_packs

        owners, real_columns = code_owners(recipe.encoder)
        on_device = DeviceMap(feature_map, owners, real_columns, self.device)

        def work(chunk: Chunk) -> Prepared:
            ready = prepare(recipe, chunk)
            encoded = ready.encoded
            rows = (encoded.codes, encoded.reals, ready.weights, ready.bags)
            packed = pack(*rows, on_device.tile, recipe.encoder.n_inputs)
            return len(ready.weights), bag_keys(recipe, ready, packed.totals.bags.tolist()), packed

        prepared = in_threads(work, chunks, count_jobs(None))
        names: deque[tuple[int, list[tuple[Any, ...]]]] = deque()

        def packs() -> Iterator[Packed]:
            for rows, keys, packed in prepared:
                names.append((rows, keys))
                yield packed

        try:
            for packed, sums in sum_packs(on_device, packs()):
                totals = packed.totals
                yield ChunkSums(*names.popleft(), totals.count, totals.weight, totals.weight_squared, sums)
        finally:
            prepared.close()


def code_owners(encoder: Encoder) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Say which column of ``Encoder.encode``'s codes may point to each position (-1: none), and where the reals are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from crosslevel.data.columns import Number
    >>> sex = Category("sex", pa.array(["f", "m"]), has_null=False)
    >>> code_owners(Encoder((Number("age", 40.0, 20.0, has_null=True), sex)))
    (array([-1,  1,  0,  0], dtype=int32), array([0]))
    """
    owners = np.full(encoder.n_inputs, -1, dtype=np.int32)
    placed = list(zip(encoder.columns, encoder.offsets.tolist(), strict=False))
    categories = [(c, o) for c, o in placed if isinstance(c, Category)]
    numbers = [(c, o) for c, o in placed if not isinstance(c, Category)]
    for j, (category, offset) in enumerate(categories):
        owners[offset : offset + category.width] = j
    # The marks of missing numbers follow the categories.
    for j, offset in enumerate((o for c, o in numbers if c.has_null), start=len(categories)):
        owners[offset + 1] = j
    return owners, np.array([o for _, o in numbers], dtype=np.int64)
