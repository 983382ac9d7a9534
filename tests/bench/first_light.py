"""How soon things hold on a real `weir up`: started, revoked, exported, stopped.

make bench-first-light
"""

import http.client
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import psutil
import psycopg

from tests.bench.report import Target, finish, say, table
from tests.flows.weir import HANG_SECONDS, Weir, until

ROUNDS = 3
LOOK_SECONDS = 0.01
CONNECTIONS_MAX = 64
ROUTE = "chat-stub"  # of examples/stub.yaml
CHAT = {"model": ROUTE, "messages": [{"role": "user", "content": "hello"}]}


@dataclass
class Seen:
    """Seconds of each try; a promise is judged by the worst one."""

    first_up: float = 0.0
    routes_ready: list[float] = field(default_factory=list)
    second_up: list[float] = field(default_factory=list)
    shutdown: list[float] = field(default_factory=list)
    revoked: list[float] = field(default_factory=list)
    exported: list[float] = field(default_factory=list)


def main() -> None:
    weir, seen = Weir(WEIR_GATEWAY_PROCESSES="2"), Seen()
    try:
        seen.first_up = _took(lambda: weir.start(ready=False))
        say(f"first `weir up`: {seen.first_up:.2f} s")
        weir.wait_until_ready()
        for number in range(ROUNDS):
            seen.exported.append(_exported_after(weir))
            seen.revoked.append(_revoked_after(weir, f"round-{number}"))
            seen.shutdown.append(_took(weir.stop))
            _up_again(weir, seen)
            say(f"round {number + 1} of {ROUNDS}: {seen}")
        seen.shutdown.append(_took(weir.stop))
    finally:
        weir.clean_up()
    _report(seen)


def _took(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def _up_again(weir: Weir, seen: Seen) -> None:
    """Until the gateway answers and the console shows its page; then until a route is served."""
    began = time.monotonic()
    weir.start(ready=False)
    for url in (f"{weir.gateway_url}/health", f"{weir.console_url}/login/"):
        until(lambda url=url: _answers(url), f"an answer of {url}; said:\n{weir.said()}")
    seen.second_up.append(time.monotonic() - began)
    weir.wait_until_ready()
    seen.routes_ready.append(time.monotonic() - began)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


# --- a call's row in the export -------------------------------------------------------------


def _exported_after(weir: Weir) -> float:
    """From the last byte of an answer to the end of an export that has its row."""
    with weir.client() as client:
        answer = client.post("/v1/chat/completions", json=CHAT)
        ended = time.monotonic()
    if answer.status_code != 200:
        raise SystemExit(f"a call was refused: {answer.text}")
    call_id = answer.headers["x-request-id"]
    month = time.strftime("%Y-%m", time.gmtime())
    until(lambda: call_id in weir.weir("export", "usage", "--month", month).stdout, "its row")
    return time.monotonic() - ended


# --- a revoked key --------------------------------------------------------------------------


def _revoked_after(weir: Weir, name: str) -> float:
    """From the commit of the revocation to the refusal by the last of the gateway's workers."""
    created = weir.weir("key", "create", "--tenant", "acme", "--name", name)
    headers = {"authorization": f"Bearer {created.stdout.strip()}"}
    with _a_connection_to_each_worker(weir) as connections:
        for connection in connections:
            until(lambda one=connection: _asked(one, headers) == 200, "the new key is known")
        argv = [*weir.command, "key", "revoke", "--tenant", "acme", "--name", name]
        command = subprocess.Popen(argv, env=weir.environment, stderr=subprocess.DEVNULL)
        url = weir.connections()["database_url"]
        with psycopg.connect(url, autocommit=True) as database:
            query = "SELECT 1 FROM control_key WHERE name = %s AND state = 'revoked'"
            _soon(lambda: database.execute(query, [name]).fetchone())
        committed = time.monotonic()
        for connection in connections:
            _soon(lambda one=connection: _asked(one, headers) == 401)
        took = time.monotonic() - committed
        command.wait(HANG_SECONDS)
    return took


def _soon(holds: Callable[[], object]) -> None:
    """Looks more often than flows do: what is timed here takes milliseconds."""
    deadline = time.monotonic() + HANG_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit("waited in vain for a revocation")
        time.sleep(LOOK_SECONDS)


@contextmanager
def _a_connection_to_each_worker(weir: Weir) -> Iterator[list[http.client.HTTPConnection]]:
    """The kernel spreads connections by chance: dial until each worker has one."""
    wanted, found, dialled = set(weir.gateway_workers()), {}, []
    host, port = weir.gateway_url.removeprefix("http://").split(":")
    try:
        while set(found) != wanted:
            if len(dialled) == CONNECTIONS_MAX:
                raise SystemExit(f"{CONNECTIONS_MAX} connections reached only {set(found)}")
            connection = http.client.HTTPConnection(host, int(port), timeout=HANG_SECONDS)
            dialled.append(connection)
            _asked(connection, {})
            found.setdefault(_worker_of(connection, wanted), connection)
        yield list(found.values())
    finally:
        for connection in dialled:
            connection.close()


def _worker_of(connection: http.client.HTTPConnection, workers: set[int]) -> int:
    ours = connection.sock.getsockname()[1]
    for pid in workers:
        sockets = psutil.Process(pid).net_connections(kind="tcp")
        if any(one.raddr and one.raddr.port == ours for one in sockets):
            return pid
    raise SystemExit("a connection of the gateway belongs to none of its workers")


def _asked(connection: http.client.HTTPConnection, headers: dict[str, str]) -> int:
    connection.request("GET", "/v1/models" if headers else "/health", headers=headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status


# --- the page -------------------------------------------------------------------------------


def _report(seen: Seen) -> None:
    wanted = {
        "second_up_seconds": Target(round(max(seen.second_up), 2), 10),
        "revoked_refused_seconds": Target(round(max(seen.revoked), 3), 1),
        "exported_seconds": Target(round(max(seen.exported), 2), 5),
        "shutdown_seconds": Target(round(max(seen.shutdown), 2), 30),
    }
    rows = [
        ["first `weir up`, with a new database", [seen.first_up]],
        ["second `weir up` until gateway and console answer", seen.second_up],
        ["second `weir up` until the route is served by its engine", seen.routes_ready],
        ["key revoked until both gateway workers refuse it", seen.revoked],
        ["call ended until a `weir export` with its row has ended", seen.exported],
        ["`weir down`, engines too", seen.shutdown],
    ]
    page = table(
        ["what", "seconds, each try"],
        [[what, ", ".join(f"{one:.2f}" for one in tries)] for what, tries in rows],
    )
    say(page)
    finish("first-light", "How soon things hold", f"{page}\n\n{_NOTES}", wanted)


_NOTES = """
A real `weir up` of `examples/stub.yaml` with `WEIR_GATEWAY_PROCESSES=2` and an empty home. The
worst of all tries is judged. A revocation is timed from its commit, seen in the database, to the
refusal on an open connection of the last worker. The export is the command as an operator runs it,
so its own start is in the figure.
"""


if __name__ == "__main__":
    main()
