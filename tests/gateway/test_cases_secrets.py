"""Cases of the field about what must stand nowhere: keys in what we keep, others' text in heads."""

import asyncio

import pytest

from control.gateway import metrics
from control.metering.spool import line_of
from control.telemetry.logs import JsonFormatter, LineFormatter
from tests.gateway.place import KEY, Stream, chat, padded, route
from tests.gateway.upstream import error

SECRET = "abcSECRET123"
CREDENTIALS = (
    {"authorization": f"Bearer {SECRET}"},
    {"authorization": SECRET},
    {"authorization": f"Basic {SECRET}"},
    {"x-api-key": SECRET},
    {"cookie": f"session={SECRET}"},
    {"authorization": f"Bearer {KEY}", "x-api-key": SECRET, "proxy-authorization": SECRET},
)


async def test_k03_no_log_metric_record_or_answer_holds_a_credential(place, engines, caplog):
    caplog.set_level("DEBUG")
    place.know(route(sample=1.0))
    await engines(error(500, f"no connection to https://u:{SECRET}@engine/?key={SECRET}"))
    for headers in CREDENTIALS:
        for path in ("/v1/chat/completions", f"/v1/chat/completions?api_key={SECRET}"):
            sent = {"content-type": "application/json", **headers}
            answer = await place.request("POST", path, json=chat(), headers=sent)
            assert answer.status in (401, 502)
            assert SECRET not in f"{answer.body} {answer.headers}"
    assert place.closes()
    place.shared.flush_refused()
    kept = b"".join(line_of(record) for record in place.records()).decode()
    told = metrics.text(metrics.total([place.shared.tally]))
    logged = "".join(
        formatter.format(record)
        for record in caplog.records
        for formatter in (JsonFormatter(), LineFormatter())
    )
    for text in (kept, told, logged):
        assert SECRET not in text
        assert KEY not in text


HEAD = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("req_mine", 200),
        ("a%0d%0aset-cookie: x=1", 200),
        ("x" * 10_000, 200),
        ("\u00e9\u4ef7", 200),
        ("a\rset-cookie: x=1", 400),
        ("a\x00b", 400),
    ],
)
async def test_h06_a_callers_request_id_is_never_ours_and_splits_nothing(
    place, engines, given, status
):
    engine = await engines()
    body = padded(100)
    head = f"{HEAD}authorization: Bearer {KEY}\r\nx-request-id: {given}\r\n"
    sent = f"{head}connection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    async with asyncio.timeout(30), Stream(place.port, sent) as stream:
        answer = await stream.rest()
    lines = answer.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert lines[0].split()[1] == str(status).encode()
    [ours] = [line for line in lines if line.startswith(b"x-request-id: ")]
    assert ours.startswith(b"x-request-id: req_")
    assert len(ours) == len("x-request-id: req_") + 32
    assert not [line for line in lines if line.lower().startswith(b"set-cookie")]
    for seen in engine.seen:
        assert seen.head.lower().count("x-request-id") == 1
        assert given[:20].lower() not in seen.head.lower()
        assert "set-cookie" not in seen.head.lower()
    assert len(engine.seen) == (status == 200)
