"""Save and load: one zip of a manifest and plain arrays, no pickle.

A file holds ``manifest.json`` (``format`` "crosslevel", ``format_version``, ``crosslevel`` the version that wrote it, ``rows_of_people``
how many rows of single people it holds, ``object`` in the form of `crosslevel.results.state`, and size and SHA-256 of each array) and
``arrays/NAME.npy``. The same object gives the same bytes. A file that is damaged anywhere is refused; reading one never runs code from it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import struct
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from crosslevel.data.atomic import whole_file
from crosslevel.data.signatures import checked
from crosslevel.errors import CrosslevelWarning, FileError, InputError
from crosslevel.results.provenance import installed_version
from crosslevel.results.state import Reader, Writer, is_saveable
from crosslevel.typing import AnyArray

FORMAT = "crosslevel"
FORMAT_VERSION = 2
MANIFEST = "manifest.json"

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold; the same for every file, so bytes are too
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NUMERIC = "biufc"  # numpy kinds: everything but objects, text and records
_EXPANDS_TO = 2**30  # bytes an archive may always unpack to, however small it is
_EXPANDS_BY = 50  # beyond that, times its own size: a bound on zip bombs that no real model meets
_MANIFEST_TO = 64 * 2**20  # bytes a manifest may unpack to; a larger one is stored as it is, so that it never expands
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,  # "encrypted", and unknown compression, which is a NotImplementedError
    ValueError,
    LookupError,
    OverflowError,
)


@checked
def save(obj: object, path: str | os.PathLike[str], *, allow_rows: bool | None = None) -> None:
    """Write a fitted model or a result into one file that :func:`load` reads.

    Parameters
    ----------
    obj : object
        A fitted estimator of crosslevel, :class:`~crosslevel.Estimates` or :class:`~crosslevel.Embeddings`.
    path : path
        The file; ``.crosslevel`` is the usual suffix. It appears whole or not at all.
    allow_rows : bool, optional
        Whether the file may hold rows of single people where a method cannot do without them: the distinct rows of :class:`KRLS
        <crosslevel.KRLS>` and :class:`~crosslevel.CrossLevelImputer`, landmarks that are people. False refuses such a model and says what
        it holds; when not given, a warning says it. The file's manifest has their number as ``rows_of_people``. People of an ecological
        inference are never saved.

    Examples
    --------
    >>> import tempfile
    >>> from crosslevel.results import Estimates, Provenance
    >>> est = Estimates.build(
    ...     {"place": ["a"], "estimate": [0.5]}, keys=["place"], method="example", level=None, interval="none",
    ...     provenance=Provenance.of(call="example()"),
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(est, f"{folder}/answer.crosslevel")
    ...     load(f"{folder}/answer.crosslevel").equals(est)
    True
    """
    if not is_saveable(type(obj)):
        raise InputError(
            f"obj is a {type(obj).__name__}, which cannot be saved; pass a fitted estimator of crosslevel, Estimates or Embeddings."
        )
    if hasattr(obj, "get_params"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(obj)
    writer = Writer()
    form = writer.form(obj, type(obj).__name__)
    if writer.rows_of_people and not allow_rows:
        name, rows = next(iter(writer.rows_of_people.items()))
        said = f"{name} holds {rows:,} rows of people, without which {type(obj).__name__} does not answer"
        if allow_rows is False:
            raise InputError(f"allow_rows=False, and {said}; save its estimates instead, or pass allow_rows=True.")
        warnings.warn(
            f"{said}: whoever has the file has them. Pass allow_rows=True if that is meant, False to refuse.",
            CrosslevelWarning,
            stacklevel=3,
        )
    members = {f"arrays/{name}.npy": _to_npy(array) for name, array in writer.arrays.items()}
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "crosslevel": installed_version(),
        "rows_of_people": sum(writer.rows_of_people.values()),
        "object": form,
        "members": {name: {"bytes": len(data), "sha256": _digest(data)} for name, data in members.items()},
    }
    text = json.dumps(manifest, ensure_ascii=False, allow_nan=False).encode()
    try:
        with whole_file(path) as beside, zipfile.ZipFile(beside, "w") as archive:
            for name, data in {MANIFEST: text, **members}.items():
                info = zipfile.ZipInfo(name, _EPOCH)
                info.create_system = 3  # otherwise the bytes tell the operating system
                info.external_attr = 0o644 << 16
                plain = name == MANIFEST and len(data) > _MANIFEST_TO
                archive.writestr(info, data, zipfile.ZIP_STORED if plain else zipfile.ZIP_DEFLATED, 6)
    except OSError as error:
        raise FileError(
            f"{os.fspath(path)} cannot be written ({error.strerror or error}); choose another place."
        ) from error


@checked
def load(path: str | os.PathLike[str]) -> Any:
    """Read what :func:`save` wrote.

    Parameters
    ----------
    path : path
        A file written by this or an older version of crosslevel.
    """
    source = Path(path)
    try:
        if not source.is_file():
            what = "is a folder" if source.is_dir() else "does not exist"
            raise FileError(f"{source} {what}; name a file written by crosslevel.save.")
        with source.open("rb") as file, zipfile.ZipFile(file) as archive:
            manifest, arrays = _read(archive, source)
    except FileError:
        raise
    except MemoryError as error:
        raise FileError(f"{source} holds more than this machine's memory; load it on a larger one.") from error
    except _ZIP_ERRORS as error:
        raise _not_a_zip(source, error) from error
    try:
        return Reader(arrays).value(manifest["object"])
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, NotImplementedError, OSError) as error:
        raise FileError(
            f"{source} does not hold a whole object ({error}), or one of another version of crosslevel: it was written by "
            f"{manifest.get('crosslevel')} and this is {installed_version()}. Save it again from the original."
        ) from error


def _read(archive: zipfile.ZipFile, source: Path) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    infos = {info.filename: info for info in archive.infolist()}
    if MANIFEST not in infos:
        raise FileError(
            f"{source} is a zip without {MANIFEST}, so crosslevel did not write it; pass a file made by crosslevel.save."
        )
    _check_sizes(archive, source)
    manifest = _read_manifest(archive.read(infos.pop(MANIFEST)), source)
    members = manifest["members"]
    if missing := sorted(set(members) - set(infos)):
        raise FileError(f"{source} lacks its part {missing[0]!r}; it is damaged. Copy or save it again.")
    if unexpected := sorted(set(infos) - set(members)):
        raise FileError(
            f"{source} has a part {unexpected[0]!r} that crosslevel did not write; save it again from the original."
        )
    arrays = {}
    for name, stated in members.items():
        if infos[name].file_size != stated["bytes"]:
            raise FileError(f"{source}: the part {name!r} has not the size it was written with; copy or save it again.")
        data = archive.read(infos[name])
        if _digest(data) != stated["sha256"]:
            raise FileError(
                f"{source}: the part {name!r} has changed since it was written (checksum); copy or save it again."
            )
        arrays[name.removeprefix("arrays/").removesuffix(".npy")] = _from_npy(data, name, source)
    return manifest, arrays


def _check_sizes(archive: zipfile.ZipFile, source: Path) -> None:
    infos = archive.infolist()
    total = sum(info.file_size for info in infos)
    limit = max(_EXPANDS_TO, _EXPANDS_BY * source.stat().st_size)
    if total > limit:
        raise FileError(
            f"{source} claims to unpack to {total:,} bytes, which no saved model does; do not trust this file."
        )
    manifest = sum(info.file_size for info in infos if info.filename == MANIFEST)
    if manifest > max(_MANIFEST_TO, source.stat().st_size):
        raise FileError(
            f"{source}: {MANIFEST} claims to unpack to {manifest:,} bytes, which no saved model does; do not trust this file."
        )
    if len({info.filename for info in infos}) < len(infos):
        raise FileError(f"{source} has two parts of one name, so crosslevel did not write it; do not trust this file.")
    for info in infos:
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 0x1:
            raise FileError(
                f"{source}: the part {info.filename!r} is packed in a way crosslevel does not use; save it again."
            )


def _read_manifest(text: bytes, source: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{source}: {MANIFEST} cannot be read ({error}); save it again from the original.") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FileError(f"{source} was not written by crosslevel; pass a file made by crosslevel.save.")
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        raise FileError(
            f"{source} has format version {version!r}, written by crosslevel {manifest.get('crosslevel')}; this is "
            f"{installed_version()}, which reads version {FORMAT_VERSION}: upgrade crosslevel, or save it again from the original."
        )
    members = manifest.get("members", ())
    whole = isinstance(members, dict) and isinstance(manifest.get("object"), dict)
    if not whole or not all(isinstance(m, dict) and {"bytes", "sha256"} <= set(m) for m in members.values()):
        raise FileError(f"{source}: {MANIFEST} is not complete; save it again from the original.")
    if odd := [n for n in members if not re.fullmatch(rf"arrays/{_NAME.pattern}\.npy", n)]:
        raise FileError(f"{source} has a part {odd[0]!r} that crosslevel did not write; do not trust this file.")
    return manifest


def _to_npy(values: AnyArray) -> bytes:
    buffer = io.BytesIO()
    little = values.astype(values.dtype.newbyteorder("<"), order="C", copy=False)
    np.lib.format.write_array(
        buffer, np.ascontiguousarray(little).reshape(values.shape), version=(1, 0), allow_pickle=False
    )
    return buffer.getvalue()


def _from_npy(data: bytes, name: str, source: Path) -> AnyArray:
    """Read one array, refusing a header that promises more than the bytes hold (NumPy would allocate it first)."""
    buffer = io.BytesIO(data)
    try:
        if np.lib.format.read_magic(buffer) != (1, 0):
            raise ValueError("unknown version")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(buffer)
        if dtype.kind not in _NUMERIC or fortran or any(n < 0 for n in shape):
            raise ValueError(f"unexpected layout {dtype} {shape}")
        array = np.frombuffer(data, dtype=dtype, offset=buffer.tell()).reshape(shape)
    except ValueError as error:
        raise FileError(
            f"{source}: the part {name!r} is not an array crosslevel wrote ({error}); save it again."
        ) from error
    return array.astype(dtype.newbyteorder("="))  # also a copy, so that it can be written to


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _not_a_zip(source: Path, error: BaseException) -> FileError:
    try:
        with source.open("rb") as file:
            head = file.read(2)
    except OSError as refused:
        return FileError(f"{source} cannot be read ({refused.strerror or refused}); check its name and permissions.")
    if not head:
        return FileError(f"{source} is empty; save it again.")
    if head != b"PK":
        return FileError(f"{source} is not a crosslevel file (not a zip); pass a file made by crosslevel.save.")
    return FileError(f"{source} is truncated or damaged ({error}); copy or save it again.")
