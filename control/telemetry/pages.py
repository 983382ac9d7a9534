"""Pages of our own engines over plain HTTP, by connections that are kept: read each second."""

import http.client
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

KEPT_EACH_MAX = 2  # idle connections to one engine
HOSTS_KEPT_MAX = 64


class Unanswered(Exception):
    """No page came; in a few words, why."""


@dataclass(frozen=True)
class Page:
    status: int
    body: bytes  # one byte more than was allowed, if there is more of it


class Pages:
    """For any thread. It costs a third of what a general client does, and serves no other use."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._idle: dict[str, list[http.client.HTTPConnection]] = defaultdict(list)
        self._lock = Lock()

    def get(self, host: str, path: str, headers: Mapping[str, str], bytes_max: int) -> Page:
        """`host`: with its port. A kept connection that was closed meanwhile is made anew."""
        kept = self._taken(host)
        if kept is not None:
            try:
                return self._ask(kept, host, path, headers, bytes_max)
            except TimeoutError:
                raise Unanswered("TimeoutError") from None
            except (http.client.HTTPException, OSError):
                pass
        try:
            fresh = http.client.HTTPConnection(host, timeout=self._timeout_seconds)
            return self._ask(fresh, host, path, headers, bytes_max)
        except (http.client.HTTPException, OSError) as error:
            raise Unanswered(type(error).__name__) from error

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, defaultdict(list)
        for connection in [one for each in idle.values() for one in each]:
            connection.close()

    def _ask(
        self,
        connection: http.client.HTTPConnection,
        host: str,
        path: str,
        headers: Mapping[str, str],
        bytes_max: int,
    ) -> Page:
        whole = False
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            body = answer.read(bytes_max + 1)
            whole = len(body) <= bytes_max and answer.isclosed() and not answer.will_close
            return Page(answer.status, body)
        finally:
            if whole:
                self._keep(host, connection)
            else:
                connection.close()

    def _taken(self, host: str) -> http.client.HTTPConnection | None:
        with self._lock:
            idle = self._idle.get(host)
            return idle.pop() if idle else None

    def _keep(self, host: str, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            room = host in self._idle or len(self._idle) < HOSTS_KEPT_MAX
            if room and len(self._idle[host]) < KEPT_EACH_MAX:
                self._idle[host].append(connection)
                return
        connection.close()
