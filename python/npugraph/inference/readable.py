# SPDX-License-Identifier: Apache-2.0
"""The files of ``cache_compile`` as text."""

from __future__ import annotations

import os
from pathlib import Path

from npugraph.stored import container
from npugraph.stored.container import Entry


def readable_cache(
    cache_bin: str | os.PathLike[str], print_output: bool = True, file: str | os.PathLike[str] | None = None
) -> str:
    """Returns the text of a ``compiled_module``. It says what the file was made with, and shows for each graph the
    conditions of its use, what becomes of its outputs, its Python code, and its Program. The text is printed unless
    ``print_output`` is False, and written to ``file`` if one is given. Raises ``FileNotFoundError`` if there is no
    such cache, ``ValueError`` for a cache that is not to be trusted, and for symbolic links, also as ``file``."""
    path = Path(cache_bin)
    try:
        content = container.read(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no cache {path}") from None
    except container.Unusable as reason:
        raise ValueError(f"cannot read the cache {path}: {reason}") from None
    lines = [f"# {name}: {value}" for name, value in content.meta.items()]
    text = "\n".join([*lines, "", *(_of_entry(i, entry) for i, entry in enumerate(content.entries))])
    if file is not None:
        _write(Path(file), text)
    if print_output:
        print(text)
    return text


def _of_entry(number: int, entry: Entry) -> str:
    record = entry.record
    conditions = [
        f"#   {kind} of {source}{_detail(detail)} is {wanted}" for kind, source, wanted, detail in record["conditions"]
    ]
    parts = {
        "Traced from": [f"#   {source} {digest}" for source, digest in record["sources"].items()],
        "Used where": conditions,
        "What becomes of the outputs of the graph": [record["result"]],
        "The graph": [record["graph"]],
        "Its Program": [_program_text(entry.program)],
    }
    return "\n".join([f"# Graph {number}", *(f"\n# {title}:\n" + "\n".join(body) for title, body in parts.items()), ""])


def _detail(detail: object) -> str:
    return "" if detail is None else f" ({detail})"


def _program_text(program: bytes) -> str:
    """Returns the text form inside of a saved Program (src/core/program/file_format.h)."""
    metadata_bytes, text_bytes = (int.from_bytes(program[at : at + 8], "little") for at in (16, 24))
    begin = 64 + metadata_bytes
    return program[begin : begin + text_bytes].decode(errors="replace")


def _write(path: Path, text: str) -> None:
    if path.is_symlink():
        raise ValueError(f"cannot write to {path}: it is a symbolic link")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as out:
        out.write(text)
