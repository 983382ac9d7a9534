"""Tenants' paths that are not inference: relayed to `web`, under the key that was shown here."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from control.gateway import errors
from control.gateway.errors import Refusal
from control.gateway.http1.pool import Pool
from control.gateway.http1.request import Request
from control.gateway.http1.sending import Sending
from control.gateway.http1.server import Connection
from control.gateway.judges import address_of
from control.gateway.limits import Limits
from control.routes import passes
from control.routes.snapshot import Identity

log = logging.getLogger(__name__)

_UNAVAILABLE = "This cannot be answered at the moment. Please try again shortly."


class Web:
    """What answers them. Without a URL nobody does."""

    def __init__(
        self, url: str, limits: Limits, now: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        self.limits = limits
        self.asking: Counter[int] = Counter()  # by tenant
        self.pool: Pool | None = None
        self._wall = wall
        if url:
            address = address_of(url)
            self.pool = Pool(address.host, address.port, tls=address.tls, limits=limits, clock=now)

    def relay(self, request: Request, identity: Identity, connection: Connection) -> None:
        if self.pool is None:
            raise errors.Overloaded(_UNAVAILABLE, wait_seconds=30)
        if self.asking[identity.tenant_id] >= self.limits.relayed_of_a_tenant:
            raise errors.TooManyCalls(
                f"At most {self.limits.relayed_of_a_tenant} such requests of a tenant are answered"
                " at once. Please try again when one of them has ended.",
                wait_seconds=1,
            )
        if self.asking.total() >= self.limits.relayed:
            raise errors.Overloaded(_UNAVAILABLE, wait_seconds=1)
        query = request.head.target.partition(b"?")[2]
        target = request.path.encode() + (b"?" + query if query else b"")
        told = passes.pass_of(identity.key_id, request.method, target, self._wall())
        # By name `localhost` web answers wherever it runs; what a tenant sent is not passed on.
        head = b"GET %b HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\n%b: %b\r\n\r\n"
        relayed = Relayed(
            self, identity.tenant_id, connection,
            head % (target, passes.HEADER.encode(), told.encode()),
        )  # fmt: skip
        connection.call = relayed
        relayed.send()

    def sweep(self, now: float) -> None:
        if self.pool:
            self.pool.sweep(now)

    def close(self) -> None:
        if self.pool:
            self.pool.close()


class Relayed:
    """One request on its way; answered once, whatever happens."""

    def __init__(self, web: Web, tenant_id: int, connection: Connection, request: bytes) -> None:
        self._web = web
        self._tenant_id = tenant_id
        self._connection: Connection | None = connection
        self._request = request
        self._sending: Sending | None = None
        self._status = 0
        self._parts: list[bytes] = []
        self._bytes = 0

    def send(self) -> None:
        web = self._web
        web.asking[self._tenant_id] += 1
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(web.limits.relayed_seconds, self._give_up)
        self._sending = web.pool.send(self, self._request)

    # --- what the tenant's connection says ---

    def on_client_gone(self) -> None:
        self._end()

    def on_writable(self) -> None:
        """An answer is written whole."""

    def refuse(self, refusal: Refusal) -> None:
        connection = self._end()
        if connection:
            connection.refuse(refusal)

    # --- what web says ---

    def on_head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self._status = status
        if not headers.get(b"content-type", b"").startswith(b"application/json"):
            self._status = 0  # an error page is no answer for a program

    def on_data(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > self._web.limits.relayed_bytes:
            self._give_up()
        else:
            self._parts.append(data)

    def on_end(self) -> None:
        self._sending = None
        if not 200 <= self._status < 500:
            return self._give_up()
        connection = self._end()
        if connection:
            connection.respond(self._status, b"".join(self._parts))
        return None

    def on_failure(self, reason: str, *, sent: bool, reused: bool) -> None:
        self._sending = None
        if reused and self._connection:  # it was just being closed: nobody has read this
            self._sending = self._web.pool.send(self, self._request)
        else:
            self._give_up()

    # --- inside ---

    def _give_up(self) -> None:
        self.refuse(errors.Overloaded(_UNAVAILABLE, wait_seconds=2))

    def _end(self) -> Connection | None:
        """Whom to answer; None if that is done, or nobody waits any more."""
        connection, self._connection = self._connection, None
        if connection is None:
            return None
        self._timer.cancel()
        self._web.asking[self._tenant_id] -= 1
        if not self._web.asking[self._tenant_id]:
            del self._web.asking[self._tenant_id]
        sending, self._sending = self._sending, None
        if sending:
            sending.abort()
        return connection
