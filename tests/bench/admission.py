"""What admission costs a call whose limits are all leased: microseconds of take and settle.

python -m tests.bench.admission redis://127.0.0.1:6379/5
"""

import asyncio
import sys
import time

import uvloop

from control.gateway.admission.counters import Counters
from control.gateway.admission.rules import Hold, Used, checks_of
from control.gateway.limits import Limits
from tests.bench.report import say

LIMITS = {
    "requests_per_second": 1_000_000,
    "requests_per_minute": 60_000_000,
    "input_tokens_per_minute": 10_000_000_000,
    "output_tokens_per_minute": 10_000_000_000,
    "concurrent_calls": 100_000,
}
CALLS, AT_ONCE, ROUNDS = 20_000, 64, 5


async def measure(url: str) -> None:
    counters = Counters(url, processes=2, limits=Limits(), clock=time.monotonic)
    while not counters.shared:
        counters.sweep(time.monotonic())
        await asyncio.sleep(0.01)
    checks = tuple(check for scope in ("t:1", "p:4", "k:9") for check in checks_of(scope, LIMITS))
    hold = Hold(checks, 90, 110)
    best = min([await _round(counters, hold) for _ in range(ROUNDS)])
    counters.close()
    say(f"take and settle of {len(checks)} limits: {best:.2f} µs a call, asking included")


async def _round(counters: Counters, hold: Hold) -> float:
    """CPU time of this process, over as many turns of the loop as a gateway would have."""
    used, began = Used(90, 10), time.process_time()
    for first in range(0, CALLS, AT_ONCE):
        taken: list = []
        for number in range(first, first + AT_ONCE):
            counters.take(f"req_{number}", hold, taken.append)
        while len(taken) < AT_ONCE:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)
        for number, answer in enumerate(taken, first):
            counters.settle(f"req_{number}", hold, answer, used)
        await asyncio.sleep(0)
    return (time.process_time() - began) / CALLS * 1_000_000


if __name__ == "__main__":
    uvloop.run(measure(sys.argv[1]))
