"""What is sent to Valkey, encoded: a call's checks are alike for all calls under its limits."""

import functools
from collections.abc import Iterable
from typing import NamedTuple

from control.gateway.admission import scripts
from control.gateway.admission.leases import Lease
from control.gateway.admission.rules import CALL, COUNTS, Check, Hold, Slots, Used
from control.gateway.admission.valkey import encode, encode_words

SINCE = "rates:since"


class Exchanged(NamedTuple):
    """What one lease tells and asks: `back` is given up, `more` wanted."""

    lease: Lease
    back: int = 0
    more: int = 0


class Commands:
    """Of one set of steps; a test has one with a clock of its own."""

    def __init__(self, steps: scripts.Steps, lease_microseconds: int) -> None:
        self.steps = steps
        self._take, self._settle, self._renew, self._exchange = map(scripts.sha, steps)
        self._lease = lease_microseconds

    def take(self, call_id: str, hold: Hold) -> bytes:
        before, after = _around_call(self._take, hold.checks, (self._lease,))
        return before + encode_words(call_id, hold.input_tokens, hold.output_tokens) + after

    def settle(self, call_id: str, hold: Hold, used: Used) -> bytes:
        more_in, more_out = used.beyond(hold)
        before, after = _around_call(self._settle, settled(hold.checks), ())
        return before + encode_words(call_id, more_in, more_out) + after

    def renew(self, scope: str, call_ids: Iterable[str], *, new: bool) -> bytes:
        key = key_of(Slots(scope, "concurrent_calls", 0))
        which = "new" if new else "old"
        return encode("EVALSHA", self._renew, 1, key, self._lease, which, *call_ids)

    def exchange(self, exchanged: Iterable[Exchanged], *, new: bool) -> bytes:
        keys, words = [], [self._lease, "new" if new else "old"]
        for lease, back, more in exchanged:
            keys.append(key_of(lease.check))
            kind = "c" if isinstance(lease.check, Slots) else "r"
            words += [kind, *_size(lease.check), lease.field, lease.held, back, more, lease.change]
        return encode("EVALSHA", self._exchange, len(keys) + 1, *keys, SINCE, *words)

    def probe(self) -> bytes:
        """Whether it takes what we write: a read-only replica refuses this."""
        return encode("SET", "gateway:probe", 1, "PX", 1000)


def key_of(check: Check) -> str:
    if isinstance(check, Slots):
        return f"calls:{check.scope}"
    return f"rate:{check.scope}:{check.limit}"


@functools.lru_cache(maxsize=1024)
def settled(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """A request that was made stays counted; all else depends on what came of it."""
    return tuple(c for c in checks if isinstance(c, Slots) or c.limit in COUNTS)


@functools.lru_cache(maxsize=2048)
def _around_call(
    script: str, checks: tuple[Check, ...], first: tuple[int, ...]
) -> tuple[bytes, bytes]:
    """Alike for all calls under the same limits: encoded once."""
    words: list[str | int | float] = list(first)
    for check in checks:
        kind = "c" if isinstance(check, Slots) else COUNTS.get(check.limit, CALL)
        words += [kind, *_size(check)]
    keys = [*map(key_of, checks), SINCE]
    count = 3 + len(keys) + 3 + len(words)
    before = encode_words("EVALSHA", script, len(keys), *keys)
    return b"*%d\r\n%b" % (count, before), encode_words(*words)


def _size(check: Check) -> tuple[int | float, int]:
    if isinstance(check, Slots):
        return check.most, 0
    return check.gcra.period_seconds * 1_000_000, check.gcra.burst
