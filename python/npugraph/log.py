# SPDX-License-Identifier: Apache-2.0
"""The logger of the whole package. ``logger.setLevel(logging.INFO)`` shows on stdout what is compiled, and
``logging.DEBUG`` what each step does, also which nodes each pass added and removed. ``logger.setLevel(EVENT)`` shows
how long the phases of compiles took."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any, TextIO

from npugraph.python_versions import LEVEL_OF_CALLER

EVENT = 35
logging.addLevelName(EVENT, "EVENT")

# By the value of TNG_LOG_LEVEL. Events are printed at all of them, and at 4 there is nothing else.
_LEVELS = {
    "0": logging.DEBUG,
    "1": logging.INFO,
    "2": logging.WARNING,
    "3": logging.ERROR,
    "4": logging.CRITICAL + 1,
}


class _Format(logging.Formatter):
    """Records as Ascend's tools write them: level, process and program, time to the microsecond, file and line, the
    thread as the system numbers it, and the text. For example
    ``[INFO] TORCHAIR(17,python):2026-05-19 10:20:30.123.456 [model.py:40]18 text``."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        microseconds = int(record.created % 1 * 1e6)
        day = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        return f"{day}.{microseconds // 1000:03}.{microseconds % 1000:03}"

    def formatMessage(self, record: logging.LogRecord) -> str:
        origin = f"TORCHAIR({record.process},{os.path.basename(sys.executable)}):{self.formatTime(record)}"
        place = f"[{record.filename}:{record.lineno}]{threading.get_native_id()}"
        return f"[{record.levelname}] {origin} {place} {record.message}"


class _Console(logging.StreamHandler):  # generic since Python 3.11
    """Writes to the ``sys.stdout`` of the moment, because programs replace it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(_Format())

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stdout


class Logger(logging.Logger):
    """A logger that prints its records on ``console``, whether there are other handlers or not: those of its own level
    and above, or, if it has none, those of ``console_level`` and above, and events if ``console_events`` is True. It
    can also write all messages to a file, whatever its own level and those of other loggers are."""

    console: logging.Handler
    console_level: int
    console_events: bool
    file: logging.FileHandler | None = None
    _file_lock = threading.Lock()  # for changes of ``file``

    def write_to(self, path: str | os.PathLike[str] | None) -> None:
        """Appends messages of all levels to the file ``path`` until the next call. None ends this."""
        wanted = None if path is None else os.path.abspath(path)
        with self._file_lock:
            before = self.file
            if before is not None and before.baseFilename == wanted:
                return
            file = None if wanted is None else logging.FileHandler(wanted, delay=True)
            if file is not None:
                file.setFormatter(logging.Formatter("[%(levelname)s] %(message)s"))
            self.file = file
            if before is not None:
                before.close()  # a thread that still has it opens it again

    def is_asked_for(self, level: int) -> bool:
        """Whether somebody asked this logger, and not all loggers, for such records: by its own level, by TNG_LOG_LEVEL
        or by a file."""
        return self.file is not None or self._is_printed(level)

    def event(self, message: str, *args: Any) -> None:
        """Logs with level EVENT, but only if somebody asked for it. EVENT is above WARNING, and records of WARNING and
        above are shown unasked."""
        if self.is_asked_for(EVENT):
            self._log(EVENT, message, args, stacklevel=LEVEL_OF_CALLER)

    def phases(self, name: str, phases: Iterable[tuple[str, float]]) -> None:
        """Logs an event for each phase of the compile of ``name``, with its milliseconds. The C++ half prints those
        that TNG_LOG_LEVEL alone asks for."""
        if (self.file is None and self.level == logging.NOTSET) or not self.is_asked_for(EVENT):
            return
        for phase, milliseconds in phases:
            self._log(EVENT, "%s: %s took %.3f ms", (name, phase, milliseconds), stacklevel=LEVEL_OF_CALLER)

    def isEnabledFor(self, level: int) -> bool:
        return self.file is not None or self._is_printed(level) or super().isEnabledFor(level)

    def handle(self, record: logging.LogRecord) -> None:
        file = self.file  # another thread may change it
        if file is not None:
            file.handle(record)
        super().handle(record)

    def callHandlers(self, record: logging.LogRecord) -> None:
        is_printed = self._is_printed(record.levelno)
        if is_printed:
            self.console.handle(record)
        shown = record.levelno != EVENT or self.level != logging.NOTSET
        # Without handlers, logging writes to stderr. What the console has printed needs no second line.
        if shown and super().isEnabledFor(record.levelno) and (self.hasHandlers() or not is_printed):
            super().callHandlers(record)

    def _is_printed(self, level: int) -> bool:
        if self.level == logging.NOTSET:
            is_wanted = self.console_events if level == EVENT else level >= self.console_level
        else:
            is_wanted = level >= self.level
        return is_wanted and level > self.manager.disable and not self.disabled


logger: Logger = logging.getLogger("npugraph")  # type: ignore[assignment]
# The C++ half may have made the logger before, with the class of logging.
logger.__class__ = Logger
logger.console = _Console()
_level = os.environ.get("TNG_LOG_LEVEL", "")
logger.console_level = _LEVELS.get(_level, logging.ERROR)
logger.console_events = _level in _LEVELS
