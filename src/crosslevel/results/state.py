"""Turn a fitted object into plain JSON values and named arrays, and back.

An estimator is its class, its parameters and what ``fit`` left in its ``__dict__``; a frozen dataclass is its class and its fields; a
class with ``_saved : tuple of str`` is the attributes of these names, which are the arguments of its constructor. They may hold None,
booleans, numbers, text, bytes, tuples, lists, sets, dicts, NumPy arrays and scalars, random generators, Arrow tables, arrays, schemas
and types, and further objects of crosslevel. Some names on a class change what is kept, and say what it is:

``_unsaved : tuple of str``
    Attributes (or fields with a default) that are left out.
``_as_saved(self)``
    Gives the object to save in the place of this one, of the same class.
``_restored(self)``
    Called on the loaded object, to rebuild what was left out and to refuse what does not fit together.
``_rows_of_people(self)``
    Gives the number of rows of single people that each attribute named holds, where a method cannot do without them.
``_never_saves_people : str``
    Refuses to save such rows anywhere below this object; the text says what to do instead.

In JSON a value is itself (None, bool, int, finite float, str, list) or an object with one key, the name of its form.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.errors import InputError
from crosslevel.typing import AnyArray, Arrays

DEEPEST = 40
"""Levels of nesting beyond which an object is refused: no model has half as many."""

_NUMERIC = "biufc"  # numpy kinds: everything but objects, text, times and records
_TIMES = "mM"
_PATH = re.compile(r"(crosslevel(?:\.[a-z][a-z0-9_]*)+):([A-Za-z_][A-Za-z0-9_]*)")
_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
_SIMPLE = {str(t): t for t in (pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.large_string())}
_LEFT_OUT = frozenset({"_metadata_request"})  # scikit-learn's routing, which says nothing about the fit


def is_saveable(cls: type) -> bool:
    """Tell whether objects of a class are saved by their parts: estimators, frozen dataclasses and classes with ``_saved``.

    Examples
    --------
    >>> from crosslevel.results import Estimates
    >>> is_saveable(Estimates), is_saveable(dict)
    (True, False)
    """
    return bool(_PATH.fullmatch(class_path(cls))) and (_is_estimator(cls) or _arguments(cls) is not None)


def class_path(cls: type) -> str:
    """Name a class by its home, ``"module:Class"``."""
    return f"{cls.__module__}:{cls.__qualname__}"


class Writer:
    """Walks an object; ``arrays`` gathers what does not belong into JSON, ``rows_of_people`` what holds single people and how many.

    Examples
    --------
    >>> writer = Writer()
    >>> writer.form({"n": (1, float("inf")), "x": np.arange(3)}, "model")
    {'dict': [['n', {'tuple': [1, {'float': 'inf'}]}], ['x', {'array': {'part': 'model.x'}}]]}
    >>> Reader(writer.arrays).value(_)["x"]
    array([0, 1, 2])
    """

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self.rows_of_people: dict[str, int] = {}
        self._known: dict[int, tuple[object, str]] = {}

    def form(self, value: Any, path: str, depth: int = 0) -> Any:
        """Give the JSON form of a value; ``path`` says where it was found, as ``EcologicalInference.model_.fits[0]``."""
        if depth > DEEPEST:
            raise InputError(f"{path} is nested more than {DEEPEST} levels deep and cannot be saved; keep it flat.")
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if type(value) is list:
            return self._items(value, path, depth)
        for kind, write in self._WRITERS.items():
            if isinstance(value, kind):
                return write(self, value, path, depth)
        if is_saveable(type(value)):
            return self._object(value, path, depth)
        raise InputError(
            f"{path} is a {type(value).__module__}.{type(value).__qualname__}, which cannot be saved; save the estimates instead, or "
            "fit with plain values (numbers, text, arrays, tables)."
        )

    def part(self, array: AnyArray, path: str) -> str:
        """Keep one array of numbers under a name made of its path; every array of a file passes here."""
        if id(array) in self._known:
            return self._known[id(array)][1]
        stem = re.sub(r"[^A-Za-z0-9_]+", ".", path)[-150:].strip(".") or "array"
        name = next(
            n for n in itertools.chain([stem], (f"{stem}.{i}" for i in itertools.count(2))) if n not in self.arrays
        )
        self.arrays[name] = array
        self._known[id(array)] = (array, name)  # the array is held, so that its id is not given to another
        return name

    def _items(self, values: Any, path: str, depth: int) -> list[Any]:
        return [self.form(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(values)]

    def _tuple(self, value: tuple[Any, ...], path: str, depth: int) -> Any:
        if type(value) is not tuple:
            raise InputError(f"{path} is a {type(value).__name__}, which cannot be saved; use a frozen dataclass.")
        return {"tuple": self._items(value, path, depth)}

    def _set(self, value: set[Any] | frozenset[Any], path: str, depth: int) -> Any:
        ordered = sorted(value, key=lambda v: (type(v).__name__, v))
        return {"set" if isinstance(value, set) else "frozenset": self._items(ordered, path, depth)}

    def _dict(self, value: Mapping[Any, Any], path: str, depth: int) -> Any:
        return {
            "dict": [
                [self.form(k, f"{path}, key {k!r}", depth + 1), self.form(v, _below(path, k), depth + 1)]
                for k, v in value.items()
            ]
        }

    def _bytes(self, value: bytes, path: str, depth: int) -> Any:
        return {"bytes": self.part(np.frombuffer(value, dtype=np.uint8), path)}

    def _scalar(self, value: np.generic, path: str, depth: int) -> Any:
        if value.dtype.kind not in "biufU":
            return self._array(np.asarray(value), path, depth)
        return {"scalar": [value.dtype.str, self.form(value.item(), path, depth + 1)]}

    def _array(self, value: AnyArray, path: str, depth: int) -> Any:
        kind = value.dtype.kind
        if kind in _NUMERIC:
            made: dict[str, Any] = {"part": self.part(value, path)}
            if value.flags.f_contiguous and not value.flags.c_contiguous:
                made["order"] = "F"  # BLAS takes another path, to other last bits, in the other order
            return {"array": made}
        if kind in _TIMES:
            return {"times": {"part": self.part(value.astype(np.int64), path), "dtype": value.dtype.str}}
        if kind in "UOT":
            items = self._items(value.ravel().tolist(), path, depth)
            return {"objects": {"dtype": value.dtype.str, "shape": list(value.shape), "items": items}}
        raise InputError(
            f"{path} is an array of type {value.dtype}, which cannot be saved; use numbers, text or times."
        )

    def _random(self, value: Any, path: str, depth: int) -> Any:
        state = value.bit_generator.state if isinstance(value, np.random.Generator) else value.get_state(legacy=False)
        return {"random": {"class": type(value).__name__, "state": self.form(state, path, depth + 1)}}

    def _arrow(self, value: Any, path: str, depth: int) -> Any:
        if isinstance(value, pa.Array) and str(value.type) in _SIMPLE:
            return {"values": {"type": str(value.type), "items": self._items(value.to_pylist(), path, depth)}}
        if isinstance(value, pa.Table):
            what, table = "table", value
        elif isinstance(value, pa.Array | pa.ChunkedArray):
            what = "array" if isinstance(value, pa.Array) else "chunked"
            table = pa.table({"values": value})
        else:
            what = "schema" if isinstance(value, pa.Schema) else "type"
            schema = value if isinstance(value, pa.Schema) else pa.schema([("values", value)])
            table = schema.empty_table()
        return {"arrow": {"what": what, "part": self.part(_stream_of(table, path), path)}}

    def _object(self, value: Any, path: str, depth: int) -> Any:
        cls = type(value)
        if hasattr(value, "_as_saved"):
            value = value._as_saved()
        made: dict[str, Any] = {"class": class_path(cls)}
        if _is_estimator(cls):
            params = value.get_params(deep=False)
            left_out = {*params, *getattr(cls, "_unsaved", ()), *_LEFT_OUT}
            state = {n: v for n, v in vars(value).items() if n not in left_out}
            made["params"] = {n: self.form(v, f"{path}.{n}", depth + 1) for n, v in params.items()}
        else:
            state = {n: getattr(value, n) for n in _arguments(cls) or ()}
        made["state"] = {n: self.form(v, f"{path}.{n}", depth + 1) for n, v in state.items()}
        if hasattr(value, "_rows_of_people"):
            self.rows_of_people |= {f"{path}.{n}": rows for n, rows in value._rows_of_people().items() if rows}
        if hasattr(cls, "_never_saves_people"):
            for name, rows in self.rows_of_people.items():
                if name.startswith(f"{path}."):
                    raise InputError(
                        f"{name} holds {rows:,} rows of people, which {cls.__name__} never saves; {cls._never_saves_people}."
                    )
        return {"object": made}

    _WRITERS: Mapping[Any, Callable[..., Any]] = {
        tuple: _tuple,
        set | frozenset: _set,
        dict: _dict,
        bytes: _bytes,
        np.generic: _scalar,
        np.ndarray: _array,
        np.random.Generator | np.random.RandomState: _random,
        pa.Table | pa.Array | pa.ChunkedArray | pa.Schema | pa.DataType: _arrow,
    }


class Reader:
    """Makes values of their JSON forms; anything that no `Writer` wrote raises ValueError, LookupError or TypeError."""

    def __init__(self, arrays: Mapping[str, AnyArray]) -> None:
        self.arrays = arrays
        self._turned: Arrays = {}

    def value(self, form: Any, depth: int = 0) -> Any:
        """Give the value of a form."""
        if depth > DEEPEST + 1:
            raise ValueError("it is nested too deep")
        if form is None or isinstance(form, bool | int | float | str):
            return form
        if isinstance(form, list):
            return [self.value(v, depth + 1) for v in form]
        if len(form) != 1:
            raise ValueError(f"a value has {len(form)} forms")
        (name, content), *_ = form.items()
        if name not in self._READERS:
            raise ValueError(f"{name!r} is not a form of value")
        return self._READERS[name](self, content, depth)

    def _float(self, content: Any, depth: int) -> float:
        return float(content)

    def _tuple(self, content: Any, depth: int) -> tuple[Any, ...]:
        return tuple(self.value(v, depth + 1) for v in content)

    def _set(self, content: Any, depth: int) -> set[Any]:
        return set(self._tuple(content, depth))

    def _frozenset(self, content: Any, depth: int) -> frozenset[Any]:
        return frozenset(self._tuple(content, depth))

    def _dict(self, content: Any, depth: int) -> dict[Any, Any]:
        return {self.value(k, depth + 1): self.value(v, depth + 1) for k, v in content}

    def _bytes(self, content: Any, depth: int) -> bytes:
        return self.arrays[content].tobytes()

    def _scalar(self, content: Any, depth: int) -> Any:
        dtype, item = content
        return np.dtype(dtype).type(self.value(item, depth + 1))

    def _array(self, content: Any, depth: int) -> AnyArray:
        array = self.arrays[content["part"]]
        if content.get("order") != "F":
            return array
        return self._turned.setdefault(content["part"], np.asfortranarray(array))  # one array stays one

    def _times(self, content: Any, depth: int) -> AnyArray:
        dtype = np.dtype(content["dtype"])
        if dtype.kind not in _TIMES:
            raise ValueError(f"{dtype} is not a type of times")
        return self.arrays[content["part"]].astype(dtype)

    def _objects(self, content: Any, depth: int) -> AnyArray:
        items = [self.value(v, depth + 1) for v in content["items"]]
        array = np.empty(len(items), dtype=np.dtype(content["dtype"]))
        array[:] = items if array.dtype.kind != "O" else None
        if array.dtype.kind == "O":
            for i, item in enumerate(items):  # one by one: NumPy would unpack items that are sequences
                array[i] = item
        return array.reshape(content["shape"])

    def _random(self, content: Any, depth: int) -> Any:
        state = self.value(content["state"], depth + 1)
        if state["bit_generator"] not in _GENERATORS:
            raise ValueError(f"{state['bit_generator']!r} is not a random generator of NumPy")
        if content["class"] == "RandomState":
            made = np.random.RandomState()
            made.set_state(state)
            return made
        bits = getattr(np.random, state["bit_generator"])()
        bits.state = state
        return np.random.Generator(bits)

    def _values(self, content: Any, depth: int) -> pa.Array:
        items = [self.value(v, depth + 1) for v in content["items"]]
        return pa.array(items, _SIMPLE[content["type"]], from_pandas=False)

    def _arrow(self, content: Any, depth: int) -> Any:
        with pa.ipc.open_stream(pa.py_buffer(self.arrays[content["part"]].tobytes())) as reader:
            table = reader.read_all()
        table.validate(full=True)
        what = content["what"]
        if what == "table":
            return table
        if what in ("schema", "type"):
            return table.schema if what == "schema" else table.schema.field(0).type
        column = table["values"]
        return column.combine_chunks() if what == "array" else column

    def _object(self, content: Any, depth: int) -> Any:
        cls = find_class(content["class"])
        state = {str(n): self.value(v, depth + 1) for n, v in content["state"].items()}
        if any(not n.isidentifier() or n.startswith("__") for n in state):
            raise ValueError(f"{content['class']} has an attribute that no fit leaves")
        if _is_estimator(cls):
            made = cls(**{n: self.value(v, depth + 1) for n, v in content["params"].items()})
            vars(made).update(state)
        else:
            made = cls(**state)
        if hasattr(made, "_restored"):
            made._restored()
        return made

    _READERS: Mapping[str, Callable[..., Any]] = {
        "float": _float,
        "tuple": _tuple,
        "set": _set,
        "frozenset": _frozenset,
        "dict": _dict,
        "bytes": _bytes,
        "scalar": _scalar,
        "array": _array,
        "times": _times,
        "objects": _objects,
        "random": _random,
        "values": _values,
        "arrow": _arrow,
        "object": _object,
    }


def find_class(path: object) -> Any:
    """Find the class a file names; only frozen dataclasses and estimators inside crosslevel are ever looked up.

    Examples
    --------
    >>> find_class("crosslevel.results.estimates:Estimates").__name__
    'Estimates'
    >>> find_class("os:system")
    Traceback (most recent call last):
    ...
    ValueError: 'os:system' is not a class of crosslevel that can be saved
    """
    found = _PATH.fullmatch(path) if isinstance(path, str) else None
    cls = None
    if found is not None:
        module, name = found.groups()
        try:
            cls = getattr(importlib.import_module(module), name, None)
        except ModuleNotFoundError as error:
            if not module.startswith(str(error.name)):  # an extra of crosslevel is missing, not the module of the class
                raise ValueError(f"{path} needs {error.name}, which is not installed") from error
    if not isinstance(cls, type) or class_path(cls) != path or not is_saveable(cls):
        raise ValueError(f"{path!r} is not a class of crosslevel that can be saved")
    return cls


def _arguments(cls: type) -> tuple[str, ...] | None:
    """Name the attributes that make an object again when given to its class; None where a class is not saved by them."""
    if "_saved" in vars(cls):
        return tuple(vars(cls)["_saved"])
    params = vars(cls).get("__dataclass_params__")
    if params is None or not params.frozen:
        return None
    return tuple(f.name for f in dataclasses.fields(cls) if f.init and f.name not in getattr(cls, "_unsaved", ()))


def _is_estimator(cls: type) -> bool:
    return any(b.__name__ == "BaseEstimator" and b.__module__ == "sklearn.base" for b in cls.__mro__)


def _below(path: str, key: object) -> str:
    return f"{path}[{key!r}]"


def _stream_of(table: pa.Table, path: str) -> AnyArray:
    """Write a table as an Arrow stream: exact for every type of column."""
    plain = pa.Table.from_arrays(table.combine_chunks().columns, schema=_bare(table.schema))
    sink = pa.BufferOutputStream()
    try:
        with pa.ipc.new_stream(sink, plain.schema) as writer:
            writer.write_table(plain)
    except pa.ArrowException as error:
        raise InputError(f"{path} is a table that cannot be saved ({error}); use plain columns.") from error
    return np.frombuffer(sink.getvalue(), dtype=np.uint8)


def _bare(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.remove_metadata() for field in schema])
