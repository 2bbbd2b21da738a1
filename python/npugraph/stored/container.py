# SPDX-License-Identifier: Apache-2.0
"""The container of compiled graphs: a header, a description in JSON, and saved Programs. Nothing in it is unpickled.

    magic, version, bytes of the description, bytes of the container, SHA-256 of what follows
    description                       UTF-8, then zeros up to a multiple of 64
    Programs, as ``Artifact.save``    in order, each followed by zeros up to a multiple of 64

All numbers are little-endian. A container is bytes, or a file that ``read`` trusts and ``write`` replaces as a whole.
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

from npugraph.stored.key import MADE_WITH

MAGIC = b"NPUGKEPT"
VERSION = 1
_HEADER = struct.Struct("<8sIIQQ32s")


class Unusable(ValueError):
    """What a container holds must not be used. The message says why."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One Program, and its description as JSON."""

    record: dict[str, Any]
    program: bytes


@dataclasses.dataclass(frozen=True)
class Content:
    """What a container holds. ``meta`` describes it as a whole, and has the facts of ``MADE_WITH``."""

    meta: dict[str, Any]
    entries: tuple[Entry, ...]

    def require_this_build(self) -> None:
        """Raises ``Unusable`` if another build of npugraph or torch, or another kind of machine, made it."""
        for name, here in MADE_WITH.items():
            if self.meta.get(name) != here:
                raise Unusable(f"it was made with {name} {self.meta.get(name)}, and this is {here}")


def pack(meta: dict[str, Any], entries: Sequence[Entry]) -> bytes:
    """Returns a container. Facts of ``MADE_WITH`` that ``meta`` lacks are those of this process."""
    records = [entry.record | {"program_bytes": len(entry.program)} for entry in entries]
    made = {name: fact for name, fact in MADE_WITH.items() if name not in meta}
    content = {"meta": meta | made, "entries": records}
    description = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    parts = b"".join(
        part + bytes(_padded(len(part)) - len(part)) for part in (description, *(e.program for e in entries))
    )
    digest = hashlib.sha256(parts).digest()
    return _HEADER.pack(MAGIC, VERSION, 0, len(description), _HEADER.size + len(parts), digest) + parts


def unpack(data: bytes) -> Content:
    """Returns what a container holds. Raises ``Unusable`` for data that is damaged or of another version."""
    if len(data) < _HEADER.size or data[:8] != MAGIC:
        raise Unusable("it holds no compiled graphs of npugraph")
    _, version, _, description_bytes, size, digest = _HEADER.unpack_from(data)
    if version != VERSION:
        raise Unusable(f"it has version {version} of the format, and this is version {VERSION}")
    if len(data) != size:
        raise Unusable(f"it is damaged: {len(data)} bytes where there should be {size}")
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


def read(path: Path) -> Content:
    """Returns the content of a file. Raises ``FileNotFoundError``, and ``Unusable`` for a file that is damaged, of
    another version, a link, of another user than root, or writable by others."""
    return unpack(_read_trusted(path))


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
    data = pack(meta, entries)
    make_folder(path.parent)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
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
