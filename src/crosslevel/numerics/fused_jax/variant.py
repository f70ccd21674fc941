"""Which of several ways to the same numbers a device takes."""

from __future__ import annotations

from dataclasses import dataclass

from crosslevel.errors import InputError

__all__ = ["Variant", "default_variant", "split_parts"]

EXPLICIT_INPUTS = 8192
"""Up to this many encoded columns a GPU multiplies by the written-out frequencies even where they have structure: its
matrix units do d x m half-precision products faster than its memory serves the passes of the Hadamard transforms."""


@dataclass(frozen=True)
class Variant:
    """How features are computed and summed.

    Attributes
    ----------
    projection : {"hadamard", "explicit"}
        Structured maps only: by Hadamard transforms, or by their written-out frequencies.
    product : str
        For "hadamard", how the float32 products with H are done: a precision of ``jax.lax`` ("highest" is true float32;
        "high" is tf32 on a GPU), the name of a ``DotAlgorithmPreset``, or "bfloat16x3" (x2): the other factor is cut into
        parts of 8 bits, and H, whose entries are ±1, is exact in any of them.
        For "explicit" and for maps without structure: "float32", or the frequencies in parts, "float16x2" (22 bits),
        "bfloat16x3" (24) or "bfloat16x2" (16); the ones of categories are exact in any of them.
    first : {"float32", "float16"}
        For "hadamard", the transform that meets x: in float16 the categories' part is whole numbers up to 2,048 and
        therefore exact, at half the traffic; the numbers' part is a small float32 product.
    sums : {"float32", "bfloat16x3", "bfloat16x2"}
        Weighted sums over bags: in float32, or the weighted features in parts times exact zeros and ones.
    tile : int
        Rows whose features exist at a time, a power of two.

    Examples
    --------
    >>> Variant(tile=1024).product
    'highest'
    """

    projection: str = "hadamard"
    product: str = "highest"
    first: str = "float32"
    sums: str = "float32"
    tile: int = 8192

    def __post_init__(self) -> None:
        for argument, allowed in (
            ("projection", ("hadamard", "explicit")),
            ("first", ("float32", "float16")),
            ("sums", ("float32", "bfloat16x2", "bfloat16x3")),
        ):
            if getattr(self, argument) not in allowed:
                raise InputError(
                    f"{argument}={getattr(self, argument)!r} is not known; pass one of {', '.join(map(repr, allowed))}."
                )
        if self.tile < 1 or self.tile & (self.tile - 1):
            raise InputError(f"tile={self.tile!r} is not a power of two; pass, for example, 8192.")


def default_variant(platform: str, n_inputs: int) -> Variant:
    """Choose for a platform of jax ("cpu", "gpu", "tpu") and a number of encoded columns; see ``benchmarks/embedding_gpu.py``.

    Examples
    --------
    >>> default_variant("gpu", 3251).product
    'float16x2'
    """
    if platform == "cpu":
        return Variant(tile=2048)
    if platform == "gpu" and n_inputs <= EXPLICIT_INPUTS:
        # an H200, 3,251 columns to 4,096 features: 6.6 ms for 65,536 rows against 8.5 (fastfood) and 11 (sorf) by Hadamard
        return Variant(projection="explicit", product="float16x2", sums="bfloat16x3", tile=16384)
    if platform == "gpu":
        return Variant(first="float16", product="highest", sums="bfloat16x3")
    return Variant()


def split_parts(how: str) -> tuple[str, int]:
    """Read "bfloat16x3" as a type and a number of parts; one part of float32 for anything else.

    Examples
    --------
    >>> split_parts("float16x2"), split_parts("highest")
    (('float16', 2), ('float32', 1))
    """
    kind, _, count = how.rpartition("x")
    return (kind, int(count)) if kind in ("float16", "bfloat16") else ("float32", 1)
