"""What tenants had of other processes: a turn anywhere counts where somebody waits."""

from collections.abc import Callable, Collection

from control.gateway.admission.valkey import Reply, ReplyError, Valkey, encode
from control.gateway.limits import Limits
from control.gateway.waiting.queue import Waiting
from control.gateway.waiting.rules import Service

_KEPT_MS = 10_000  # after the last process asked

# KEYS: a hash of tokens by tenant for each line and priority. ARGV: milliseconds to keep them, then
# for each hash how many tenants are told of, and each of these with its tokens.
EXCHANGE = b"""
local at, replies = 2, {}
for i, key in ipairs(KEYS) do
  local count = tonumber(ARGV[at])
  for j = 1, count do
    redis.call('HINCRBYFLOAT', key, ARGV[at + 2 * j - 1], ARGV[at + 2 * j])
  end
  at = at + 1 + 2 * count
  redis.call('PEXPIRE', key, ARGV[1])
  replies[i] = redis.call('HGETALL', key)
end
return replies
"""

Totals = dict[int, float]  # tokens by tenant


class Elsewhere:
    """Of one process. Alone, without Valkey, or while nobody waits anywhere, nothing is sent.

    `wanted_elsewhere`: deployments for which calls wait in other processes. What tenants have of
    them here is told there, though nobody waits here.
    """

    def __init__(
        self,
        valkey: Valkey,
        waiting: Waiting,
        wanted_elsewhere: Callable[[], Collection[str]],
        *,
        processes: int,
        limits: Limits,
    ) -> None:
        self._valkey = valkey
        self._waiting = waiting
        self._wanted_elsewhere = wanted_elsewhere
        self._processes = processes
        self._limits = limits
        self._totals: dict[str, Totals] = {}  # as last heard, of what is contended since
        self._asked_at = float("-inf")
        self._flying = False

    def sweep(self, now: float) -> None:
        if self._processes == 1 or self._flying:
            return
        if now - self._asked_at < self._limits.service_exchange_seconds:
            return
        self._waiting.watch(self._wanted_elsewhere)
        services = self._waiting.contended()
        if not services or not self._valkey.connected:
            self._totals = {}  # what is heard next is where it begins
            return
        self._asked_at = now
        self._exchange(services)

    def _exchange(self, services: dict[str, Service]) -> None:
        told = {key: service.tell() for key, service in services.items()}
        words: list[int | float] = [_KEPT_MS]
        for own in told.values():
            words.append(len(own))
            for tenant, tokens in own.items():
                words += [tenant, tokens]

        def on_reply(reply: Reply) -> None:
            self._flying = False
            if not isinstance(reply, ReplyError):
                self._heard(services, told, reply)

        self._flying = True
        self._valkey.send(encode("EVAL", EXCHANGE, len(told), *told, *words), on_reply)

    def _heard(
        self, services: dict[str, Service], told: dict[str, Totals], replies: list[list[bytes]]
    ) -> None:
        before, self._totals = self._totals, {}
        for (key, service), row in zip(services.items(), replies, strict=True):
            totals = dict(zip(map(int, row[::2]), map(float, row[1::2]), strict=True))
            self._totals[key] = totals
            if key in before:
                service.hear(others(totals, before[key], told[key]))


def others(totals: Totals, before: Totals, own: Totals) -> Totals:
    """What all the others told of since."""
    news = {
        tenant: total - before.get(tenant, 0.0) - own.get(tenant, 0.0)
        for tenant, total in totals.items()
    }
    return {tenant: tokens for tenant, tokens in news.items() if abs(tokens) > 1e-6}
