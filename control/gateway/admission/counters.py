"""Rates and calls at once, counted for all gateways in Valkey; alone with a share without it."""

import functools
from collections.abc import Callable

import msgspec

from control.gateway.admission import rules, scripts
from control.gateway.admission.rules import Check, Hold, Level, Rate, Refused, Slots, Used
from control.gateway.admission.valkey import Reply, ReplyError, Valkey, encode, encode_words
from control.gateway.limits import Limits

_TAKE, _SETTLE, _RENEW = map(scripts.sha, scripts.ALL)
_SINCE = "rates:since"
_KINDS = {"input_tokens_per_minute": "i", "output_tokens_per_minute": "o"}  # for the scripts


class Taken(msgspec.Struct, frozen=True):
    """Every scope had room. What was taken is settled where it was taken."""

    levels: tuple[Level, ...] = ()
    shared: bool = False


Answer = Taken | Refused
NOTHING_ASKED = Taken()


class Counters:
    """`take` answers through a callback, at once if there is nothing to ask."""

    def __init__(
        self, url: str, *, processes: int, limits: Limits, clock: Callable[[], float]
    ) -> None:
        self.valkey = Valkey(
            url,
            answer_seconds=limits.counters_seconds,
            on_connected=self._start,
            clock=clock,
        )
        self._processes = processes
        self._lease_microseconds = int(limits.lease_seconds * 1_000_000)
        self._clock = clock
        self._leases: dict[str, set[str]] = {}  # by scope: ids of live calls of this process
        self._tats: dict[rules.Name, float] = {}  # local rates
        self._sweeps = 0
        self._began = False

    @property
    def shared(self) -> bool:
        return self.valkey.connected

    def take(self, call_id: str, hold: Hold, on_answer: Callable[[Answer], None]) -> None:
        if not hold.checks:
            return on_answer(NOTHING_ASKED)
        if not self.valkey.connected:
            return on_answer(self._take_locally(call_id, hold))

        def on_reply(reply: Reply) -> None:
            if isinstance(reply, ReplyError):
                return on_answer(self._take_locally(call_id, hold))
            return on_answer(self._answer(call_id, hold, reply))

        return self.valkey.send(_take_command(call_id, hold, self._lease_microseconds), on_reply)

    def settle(self, call_id: str, hold: Hold, taken: Taken, used: Used) -> None:
        """Once, when the call has ended: its slots are free, its rates hold what it used.

        With Valkey away nothing is kept to be settled later: the leases there end by themselves,
        and the rates have refilled within a minute or two.
        """
        settled = _settled(hold.checks)
        for check in settled:
            if isinstance(check, Slots):
                ids = self._leases.get(check.scope, set())
                ids.discard(call_id)
                if not ids:
                    self._leases.pop(check.scope, None)
        if not taken.shared:
            self._settle_locally(rules.corrections(hold, used))
        elif settled and self.valkey.connected:
            self.valkey.send(_settle_command(call_id, hold, used), _ignore)

    def sweep(self, now: float) -> None:
        """Once a second; leases are renewed each third time."""
        self.valkey.sweep(now)
        self._sweeps += 1
        if self._sweeps % 3 == 0 and self.valkey.connected:
            self._renew("old")
        if self._sweeps % 60 == 0:
            at = self._clock()
            self._tats = {name: tat for name, tat in self._tats.items() if tat > at}

    def close(self) -> None:
        self.valkey.close()

    def _start(self) -> None:
        """Connected, perhaps again: nothing is asked before what runs here is known there."""
        for script in scripts.ALL:
            self.valkey.send(encode("SCRIPT", "LOAD", script), _ignore)
        if not self._began:
            # A store that we have not seen before has forgotten nothing that we know of.
            self._began = True
            self.valkey.send(encode("SET", _SINCE, 0, "NX"), _ignore)
        self._renew("new")

    def _renew(self, which: str) -> None:
        for scope, ids in self._leases.items():
            key = _key(Slots(scope, "concurrent_calls", 0))
            command = ("EVALSHA", _RENEW, 1, key, self._lease_microseconds, which, *ids)
            self.valkey.send(encode(*command), _ignore)

    def _answer(self, call_id: str, hold: Hold, reply: list[int]) -> Answer:
        rates = [check for check in hold.checks if isinstance(check, Rate)]
        levels = tuple(
            Level(check, reply[2 + 2 * i], reply[3 + 2 * i] / 1_000_000)
            for i, check in enumerate(rates)
        )
        number, wait = reply[0], reply[1]
        if not number:
            self._lease(call_id, hold)
            return Taken(levels, shared=True)
        check = hold.checks[number - 1]
        requested = hold.units(check) if isinstance(check, Rate) else 1
        return Refused(check, None if wait < 0 else wait / 1_000_000, requested, levels)

    def _take_locally(self, call_id: str, hold: Hold) -> Answer:
        own = hold._replace(checks=tuple(self._share_of(check) for check in hold.checks))
        live = {
            check[:2]: len(self._leases.get(check.scope, ()))
            for check in own.checks
            if isinstance(check, Slots)
        }
        match rules.admit(own, self._tats | live, self._clock()):
            case rules.Admitted(levels=levels, tats=tats):
                self._tats |= tats
                self._lease(call_id, hold)
                return Taken(levels)
            case Refused() as refused:
                return refused

    def _settle_locally(self, corrections: dict[rules.Name, tuple[Rate, int]]) -> None:
        at = self._clock()
        for name, (check, units) in corrections.items():
            gcra = self._share_of(check).gcra
            self._tats[name] = gcra.adjust(self._tats.get(name, 0.0), at, units)

    def _share_of(self, check: Check) -> Check:
        return rules.share_of(check, self._processes)

    def _lease(self, call_id: str, hold: Hold) -> None:
        for check in hold.checks:
            if isinstance(check, Slots):
                self._leases.setdefault(check.scope, set()).add(call_id)


def _key(check: Check) -> str:
    if isinstance(check, Slots):
        return f"calls:{check.scope}"
    return f"rate:{check.scope}:{check.limit}"


def _take_command(call_id: str, hold: Hold, lease_microseconds: int) -> bytes:
    before, after = _around_call(_TAKE, hold.checks, (lease_microseconds,))
    return before + encode_words(call_id, hold.input_tokens, hold.output_tokens) + after


def _settle_command(call_id: str, hold: Hold, used: Used) -> bytes:
    before, after = _around_call(_SETTLE, _settled(hold.checks), ())
    more_in, more_out = (
        used.input_tokens - hold.input_tokens,
        used.output_tokens - hold.output_tokens,
    )
    return before + encode_words(call_id, more_in, more_out) + after


@functools.lru_cache(maxsize=2048)
def _around_call(
    script: str, checks: tuple[Check, ...], first: tuple[int, ...]
) -> tuple[bytes, bytes]:
    """Alike for all calls under the same limits: encoded once."""
    keys = [_key(check) for check in checks]
    words: list[str | int | float] = list(first)
    for check in checks:
        if isinstance(check, Slots):
            words += ["c", check.most, 0]
        else:
            period_microseconds = check.gcra.period_seconds * 1_000_000
            words += [_KINDS.get(check.limit, "r"), period_microseconds, check.gcra.burst]
    keys.append(_SINCE)
    count = 3 + len(keys) + 3 + len(words)
    before = encode_words("EVALSHA", script, len(keys), *keys)
    return b"*%d\r\n%b" % (count, before), encode_words(*words)


@functools.lru_cache(maxsize=1024)
def _settled(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """A request that was made stays counted; all else depends on what came of it."""
    return tuple(c for c in checks if isinstance(c, Slots) or c.limit in _KINDS)


def _ignore(reply: Reply) -> None:
    """Nobody waits for this reply."""
