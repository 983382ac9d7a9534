"""What is sent to Valkey, encoded: a call's checks are alike for all calls under its limits."""

from collections.abc import Callable, Iterable
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


_CHECKS_MAX = 2048  # remembered at once


class Commands:
    """Of one set of steps; a test has one with a clock of its own."""

    def __init__(self, steps: scripts.Steps, lease_microseconds: int) -> None:
        self.steps = steps
        self._take, self._settle, self._renew, self._exchange = map(scripts.sha, steps)
        self._lease = lease_microseconds
        self._taking = _Remembered(lambda checks: _around(self._take, checks, (self._lease,)))
        self._settling = _Remembered(self._around_settle)

    def take(self, call_id: str, hold: Hold) -> bytes:
        before, after = self._taking.of(hold.checks)
        return before + encode_words(call_id, hold.input_tokens, hold.output_tokens) + after

    def settle(self, call_id: str, hold: Hold, used: Used) -> bytes:
        """Empty if nothing depends on what came of the call."""
        more_in, more_out = used.beyond(hold)
        before, after = self._settling.of(hold.checks)
        return before and before + encode_words(call_id, more_in, more_out) + after

    def _around_settle(self, checks: tuple[Check, ...]) -> tuple[bytes, bytes]:
        rest = settled(checks)
        return _around(self._settle, rest, ()) if rest else (b"", b"")

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


class _Remembered:
    """By the identity of the checks, alike for all calls under the same limits: hashing costs."""

    def __init__(self, work: Callable[[tuple[Check, ...]], tuple[bytes, bytes]]) -> None:
        self._work = work
        self._known: dict[int, tuple[tuple[Check, ...], tuple[bytes, bytes]]] = {}

    def of(self, checks: tuple[Check, ...]) -> tuple[bytes, bytes]:
        known = self._known.get(id(checks))
        if known is None or known[0] is not checks:
            if len(self._known) >= _CHECKS_MAX:
                self._known.clear()
            known = self._known[id(checks)] = (checks, self._work(checks))
        return known[1]


def key_of(check: Check) -> str:
    if isinstance(check, Slots):
        return f"calls:{check.scope}"
    return f"rate:{check.scope}:{check.limit}"


def settled(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """A request that was made stays counted; all else depends on what came of it."""
    return tuple(c for c in checks if isinstance(c, Slots) or c.limit in COUNTS)


def _around(script: str, checks: tuple[Check, ...], first: tuple[int, ...]) -> tuple[bytes, bytes]:
    """What comes before a call's own words, and after them."""
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
