"""Slots as leases in Valkey, so that all processes together never call a replica beyond them."""

import secrets
from collections.abc import Callable, Iterable
from typing import NamedTuple

from control.gateway.admission.valkey import Reply, ReplyError, Valkey, encode
from control.gateway.limits import Limits
from control.gateway.routing import sharing
from control.gateway.routing.live import Live
from control.gateway.routing.sharing import Other

# KEYS: a hash of `held:need:end` by process for each replica. ARGV: the process, its time to live
# in microseconds, then for each replica its slots, how many are asked and how many are needed.
# Replies for each what was granted, then held and needed of every other process.
EXCHANGE = b"""
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local replies = {}
for i, key in ipairs(KEYS) do
  local slots, ask, need = tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1]), ARGV[3 * i + 2]
  local rows, taken, reply = redis.call('HGETALL', key), 0, {0}
  for j = 1, #rows, 2 do
    if rows[j] ~= ARGV[1] then
      local held, needs, ends = string.match(rows[j + 1], '^(%d+):(%d+):(%d+)$')
      if tonumber(ends) <= now then
        redis.call('HDEL', key, rows[j])
      else
        taken = taken + held
        reply[#reply + 1] = tonumber(held)
        reply[#reply + 1] = tonumber(needs)
      end
    end
  end
  reply[1] = math.max(math.min(ask, slots - taken), 0)
  if reply[1] == 0 and tonumber(need) == 0 then
    redis.call('HDEL', key, ARGV[1])
  else
    local ends = string.format('%.0f', now + ARGV[2])
    redis.call('HSET', key, ARGV[1], reply[1] .. ':' .. need .. ':' .. ends)
    redis.call('PEXPIRE', key, math.ceil(ARGV[2] / 1000))
  end
  replies[i] = reply
end
return replies
"""


class _Held(NamedTuple):
    granted: int
    usable: int
    others: tuple[Other, ...]


class SlotLeases:
    """Of one process. With one process alone, or without Valkey, nothing is asked of anybody."""

    def __init__(
        self,
        valkey: Valkey,
        replicas: Callable[[], Iterable[Live]],
        waiting: Callable[[str], int],
        on_change: Callable[[], None],
        *,
        processes: int,
        limits: Limits,
    ) -> None:
        self._valkey = valkey
        self._replicas = replicas
        self._waiting = waiting
        self._on_change = on_change
        self._processes = processes
        self._limits = limits
        self._process = secrets.token_hex(6)
        self._held: dict[str, _Held] = {}
        self._asked: dict[str, tuple[int, int]] = {}  # and needed, when last asked
        self._asked_at = float("-inf")
        self._flying = False
        self._refused = False  # as by a read-only replica, which is as good as away

    def share_of(self, live: Live) -> int:
        slots = live.info.slots
        if self._processes == 1:
            return slots
        if self._refused or not self._valkey.connected:
            return max(sharing.even(slots, self._processes), 1)
        held = self._held.get(_key(live))
        return min(held.granted, held.usable) if held else 0

    def sweep(self, now: float) -> None:
        """Often: asks and returns when something has changed, and renews what it holds."""
        if self._processes == 1:
            return
        if not self._valkey.connected:
            if self._held or self._asked:
                self._held, self._asked = {}, {}
                self._on_change()  # the even share holds
            return
        limits, since = self._limits, now - self._asked_at
        if self._flying or since < limits.slot_exchange_seconds:
            return
        asks = {_key(live): self._ask(live) for live in self._replicas()}
        hungry = any(other.need > other.held for h in self._held.values() for other in h.others)
        if asks and (asks != self._asked or hungry or since >= limits.slot_renewal_seconds):
            self._asked_at = now
            self._exchange(asks)

    def wanted_elsewhere(self) -> set[str]:
        """Deployments for which calls wait in another process, as last heard."""
        return {
            live.info.deployment
            for live in self._replicas()
            if (held := self._held.get(_key(live)))
            and any(other.need > other.held for other in held.others)
        }

    def close(self) -> None:
        """Others need not wait until the leases end."""
        if self._valkey.connected and self._held:
            self._exchange({_key(live): (0, 0) for live in self._replicas()})

    def _ask(self, live: Live) -> tuple[int, int]:
        need = live.in_flight + self._waiting(live.info.deployment)
        return max(self._usable(live, need), live.in_flight), need

    def _usable(self, live: Live, need: int) -> int:
        held = self._held.get(_key(live))
        others = held.others if held else ()
        return sharing.usable(live.info.slots, self._processes, need, others)

    def _exchange(self, asks: dict[str, tuple[int, int]]) -> None:
        lives = [live for live in self._replicas() if _key(live) in asks]
        words: list[str | int] = [self._process, int(self._limits.lease_seconds * 1_000_000)]
        for live in lives:
            words += [live.info.slots, *asks[_key(live)]]

        def on_reply(reply: Reply) -> None:
            self._flying, was_refused = False, self._refused
            self._refused = isinstance(reply, ReplyError)
            if not self._refused:
                self._heard(lives, reply)
            if self._refused != was_refused:
                self._on_change()

        self._asked = asks
        self._flying = True
        keys = [_key(live) for live in lives]
        self._valkey.send(encode("EVAL", EXCHANGE, len(keys), *keys, *words), on_reply)

    def _heard(self, lives: list[Live], replies: list[list[int]]) -> None:
        held = {}
        for live, (granted, *rest) in zip(lives, replies, strict=True):
            others = tuple(map(Other, rest[::2], rest[1::2]))
            need = self._asked[_key(live)][1]
            mine = sharing.usable(live.info.slots, self._processes, need, others)
            held[_key(live)] = _Held(granted, mine, others)
        if held != self._held:
            self._held = held
            self._on_change()


def _key(live: Live) -> str:
    return f"slots:{live.info.id}:{live.info.generation}"
