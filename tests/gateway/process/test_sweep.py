"""What a sweep of calls holds up, and what it holds: nothing for long."""

import asyncio

from control.gateway.process.sweep import CALLS_AT_ONCE, sweep_calls


class Call:
    def __init__(self, swept: list[float]) -> None:
        self._swept = swept

    def sweep(self, now: float) -> None:
        self._swept.append(now)


async def test_all_calls_are_swept_some_in_each_turn():
    swept = []
    calls = {Call(swept) for _ in range(CALLS_AT_ONCE + 1)}
    sweep_calls(calls, 7.0)
    assert swept == [7.0] * CALLS_AT_ONCE
    await asyncio.sleep(0)
    assert swept == [7.0] * len(calls)


async def test_calls_that_end_before_their_turn_are_not_kept_for_it():
    swept = []
    calls = {Call(swept) for _ in range(CALLS_AT_ONCE * 3)}
    sweep_calls(calls, 7.0)
    calls.clear()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(swept) == CALLS_AT_ONCE
