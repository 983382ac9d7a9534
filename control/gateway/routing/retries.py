"""Retries that one process has earned and others need, through Valkey: one budget for all."""

from control.gateway.admission.valkey import Reply, ReplyError, Valkey, encode
from control.gateway.limits import Limits
from control.gateway.routing.budget import RetryBudget

KEY = "retries"
_KEPT_MS = 60_000

# KEYS: what is to spare. ARGV: what is given, what is lacked, the most that is saved up, and
# milliseconds to keep it. Replies what was got.
EXCHANGE = b"""
local spare = tonumber(redis.call('GET', KEYS[1]) or '0') + tonumber(ARGV[1])
spare = math.min(spare, tonumber(ARGV[3]))
local got = math.min(spare, tonumber(ARGV[2]))
redis.call('SET', KEYS[1], string.format('%.6f', spare - got), 'PX', ARGV[4])
return string.format('%.6f', got)
"""


class RetryLeases:
    """Of one process. Alone, or without Valkey, it has what it earned itself."""

    def __init__(self, valkey: Valkey, budget: RetryBudget, processes: int, limits: Limits) -> None:
        self._valkey = valkey
        self._budget = budget
        self._processes = processes
        self._limits = limits
        self._asked_at = float("-inf")
        self._flying = False

    def sweep(self, now: float) -> None:
        budget = self._budget
        if self._processes == 1 or self._flying or not self._valkey.connected:
            return
        if now - self._asked_at < self._limits.retry_exchange_seconds:
            return
        lacks = budget.lacks
        if not lacks and not budget.spare:
            return
        self._asked_at, self._flying = now, True
        words = (f"{budget.give():.6f}", f"{lacks:.6f}", self._limits.retry_burst, _KEPT_MS)
        self._valkey.send(encode("EVAL", EXCHANGE, 1, KEY, *words), self._heard)

    def _heard(self, reply: Reply) -> None:
        self._flying = False
        if not isinstance(reply, ReplyError):
            self._budget.get(float(reply))
