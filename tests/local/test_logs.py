"""What children say is kept, within limits, and errors are passed on."""

import pytest

from control.management.local import logs
from control.management.local.logs import Log


def test_lines_are_written_whole_with_their_time(tmp_path):
    log = Log(tmp_path / "web.log")
    log.feed("half ")
    log.feed("a line\nand more")
    log.close()
    first, second = (tmp_path / "web.log").read_text().splitlines()
    assert first.endswith("Z half a line")
    assert second.endswith("Z and more")


def test_a_full_file_makes_room_and_two_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "FILE_BYTES_MAX", 1000)
    log = Log(tmp_path / "web.log")
    for number in range(100):
        log.feed(f"line {number}\n")
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["web.log", "web.log.1"]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2000
    assert list(log.last)[-1] == "line 99"


def test_a_line_without_end_is_cut(tmp_path):
    log = Log(tmp_path / "web.log")
    log.feed("x" * 100_000)
    assert len(log.last[0]) == logs.LINE_CHARACTERS_MAX


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("ERROR control.reconcile: no plan", True),
        ("CRITICAL gateway: no socket", True),
        ("2026-11-29 FATAL:  could not open file", True),
        ("WARNING control.reconcile: late", False),
        ("2026-11-29 ERROR:  duplicate key value violates unique constraint", False),
        ("2026-11-29 FATAL:  the database system is starting up", False),
        ("FATAL:  terminating connection due to administrator command", False),
    ],
)
def test_which_lines_people_see(tmp_path, line, shown):
    assert Log(tmp_path / "x.log").feed(line + "\n") == ([line] if shown else [])
