"""Options from signatures and docstrings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from crosslevel.cli.options import Option, from_signature, read, read_docs
from crosslevel.errors import InputError


class Near:
    """A model.

    Parameters
    ----------
    width, height : int, default 3
        How ``wide``; see :class:`~crosslevel.KRLS`.
        And how high.
    rule : {"loo", "gcv"}
        The rule.

    Attributes
    ----------
    width_ : int
        Not a parameter.
    """

    def __init__(
        self,
        width: int = 3,
        height: int = 3,
        rule: Any = "loo",
        *,
        share: float = 0.5,
        field: str | None = "matern",
        bandwidth: str | float = "median",
        nugget: bool = True,
        columns: Sequence[str] | None = None,
        pairs: Sequence[Sequence[str]] | None = None,
        scale: Mapping[str, float] | None = None,
        data: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.told = {n: v for n, v in locals().items() if n != "self"}


def test_annotations_and_docstrings_make_options():
    found = {o.name: o for o in from_signature(Near, "Model", skip=("height",))}
    kinds = {name: (o.kind, o.several, o.nullable) for name, o in found.items()}
    assert kinds == {
        "width": ("whole", False, False),
        "rule": ("text", False, False),
        "share": ("number", False, False),
        "field": ("text", False, True),
        "bandwidth": ("value", False, False),
        "nugget": ("flag", False, False),
        "columns": ("text", True, True),
        "pairs": ("crossings", True, True),
        "scale": ("pairs", True, True),
        "random_state": ("whole", False, False),
    }
    assert found["width"].help == "How wide; see crosslevel.KRLS. And how high. Default: 3."
    assert found["rule"].metavar == "loo|gcv"
    assert found["nugget"].help == "Default: yes."
    assert set(read_docs(Near)) == {"width", "height", "rule"}
    assert from_signature(Near, "Model", kinds={"data": "file"})[-2].kind == "file"


def test_what_was_written_becomes_values_and_the_rest_is_left_to_the_library():
    options = [*from_signature(Near, "Model"), Option("people", "file", panel="Files")]
    written = {"width": 4, "field": "none", "bandwidth": "2.5", "nugget": False, "columns": ["a", "b"]}
    written |= {"pairs": ["a*b", "c , d"], "scale": ["bmi=5.5"], "people": "x"}
    given = read(options, dict.fromkeys((o.name for o in options), None) | written)
    assert given.of("Model") == {
        "width": 4, "field": None, "bandwidth": 2.5, "nugget": False, "columns": ["a", "b"], "pairs": [("a", "b"), ("c", "d")],
        "scale": {"bmi": 5.5},
    }  # fmt: skip
    assert given.of("Files", "Model", skip=("width",)).keys() == given.keys() - {"width"}
    twice = {**dict.fromkeys((o.name for o in options), None), "columns": ["a", "a"]}
    with pytest.raises(InputError):
        read(options, twice)


def test_options_that_go_together_exclude_one_another_or_have_choices():
    options = [
        Option("file", "file", argument=True, needs=("lower",)),
        Option("lower", excludes=("upper",)),
        Option("upper"),
        Option("model", choices=("near", "far")),
    ]
    none = dict.fromkeys([o.name for o in options])
    assert read(options, none) == {}
    assert read(options, {**none, "file": "a.csv", "lower": "b", "model": "far"}).keys() == {"file", "lower", "model"}
    for given, _words in (
        ({"file": "a.csv"}, "a.csv goes with --lower, which is missing"),
        ({"lower": "b", "upper": "c"}, "--lower and --upper exclude one another"),
        ({"model": "fra"}, "--model='fra' is not a choice.*Did you mean 'far'"),
    ):
        with pytest.raises(InputError):
            read(options, {**none, **given})
