"""Rates and calls at once, counted for all gateways in Valkey; alone with a share without it."""

import functools
import hashlib
from collections.abc import Callable

import msgspec

from control.gateway.admission import rules
from control.gateway.admission.rules import Check, Rate, Slots
from control.gateway.admission.valkey import Reply, ReplyError, Valkey, encode
from control.gateway.limits import Limits

# All checks pass or nothing is taken. Times are whole microseconds of the store's own clock.
# ARGV: call id, lease, then per key: r period burst | c most. Reply: the number of the check that
# refused (0: none) and its wait, then remaining and reset of each rate.
_TAKE = b"""
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local news, reply = {}, {0, 0}
for i, key in ipairs(KEYS) do
  local kind, a, b = ARGV[3 * i], tonumber(ARGV[3 * i + 1]), tonumber(ARGV[3 * i + 2])
  if kind == 'r' then
    local new = math.max(tonumber(redis.call('GET', key) or '0'), now) + a
    local over = new - now - a * b
    if over > 0.5 then return {i, math.ceil(over)} end
    news[i] = new
    reply[#reply + 1] = math.floor((a * b - (new - now)) / a + 0.000001)
    reply[#reply + 1] = math.ceil(new - now)
  else
    redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
    if redis.call('ZCARD', key) >= a and not redis.call('ZSCORE', key, ARGV[1]) then
      return {i, 0}
    end
  end
end
for i, key in ipairs(KEYS) do
  if news[i] then
    redis.call('SET', key, string.format('%.0f', news[i]), 'PX',
      math.ceil((news[i] - now) / 1000) + 1000)
  else
    redis.call('ZADD', key, string.format('%.0f', now + ARGV[2]), ARGV[1])
    redis.call('PEXPIRE', key, math.ceil(ARGV[2] / 1000) + 1000)
  end
end
return reply
"""
# KEYS: one set of leases. ARGV: lease, then call ids. An expired lease is never revived.
_RENEW = b"""
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[1], 'XX', string.format('%.0f', now + ARGV[1]), ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], math.ceil(ARGV[1] / 1000) + 1000)
return 1
"""
_TAKE_SHA = hashlib.sha1(_TAKE, usedforsecurity=False).hexdigest()
_RENEW_SHA = hashlib.sha1(_RENEW, usedforsecurity=False).hexdigest()


class Taken(msgspec.Struct, frozen=True):
    """Every scope had room. The rate per minute that is nearest its limit, for the headers."""

    limit: int | None = None
    remaining: int = 0
    reset_seconds: float = 0.0


class Refused(msgspec.Struct, frozen=True):
    check: Check
    wait_seconds: float | None


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
            on_connected=self._load_scripts,
            clock=clock,
        )
        self._processes = processes
        self._lease_microseconds = int(limits.lease_seconds * 1_000_000)
        self._clock = clock
        self._leases: dict[str, set[str]] = {}  # by scope: ids of live calls of this process
        self._tats: dict[tuple[str, str], float] = {}  # local rates
        self._sweeps = 0

    @property
    def shared(self) -> bool:
        return self.valkey.connected

    def take(
        self, call_id: str, checks: tuple[Check, ...], on_answer: Callable[[Answer], None]
    ) -> None:
        if not checks:
            return on_answer(NOTHING_ASKED)
        if not self.valkey.connected:
            return on_answer(self._take_locally(call_id, checks))

        def on_reply(reply: Reply) -> None:
            if isinstance(reply, ReplyError):
                return on_answer(self._take_locally(call_id, checks))
            return on_answer(self._answer(call_id, checks, reply))

        return self.valkey.send(_take_command(call_id, checks, self._lease_microseconds), on_reply)

    def release(self, call_id: str, checks: tuple[Check, ...]) -> None:
        """Once more is harmless; without Valkey the lease there ends by itself."""
        for check in checks:
            if isinstance(check, Slots):
                ids = self._leases.get(check.scope, set())
                ids.discard(call_id)
                if not ids:
                    self._leases.pop(check.scope, None)
                if self.valkey.connected:
                    self.valkey.send(encode("ZREM", _key(check), call_id), _ignore)

    def sweep(self, now: float) -> None:
        """Once a second; leases are renewed each third time."""
        self.valkey.sweep(now)
        self._sweeps += 1
        if self._sweeps % 3 == 0 and self.valkey.connected:
            for scope, ids in self._leases.items():
                key = _key(Slots(scope, "concurrent_calls", 0))
                command = ("EVALSHA", _RENEW_SHA, 1, key, self._lease_microseconds, *ids)
                self.valkey.send(encode(*command), _ignore)
        if self._sweeps % 60 == 0:
            at = self._clock()
            self._tats = {name: tat for name, tat in self._tats.items() if tat > at}

    def close(self) -> None:
        self.valkey.close()

    def _load_scripts(self) -> None:
        for script in (_TAKE, _RENEW):
            self.valkey.send(encode("SCRIPT", "LOAD", script), _ignore)

    def _answer(self, call_id: str, checks: tuple[Check, ...], reply: list[int]) -> Answer:
        refused, wait_microseconds = reply[0], reply[1]
        if refused:
            return _refused(checks[refused - 1], wait_microseconds / 1_000_000)
        self._hold(call_id, checks)
        rates = [check for check in checks if isinstance(check, Rate)]
        numbers = [
            (check.units, reply[2 + 2 * i], reply[3 + 2 * i] / 1_000_000)
            for i, check in enumerate(rates)
            if check.limit == "requests_per_minute"
        ]
        return Taken(*min(numbers, key=lambda n: n[1])) if numbers else NOTHING_ASKED

    def _take_locally(self, call_id: str, checks: tuple[Check, ...]) -> Answer:
        at = self._clock()
        tats: dict[tuple[str, str], float] = {}
        taken = NOTHING_ASKED
        for check in (rules.share_of(check, self._processes) for check in checks):
            if isinstance(check, Slots):
                if len(self._leases.get(check.scope, ())) >= check.most:
                    return Refused(check, 1.0)
                continue
            name = (check.scope, check.limit)
            match check.gcra.take(self._tats.get(name, 0.0), at):
                case rules.Denied(wait_seconds=wait):
                    return Refused(check, wait)
                case rules.Granted(tat=tat, remaining=remaining, reset_seconds=reset):
                    tats[name] = tat
                    if check.limit == "requests_per_minute":
                        taken = Taken(check.units, remaining, reset)
        self._tats |= tats
        self._hold(call_id, checks)
        return taken

    def _hold(self, call_id: str, checks: tuple[Check, ...]) -> None:
        for check in checks:
            if isinstance(check, Slots):
                self._leases.setdefault(check.scope, set()).add(call_id)


def _refused(check: Check, wait_seconds: float) -> Refused:
    if isinstance(check, Slots):
        return Refused(check, 1.0)  # nobody knows when a call ends
    return Refused(check, wait_seconds)


def _key(check: Check) -> str:
    if isinstance(check, Slots):
        return f"calls:{check.scope}"
    return f"rate:{check.scope}:{check.limit}"


def _take_command(call_id: str, checks: tuple[Check, ...], lease_microseconds: int) -> bytes:
    before, after = _around_call_id(checks, lease_microseconds)
    return b"%b$%d\r\n%b\r\n%b" % (before, len(call_id), call_id.encode(), after)


@functools.lru_cache(maxsize=1024)
def _around_call_id(checks: tuple[Check, ...], lease_microseconds: int) -> tuple[bytes, bytes]:
    """Alike for all calls under the same limits: encoded once."""
    keys = [_key(check) for check in checks]
    words: list[str | int] = [lease_microseconds]
    for check in checks:
        if isinstance(check, Slots):
            words += ["c", check.most, 0]
        else:
            words += ["r", round(check.gcra.period_seconds * 1_000_000), check.gcra.burst]
    count = 3 + len(keys) + 1 + len(words)
    before = encode("EVALSHA", _TAKE_SHA, len(checks), *keys).partition(b"\r\n")[2]
    return b"*%d\r\n%b" % (count, before), encode(*words).partition(b"\r\n")[2]


def _ignore(reply: Reply) -> None:
    """Nobody waits for this reply."""
