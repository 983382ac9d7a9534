"""Pages of our own engines over plain HTTP, by connections that are kept: read each second."""

import http.client
import socket
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

import httptools

KEPT_EACH_MAX = 2  # idle connections to one engine
HOSTS_KEPT_MAX = 64
RECEIVE_BYTES = 128 * 1024


class Unanswered(Exception):
    """No page came; in a few words, why."""


@dataclass(frozen=True)
class Page:
    status: int
    body: bytes  # one byte more than was allowed, if there is more of it


class Pages:
    """For any thread. It costs a tenth of what a general client does, and has no other use."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._idle: dict[str, list[_Connection]] = defaultdict(list)
        self._lock = Lock()

    def get(self, host: str, path: str, headers: Mapping[str, str], bytes_max: int) -> Page:
        """`host`: with its port. A kept connection that was closed meanwhile is made anew."""
        kept = self._taken(host)
        if kept is not None:
            try:
                return self._ask(kept, path, headers, bytes_max)
            except TimeoutError:
                raise Unanswered("TimeoutError") from None
            except (http.client.HTTPException, OSError):
                pass
        try:
            fresh = _Connection(host, self._timeout_seconds)
            return self._ask(fresh, path, headers, bytes_max)
        except (http.client.HTTPException, OSError) as error:
            raise Unanswered(type(error).__name__) from error

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, defaultdict(list)
        for connection in [one for each in idle.values() for one in each]:
            connection.close()

    def _ask(
        self, connection: "_Connection", path: str, headers: Mapping[str, str], bytes_max: int
    ) -> Page:
        whole = False
        try:
            answer = connection.ask(path, headers, bytes_max)
            whole = answer.over and answer.keeps and len(answer.body) <= bytes_max
            return Page(answer.status, bytes(answer.body[: bytes_max + 1]))
        finally:
            if whole:
                self._keep(connection)
            else:
                connection.close()

    def _taken(self, host: str) -> "_Connection | None":
        with self._lock:
            idle = self._idle.get(host)
            return idle.pop() if idle else None

    def _keep(self, connection: "_Connection") -> None:
        host = connection.host
        with self._lock:
            room = host in self._idle or len(self._idle) < HOSTS_KEPT_MAX
            if room and len(self._idle[host]) < KEPT_EACH_MAX:
                self._idle[host].append(connection)
                return
        connection.close()


class _Connection:
    """One question at a time."""

    def __init__(self, host: str, timeout_seconds: float) -> None:
        self.host = host
        name, _, port = host.rpartition(":")
        self._socket = socket.create_connection((name.strip("[]"), int(port)), timeout_seconds)

    def ask(self, path: str, headers: Mapping[str, str], bytes_max: int) -> "_Answer":
        """Read to its end, or until it is larger than allowed."""
        lines = [f"{name}: {value}" for name, value in headers.items()]
        head = (f"GET {path} HTTP/1.1", f"Host: {self.host}", "Accept-Encoding: identity")
        self._socket.sendall("\r\n".join([*head, *lines, "", ""]).encode())
        answer = _Answer()
        while not answer.over and len(answer.body) <= bytes_max:
            data = self._socket.recv(RECEIVE_BYTES)
            if data:
                answer.take(data)
            elif answer.ends_with_connection:
                answer.over = True
            else:
                raise http.client.RemoteDisconnected("before its answer was whole")
        answer.let_go()
        return answer

    def close(self) -> None:
        self._socket.close()


class _Answer:
    """What has come of it; the parser calls what begins with `on_`."""

    def __init__(self) -> None:
        self.status = 0
        self.body = bytearray()
        self.over = False
        self.keeps = False
        self.ends_with_connection = False
        self._has_length = False
        self._parser = httptools.HttpResponseParser(self)

    def take(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise http.client.BadStatusLine(str(error)) from None

    def let_go(self) -> None:
        """Of the parser, which knows its answer: a ring keeps pages until rings are looked for."""
        self._parser = None

    def on_header(self, name: bytes, _value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._has_length = True

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self.ends_with_connection = not self._has_length

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.over = True
        self.keeps = self._parser.should_keep_alive()
