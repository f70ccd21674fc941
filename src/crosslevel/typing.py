"""Types by name: what a signature means by an array, a seed or a progress bar is said here, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

AnyArray: TypeAlias = npt.NDArray[Any]
FloatArray: TypeAlias = npt.NDArray[np.float64]
ComplexArray: TypeAlias = npt.NDArray[np.complex128]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
IntArray: TypeAlias = npt.NDArray[np.intp]
"""Positions: what indexes another array."""
Int64Array: TypeAlias = npt.NDArray[np.int64]
"""Counts and codes that are stored or hashed, of one width on every machine."""
AnyIntArray: TypeAlias = npt.NDArray[np.integer[Any]]
"""Integers of any width, as a caller hands them in."""
Arrays: TypeAlias = dict[str, AnyArray]
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None
Tell: TypeAlias = Callable[[int, int | None], None]
"""Called with what is done and, where known, with all there is to do."""
Progress: TypeAlias = bool | Tell
"""True for a bar on stderr, or a function of one's own (``data.progress.follow``)."""
Step: TypeAlias = Callable[[], None]
"""Called after each step of a long call (``data.progress.count_steps``)."""
