"""Newton's method with a line search: directions come from the caller, halving and stopping are here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crosslevel.typing import FloatArray

HALVINGS = 30


@dataclass(frozen=True, eq=False)
class Newton:
    """Where the climb ended.

    Attributes
    ----------
    x : (h,)
    value : float
    steps : int
        Steps taken.
    converged : bool
        Whether the caller's rule ended it, rather than the number of steps or a line search without a gain.
    """

    x: FloatArray
    value: float
    steps: int
    converged: bool


def newton(
    start: FloatArray,
    value: Callable[[FloatArray], float],
    direction: Callable[[FloatArray], FloatArray | None],
    *,
    max_steps: int,
    halvings: int = HALVINGS,
    slack: float = 0.0,
    project: Callable[[FloatArray], FloatArray] | None = None,
) -> Newton:
    """Raise a value by steps along given directions, each halved until the value does not fall.

    Parameters
    ----------
    start : (h,)
    value : callable
        What is to be raised; minus infinity or NaN where it cannot be computed.
    direction : callable
        Gives the full step at a point, or None where the caller is content and the climb ends.
    max_steps : int
    halvings : int
        How often a step is halved before the climb is given up.
    slack : float
        How far a value may fall through rounding, relative to its size.
    project : callable, optional
        Brings a tried point back into its limits.

    Examples
    --------
    The maximum of log x - x lies at 1:

    >>> import numpy as np
    >>> def step(x):
    ...     slope = 1 / x - 1
    ...     return None if abs(slope[0]) < 1e-12 else slope * x**2
    >>> found = newton(np.array([0.1]), lambda x: float(np.log(x[0]) - x[0]), step, max_steps=50)
    >>> found.x.round(12).tolist(), found.converged
    ([1.0], True)
    """
    x, height = start, value(start)
    for taken in range(max_steps + 1):
        step = direction(x)
        if step is None:
            return Newton(x, height, taken, True)
        if taken == max_steps:
            break
        length = 1.0
        for _ in range(halvings + 1):
            tried = x + length * step if project is None else project(x + length * step)
            reached = value(tried)
            if reached >= height - slack * (1.0 + abs(height)):
                break
            length *= 0.5
        else:
            return Newton(x, height, taken, False)
        x, height = tried, reached
    return Newton(x, height, max_steps, False)
