"""An upstream that answers raw bytes as it is told, and remembers what it was asked."""

import asyncio
import json
import re
import socket
import struct
from dataclasses import dataclass, field


@dataclass
class Script:
    """One answer. `split`: bytes of the body per write (0: all at once), or `frame`: an event.

    `end`: fin, rst or hold.

    `before` is held before the head is sent, `gate` is waited for before each write of the body.
    """

    body: bytes = b""
    status: int = 200
    content_type: str = "text/event-stream"
    split: int | str = 0
    end: str = "fin"
    head: bool = True
    hold: asyncio.Event | bool | None = None
    gate: asyncio.Semaphore | None = None
    paced: bool = False
    chunked: bool = False  # each event a chunk of HTTP, and the connection is kept


@dataclass
class Seen:
    head: str
    body: dict
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    written: int = 0  # writes of the body that were made


def event(data: dict | str) -> bytes:
    return b"data: " + (data if isinstance(data, str) else json.dumps(data)).encode() + b"\n\n"


def chunk(text: str | None = None, *, finish=None, index=0, role=False, usage=None) -> bytes:
    delta = {"role": "assistant", "content": ""} if role else {}
    if text is not None:
        delta["content"] = text
    data = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": index, "delta": delta, "finish_reason": finish}],
    }
    if usage:
        data["usage"] = usage_of(*usage)
    return event(data)


def usage_of(tokens_in: int, tokens_out: int) -> dict:
    total = tokens_in + tokens_out
    return {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": total}


def usage_chunk(tokens_in: int, tokens_out: int) -> bytes:
    data = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return event({**data, "choices": [], "usage": usage_of(tokens_in, tokens_out)})


DONE = event("[DONE]")


def streamed(*texts: str, tokens_in: int = 7, **changes) -> Script:
    """A whole good stream, a token a text."""
    parts = [chunk(role=True)]
    parts += [chunk(text, usage=(tokens_in, n)) for n, text in enumerate(texts, 1)]
    parts += [chunk(finish="stop"), usage_chunk(tokens_in, len(texts)), DONE]
    return Script(b"".join(parts), **changes)


def embedded(tokens_in: int = 7, **changes) -> Script:
    """A vector of one number."""
    vector = {"object": "embedding", "index": 0, "embedding": [0.5]}
    usage = {"prompt_tokens": tokens_in, "total_tokens": tokens_in}
    body = {"object": "list", "model": "m", "data": [vector], "usage": usage}
    return Script(json.dumps(body).encode(), content_type="application/json", **changes)


def answered(text: str = "fine", tokens_in: int = 7, tokens_out: int = 3, **changes) -> Script:
    message = {"role": "assistant", "content": text}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage_of(tokens_in, tokens_out),
    }
    return Script(json.dumps(body).encode(), content_type="application/json", **changes)


def error(status: int, message: str = "no", **changes) -> Script:
    body = {"error": {"message": message, "type": "x", "param": None, "code": status}}
    data = json.dumps(body).encode()
    return Script(data, status=status, content_type="application/json", **changes)


_EVENT = re.compile(rb".*?(?:\r\n\r\n|\n\n|\r\r)|.+", re.DOTALL)


def pieces(script: Script) -> list[bytes]:
    events = _EVENT.findall(script.body) if script.chunked or script.split == "frame" else []
    if script.chunked:
        events = [b"%x\r\n%b\r\n" % (len(one), one) for one in events] + [b"0\r\n\r\n"]
    if script.split == "frame":
        return events
    body = b"".join(events) if script.chunked else script.body
    size = script.split or max(len(body), 1)
    return [body[at : at + size] for at in range(0, len(body), size)]


class Upstream:
    """Plays `scripts` in turn, the last one for ever."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts) or [answered()]
        self.seen: list[Seen] = []
        self.served = "chat"  # what it says that it serves; None is a 404
        self.health = 200
        self.probes: list[str] = []  # paths that were asked beside calls
        self.connections = 0
        self.connections_most = 0
        self.thaw = asyncio.Event()  # cleared, it takes connections and does nothing more
        self.thaw.set()
        self._tasks: set[asyncio.Task] = set()

    async def start(self, port: int = 0) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self.port

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        self.connections += 1
        self.connections_most = max(self.connections_most, self.connections)
        seen: Seen | None = None
        try:
            while True:
                asked = await _request(reader)
                await self.thaw.wait()
                if asked.head.startswith("GET "):
                    self._tell(asked, writer)
                    continue
                seen = asked
                self.seen.append(seen)
                script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
                if not await self._play(script, seen, reader, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.connections -= 1
            if seen:
                seen.closed.set()
            writer.close()
            self._tasks.discard(asyncio.current_task())

    def _tell(self, asked: Seen, writer: asyncio.StreamWriter) -> None:
        path = asked.head.split(" ", 2)[1]
        self.probes.append(path)
        if path.endswith("/health"):
            status, body = self.health, b"{}"
        else:
            status = 404 if self.served is None else 200
            body = json.dumps({"object": "list", "data": [{"id": self.served}]}).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)

    async def _play(self, script, seen, reader, writer) -> bool:
        """False when the connection is over."""
        gone = asyncio.ensure_future(reader.read(1))
        playing = asyncio.ensure_future(self._write(script, seen, writer))
        try:
            await asyncio.wait({gone, playing}, return_when=asyncio.FIRST_COMPLETED)
            if not playing.done() or script.end == "hold":
                if not gone.done():
                    await gone
                return False
            await playing
        finally:
            playing.cancel()
            gone.cancel()
            await asyncio.gather(gone, playing, return_exceptions=True)
        if script.end == "rst":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
            return False
        return (script.content_type == "application/json" or script.chunked) and script.head

    async def _write(self, script: Script, seen: Seen, writer: asyncio.StreamWriter) -> None:
        if script.hold:
            await script.hold.wait()
        if not script.head:
            return
        json_ = script.content_type == "application/json"
        length = f"content-length: {len(script.body)}\r\n" if json_ else "connection: close\r\n"
        length = "transfer-encoding: chunked\r\n" if script.chunked else length
        head = f"HTTP/1.1 {script.status} X\r\ncontent-type: {script.content_type}\r\n{length}\r\n"
        writer.write(head.encode())
        for piece in pieces(script):
            if script.gate:
                await script.gate.acquire()
            writer.write(piece)
            await writer.drain()
            seen.written += 1
            if script.split:
                await asyncio.sleep(0)


async def _request(reader: asyncio.StreamReader) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    lengths = [line for line in head.lower().split("\r\n") if line.startswith("content-length")]
    body = await reader.readexactly(int(lengths[0].split(":")[1])) if lengths else b"{}"
    return Seen(head, json.loads(body))
