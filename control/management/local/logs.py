"""What children say: kept in a file of limited size, errors passed on."""

import re
from collections import deque
from pathlib import Path

from django.utils import timezone

FILE_BYTES_MAX = 10 * 1024 * 1024  # and as much again in the file before it
LINE_CHARACTERS_MAX = 4000
LAST_LINES = 20
# Django's and our own loggers say ERROR; PostgreSQL's ERROR is a refusal that somebody handled.
LOUD = re.compile(r"^(ERROR|CRITICAL) |\b(FATAL|PANIC): ")
# Said while a server comes up or goes down, by design.
EXPECTED = re.compile(r"the database system is (starting up|shutting down)|administrator command")


class Log:
    """One child's file, with its last lines at hand for whoever must explain an exit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last: deque[str] = deque(maxlen=LAST_LINES)
        self._file = path.open("a", encoding="utf-8", errors="replace")
        self._bytes = path.stat().st_size
        self._rest = ""

    def feed(self, text: str) -> list[str]:
        """Take what was read, write whole lines, and return those that people should see."""
        lines = (self._rest + text).split("\n")
        self._rest = lines.pop()
        if len(self._rest) > LINE_CHARACTERS_MAX:
            lines.append(self._rest)
            self._rest = ""
        for line in lines:
            self._write(line.rstrip()[:LINE_CHARACTERS_MAX])
        self._file.flush()
        return [line.strip() for line in lines if LOUD.search(line) and not EXPECTED.search(line)]

    def close(self) -> None:
        if self._rest:
            self._write(self._rest)
        self._file.close()

    def _write(self, line: str) -> None:
        self.last.append(line)
        stamped = f"{timezone.now():%Y-%m-%dT%H:%M:%S.%fZ} {line}\n"
        self._bytes += len(stamped)
        if self._bytes > FILE_BYTES_MAX:
            self._file.close()
            self.path.replace(self.path.with_suffix(".log.1"))
            self._file = self.path.open("a", encoding="utf-8", errors="replace")
            self._bytes = len(stamped)
        self._file.write(stamped)
