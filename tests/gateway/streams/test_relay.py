"""What passes through a stream, what is taken out of it, and how it is judged."""

import json
from pathlib import Path

import pytest

from control.gateway.streams import relay
from control.states import Outcome

STREAMS = json.loads((Path(__file__).parents[2] / "cases" / "streams.json").read_text())
STATUS = {
    "ok": Outcome.COMPLETE,
    "truncated": Outcome.TRUNCATED,
    "incomplete": Outcome.INCOMPLETE,
    "error": Outcome.UPSTREAM_ERROR,
}


def reader(**changes) -> relay.Reader:
    given = {"include_usage": False, "running_usage": False, "choices": 1}
    return relay.Reader(**(given | changes), event_bytes_max=1 << 20)


def play(name: str, split: str | int, **changes) -> tuple[bytes, relay.Reader]:
    stream = bytes.fromhex(STREAMS[name]["hex"])
    run = reader(**changes)
    size = 1 if split == 1 else len(stream) if split == "whole" else 97
    out = b""
    for at in range(0, len(stream), size):
        out += b"".join(piece.data for piece in run.feed(stream[at : at + size]))
    return out + b"".join(piece.data for piece in run.finish()), run


def chunks_of(out: bytes) -> list[dict]:
    text = out.decode().replace("\r\n", "\n").replace("\r", "\n")
    datas = []
    for block in text.split("\n\n"):
        lines = [line.removeprefix("data:") for line in block.split("\n") if line]
        if lines:
            datas.append("\n".join(lines).strip())
    return [json.loads(data) for data in datas if data and data != "[DONE]"]


@pytest.mark.parametrize("split", [1, 97, "whole"])
@pytest.mark.parametrize("name", sorted(STREAMS))
def test_every_stream_of_the_field_is_read_however_it_is_cut(name, split):
    expect = STREAMS[name]["expect"]
    out, run = play(name, split, choices=2 if name == "S12-a" else 1)
    assert run.outcome() == STATUS[expect["status"]]
    if expect["usage"]:
        assert [run.usage().input, run.usage().output] == expect["usage"]
    else:
        assert run.usage() is None
    assert {str(index): reason for index, reason in run.finished.items()} == expect["finish"]
    text = ""
    for chunk in chunks_of(out):
        assert "usage" not in chunk
        assert chunk["choices"]
        text += "".join(c["delta"].get("content") or "" for c in chunk["choices"])
    assert text == expect.get("content", "aXYb")
    assert "\ufffd" not in out.decode()
    assert out.count(b"[DONE]") == (expect["status"] in ("ok", "incomplete"))
