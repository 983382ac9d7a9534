"""A minute of far too many calls, played by a virtual clock: nothing sleeps, the seed decides."""

import heapq
import random
from collections import Counter
from itertools import count

from control.gateway.routing import rules as routing
from control.gateway.routing.room import kept_slots
from control.gateway.waiting import rules
from control.gateway.waiting.pace import Mean
from control.gateway.waiting.queue import Waiting
from control.gateway.waiting.rules import Queued, Want

FIRST_SECONDS, TOKEN_SECONDS, TOKENS = 0.1, 0.02, range(16, 81, 8)
MEAN_SECONDS = FIRST_SECONDS + (48 - 1) * TOKEN_SECONDS
PATIENCE_SECONDS = 10.0


class Flood:
    """Open-loop arrivals at `slots` of an engine; each call ends in one of the counted ways."""

    def __init__(self, seed: int, slots: int = 32, slower: float = 1.0) -> None:
        self.now = 1000.0
        self.slower = slower  # is the engine, a second after the flood began
        self.capacity = slots / MEAN_SECONDS  # calls a second
        self.waiting = Waiting(calls_max=200, clock=lambda: self.now)
        self.slots = self.free = slots
        self.kept = 0  # of the slots, for interactive calls
        self.waits: dict[str, list[float]] = {}  # of those served, by priority
        self.held = Mean()
        self.ends: Counter[str] = Counter()
        self.served: Counter[str] = Counter()  # by priority
        self.queued = 0
        self.served_seconds = 0.0
        self.random = random.Random(seed)
        self._numbers = count()
        self._events: list = []

    def at(self, when: float, act) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), act))

    def arrive(self, priority: str, per_second: float, seconds: float) -> None:
        """From now on, waiting for nobody."""
        if priority is rules.ORDER[0]:
            self.kept = kept_slots(self.slots)
        when = self.now
        while (when := when + self.random.expovariate(per_second)) < self.now + seconds:
            self.at(when, lambda: Call(self, priority).arrive())

    def burst(self, priority: str, calls: int) -> None:
        for _ in range(calls):
            self.at(self.now, lambda: Call(self, priority).arrive())

    def play(self, seconds: float) -> None:
        until = self.now + seconds
        for second in range(int(seconds)):
            self.at(self.now + second + 0.5, lambda: self.waiting.sweep(self.now))
        while self._events and self._events[0][0] <= until:
            self.now, _, act = heapq.heappop(self._events)
            act()
        self.now = until

    def pace(self) -> rules.Pace | None:
        return routing.pace([(self.slots - self.kept, self.held.pace)])


class Call:
    is_told = False

    def __init__(self, flood: Flood, priority: str) -> None:
        self.flood = flood
        self.seconds = FIRST_SECONDS + (flood.random.choice(TOKENS) - 1) * TOKEN_SECONDS
        self.seconds *= flood.slower if flood.now > 1001.0 else 1.0
        ends_by = flood.now + 580
        self.want = Want(frozenset(["d"]), priority, 1, 10, ends_by, PATIENCE_SECONDS)
        self.is_queued = False
        self.came_at = flood.now

    def arrive(self) -> None:
        flood = self.flood
        if flood.waiting.may_go(self.want) and self.on_turn():
            return
        decision = flood.waiting.join(self, flood.pace(), slots=flood.slots - flood.kept)
        self.is_queued = isinstance(decision, Queued)
        flood.queued += self.is_queued
        if not self.is_queued:
            flood.ends["refused"] += 1

    def on_turn(self, *, owed: bool = False) -> bool:
        flood = self.flood
        passes = owed or self.want.priority is rules.ORDER[0]
        if flood.free <= (0 if passes else flood.kept):
            return False
        flood.free -= 1
        flood.waits.setdefault(self.want.priority, []).append(flood.now - self.came_at)
        flood.waiting.dispatched(self)
        flood.at(flood.now + self.seconds, self._end)
        return True

    def _end(self) -> None:
        flood = self.flood
        flood.free += 1
        flood.held.add(self.seconds)
        flood.ends["served"] += 1
        flood.served[self.want.priority] += 1
        flood.served_seconds += self.seconds
        flood.waiting.settled(self, 10)
        flood.waiting.advance()

    def on_patience_ended(self) -> None:
        self._leave("in vain")

    def on_displaced(self) -> None:
        self._leave("displaced")

    def may_yield(self) -> bool:
        return False

    def on_yield(self) -> None:
        raise AssertionError("nobody may be asked")

    def _leave(self, how: str) -> None:
        self.flood.ends[how] += 1
        self.flood.waiting.leave(self)
