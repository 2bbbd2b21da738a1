# SPDX-License-Identifier: Apache-2.0
"""Files of compiled graphs: a header, a description in JSON, and saved Programs. Nothing in them is unpickled.

    magic, version, bytes of the description, bytes of the file, SHA-256 of what follows
    description                       UTF-8, then zeros up to a multiple of 64
    Programs, as ``Artifact.save``    in order, each followed by zeros up to a multiple of 64

All numbers are little-endian.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import stat
import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

MAGIC = b"NPUGINFC"
VERSION = 1
_HEADER = struct.Struct("<8sIIQQ32s")


class Unusable(Exception):
    """A file must not be used. The message says why."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One compiled graph: its description as JSON, and its Program."""

    record: dict[str, Any]
    program: bytes


@dataclasses.dataclass(frozen=True)
class Content:
    """The content of a file. ``meta`` describes the file as a whole."""

    meta: dict[str, Any]
    entries: tuple[Entry, ...]


def read(path: Path) -> Content:
    """Returns the content of a file. Raises ``FileNotFoundError``, and ``Unusable`` for a file that is damaged, of
    another version, a link, of another user than root, or writable by others."""
    data = _read_trusted(path)
    if len(data) < _HEADER.size or data[:8] != MAGIC:
        raise Unusable("it is no cache of npugraph")
    _, version, _, description_bytes, file_bytes, digest = _HEADER.unpack_from(data)
    if version != VERSION:
        raise Unusable(f"it has version {version} of the format, and this is version {VERSION}")
    if len(data) != file_bytes:
        raise Unusable(f"it is damaged: {len(data)} bytes where there should be {file_bytes}")
    if hashlib.sha256(memoryview(data)[_HEADER.size :]).digest() != digest:
        raise Unusable("it is damaged: the checksum does not match")
    return _parse(data, description_bytes)


def _parse(data: bytes, description_bytes: int) -> Content:
    try:
        description = json.loads(data[_HEADER.size : _HEADER.size + description_bytes])
        at = _HEADER.size + _padded(description_bytes)
        entries = []
        for record in description["entries"]:
            size = record.pop("program_bytes")
            entries.append(Entry(record, data[at : at + size]))
            at += _padded(size)
        return Content(description["meta"], tuple(entries))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unusable(f"its description cannot be read: {error!r}") from None


def _read_trusted(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        link = "it is a symbolic link" if path.is_symlink() else error.strerror
        raise Unusable(str(link)) from None
    with open(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise Unusable("it is no regular file")
        if facts.st_uid not in (os.geteuid(), 0):
            raise Unusable(f"it belongs to user {facts.st_uid}, and this process runs as user {os.geteuid()}")
        if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise Unusable("other users may write to it")
        return file.read()


def write(path: Path, meta: dict[str, Any], entries: Sequence[Entry]) -> None:
    """Replaces the file atomically, with mode 0600. Raises ``OSError``."""
    records = [entry.record | {"program_bytes": len(entry.program)} for entry in entries]
    description = json.dumps({"meta": meta, "entries": records}, ensure_ascii=False, separators=(",", ":")).encode()
    parts = b"".join(
        part + bytes(_padded(len(part)) - len(part)) for part in (description, *(e.program for e in entries))
    )
    digest = hashlib.sha256(parts).digest()
    header = _HEADER.pack(MAGIC, VERSION, 0, len(description), _HEADER.size + len(parts), digest)
    make_folder(path.parent)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with open(descriptor, "wb") as file:
            file.write(header)
            file.write(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def make_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def set_aside(path: Path) -> Path | None:
    """Renames a file that must not be used, and returns its new path, or None if that is not allowed."""
    kept = path.with_name(f"{path.name}.broken")
    try:
        os.replace(path, kept)
    except OSError:
        return None
    return kept


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lets only one process at a time inside, if the file system supports locks. A folder that cannot be written needs
    no protection, and no lock is taken there."""
    try:
        make_folder(path.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path.with_name(f"{path.name}.lock"), flags, 0o600)
    except OSError:
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _padded(count: int) -> int:
    return (count + 63) // 64 * 64
