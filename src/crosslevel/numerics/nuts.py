"""Run NUTS on a log density in double precision: all chains in one vectorized program.

The samplers are numpyro's; jax is imported when a chain is run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np

from crosslevel.errors import MissingExtraError
from crosslevel.typing import AnyArray, BoolArray, FloatArray, Int64Array, Step, Tell


def double_precision() -> AbstractContextManager[Any]:
    """Give the scope in which JAX makes 64-bit numbers.

    Newer versions of JAX have it at the top; older ones among what is experimental.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> with double_precision():
    ...     print(jnp.ones(1).dtype)
    float64
    """
    import jax

    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64

    return enable_x64()


COMPILING = "Compiling, then sampling"
"""What a bar says of a run, whose first seconds are the compiler's."""
FIELDS = ("diverging", "num_steps", "energy", "accept_prob")
_NUMBERS = count()
_COUNTED: dict[int, Step] = {}
"""What a run calls after each iteration, by the run's number: runs share a compiled program, and it must not keep the caller's function."""


@dataclass(frozen=True, eq=False)
class NutsDraws:
    """Draws of every chain and what the sampler says of them.

    Attributes
    ----------
    values : mapping of name to (n_chains, n_draws, ...)
    diverging : (n_chains, n_draws) bool
    n_steps : (n_chains, n_draws) int
        Leapfrog steps.
    energy, acceptance : (n_chains, n_draws)
    """

    values: Mapping[str, FloatArray]
    diverging: BoolArray
    n_steps: Int64Array
    energy: FloatArray
    acceptance: FloatArray

    @property
    def n_divergent(self) -> int:
        """Number of moves that the sampler could not complete."""
        return int(self.diverging.sum())


def import_jax(what: str, instead: str) -> Any:
    """Give the module jax, or say which extra ``what`` needs and what to use instead.

    Examples
    --------
    >>> import_jax("FullBayes", "use MeanShrinkage").__name__
    'jax'
    """
    try:
        import jax
        import numpyro  # noqa: F401 - missing here, not half way
    except ImportError as error:
        raise MissingExtraError(
            f"{what} needs jax and numpyro; install them with pip install 'crosslevel[bayes]', or {instead}."
        ) from error
    return jax


def sample_nuts(
    potential: Callable[[Any, Any], Any],
    data: Mapping[str, AnyArray],
    start: Mapping[str, FloatArray],
    *,
    n_warmup: int,
    n_draws: int,
    seed: int,
    target: float = 0.85,
    tell: Tell | None = None,
) -> NutsDraws:
    """Sample from exp(-potential).

    Parameters
    ----------
    potential : callable
        ``potential(at, data)``, minus the log density at the parameters ``at`` (arrays by name). A function of its own module
        is compiled once for every shape of data; a closure each time.
    data : mapping of name to array
    start : mapping of name to (n_chains, ...)
        Where the chains begin.
    n_warmup, n_draws : int
        Of every chain.
    seed : int
    target : float
        Acceptance the step size is tuned to.
    tell : callable, optional
        Called with the iterations done and all of them, those of all chains at once, warm-up included; first with (0, None), for the
        program is compiled before. It only counts: the draws are the same.
    """
    import jax
    import jax.numpy as jnp

    number, done, of, failed = next(_NUMBERS), 0, n_warmup + n_draws, None

    def step() -> None:
        nonlocal done, failed
        done += 1
        try:
            if tell is not None and failed is None:
                tell(done, of)
        except BaseException as error:
            failed = error  # jax would wrap it; raising stops the program
            raise

    n_chains = len(next(iter(start.values())))
    with double_precision():
        given = {name: jnp.asarray(v) for name, v in data.items()}
        first = {name: jnp.asarray(v) for name, v in start.items()}
        begin = _program(potential, n_warmup, n_draws, target, tell is not None)
        if tell is not None:
            tell(0, None)
        _COUNTED[number] = step
        try:
            kept = begin(jax.random.split(jax.random.PRNGKey(seed), n_chains), first, given, number)
            # copied out of the device, whose buffers may go with the program
            values, extra = ({name: np.array(v) for name, v in part.items()} for part in kept)
            jax.effects_barrier()  # the last iterations are counted
        except jax.errors.JaxRuntimeError as error:
            raise error if failed is None else failed from None
        finally:
            del _COUNTED[number]
    return NutsDraws(values, *(extra[name] for name in FIELDS))


def _count(number: Any) -> None:
    _COUNTED[int(number)]()


@lru_cache(maxsize=8)
def _program(potential: Callable[[Any, Any], Any], n_warmup: int, n_draws: int, target: float, told: bool) -> Any:
    """Compile warm-up and draws of all chains; ``told`` calls back once for each iteration of all."""
    import jax
    from jax.experimental import io_callback
    from numpyro.infer.hmc import hmc

    start, move = hmc(potential_fn_gen=lambda data: lambda at: potential(at, data), algo="NUTS")

    def step(now: Any, data: Any, number: Any) -> Any:
        now = move(now, (data,))
        if told:  # it is not given the state, which stays as it is
            io_callback(_count, None, number)
        return now

    def begin(key: Any, first: Any, data: Any, number: Any) -> Any:
        def keep(now: Any, _: Any) -> tuple[Any, Any]:
            now = step(now, data, number)
            return now, (now.z, {name: getattr(now, name) for name in FIELDS})

        state = start(first, n_warmup, target_accept_prob=target, model_args=(data,), rng_key=key)
        state, _ = jax.lax.scan(lambda now, _: (step(now, data, number), None), state, None, length=n_warmup)
        return jax.lax.scan(keep, state, None, length=n_draws)[1]

    return jax.jit(jax.vmap(begin, (0, 0, None, None)))
