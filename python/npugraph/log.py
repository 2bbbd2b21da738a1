# SPDX-License-Identifier: Apache-2.0
"""The logger of the whole package. ``logger.setLevel(logging.DEBUG)`` shows what each step does, also which nodes each
pass added and removed. ``logger.setLevel(EVENT)`` shows how long the phases of compiles took."""

from __future__ import annotations

import logging
import os
from typing import Any

EVENT = 35
logging.addLevelName(EVENT, "EVENT")


class Logger(logging.Logger):
    """A logger that can also write all messages to a file, whatever its own level and those of other loggers are."""

    file: logging.FileHandler | None = None

    def write_to(self, path: str | os.PathLike[str] | None) -> None:
        """Appends messages of all levels to the file ``path`` until the next call. None ends this."""
        wanted = None if path is None else os.path.abspath(path)
        if self.file is not None and self.file.baseFilename == wanted:
            return
        if self.file is not None:
            self.file.close()
        self.file = None if wanted is None else logging.FileHandler(wanted, delay=True)
        if self.file is not None:
            self.file.setFormatter(logging.Formatter("[%(levelname)s] %(message)s"))

    def is_asked_for(self, level: int) -> bool:
        """Whether somebody asked this logger, and not all loggers, for such records: by its own level or by a file."""
        return self.file is not None or (self.level != logging.NOTSET and self.isEnabledFor(level))

    def event(self, message: str, *args: Any) -> None:
        """Logs with level EVENT, but only if somebody asked for it. EVENT is above WARNING, and records of WARNING and
        above are shown unasked."""
        if self.is_asked_for(EVENT):
            self._log(EVENT, message, args)

    def isEnabledFor(self, level: int) -> bool:
        return self.file is not None or super().isEnabledFor(level)

    def handle(self, record: logging.LogRecord) -> None:
        if self.file is not None:
            self.file.handle(record)
        shown = record.levelno != EVENT or self.level != logging.NOTSET
        if shown and super().isEnabledFor(record.levelno):
            super().handle(record)


logger: Logger = logging.getLogger("npugraph")  # type: ignore[assignment]
# The C++ half may have made the logger before, with the class of logging.
logger.__class__ = Logger
