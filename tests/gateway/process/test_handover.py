"""Who has connected is answered, whichever process ends meanwhile."""

import os
import signal
import socket
import subprocess
import sys
import threading

import psutil
import pytest
from django.conf import settings

from control.gateway.process import sockets
from tests.gateway.running import HANG_SECONDS, Running, until

pytestmark = pytest.mark.django_db(transaction=True)

HAND_OVER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
REQUEST = b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


def asked(port: int) -> str:
    """`refused` if nobody listened; else what came of a connection that was made."""
    try:
        connection = socket.create_connection(("127.0.0.1", port), timeout=HANG_SECONDS)
    except ConnectionRefusedError:
        return "refused"
    with connection:
        try:
            connection.sendall(REQUEST)
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
        except OSError as error:
            return type(error).__name__
    return "answered" if answer.startswith(b"HTTP/1.1 200") else f"cut after {answer!r}"


class Storm:
    """Connections one after another, from some threads, until it is over."""

    def __init__(self, port: int, threads: int = 4) -> None:
        self.port = port
        self.results: list[str] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._blow, daemon=True) for _ in range(threads)]

    def __enter__(self) -> "Storm":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(2 * HANG_SECONDS)  # each waits for a connection, then for its answer

    def _blow(self) -> None:
        while not self._over.is_set():
            self.results.append(asked(self.port))


def another_worker(running: Running, than: int) -> bool:
    return any(worker.pid != than for worker in running.workers())


def test_a_storm_through_a_workers_sigterm_is_answered_whole(environment, key):
    running = Running(environment)
    try:
        until(lambda: running.status() == 200, "the gateway is ready")
        [worker] = running.workers()
        with Storm(running.port) as storm:
            until(lambda: len(storm.results) > 50, "it blows")
            worker.terminate()
            until(lambda: another_worker(running, worker.pid), "another worker starts")
            so_far = len(storm.results)
            until(lambda: len(storm.results) > so_far + 50, "and serves")
    finally:
        running.stop()
    assert set(storm.results) == {"answered"}


def test_who_connects_while_no_worker_lives_waits_for_the_next_one(environment, key):
    running = Running(environment)
    try:
        until(lambda: running.status() == 200, "the gateway is ready")
        [worker] = running.workers()
        worker.send_signal(signal.SIGKILL)
        worker.wait(HANG_SECONDS)
        with Storm(running.port, threads=20) as storm:
            until(lambda: len(storm.results) >= 20, "all are answered")
    finally:
        running.stop()
    assert set(storm.results) == {"answered"}


def test_a_socket_that_was_handed_over_lasts_from_one_gateway_to_the_next(environment, key):
    """As a socket unit of systemd does: nobody is refused while no gateway runs at all."""
    [given] = sockets.listening("127.0.0.1", 0, 1)
    port = given.getsockname()[1]
    argv = [sys.executable, "-c", HAND_OVER, str(given.fileno())]
    argv += [str(settings.BASE_DIR / "manage.py"), "gateway"]

    def started() -> subprocess.Popen:
        return subprocess.Popen(argv, env=environment, pass_fds=(given.fileno(),))

    first = started()
    try:
        assert asked(port) == "answered"
        with Storm(port) as storm:
            until(lambda: len(storm.results) > 50, "it blows")
            first.terminate()
            assert first.wait(60) == 0
            first = started()
            so_far = len(storm.results)
            until(lambda: len(storm.results) > so_far + 50, "and goes on")
    finally:
        first.terminate()
        first.wait(60)
    assert set(storm.results) == {"answered"}


def test_nobody_notices_that_the_parent_is_killed_and_comes_back(environment, key):
    """Its workers serve without one, and go when those of the next one serve."""
    [given] = sockets.listening("127.0.0.1", 0, 1)
    port = given.getsockname()[1]
    argv = [sys.executable, str(settings.BASE_DIR / "manage.py"), "gateway"]
    argv += ["--listeners", str(given.fileno())]

    def started() -> subprocess.Popen:
        return subprocess.Popen(argv, env=environment, pass_fds=(given.fileno(),))

    parent = started()
    try:
        assert asked(port) == "answered"
        [orphan] = psutil.Process(parent.pid).children()
        with Storm(port) as storm:
            until(lambda: len(storm.results) > 50, "it blows")
            parent.kill()
            parent.wait(60)
            so_far = len(storm.results)
            until(lambda: len(storm.results) > so_far + 200, "it serves without a parent")
            assert orphan.is_running()
            parent = started()
            until(lambda: not orphan.is_running(), "the worker goes")
            so_far = len(storm.results)
            until(lambda: len(storm.results) > so_far + 50, "others serve")
    finally:
        parent.terminate()
        parent.wait(60)
    assert set(storm.results) == {"answered"}


def test_a_worker_whose_parent_never_comes_back_goes_in_the_end(environment, key):
    limits = {"WEIR_GATEWAY_LIMITS": '{"orphan_seconds": 1}'}
    running = Running({**environment, **limits})
    until(lambda: running.status() == 200, "the gateway is ready")
    [worker] = running.workers()
    running.process.kill()
    running.process.wait(60)
    worker.wait(60)
    assert running.status("/health") is None


def refused(environment: dict[str, str], port: int) -> str:
    done = subprocess.run(
        [sys.executable, str(settings.BASE_DIR / "manage.py"), "gateway"],
        env={**environment, "WEIR_GATEWAY_PORT": str(port)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr


def test_a_port_that_is_taken_is_named(environment, key):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(environment, port)
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in said


def test_no_second_gateway_takes_a_part_of_anothers_calls(environment, key, tmp_path):
    """Both would let the kernel share the port."""
    running = Running(environment)
    try:
        until(lambda: running.status() == 200, "the gateway is ready")
        for home in (environment["WEIR_HOME"], str(tmp_path)):
            said = refused({**environment, "WEIR_HOME": home}, running.port)
            assert f"port {running.port}: Address already in use" in said
    finally:
        running.stop()


def test_the_next_parent_takes_the_port_of_workers_that_lost_theirs(environment, key):
    running = Running(environment)
    until(lambda: running.status() == 200, "the gateway is ready")
    [orphan] = running.workers()
    running.process.kill()
    running.process.wait(60)
    again = Running(environment, port=running.port)
    try:
        until(lambda: not orphan.is_running(), "the worker goes")
        assert again.status() == 200
    finally:
        again.stop()


@pytest.mark.parametrize(
    ("environment_of", "count"),
    [({}, 0), ({"LISTEN_PID": "1", "LISTEN_FDS": "2"}, 0), ({"LISTEN_PID": str(os.getpid())}, 0)],
)
def test_sockets_that_are_not_ours_are_left_alone(environment_of, count):
    assert len(sockets.handed(environment_of)) == count
