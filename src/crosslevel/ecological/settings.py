"""Are the settings and the question answerable? Each that is not is refused with a sentence."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data import checks
from crosslevel.data.batches import Batches, open_batches
from crosslevel.data.queries import SUBGROUP
from crosslevel.ecological.answers import Rollup
from crosslevel.ecological.estimating import INTERVALS, Question
from crosslevel.ecological.group.covariance import Hyperparameters, Terms
from crosslevel.ecological.partitions import Request
from crosslevel.ecological.places import Places
from crosslevel.ecological.quantities import SHARES
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.numerics.kernels import METRICS, SMOOTHNESS, distances

if TYPE_CHECKING:
    from crosslevel.ecological.estimator import EcologicalInference

__all__ = [
    "LINKS",
    "check_degrees",
    "check_parameters",
    "fixed_hyperparameters",
    "open_people",
    "prior_terms",
    "read_interval",
    "read_question",
    "settings_words",
]

LINKS = ("individual", "group")
INFERENCES = ("laplace", "nuts")
KERNELS = ("sum", "product")
LEAST_PLACES = 3
LEAST_DRAWS = 50
TAKEN = (
    *("estimate", "std_error", "conf_low", "conf_high", "bound_low", "bound_high", "neighborhood", "goodman"),
    *("population", "effective_size", "distance", "shift", "outcome", "against", "model_low", "model_high"),
)
"""Columns of the answer that a key must not be called: they would take its place."""


def check_parameters(model: EcologicalInference) -> None:
    """Refuse parameters of the constructor that mean nothing."""
    for argument, choices in (
        ("link", LINKS),
        ("inference", INFERENCES),
        ("spatial", (None, *SMOOTHNESS)),
        ("metric", METRICS),
        ("kernel", KERNELS),
    ):
        if getattr(model, argument) not in choices:
            raise unknown_name(argument, getattr(model, argument), choices, "choice")
    for argument in ("nugget", "account", "sampling_error"):
        if not isinstance(getattr(model, argument), bool | np.bool_):
            raise InputError(f"{argument}={getattr(model, argument)!r} is neither True nor False.")
    for argument, least in (("n_starts", 1), ("random_state", 0), ("n_bins", 2)):
        value = getattr(model, argument)
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise InputError(f"{argument}={value!r} is not a whole number of at least {least}.")
    if isinstance(model.rho, bool) or not isinstance(model.rho, Real) or not 0.0 <= float(model.rho) < np.inf:
        raise InputError(
            f"rho={model.rho!r} is not a finite number >= 0; 0 says that composition acts on nobody but its own."
        )
    if model.link == "individual" and not model.nugget:
        raise InputError(
            "nugget=False leaves the individual link no effect of a place's own, through which it matches the totals; pass link='group' "
            "to do without."
        )
    if model.link == "individual" and model.kernel == "product":
        raise InputError("kernel='product' lets the weights of embeddings vary over the map; it needs link='group'.")
    if model.link == "group" and model.inference != "laplace":
        raise InputError("inference='nuts' samples the individual link; leave it out of link='group'.")
    if model.link == "group" and (model.interactions is not None or model.rho):
        raise InputError("interactions and rho belong to link='individual'; leave them out of link='group'.")
    if model.kernel == "product" and model.spatial is None:
        raise InputError("kernel='product' multiplies by the spatial kernel, and spatial=None; name one.")


def open_people(people: Any, where: str | None) -> Batches:
    """Open people who can be gone over more than once."""
    if people is None:
        raise InputError("people is missing: a loaded model does not hold them; pass people=, those of fit.")
    stream = open_batches(people, where=where)
    if stream.one_shot:
        raise InputError(
            "people is a record batch reader, which can be read only once, and they are read twice to fit and once for every "
            "estimate; pass a function that makes a new reader (people=lambda: relation.to_arrow_reader()), or a table "
            "(reader.read_all())."
        )
    return stream


def prior_terms(model: EcologicalInference, places: Places) -> Terms:
    """Say which terms the prior has over these places."""
    if len(places) < LEAST_PLACES:
        raise InputError(
            f"places has {len(places)} place(s) with people and trials; a regression needs at least {LEAST_PLACES}."
        )
    distance, group = None, None
    if model.spatial is not None:
        if places.coords is None:
            raise InputError(
                "coords is missing; name two columns of places, coords=('lon', 'lat'), or pass spatial=None."
            )
        if len(np.unique(places.coords, axis=0)) < 2:
            raise InputError("coords are the same for every place; correct them, or pass spatial=None.")
        if model.metric == "sphere":
            check_degrees(places.coords, places.keys)
        distance = distances(places.coords, places.coords, model.metric)
    if model.group is not None:
        values = places.column(model.group, "group")
        number = {v: i for i, v in enumerate(dict.fromkeys(values))}
        if len(number) < 2:
            raise InputError(f"group={model.group!r} has one value in all places; name a column with several.")
        group = np.array([number[v] for v in values], dtype=np.intp)
    return Terms(len(places), model.spatial, distance, bool(model.nugget), group, model.kernel == "product")


def check_degrees(coords: npt.NDArray[np.float64], keys: Sequence[object]) -> None:
    """Refuse coordinates, (q, 2), that are no longitude and latitude in degrees."""
    bad = (np.abs(coords[:, 0]) > 360) | (np.abs(coords[:, 1]) > 90)
    if bad.any():
        i = int(np.argmax(bad))
        raise InputError(
            f"coords of {keys[i]!r} are {coords[i].tolist()}, which is no longitude and latitude in degrees; correct them (in "
            "this order), or pass metric='plane' for other coordinates."
        )


def fixed_hyperparameters(given: Any, terms: Terms, questions: Sequence[str]) -> list[Hyperparameters] | None:
    """Read hyperparameters that are not to be learnt: one set for all questions, or one for each."""
    if given is None:
        return None
    sets = [given] if isinstance(given, Mapping) or is_dataclass(given) else list(given)
    if len(sets) not in (1, len(questions)):
        raise InputError(
            f"hyperparameters are {len(sets)} sets for {len(questions)} question(s) ({listed(questions)}); pass one for all, or one "
            "for each."
        )
    read = [_hyperparameters(one, terms) for one in sets]
    return read if len(read) == len(questions) else read * len(questions)


def _hyperparameters(given: Any, terms: Terms) -> Hyperparameters:
    known = [f.name for f in fields(Hyperparameters)]
    values = {n: getattr(given, n) for n in known} if isinstance(given, Hyperparameters) else given
    if not isinstance(values, Mapping):
        raise InputError(
            f"hyperparameters={given!r} is no mapping of a name to a number; pass {{'embedding': 1.0, ...}}."
        )
    for name, value in values.items():
        if name not in known:
            raise unknown_name("hyperparameters", name, known, "hyperparameter")
        bad = isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)) or value < 0
        if bad or (name == "length" and value == 0):
            raise InputError(
                f"hyperparameters: {name}={value!r} is not a finite number >= 0 (a length must be positive)."
            )
    needed = [name for name in terms.names if name not in values]
    if needed:
        raise InputError(
            f"hyperparameters lack {listed(needed)}; give all of {listed(terms.names)}, or none to learn them."
        )
    return Hyperparameters(**{name: float(value) for name, value in values.items()})


def read_interval(interval: str | None, link: str) -> str:
    """Say which intervals are meant: honest ones by default, where the link has such.

    Examples
    --------
    >>> read_interval(None, "individual"), read_interval(None, "group")
    ('honest', 'model')
    """
    if interval is None:
        return "honest" if link == "individual" else "model"
    if interval not in INTERVALS:
        raise unknown_name("interval", interval, INTERVALS, "interval")
    if interval == "honest" and link == "group":
        raise InputError(
            "interval='honest' allows for confounding as it was measured for the individual link; pass link='individual', or "
            "interval='model'."
        )
    return interval


def read_question(
    places: Places,
    request: Request,
    *,
    rollup: str | None,
    of: str,
    contrast: str | None,
    reference: object,
    level: float,
    draws: int,
    seed: int,
    interval: str = "honest",
) -> Question:
    """Check what is asked about the subgroups."""
    if of not in SHARES:
        raise unknown_name("of", of, SHARES, "share")
    if of != "voters" and not places.totals.turnout:
        raise InputError(f"of={of!r} needs turnout; name the column of everybody in fit(population=...).")
    if contrast not in (None, "difference", "ratio"):
        raise unknown_name("contrast", contrast, ["difference", "ratio"], "contrast")
    if reference is not None and contrast is None:
        raise InputError(f"reference={reference!r} is for a contrast; pass contrast='difference' or 'ratio' too.")
    if isinstance(draws, bool) or not isinstance(draws, Integral) or draws < LEAST_DRAWS:
        raise InputError(f"draws={draws!r} is not a whole number of at least {LEAST_DRAWS}.")
    if rollup is not None and rollup in request.by:
        raise InputError(f"rollup={rollup!r} is also in by; name it in one of them.")
    found = _rollup(places, rollup)
    _check_keys(found, request)
    return Question(found, of, contrast, reference, checks.check_level(level), int(draws), seed, interval)


def _check_keys(rollup: Rollup, request: Request) -> None:
    """Refuse keys that are called like another column of the answer."""
    clash = next((name for name in request.by if name in TAKEN), None)
    if clash is not None:
        raise InputError(f"by names {clash!r}, which is a column of the answer; rename that column of people.")
    taken = TAKEN if request.by and not request.subgroups else (*TAKEN, SUBGROUP)
    if rollup.name in taken:
        raise InputError(
            f"the key {rollup.name!r} of places is called like a column of the answer; rename that column of places."
        )


def _rollup(places: Places, name: str | None) -> Rollup:
    q = len(places)
    if name is None:
        return Rollup(places.by, tuple(places.keys), np.arange(q))
    if name == "all":
        return Rollup(None, (None,), np.zeros(q, dtype=np.intp))
    values = places.column(name, "rollup")
    kind = places.table.schema.field(name).type
    labels = sorted(set(values), key=str if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) else None)  # type: ignore[type-var,arg-type]
    number = {v: i for i, v in enumerate(labels)}
    return Rollup(name, tuple(labels), np.array([number[v] for v in values], dtype=np.intp))


def settings_words(model: EcologicalInference, call: str, arguments: Mapping[str, object]) -> str:
    """Write a call as a person would: what differs from the defaults.

    Examples
    --------
    >>> from crosslevel.ecological.estimator import EcologicalInference
    >>> settings_words(EcologicalInference(spatial=None), "fit", {"by": "region", "weight": None})
    "EcologicalInference(spatial=None).fit(by='region')"
    """
    defaults = inspect.signature(type(model).__init__).parameters
    own = model.get_params(deep=False)
    # how many threads changes no number
    set_ = [f"{n}={v!r}" for n, v in own.items() if n != "n_jobs" and not _same(v, defaults[n].default)]
    given = [f"{n}={v!r}" for n, v in arguments.items() if v is not None]
    return f"{type(model).__name__}({', '.join(set_)}).{call}({', '.join(given)})"


def _same(value: object, default: object) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))
