"""Weighted sums of features over bags on an accelerator: large tiles, and products that its matrix units do well.

``DeviceMap`` lays a feature map out on a device; ``pack`` makes rows ready on the host; ``sum_packs`` keeps the device
busy with one piece while the next travels. Importing this package imports jax and neither numba nor pyarrow.
"""

from __future__ import annotations

from crosslevel.numerics.fused_jax.device import DeviceMap, sum_packs
from crosslevel.numerics.fused_jax.layout import BagTotals, Packed, bag_totals, pack

__all__ = ["BagTotals", "DeviceMap", "Packed", "bag_totals", "pack", "sum_packs"]
