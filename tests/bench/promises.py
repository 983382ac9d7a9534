"""What the gateway promises in seconds: of a revoked key, of an abandoned stream."""

import http.client
import json
import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor

from tests.bench.place import Place
from tests.bench.targets import KEY, SECOND, Server

IN_A_ROW = 20  # with a connection for each, both processes have answered so by then
ABANDONED = 5
TOKEN_MS = 50  # of an abandoned stream
LEFT_AFTER_SECONDS = 0.225  # between two tokens: one under way is sent, and never read by anybody
HANG_SECONDS = 180  # processes take their time to start on a busy machine


def revocation_seconds(place: Place, server: Server) -> float:
    """From the change in the tables until no process takes the key any more."""
    _until_all(server, 200)
    with ThreadPoolExecutor(1) as pool:
        revoked: Future[str] = pool.submit(place.run, "revoke()")
        last_served_at = _until_all(server, 401)
        at = float(revoked.result())
    return round(max(last_served_at - at, 0.0), 3)


def _until_all(server: Server, status: int) -> float:
    """When the key was served last, before all processes answer with `status`."""
    in_a_row, served_at, deadline = 0, 0.0, time.monotonic() + HANG_SECONDS
    while in_a_row < IN_A_ROW:
        if time.monotonic() > deadline:
            raise SystemExit(f"not all processes answer the second key with {status}")
        got = _status(server, SECOND)
        in_a_row = in_a_row + 1 if got == status else 0
        served_at = time.time() if got == 200 else served_at
    return served_at


def abort_seconds(server: Server, upstream: Server) -> float:
    """From a tenant's leaving to the engine's seeing its connection closed; the longest."""
    waits = []
    for _ in range(ABANDONED):
        before = stats(upstream)["aborted"]
        with socket.create_connection(("127.0.0.1", server.port)) as tenant:
            tenant.sendall(request_of({"stream": True, "seed": TOKEN_MS, "max_tokens": 1000}))
            tenant.recv(4096)
            time.sleep(LEFT_AFTER_SECONDS)
        left_ms, deadline = time.monotonic() * 1000, time.monotonic() + HANG_SECONDS
        while (seen := stats(upstream))["aborted"] == before and time.monotonic() < deadline:
            time.sleep(0.02)
        if seen["aborted"] == before:
            raise SystemExit("an abandoned stream goes on")
        waits.append(max(seen["aborted_ms"] - left_ms, 0.0) / 1000)
    return round(max(waits), 3)


def stats(upstream: Server) -> dict[str, int]:
    connection = http.client.HTTPConnection("127.0.0.1", upstream.port, timeout=HANG_SECONDS)
    connection.request("GET", "/stats")
    found = json.loads(connection.getresponse().read())
    connection.close()
    return found


def request_of(members: dict, *, model: str = "bench", key: str = KEY) -> bytes:
    """As raw HTTP. The prompt is that of a support desk."""
    system = "You are a careful assistant of a support desk. Answer briefly and cite the article. "
    body = {
        "model": model,
        "messages": [
            {"role": "system", "content": system * 4},
            {"role": "user", "content": "How do I reset my password without my phone?"},
        ],
        "max_tokens": 64,
        "temperature": 0.7,
        **members,
    }
    text = json.dumps(body).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: bench\r\n"
        f"accept: */*\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(text)}\r\n\r\n"
    )
    return head.encode() + text


def _status(server: Server, key: str) -> int:
    """Of GET /v1/models, which costs no call."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG_SECONDS)
    connection.request("GET", "/v1/models", headers={"authorization": f"Bearer {key}"})
    status = connection.getresponse().status
    connection.close()
    return status
