"""The journal of calls: nothing appended is lost, a torn end disturbs nobody."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from control.metering.backlog import Remembered, lines_left, remember
from control.metering.records import LINE_BYTES_MAX, Progress, Refused, line_of, record_of
from control.metering.segments import OwnerTaken, owners, read_lines, segments
from control.metering.spool import Bounds, SpoolClosed, SpoolWriter


def progress(number: int) -> Progress:
    return Progress(
        call_id=f"req_{number}", input_tokens=number, cached_input_tokens=0, output_tokens=1
    )


def records(folder: Path) -> list:
    return [record_of(line) for path in segments(folder) for line in lines_of(path)]


def lines_of(path: Path, offset: int = 0) -> list[bytes]:
    return [line for lines in read_lines(path, offset) for line in lines]


def test_a_record_is_in_the_file_when_append_returns(tmp_path):
    writer = SpoolWriter(tmp_path, "gw-1")
    writer.append(progress(1))
    assert records(tmp_path / "gw-1") == [progress(1)]
    assert owners(tmp_path) == ["gw-1"]
    writer.close()


def test_m04_kill_9_loses_no_appended_record(tmp_path):
    script = (
        "import sys, pathlib; from control.metering.records import Progress\n"
        "from control.metering.spool import SpoolWriter\n"
        "writer = SpoolWriter(pathlib.Path(sys.argv[1]), 'gw-1')\n"
        "for n in range(200):\n"
        "    writer.append(Progress(f'req_{n}', n, 0, 1))\n"
        "sys.stdout.write('written\\n'); sys.stdout.flush(); sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout.readline() == b"written\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert records(tmp_path / "gw-1") == [progress(n) for n in range(200)]


def test_segments_rotate_by_size_and_keep_their_order(tmp_path):
    writer = SpoolWriter(tmp_path, "gw-1", segment_bytes_max=300)
    for number in range(20):
        writer.append(progress(number))
    writer.close()
    assert len(segments(tmp_path / "gw-1")) > 3
    assert records(tmp_path / "gw-1") == [progress(n) for n in range(20)]


def test_segments_rotate_by_age(tmp_path):
    now = [0.0]
    writer = SpoolWriter(tmp_path, "gw-1", clock=lambda: now[0])
    writer.append(progress(1))
    now[0] = 61.0
    writer.append(progress(2))
    writer.close()
    assert len(segments(tmp_path / "gw-1")) == 2


def test_an_owner_that_comes_back_never_writes_into_an_old_segment(tmp_path):
    for number in (1, 2):
        writer = SpoolWriter(tmp_path, "gw-1")
        writer.append(progress(number))
        writer.close()
    assert [path.name for path in segments(tmp_path / "gw-1")] == [
        "00000001.jsonl",
        "00000002.jsonl",
    ]


def test_a_torn_last_line_waits_for_its_end(tmp_path):
    writer = SpoolWriter(tmp_path, "gw-1")
    writer.append(progress(1))
    writer.close()
    [path] = segments(tmp_path / "gw-1")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-5])
    assert lines_of(path) == [whole]
    assert record_of(whole) == progress(1)
    path.write_bytes(whole + whole)
    assert lines_of(path, len(whole)) == [whole]


def test_what_cannot_be_read_is_a_line_without_a_record(tmp_path):
    path = tmp_path / "1.jsonl"
    path.write_bytes(b'{"type":"nonsense"}\n\xff\xfe\n\n' + b"x" * (LINE_BYTES_MAX + 5) + b"\n")
    lines = lines_of(path)
    assert [record_of(line) for line in lines if line != b"\n"] == [None] * 4
    assert b"".join(lines) == path.read_bytes()


def test_nothing_is_taken_after_close(tmp_path):
    writer = SpoolWriter(tmp_path, "gw-1")
    writer.close()
    writer.close()
    with pytest.raises(SpoolClosed):
        writer.append(progress(1))


def test_a_spool_nobody_ships_runs_out_of_room_but_still_ends_admitted_calls(tmp_path):
    writer = SpoolWriter(tmp_path, "gw-1", bounds=Bounds(bytes=100), segment_bytes_max=50)
    assert writer.has_room
    writer.append(progress(1))
    writer.append(progress(2))
    writer.close()
    assert not writer.has_room
    assert records(tmp_path / "gw-1") == [progress(1), progress(2)]


def test_a_disk_that_fills_up_tears_one_line_only(tmp_path, monkeypatch):
    writer = SpoolWriter(tmp_path, "gw-1")
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:10]))
    with pytest.raises(OSError, match="the disk did not take"):
        writer.append(progress(1))
    monkeypatch.setattr(os, "write", real)
    writer.append(progress(2))
    writer.close()
    assert records(tmp_path / "gw-1") == [None, progress(2)]


def test_lines_written_together_count_as_far_as_the_disk_took_them(tmp_path, monkeypatch):
    writer = SpoolWriter(tmp_path, "gw-1")
    lines = [line_of(progress(number)) for number in (1, 2, 3)]
    assert writer.append_lines(lines) == 3
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[: len(lines[0]) + 10]))
    assert writer.append_lines(lines) == 1
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[: len(lines[0])]))
    assert writer.append_lines(lines) == 1
    monkeypatch.setattr(os, "write", real)
    assert writer.append_lines(lines[2:]) == 1
    writer.close()
    written = [*map(progress, (1, 2, 3, 1)), None, *map(progress, (1, 3))]
    assert records(tmp_path / "gw-1") == written


def test_oversized_records_are_refused(tmp_path):
    writer = SpoolWriter(tmp_path, "gw-1")
    with pytest.raises(ValueError, match="the most is"):
        writer.append(Refused("t" * LINE_BYTES_MAX, None, "code", 0, 1))
    writer.close()


def test_two_processes_never_write_under_one_name(tmp_path, monkeypatch):
    monkeypatch.setattr("control.metering.segments.CLAIM_TRIES", 2)
    writer = SpoolWriter(tmp_path, "gw-1")
    with pytest.raises(OwnerTaken):
        SpoolWriter(tmp_path, "gw-1")
    writer.close()
    SpoolWriter(tmp_path, "gw-1").close()


@pytest.mark.parametrize(
    ("bounds", "room"),
    [
        (Bounds(), True),
        (Bounds(bytes=1), False),
        (Bounds(events=7), True),  # so few bytes are not counted
        (Bounds(events=6, bytes_uncounted=1), False),
        (Bounds(events=7, bytes_uncounted=1), True),
    ],
)
def test_the_spools_of_all_owners_are_bounded_together(tmp_path, bounds, room):
    for owner in ("gw-1", "gw-2"):
        writer = SpoolWriter(tmp_path, owner, segment_bytes_max=100)
        for number in range(3):
            writer.append(progress(number))
        writer.close()
    assert bounds.leave_room(tmp_path) is room


def test_lines_behind_the_shipped_position_are_counted_as_they_come(tmp_path):
    writer = SpoolWriter(tmp_path, "gw-1")
    for number in range(5):
        writer.append(progress(number))
        assert lines_left(tmp_path / "gw-1") == number + 1
    [path] = segments(tmp_path / "gw-1")
    two = b"".join(lines_of(path)[:2])
    remember(tmp_path / "gw-1", Remembered(int(path.stem), len(two)))
    assert lines_left(tmp_path / "gw-1") == 3
    writer.close()
