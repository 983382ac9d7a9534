"""H03 at the end of a gateway: slow and deaf clients do not keep it from stopping in time."""

import signal
import socket
import time
from contextlib import ExitStack

import pytest

from control.models import UsageEvent
from tests.gateway.place import chat, head_of, padded
from tests.gateway.running import HANG_SECONDS, Running, until
from tests.gateway.upstream import Script, answered, chunk

pytestmark = pytest.mark.django_db(transaction=True)

DRAIN_SECONDS = 1
ASKED = padded(100)[:-1].rstrip() + b',"stream":true}'


def test_h03_sigterm_ends_in_time_and_what_ran_is_written_down(environment, key, engine):
    text = "x" * 60_000
    large = b"".join(chunk(text, usage=(7, n)) for n in range(1, 111))
    limits = f'{{"drain_seconds": {DRAIN_SECONDS}}}'
    running = Running({**environment, "WEIR_GATEWAY_LIMITS": limits})
    with ExitStack() as opened:

        def client(sent: bytes) -> None:
            one = opened.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.settimeout(HANG_SECONDS)
            one.connect(("127.0.0.1", running.port))
            one.sendall(sent)

        try:
            until(lambda: running.status() == 200, "the gateway is ready")
            for _ in range(20):
                client(b"P")  # a head that never comes to its end
                client(head_of(1000) + b"{")  # nor does this body
            engine.play(Script(large, end="hold", split=60_000))
            for _ in range(5):
                client(head_of(len(ASKED)) + ASKED)  # and this answer is not read
            until(lambda: len(engine.seen) == 5, "five streams run")
            engine.play(answered())
            assert running.post(chat()).status_code == 200  # others are served meanwhile
            begun = time.monotonic()
            running.process.send_signal(signal.SIGTERM)
            assert running.process.wait(HANG_SECONDS) == 0
            assert time.monotonic() - begun < 10 * (DRAIN_SECONDS + 3)
        finally:
            running.stop()
    outcomes = list(UsageEvent.objects.values_list("outcome", flat=True))
    assert sorted(outcomes) == ["complete", *["drained"] * 5]
