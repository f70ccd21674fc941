"""Where an answer came from: version, call, seed and fingerprints of the data."""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crosslevel.errors import InputError


def installed_version() -> str:
    """Tell the version of crosslevel that is running."""
    # the root module names every layer for type checkers, so a static import of it would point upwards
    return str(sys.modules["crosslevel"].__version__)


@dataclass(frozen=True)
class Provenance:
    """What is needed to make the same numbers again.

    Parameters
    ----------
    version : str
        Version of crosslevel that made the numbers; :meth:`of` fills it in.
    call : str
        The call, as a person would write it.
    seed : int or None
        Seed of the random numbers; None when none were used or none was given.
    data : mapping of str to str
        Name of each input to its fingerprint, such as ``{"people": "sha256:…"}``.

    Examples
    --------
    >>> p = Provenance.of(call="goodman(groups, outcomes)", data={"groups": "sha256:ab12"})
    >>> p.call, p.seed, p.data["groups"]
    ('goodman(groups, outcomes)', None, 'sha256:ab12')
    """

    version: str
    call: str
    seed: int | None = None
    data: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("version", "call"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"{name}={getattr(self, name)!r} is not text; pass a string.")
        if self.seed is not None:
            try:
                object.__setattr__(self, "seed", operator.index(self.seed))
            except TypeError:
                raise InputError(
                    f"seed={self.seed!r} is not a whole number; pass the integer the random numbers started from, or None."
                ) from None
        if not isinstance(self.data, Mapping) or not all(
            isinstance(k, str) and isinstance(v, str) for k, v in self.data.items()
        ):
            raise InputError(f"data={self.data!r} does not map names to fingerprints; pass {{'people': 'sha256:…'}}.")
        object.__setattr__(self, "data", dict(self.data))

    @classmethod
    def of(cls, *, call: str, seed: int | None = None, data: Mapping[str, str] | None = None) -> Provenance:
        """Make the provenance of a call in this version of crosslevel."""
        return cls(version=installed_version(), call=call, seed=seed, data={} if data is None else data)

    def as_dict(self) -> dict[str, Any]:
        """Give the fields as plain JSON values."""
        return {"version": self.version, "call": self.call, "seed": self.seed, "data": dict(self.data)}
