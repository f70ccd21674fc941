"""Which family has each column of x, and how do its values become what the family reads?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.imputation.columns import Column
from crosslevel.imputation.cudia.families import (
    Categorical,
    Exponential,
    Family,
    Gaussian,
    Multinomial,
    Ordinal,
    Poisson,
    ordinal_cuts,
)
from crosslevel.typing import FloatArray

__all__ = ["FAMILIES", "Reading", "family_from_dict", "family_to_dict", "learn_families", "recode"]


FAMILIES = ("gaussian", "categorical", "bernoulli", "poisson", "exponential", "multinomial", "ordinal")
FEW = 12
"""A column of whole numbers with at most this many values is taken as categorical unless said otherwise."""


@dataclass(frozen=True)
class Reading:
    """Families of the columns, and the values that become levels.

    Attributes
    ----------
    families : tuple of Family
    values : tuple of (tuple of float or None)
        For each column of X the values that levels 0, 1, .. stand for; None for numbers.
    """

    families: tuple[Family, ...]
    values: tuple[tuple[float, ...] | None, ...]


def learn_families(X: FloatArray, columns: Sequence[Column], families: Any) -> Reading:
    """Choose the family of every column.

    Parameters
    ----------
    X : (n, d)
    columns : sequence of Column
    families : "auto", one name for all, or mapping of column (or tuple of columns, for "multinomial") to a name

    Examples
    --------
    >>> X = np.array([[0.0, 1.5], [1.0, 2.5], [0.0, 0.1]])
    >>> found = learn_families(X, [Column("sex"), Column("height")], "auto")
    >>> [type(f).__name__ for f in found.families]
    ['Categorical', 'Gaussian']
    """
    names = [c.name for c in columns]
    chosen, joint = _read_choice(families, names)
    out: list[Family] = []
    values: list[tuple[float, ...] | None] = [None] * len(columns)
    for members in joint:
        places = tuple(names.index(m) for m in members)
        part = X[:, list(places)]
        _refuse(bool(np.nanmin(part) < 0), names[places[0]], "multinomial", "negative values; it needs counts")
        out.append(Multinomial(" + ".join(members), places, tuple(members)))
    taken = {m for members in joint for m in members}
    for j, column in enumerate(columns):
        if column.name in taken:
            continue
        x = X[:, j]
        kind = chosen.get(column.name, "auto")
        if kind == "auto":
            kind = _guess(x, column)
        if column.factor and kind not in ("categorical", "bernoulli", "ordinal"):
            raise InputError(
                f"families: {column.name!r} holds text, which cannot be {kind}; choose 'categorical' or 'ordinal'."
            )
        family, values[j] = _make(kind, x, column, j)
        out.append(family)
    return Reading(tuple(out), tuple(values))


def _read_choice(families: Any, names: Sequence[str]) -> tuple[dict[str, str], list[tuple[str, ...]]]:
    if isinstance(families, str):
        if families != "auto" and families not in FAMILIES:
            raise unknown_name("families", families, ["auto", *FAMILIES], "family")
        if families == "multinomial":
            return {}, [tuple(names)]
        return dict.fromkeys(names, families), []
    if not isinstance(families, Mapping):
        raise InputError(
            f"families={families!r} is neither a name nor a mapping of columns to names; pass 'auto' or a mapping."
        )
    chosen: dict[str, str] = {}
    joint: list[tuple[str, ...]] = []
    for key, kind in families.items():
        if kind not in ("auto", *FAMILIES):
            raise unknown_name(f"families[{key!r}]", kind, ["auto", *FAMILIES], "family")
        for name in [key] if isinstance(key, str) else list(key):
            if name not in names:
                raise unknown_name("families", name, list(names))
        if kind == "multinomial":
            members = (key,) if isinstance(key, str) else tuple(key)
            if len(members) < 2:
                raise InputError(
                    f"families: a multinomial needs several columns of counts; {key!r} is one. Pass a tuple of names."
                )
            joint.append(members)
        else:
            for name in [key] if isinstance(key, str) else list(key):
                chosen[name] = kind
    return chosen, joint


def _guess(x: FloatArray, column: Column) -> str:
    if column.factor:
        return "categorical"
    seen = x[np.isfinite(x)]
    if (seen == np.rint(seen)).all() and len(np.unique(seen[: 10 * FEW + 1000])) <= FEW and len(np.unique(seen)) <= FEW:
        return "categorical"
    return "gaussian"


def _make(kind: str, x: FloatArray, column: Column, j: int) -> tuple[Family, tuple[float, ...] | None]:
    seen = x[np.isfinite(x)]
    if kind == "gaussian":
        return Gaussian(column.name, j, float(seen.mean()), float(seen.var())), None
    if kind == "poisson":
        _refuse(bool((seen < 0).any() or (seen != np.rint(seen)).any()), column.name, kind, "values that are no counts")
        return Poisson(column.name, j, float(seen.mean())), None
    if kind == "exponential":
        _refuse(bool((seen < 0).any()), column.name, kind, "negative values")
        return Exponential(column.name, j, float(seen.mean())), None
    values, counts = np.unique(seen, return_counts=True)
    if kind == "bernoulli" and len(values) != 2:
        _refuse(True, column.name, kind, f"{len(values)} different values; it needs two")
    if kind != "bernoulli" and len(values) > max(1000, FEW):
        _refuse(True, column.name, kind, f"{len(values):,} different values; group them")
    levels = tuple(str(v) for v in column.levels) if column.levels is not None else tuple(f"{v:g}" for v in values)
    if column.levels is not None:
        counts = np.bincount(seen.astype(np.int64), minlength=len(levels))
    own = None if column.levels is not None else tuple(float(v) for v in values)
    if kind == "ordinal":
        if len(levels) < 2:
            _refuse(True, column.name, kind, "one level")
        return Ordinal(column.name, j, levels, ordinal_cuts(counts.astype(np.float64))), own
    return Categorical(column.name, j, levels), own


def _refuse(bad: bool, name: str, kind: str, why: str) -> None:
    if bad:
        raise InputError(f"families: {name!r} cannot be {kind}: it has {why}. Choose another family.")


def recode(X: FloatArray, reading: Reading, names: Sequence[str]) -> FloatArray:
    """Replace the values of columns with levels by the levels' numbers, (n, d).

    Examples
    --------
    >>> reading = Reading((Categorical("age", 0, ("1", "5")),), ((1.0, 5.0),))
    >>> recode(np.array([[5.0], [1.0]]), reading, ["age"]).ravel().tolist()
    [1.0, 0.0]
    """
    out = X.copy()
    for j, values in enumerate(reading.values):
        if values is None:
            continue
        known = np.asarray(values)
        seen = np.isfinite(X[:, j])
        place = np.clip(np.searchsorted(known, X[seen, j]), 0, len(known) - 1)
        strange = known[place] != X[seen, j]
        if strange.any():
            value = X[seen, j][np.argmax(strange)]
            raise InputError(
                f"X: the column {names[j]!r} is {value:g} for somebody, a value the fit did not have; its values are "
                f"{listed(values, 12)}. Recode it, or fit with families={{{names[j]!r}: 'gaussian'}}."
            )
        out[seen, j] = place
    return out


_CLASSES: dict[str, Callable[..., Family]] = {
    c.__name__: c for c in (Categorical, Exponential, Gaussian, Multinomial, Ordinal, Poisson)
}


def family_to_dict(family: Family) -> dict[str, Any]:
    """Give a family as plain values."""
    fields = {n: getattr(family, n) for n in family.__dataclass_fields__ if n != "n_free"}  # type: ignore[attr-defined]
    return {"kind": type(family).__name__, **{n: list(v) if isinstance(v, tuple) else v for n, v in fields.items()}}


def family_from_dict(form: Mapping[str, Any]) -> Family:
    """Make a family from plain values."""
    fields = {n: tuple(v) if isinstance(v, list) else v for n, v in form.items() if n != "kind"}
    return _CLASSES[form["kind"]](**fields)
