# SPDX-License-Identifier: Apache-2.0
"""The display of the demo while it works: a progress bar over named stages, and text that grows token by token."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, TextIO

REFRESH_SECONDS = 0.2


class Progress:
    """A bar over a known number of stages on a terminal; one line per finished stage elsewhere."""

    def __init__(self, stages: int, file: TextIO | None = None) -> None:
        self.file = file or sys.stderr
        self.bar = self.make_bar(stages) if self.file.isatty() else None
        self.done = threading.Event()
        if self.bar is not None:
            threading.Thread(target=self.refresh, daemon=True).start()

    def make_bar(self, stages: int) -> Any:
        from tqdm import tqdm

        layout = "{desc:<32}|{bar:30}| {n_fmt}/{total_fmt} [{elapsed}]"
        return tqdm(total=stages, bar_format=layout, file=self.file, leave=False, disable=False)

    def refresh(self) -> None:
        """Keeps the elapsed time running while a stage computes."""
        while not self.done.wait(REFRESH_SECONDS):
            self.bar.refresh()

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Shows ``name`` while the body runs and counts it as done afterwards."""
        start = time.perf_counter()
        if self.bar is not None:
            self.bar.set_description_str(name)
        else:
            print(f"{name} ... ", end="", file=self.file, flush=True)
        yield
        if self.bar is not None:
            self.bar.update()
        else:
            print(f"{time.perf_counter() - start:.1f} s", file=self.file, flush=True)

    def close(self) -> None:
        self.done.set()
        if self.bar is not None:
            self.bar.close()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class TokenPrinter:
    """Prints text as its tokens come, but holds back the bytes of an unfinished character."""

    def __init__(self, tokenizer: Any, file: TextIO | None = None) -> None:
        self.tokenizer = tokenizer
        self.file = file or sys.stdout
        self.tokens: list[int] = []
        self.shown = 0

    def add(self, token: int) -> None:
        self.tokens.append(token)
        text = self.text()
        if not text.endswith("\N{REPLACEMENT CHARACTER}"):
            self.show(text)

    def end(self) -> None:
        self.show(self.text())
        print(file=self.file, flush=True)

    def text(self) -> str:
        return self.tokenizer.decode(self.tokens, skip_special_tokens=True)

    def show(self, text: str) -> None:
        print(text[self.shown :], end="", file=self.file, flush=True)
        self.shown = len(text)
