"""Says in Valkey, while calls wait for a model that nobody serves, that it is wanted."""

from collections.abc import Callable

from control.gateway.admission.valkey import Reply, Valkey, encode
from control.gateway.waiting.queue import Waiting

_SECONDS = 3  # that a signal holds: it is given each second


def signal(valkey: Valkey, waiting: Waiting, is_ready: Callable[[str], bool]) -> None:
    """`demand:<deployment>` holds how many calls wait for it, as one gateway process counts."""
    for pool, calls in waiting.lengths():
        for deployment in pool:
            if valkey.connected and not is_ready(deployment):
                command = encode("SET", f"demand:{deployment}", calls, "EX", _SECONDS)
                valkey.send(command, _ignore)


def _ignore(reply: Reply) -> None:
    """The next one is sent in a second."""
