"""Lines of a spool are read by their beginnings: what that finds is what decoding each would."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.metering.backlog import read, remember
from control.metering.contents import content_hash, hashes_of_lines
from control.metering.records import Close, Open, Progress, line_of
from control.metering.segments import read_lines
from control.telemetry.traces import Trace, Try

AT = 1_796_000_000.25
OF_A_CALL = (1, 2, 3, "chat-small", 4, 7, "chat", True, "standard")
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


def opened(call_id: str) -> Open:
    return Open(call_id, *OF_A_CALL, AT, 130)


def closed(call_id: str, **changes) -> Close:
    told = (1, "complete", 200, "stop", 100, 20, 50, 0, 50, "engine", AT, AT + 0.2, AT + 1)
    return msgspec.structs.replace(Close(call_id, *OF_A_CALL, *told), **changes)


def written(tmp_path, *lines: bytes) -> None:
    (tmp_path / "00000001.jsonl").write_bytes(b"".join(lines))


@given(
    close=st.builds(
        closed,
        TEXTS,
        route=TEXTS,
        outcome=st.sampled_from(["complete", "lost", "rejected"]),
        finish_reason=TEXTS,
        ended_at=st.floats(AT, AT + 1e6),
        cached_source=st.sampled_from(["", "estimated"]),
        flags=st.lists(TEXTS, max_size=2).map(tuple),
        tries=st.just(()) | st.just((Try(7, "ended_at", 1, 2, 3, 4, "engine"),)),
        trace=st.none() | st.just(Trace(kept="slow", stages={"ended_at": 1, "read": 2})),
        choices=st.integers(1, 2),
        untold=st.integers(0, 1),
    )
)
def test_the_hash_of_a_line_is_that_of_what_it_says(close):
    hashes, rich = hashes_of_lines([line_of(close)], [close])
    assert hashes == [content_hash(close)]
    as_default = dict(zip(close.__struct_fields__[-7:], close.__struct_defaults__, strict=True))
    assert (rich == []) is (close == msgspec.structs.replace(close, **as_default))


def test_of_a_call_that_ended_only_the_end_is_left(tmp_path):
    one, two, three = "req_1", 'req_"2', "req_é"
    written(
        tmp_path,
        *(line_of(opened(call)) for call in (one, two, three)),
        *(
            line_of(Progress(call, 100, 20, number))
            for number, call in enumerate((one, two, three))
        ),
        line_of(closed(two)),
        line_of(Progress(three, 100, 20, 9)),
        line_of(closed(one)),
    )
    batch = read(tmp_path, True, 100)
    assert [close.call_id for close in batch.closes] == [two, one]
    assert batch.hashes == [content_hash(close) for close in batch.closes]
    [(name, left)] = batch.after.calls.items()
    assert (name, left.open, left.progress) == (three, opened(three), Progress(three, 100, 20, 9))
    assert (batch.lines, batch.bad, batch.rich) == (9, [], [])


@pytest.mark.parametrize("cut", [(1, 4), (2, 3), (3, 2), (4, 1)])
def test_it_is_the_same_in_two_batches(tmp_path, cut):
    lines = (opened("req_1"), opened("req_2"), Progress("req_1", 100, 20, 5), closed("req_1"))
    written(tmp_path, *map(line_of, lines), line_of(Progress("req_2", 100, 20, 6)))
    found = []
    for count in cut:
        batch = read(tmp_path, True, count)
        remember(tmp_path, batch.after)
        found += batch.closes
    assert found == [closed("req_1")]
    [left] = batch.after.calls.values()
    assert (left.open, left.progress) == (opened("req_2"), Progress("req_2", 100, 20, 6))


def test_what_another_maker_wrote_is_read_as_ours(tmp_path):
    spaced = msgspec.json.format(line_of(closed("req_1")).strip(), indent=-1)
    spaced = spaced.replace(b'":', b'" : ') + b"\n"
    other = msgspec.json.encode({"call_id": "req_2", "type": "open"}) + b"\n"
    reordered = msgspec.json.decode(line_of(opened("req_3")))
    reordered = msgspec.json.encode(dict(reversed(reordered.items()))) + b"\n"
    written(tmp_path, spaced, other, reordered, b"\n")
    batch = read(tmp_path, True, 100)
    assert (batch.closes, batch.hashes) == ([closed("req_1")], [content_hash(closed("req_1"))])
    assert list(batch.after.calls) == ["req_3"]
    assert [line for _, line in batch.bad] == [other]


def test_a_call_whose_end_cannot_be_read_stays_open(tmp_path):
    torn = line_of(closed("req_1"))[:-9] + b"\n"
    written(
        tmp_path, line_of(opened("req_1")), line_of(opened("req_2")), torn, line_of(closed("req_2"))
    )
    batch = read(tmp_path, True, 100)
    assert [close.call_id for close in batch.closes] == ["req_2"]
    assert list(batch.after.calls) == ["req_1"]
    assert [(path.name, line) for path, line in batch.bad] == [("00000001.jsonl", torn)]


def test_a_line_that_is_written_while_it_is_read_is_left_whole(tmp_path):
    path = tmp_path / "00000001.jsonl"
    path.write_bytes(b"first\nsec")
    reading = read_lines(path)
    assert next(reading) == [b"first\n"]
    with path.open("ab") as file:
        file.write(b"ond\nthird\n")
    assert list(reading) == []
    assert list(read_lines(path, len(b"first\n"))) == [[b"second\n", b"third\n"]]
