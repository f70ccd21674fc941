from __future__ import annotations

import dataclasses
import json
import sys
import types
import zipfile

import numpy as np
import pyarrow as pa
import pytest

import crosslevel
from crosslevel.errors import FileError, InputError
from crosslevel.results import files, load, save


@pytest.fixture
def box(monkeypatch):
    """The smallest thing that can be saved: a frozen dataclass that lives inside crosslevel."""
    made = dataclasses.make_dataclass("Box", ["value"], frozen=True, eq=False)
    made.__module__ = "crosslevel.results.box"
    monkeypatch.setitem(sys.modules, made.__module__, types.SimpleNamespace(Box=made))
    return made


def rewrite(path, change=lambda manifest, parts: None):
    """Write a saved file again after a change to its manifest and parts."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(parts.pop("manifest.json"))
    change(manifest, parts)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {"manifest.json": json.dumps(manifest).encode(), **parts}.items():
            archive.writestr(name, data)


def test_round_trip_is_exact(rich, tmp_path):
    save(rich, tmp_path / "a.crosslevel")
    back = load(tmp_path / "a.crosslevel")
    assert back.equals(rich)
    assert back.draws.flags.writeable
    assert back.units["ward"].tolist() == [2**53 + 1, -(2**62)]
    assert back.table.to_pylist() == rich.table.to_pylist()


def test_empty_table_round_trip(build, tmp_path):
    est = build({"place": [], "estimate": [], "word": np.array([], "U1"), "n": np.array([], int)}, units=build())
    save(est, tmp_path / "a")
    assert load(tmp_path / "a").equals(est)


def test_public_names_and_suffix(build, tmp_path):
    crosslevel.save(build(), str(tmp_path / "answer.zip"))
    assert crosslevel.load(str(tmp_path / "answer.zip")).equals(build())


def test_bytes_are_the_same_every_time(rich, tmp_path, monkeypatch):
    save(rich, tmp_path / "a")
    monkeypatch.setattr("time.time", lambda: 2e9)
    save(load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_nothing_in_the_file_is_pickled(rich, tmp_path):
    save(rich, tmp_path / "a")
    with zipfile.ZipFile(tmp_path / "a") as archive:
        manifest = json.loads(archive.read("manifest.json"))
        for name in archive.namelist()[1:]:
            with archive.open(name) as part:
                np.lib.format.read_array(part, allow_pickle=False)
    assert {k: manifest[k] for k in ("format", "format_version", "crosslevel")} == {
        "format": "crosslevel",
        "format_version": files.FORMAT_VERSION,
        "crosslevel": crosslevel.__version__,
    }
    assert manifest["object"]["object"]["class"] == "crosslevel.results.estimates:Estimates"


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(6.0)[::2],
        np.arange(3, dtype=">i4"),
        np.array(2.5),
        np.zeros((0, 4)),
        np.array([1 + 2j]),
        np.array([True, False]),
        np.array([np.nan, np.inf, -0.0]),
        np.array([1.5], np.float32),
    ],
    ids=lambda a: f"{a.dtype}-{a.shape}",
)
def test_arrays_of_any_number_round_trip(box, tmp_path, array):
    save(box({"x y-z/0": array}), tmp_path / "a")
    back = load(tmp_path / "a").value["x y-z/0"]
    assert back.dtype == array.dtype.newbyteorder("=")
    assert back.shape == array.shape
    np.testing.assert_array_equal(back, array)
    assert back.flags.f_contiguous == array.flags.f_contiguous or not array.flags.forc
    assert back.tobytes() == np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))).tobytes()


def test_the_byte_order_of_the_machine_does_not_show(box, tmp_path):
    save(box(np.arange(3, dtype="<i4")), tmp_path / "a")
    save(box(np.arange(3, dtype=">i4")), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


VALUES = [
    None, True, 3, 2**80, 0.1, -0.0, float("nan"), float("-inf"), "é\x00", b"\x00\xff", (), (1, (2.0, "a")), [1, [None]], {"a": 1, 2: (3,)},
    {("a", 1): {"b": [2]}}, {3, 1}, frozenset({"b", "a"}), np.float32(0.1), np.int64(7), np.bool_(True), np.str_("x"), np.float64("nan"),
    np.array(["a", "été"]), np.array(["a", None, 2, (1, 2)], dtype=object), np.array(["2020-01-01", "NaT"], "M8[D]"),
    np.zeros((0, 2), "U3"),
    pa.table({"a": [1, None], "b": ["x", "y"]}), pa.table({"d": pa.array(["u", "v", "u"]).dictionary_encode()}), pa.array([1.5, None]),
    pa.array([1, None], pa.int32()), pa.chunked_array([["a"], ["b", None]]), pa.schema([("a", pa.date32())]), pa.large_string(),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=[f"{i}-{type(v).__name__}" for i, v in enumerate(VALUES)])
def test_values_of_any_kind_round_trip(box, tmp_path, value):
    save(box(value), tmp_path / "a")
    back = load(tmp_path / "a").value
    assert type(back) is type(value)
    if hasattr(value, "equals"):
        assert back.equals(value)
    elif isinstance(value, np.ndarray):
        assert (back.dtype, back.shape, back.tolist()) == (value.dtype, value.shape, value.tolist())
    elif isinstance(value, set | frozenset):  # their order in print depends on the hashes of this process
        assert back == value
    else:
        assert repr(back) == repr(value)
    save(load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_random_generators_go_on_where_they_were(box, tmp_path, make):
    rng = make(3)
    rng.normal(size=3)
    save(box(rng), tmp_path / "a")
    np.testing.assert_array_equal(load(tmp_path / "a").value.normal(size=5), rng.normal(size=5))


def test_one_array_in_two_places_is_written_once(box, tmp_path):
    array = np.arange(4.0)
    save(box({"a": array, "b": [array], "c": array.copy()}), tmp_path / "a")
    with zipfile.ZipFile(tmp_path / "a") as archive:
        assert len(archive.namelist()) == 3
    back = load(tmp_path / "a").value
    np.testing.assert_array_equal(back["b"][0], array)


def test_a_class_says_what_is_kept_and_how_it_comes_back(box, tmp_path):
    box._unsaved = ("value",)
    with pytest.raises(FileError):
        save(box(1), tmp_path / "a")
        load(tmp_path / "a")
    del box._unsaved
    box._as_saved = lambda self: type(self)(self.value + 1)
    box._restored = lambda self: object.__setattr__(self, "seen", self.value * 10)
    save(box(1), tmp_path / "a")
    assert load(tmp_path / "a").seen == 20


def test_what_cannot_be_saved_is_refused_and_leaves_no_file(box, build, tmp_path):
    with pytest.raises(InputError):
        save({"a": 1}, tmp_path / "a")
    with pytest.raises(InputError):
        save(box({"x": [1, object()]}), tmp_path / "a")
    with pytest.raises(InputError):
        save(box(lambda x: x), tmp_path / "a")
    with pytest.raises(InputError):
        save(box(np.zeros(2, [("a", float)])), tmp_path / "a")
    ring: list[object] = []
    ring.append(ring)
    with pytest.raises(InputError):
        save(box(ring), tmp_path / "a")
    with pytest.raises(FileError):
        save(build(), tmp_path / "none" / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_keeps_the_old_file(box, build, tmp_path, monkeypatch):
    save(build(), tmp_path / "a")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(FileError):
        save(build(title="new"), tmp_path / "a")
    assert load(tmp_path / "a").equals(build())
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_every_damaged_byte_is_noticed(build, tmp_path):
    """Any one byte changed: the same estimates or a FileError, never other numbers and never another exception."""
    est = build(units=build({"w": ["é", None], "estimate": [1.5, 2.5]}, keys=["w"]), draws=[[0.5, 0.25]])
    path = tmp_path / "a"
    save(est, path)
    whole = path.read_bytes()
    refused = 0
    for position in range(len(whole)):
        change = (0x01, 0xFF, whole[position] or 0x80)[position % 3]  # a low bit, all bits, or to zero
        path.write_bytes(whole[:position] + bytes([whole[position] ^ change]) + whole[position + 1 :])
        try:
            assert load(path).equals(est)
        except FileError:
            refused += 1
    assert refused > len(whole) / 2


def test_every_truncation_is_noticed(build, tmp_path):
    path = tmp_path / "a"
    save(build(), path)
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(FileError):
            load(path)


def test_random_blocks_of_noise_are_noticed(rich, tmp_path):
    rng = np.random.default_rng(3)
    path = tmp_path / "a"
    save(rich, path)
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    refused = 0
    for _ in range(200):
        noisy = whole.copy()
        start, size = int(rng.integers(len(whole))), int(rng.integers(2, 200))
        noisy[start : start + size] = rng.integers(0, 256, len(noisy[start : start + size]))
        path.write_bytes(noisy.tobytes())
        try:
            assert load(path).equals(rich)
        except FileError:
            refused += 1
    assert refused > 100


TABLE, DRAWS = "arrays/Estimates.table.npy", "arrays/Estimates.draws.npy"


def _without(name):
    return lambda manifest, parts: parts.pop(name)


def _plus_one(manifest, parts):
    parts[DRAWS] = parts[DRAWS][:-1] + b"\x00"


def _object(change):
    return lambda manifest, parts: change(manifest["object"]["object"])


def _deep(manifest, parts):
    for _ in range(100):
        manifest["object"] = {"tuple": [manifest["object"]]}


@pytest.mark.parametrize(
    "change",
    [
        lambda m, p: m.update(format_version=3, crosslevel="9.1"),
        lambda m, p: m.update(format_version=1),
        lambda m, p: m.update(format_version="2"),
        lambda m, p: m.update(format="zip"),
        lambda m, p: m.pop("members"),
        lambda m, p: m.update(object=3),
        lambda m, p: m["members"].update({TABLE: 3}),
        _without(TABLE),
        _plus_one,
        lambda m, p: p.update({DRAWS: b""}),
        lambda m, p: p.update({"extra.py": b"import os"}),
        lambda m, p: m["members"].update({"../../x.npy": {"bytes": 0, "sha256": ""}}),
        lambda m, p: m.update(object={"wormhole": 1}),
        lambda m, p: m.update(object={"tuple": [], "dict": []}),
        _deep,
        _object(lambda o: o.update({"class": "crosslevel.results.estimates:Wormhole"})),
        _object(lambda o: o.update({"class": "crosslevel.nowhere.at_all:X"})),
        _object(lambda o: o.update({"class": "crosslevel.__main__:app"})),
        _object(lambda o: o.update({"class": "crosslevel.cli.app:sys"})),
        _object(lambda o: o.update({"class": "crosslevel.errors:InputError"})),
        _object(lambda o: o.update({"class": "os:system"})),
        _object(lambda o: o.update({"class": ["Estimates"]})),
        _object(lambda o: o["state"].pop("table")),
        _object(lambda o: o["state"].update(other=1)),
        _object(lambda o: o["state"].update({"__class__": 1})),
        _object(lambda o: o["state"].update(keys={"tuple": ["nobody"]})),
        _object(lambda o: o["state"].update(level=2.0)),
        _object(lambda o: o["state"].update(provenance=3)),
        _object(lambda o: o["state"].update(draws={"array": {"part": "x"}})),
    ],
)
def test_files_that_are_not_ours_get_a_sentence(build, tmp_path, change):
    path = tmp_path / "a.crosslevel"
    est = build(draws=[[0.5, 0.25]])
    save(est, path)
    rewrite(path)
    assert load(path).equals(est)
    rewrite(path, change)
    with pytest.raises(FileError) as raised:
        load(path)
    assert "a.crosslevel" in str(raised.value)


def _forge(manifest, parts, array):
    name = "arrays/Box.value.npy"
    parts[name] = array
    manifest["members"] = {name: {"bytes": len(array), "sha256": files._digest(array)}}


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f8', 'fortran_order': True, 'shape': (1, 1), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
        "__import__('os').system('true')",
    ],
)
def test_forged_arrays_are_refused_before_they_cost_memory(box, tmp_path, header):
    path = tmp_path / "a"
    save(box(np.ones(1)), path)
    text = header.encode().ljust(117) + b"\n"
    array = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"\x80\x04N." * 2
    rewrite(path, lambda m, p: _forge(m, p, array))
    with pytest.raises(FileError):
        load(path)


def test_absurd_sizes_are_refused(build, tmp_path, monkeypatch):
    path = tmp_path / "a"
    save(build(), path)
    monkeypatch.setattr(files, "_EXPANDS_TO", 1000)
    monkeypatch.setattr(files, "_EXPANDS_BY", 0.1)
    with pytest.raises(FileError):
        load(path)


def test_a_manifest_that_unpacks_to_far_more_than_the_file_is_not_read(build, tmp_path, monkeypatch):
    path = tmp_path / "a"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b" " * (65 * 2**20))
    read = []
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: read.append(1))
    with pytest.raises(FileError):
        load(path)
    assert not read


def test_a_large_manifest_that_save_wrote_is_read(box, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_MANIFEST_TO", 1000)
    save(box("a" * 5000), tmp_path / "a")
    assert load(tmp_path / "a").value == "a" * 5000


def test_two_parts_of_one_name_are_refused(build, tmp_path):
    path = tmp_path / "a"
    save(build(), path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("manifest.json", "{}")
    with pytest.raises(FileError):
        load(path)


def test_files_that_are_no_zip_get_a_sentence(tmp_path):
    path = tmp_path / "a.csv"
    with pytest.raises(FileError):
        load(path)
    with pytest.raises(FileError):
        load(tmp_path)
    path.write_text("place,estimate\n")
    with pytest.raises(FileError):
        load(path)
    path.write_bytes(b"")
    with pytest.raises(FileError):
        load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "x")
    with pytest.raises(FileError):
        load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", "[" * 100_000)
    with pytest.raises(FileError):
        load(path)
