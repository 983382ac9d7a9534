"""The floor of the gateway's technique: asyncio protocols that parse, look one key up and relay.

python -m tests.bench.plain PORT UPSTREAM_PORT KEY
"""

import asyncio
import sys

import httptools
import uvloop


class Tenant(asyncio.Protocol):
    def __init__(self, relay: "Relay") -> None:
        self.relay = relay

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)
        self.engine: Engine | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.engine:
            self.engine.transport.abort()

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_begin(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.body = b""

    def on_url(self, url: bytes) -> None:
        self.url = url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        if self.headers[b"authorization"] not in self.relay.keys:
            self.transport.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
            return
        head = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n" % self.url
        self.relay.send(self, head + b"content-length: %d\r\n\r\n%b" % (len(self.body), self.body))


class Engine(asyncio.Protocol):
    def __init__(self, relay: "Relay") -> None:
        self.relay = relay

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.parser = httptools.HttpResponseParser(self)

    def begin(self, tenant: Tenant, request: bytes) -> None:
        self.tenant, tenant.engine = tenant, self
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.tenant.transport.write(data)
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        self.tenant.engine = None
        self.relay.idle.append(self)


class Relay:
    def __init__(self, port: int, key: str) -> None:
        self.port = port
        self.keys = {b"Bearer " + key.encode()}
        self.idle: list[Engine] = []
        self.dialling: set[asyncio.Task] = set()

    def send(self, tenant: Tenant, request: bytes) -> None:
        if self.idle:
            self.idle.pop().begin(tenant, request)
        else:
            task = asyncio.get_running_loop().create_task(self.dial(tenant, request))
            self.dialling.add(task)
            task.add_done_callback(self.dialling.discard)

    async def dial(self, tenant: Tenant, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        _, engine = await loop.create_connection(lambda: Engine(self), "127.0.0.1", self.port)
        engine.begin(tenant, request)


async def serve(port: int, relay: Relay) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Tenant(relay), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Relay(int(sys.argv[2]), sys.argv[3])))
