"""A gateway process's worth of gateway, on real sockets, made of values instead of tables."""

import asyncio
import dataclasses
import json
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import httpx
import msgspec

from control.gateway.admission.lender import Lender
from control.gateway.http1.listener import Listener
from control.gateway.limits import Limits
from control.gateway.process import sockets
from control.gateway.process.sweep import sweep
from control.gateway.serve import Gateway
from control.gateway.shared import Clock, shared
from control.metering.records import Close, Open, Record, Refused, record_of
from control.metering.spool import SpoolWriter
from control.models.sealing import digest_of
from control.routes.snapshot import (
    FORMAT,
    DeploymentInfo,
    Identities,
    Identity,
    ReplicaInfo,
    Replicas,
    RouteInfo,
    Routes,
    Scope,
    TargetInfo,
)

KEY = "weir-" + "k" * 40
NOWHERE = "redis://127.0.0.1:1/2"  # nothing listens there


class Time:
    """A clock that real time moves, and tests push forward."""

    def __init__(self) -> None:
        self.pushed_seconds = 0.0

    def now(self) -> float:
        return time.monotonic() + self.pushed_seconds

    def wall(self) -> float:
        return time.time() + self.pushed_seconds


def identity(**changes) -> Identity:
    given = {
        "key_id": 9,
        "tenant_id": 1,
        "project_id": 4,
        "tenant": "acme",
        "project": "default",
        "key": "ci",
        "priority": "standard",
        "scopes": (),
        "routes": None,
        "expires_at": None,
    }
    return Identity(**(given | changes))


def target(deployment: str = "d", **changes) -> TargetInfo:
    return TargetInfo(deployment, **({"context_tokens": None, "weight": 100} | changes))


def route(name: str = "chat", *targets: TargetInfo, **changes) -> RouteInfo:
    given = {"stop": (), "output_tokens_default": None, "output_tokens_max": None}
    return RouteInfo(name, 1_700_000_000, **(given | changes), targets=targets or (target(),))


def replica(id_: int, port: int, **changes) -> ReplicaInfo:
    given = {
        "generation": 1,
        "deployment": "d",
        "version_id": 3,
        "host": "127.0.0.1",
        "path": "",
        "tls": False,
        "served_name": "chat",  # as the route: then an answer passes as it came
        "slots": 64,
        "state": "ready",
        "sealed_key": "",
    }
    return ReplicaInfo(id=id_, port=port, **(given | changes))


class Place:
    """`async with Place(tmp_path) as place:` and it listens on `place.port`."""

    def __init__(
        self,
        folder: Path,
        *,
        limits: dict | None = None,
        redis_url: str = NOWHERE,
        processes=1,
        owner: str = "worker-1",
        lender: Lender | None = None,  # for budgets
    ) -> None:
        self.time = Time()
        given = {"counters_seconds": 600} | (limits or {})  # the machine may stand still
        self.limits = dataclasses.replace(Limits(), **given)
        self.spool = SpoolWriter(folder, owner)
        self.shared = shared(
            redis_url=redis_url,
            processes=processes,
            spool=self.spool,
            limits=self.limits,
            clock=Clock(self.time.now, self.time.wall),
            lender=lender,
        )
        self.gateway = Gateway(self.shared)
        self.listener = Listener(self.gateway, self.limits)
        self.identities = {digest_of(KEY): identity()}
        self.know(route())
        self.know_replicas()

    def know(
        self,
        *routes: RouteInfo,
        scopes: dict[str, dict[str, int]] | None = None,
        deployments: Iterable[DeploymentInfo] = (),
    ) -> None:
        made = {id_: Scope(id_, limits) for id_, limits in (scopes or {}).items()}
        keys = {
            digest: msgspec.structs.replace(known, scopes=tuple(made))
            for digest, known in self.identities.items()
        }
        self.gateway.know(
            Identities(FORMAT, 1, keys, made),
            Routes(FORMAT, 1, {r.name: r for r in routes}, {one.name: one for one in deployments}),
        )
        self.gateway.confirm(self.time.now())

    def know_replicas(self, *replicas: ReplicaInfo, keys: dict[int, str] | None = None) -> None:
        self.gateway.know_replicas(Replicas(FORMAT, 1, replicas), keys or {})

    async def __aenter__(self) -> "Place":
        self.port = await self.listener.listen(sockets.listening("127.0.0.1", 0, 1)[0])
        self.url = f"http://127.0.0.1:{self.port}"
        self.sweeping = asyncio.create_task(self._sweep_fast())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.sweeping.cancel()
        self.listener.stop_listening()
        self.listener.close()
        self.shared.slots.close()
        self.shared.replicas.close()
        self.shared.judges.close()
        self.shared.counters.close()
        self.shared.money.close()
        await asyncio.sleep(0)
        self.shared.outbox.flush()
        self.spool.close()

    async def post(
        self, body: object, path: str = "/v1/chat/completions", key: str = KEY, **headers: str
    ) -> "Answer":
        """`body` is sent as it is if it is bytes."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"authorization": f"Bearer {key}", "content-type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        return await self.request("POST", path, content=content, headers=sent)

    def stream(self, body: dict, key: str = KEY, path: str = "/v1/chat/completions") -> "Stream":
        """A call of which a test reads as much as it wants: closed at the end of the block."""
        text = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer {key}\r\ncontent-length: {len(text)}\r\n\r\n"
        )
        return Stream(self.port, head.encode() + text)

    async def get(self, path: str, key: str = KEY) -> "Answer":
        return await self.request("GET", path, headers={"authorization": f"Bearer {key}"})

    async def request(self, method: str, path: str, **how) -> "Answer":
        async with httpx.AsyncClient(timeout=120, verify=False) as client:  # True takes 30 ms
            got = await client.request(method, self.url + path, **how)
        return Answer(got.status_code, dict(got.headers), got.content, got.elapsed.total_seconds())

    def push(self, seconds: float) -> None:
        """Let time pass, and what happens each second happen."""
        self.time.pushed_seconds += seconds
        valkey = self.shared.counters.valkey  # which has had no time to answer meanwhile
        valkey._waiting = deque((at + seconds, then) for at, then in valkey._waiting)
        self.sweep()

    def sweep(self) -> None:
        sweep(self.gateway, self.listener, self.time.now())

    async def _sweep_fast(self) -> None:
        while True:
            await asyncio.sleep(0.02)
            self.sweep()
            for exchange in (self.shared.slots, self.shared.elsewhere, self.shared.retries):
                exchange.sweep(self.time.now())

    def records(self) -> list[Record]:
        self.shared.outbox.flush()  # as the end of this turn of the loop does
        files = sorted(self.spool.folder.glob("*.jsonl"))
        return [record_of(line) for file in files for line in file.read_bytes().splitlines()]

    def opens(self) -> list[Open]:
        return [record for record in self.records() if isinstance(record, Open)]

    def closes(self) -> list[Close]:
        return [record for record in self.records() if isinstance(record, Close)]

    def refusals(self) -> dict[str, int]:
        self.shared.flush_refused()
        refused = [record for record in self.records() if isinstance(record, Refused)]
        return {r.code: sum(o.count for o in refused if o.code == r.code) for r in refused}

    async def until(self, condition, seconds: float = 60) -> None:
        """A hang guard, not a promise."""
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.005)


class Stream:
    """A raw connection: what is sent, and what has come back so far."""

    def __init__(self, port: int, sent: bytes) -> None:
        self._port = port
        self._sent = sent
        self.got = b""

    async def __aenter__(self) -> "Stream":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        self.writer.write(self._sent)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.writer.transport.abort()

    async def until(self, wanted: bytes) -> bytes:
        async with asyncio.timeout(30):
            while wanted not in self.got:
                data = await self.reader.read(65536)
                assert data, f"closed before {wanted!r}: {self.got[-300:]!r}"
                self.got += data
        return self.got

    async def rest(self) -> bytes:
        """All up to the end of the connection."""
        async with asyncio.timeout(30):
            self.got += await self.reader.read(-1)
        return self.got


def chat(text: str = "hello", **members) -> dict:
    return {"model": "chat", "messages": [{"role": "user", "content": text}], **members}


class Answer:
    def __init__(
        self, status: int, headers: dict[str, str], body: bytes, seconds: float = 0.0
    ) -> None:
        self.status, self.headers, self.body, self.seconds = status, headers, body, seconds

    def json(self) -> dict:
        return json.loads(self.body)

    @property
    def error(self) -> dict:
        error = self.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error

    def events(self) -> list[bytes]:
        return [part for part in self.body.split(b"\n\n") if part]

    def text(self) -> str:
        datas = [e.removeprefix(b"data: ") for e in self.events() if e.startswith(b"data: {")]
        chunks = [c for data in datas for c in json.loads(data).get("choices", ())]
        return "".join(c["delta"].get("content") or "" for c in chunks)


def padded(size: int) -> bytes:
    body = b'{"model":"chat","messages":[{"role":"user","content":"x"}]}'
    return body[:-1] + b" " * (size - len(body)) + b"}"


def head_of(length: int, key: str = KEY, more: str = "") -> bytes:
    return (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {length}\r\n{more}\r\n"
    ).encode()
