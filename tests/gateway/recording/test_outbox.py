"""What is written down in one turn of the loop, and what is sent only after it."""

import asyncio
import os

import pytest

from control.gateway.recording.outbox import Outbox
from control.metering.records import Progress
from tests.gateway.place import chat
from tests.gateway.upstream import answered


class Lines:
    """A spool that takes the first `room` lines."""

    def __init__(self, room: int = 99) -> None:
        self.room = room
        self.writes: list[list[bytes]] = []

    def append_lines(self, lines: list[bytes]) -> int:
        self.writes.append(lines)
        return min(len(lines), self.room)


def progress(number: int) -> Progress:
    return Progress(f"req_{number}", number, 0, number)


async def test_records_of_one_turn_are_one_write_and_what_waits_for_them_comes_after():
    lines = Lines()
    outbox, told = Outbox(lines), []
    for number in range(3):
        outbox.add(progress(number), lambda written: told.append((written, len(lines.writes))))
    outbox.add(progress(3))
    assert not lines.writes
    await asyncio.sleep(0)
    assert [len(write) for write in lines.writes] == [4]
    assert told == [(True, 1)] * 3
    await asyncio.sleep(0)
    assert len(lines.writes) == 1


async def test_only_those_whose_record_was_taken_may_go_on():
    outbox, told = Outbox(Lines(room=1)), []
    for number in range(3):
        outbox.add(progress(number), told.append)
    outbox.flush()
    assert told == [True, False, False]


async def test_one_that_fails_to_go_on_stops_no_other():
    outbox, told = Outbox(Lines()), []
    outbox.add(progress(0), lambda written: 1 / 0)
    outbox.add(progress(1), told.append)
    outbox.flush()
    assert told == [True]


@pytest.mark.parametrize("fault", ["nothing is taken", "the disk is full"])
async def test_a_call_that_cannot_be_written_down_is_refused_and_not_sent(
    place, engines, monkeypatch, fault
):
    engine = await engines(answered("fine", 7, 3))
    real = os.write

    def write(file: int, data: bytes) -> int:
        if fault == "the disk is full":
            raise OSError(28, "No space left on device")
        return real(file, data[:10])

    monkeypatch.setattr("control.metering.spool.os.write", write)
    got = await place.post(chat())
    monkeypatch.setattr("control.metering.spool.os.write", real)
    assert (got.status, got.error["code"]) == (503, "gateway_not_ready")
    assert not engine.seen
    assert not place.shared.calls
    assert (await place.post(chat())).status == 200
    assert len(place.closes()) == 1
