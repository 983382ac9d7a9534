"""Cases of the field about what must stand nowhere: keys in what we keep, others' text in heads."""

import asyncio
import statistics
import time

import pytest

from control.gateway.errors import Refusal
from control.gateway.http1.heads import Head
from control.gateway.http1.request import Request
from control.gateway.recording import metrics
from control.metering.records import line_of
from control.telemetry.logs import JsonFormatter, LineFormatter
from tests.gateway.place import KEY, Place, Stream, chat, identity, padded, route
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


def raising(*given: object) -> None:
    """A fault of ours that meets what a caller sent, and what an engine's address may hold."""
    raise ValueError(
        f"cannot read https://u:{SECRET}@engine/?key={SECRET}, authorization: Bearer {SECRET}"
    )


async def test_k03_a_fault_of_the_gateway_repeats_no_credential(place, engines, caplog):
    await engines()
    place.gateway._world = place.gateway._world._replace(terms=raising, footings={})
    answer = await place.post(chat())
    assert (answer.status, answer.error["code"]) == (500, "internal_error")
    records = [record for record in caplog.records if record.exc_info]
    assert records
    logged = [
        formatter.format(record)
        for record in caplog.records
        for formatter in (JsonFormatter(), LineFormatter())
    ]
    place.shared.flush_refused()
    kept = [line_of(record).decode() for record in place.records()]
    told = metrics.text(metrics.total([place.shared.tally]))
    for text in (*logged, *kept, told, f"{answer.body} {answer.headers}"):
        assert SECRET not in text
        assert KEY not in text


TIMES, TRIES = 1000, 5
UNLIKE = 0.10


def refusal_seconds(place: Place, key: str) -> float:
    head = Head()
    head.method, head.path = "POST", "/v1/chat/completions"
    head.headers = {b"authorization": f"Bearer {key}".encode()}
    request = Request("req_1", 0.0, "127.0.0.1", head)
    begun = time.perf_counter()
    try:
        place.gateway.judge_head(request)
    except Refusal:
        return time.perf_counter() - begun
    raise AssertionError("it was let in")


@pytest.mark.parametrize("known", [{}, {"expires_at": 1.0}], ids=["blocked", "expired"])
async def test_k03_a_refusal_takes_as_long_as_that_of_an_unknown_key(tmp_path, known):
    """In turn, so that what else the machine does is the same for both; a difference stays."""
    async with Place(tmp_path, limits={"strangers_per_minute": 10**9}) as place:
        blocked, unknown = KEY, KEY[:-1] + "u"
        place.identities = {d: identity(**known) for d in place.identities} if known else {}
        place.know(route())
        tries = (medians(place, blocked, unknown) for _ in range(TRIES))
        assert any(abs(one - other) <= UNLIKE * max(one, other) for one, other in tries)


def medians(place, blocked, unknown):
    """Seconds to refuse each."""
    pairs = [
        (refusal_seconds(place, blocked), refusal_seconds(place, unknown)) for _ in range(TIMES)
    ]
    return [statistics.median(times) for times in zip(*pairs, strict=True)]


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
