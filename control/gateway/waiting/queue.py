"""Calls for which no slot is free, first come first served, with an end to their patience."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol


class Waiter(Protocol):
    def on_turn(self) -> bool:
        """Try to go now; False leaves the call at the head of its queue."""

    def on_patience_ended(self) -> None: ...


class Waiting:
    """One queue per route. The order of routes rotates, so that none is always asked first."""

    def __init__(self, *, calls_max: int, seconds_max: float, clock: Callable[[], float]) -> None:
        self._queues: OrderedDict[str, dict[Waiter, float]] = OrderedDict()
        self._calls_max = calls_max
        self._seconds_max = seconds_max
        self._clock = clock

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def is_empty(self, route: str) -> bool:
        return route not in self._queues

    def join(self, route: str, waiter: Waiter) -> bool:
        """False if the queue is full."""
        queue = self._queues.setdefault(route, {})
        if len(queue) >= self._calls_max:
            return False
        queue[waiter] = self._clock() + self._seconds_max
        return True

    def leave(self, route: str, waiter: Waiter) -> None:
        queue = self._queues.get(route, {})
        queue.pop(waiter, None)
        if not queue:
            self._queues.pop(route, None)

    def advance(self) -> None:
        """A slot may be free: let the heads of the queues go, one of each in turn."""
        moved = True
        while moved:
            moved = False
            for route in tuple(self._queues):
                queue = self._queues.get(route)
                if queue and next(iter(queue)).on_turn():
                    moved = True
                    if route in self._queues:  # the last one takes its queue with it
                        self._queues.move_to_end(route)

    def sweep(self, now: float) -> None:
        for queue in tuple(self._queues.values()):
            for waiter in [waiter for waiter, until in queue.items() if until <= now]:
                waiter.on_patience_ended()
