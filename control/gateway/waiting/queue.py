"""Calls for which no slot is free: by priority, fair between tenants, only while it is worth it."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection

from control.gateway.waiting import progress, rules, yielding
from control.gateway.waiting.lines import Line, Waiter
from control.gateway.waiting.pace import Pace
from control.gateway.waiting.progress import Place
from control.gateway.waiting.rules import Crowded, Queued, Service, TooLate, Want
from control.gateway.waiting.yielding import Stay
from control.states import Priority


class Waiting:
    """One line per set of deployments. Their order rotates, so that none is always asked first."""

    def __init__(self, *, calls_max: int, clock: Callable[[], float]) -> None:
        self._lines: OrderedDict[frozenset[str], Line] = OrderedDict()
        self._calls_max = calls_max
        self._clock = clock
        self._advancing = False
        self._again = False

    def __len__(self) -> int:
        return sum(line.length for line in self._lines.values())

    def by_priority(self) -> Counter[Priority]:
        counts = Counter(dict.fromkeys(rules.ORDER, 0))
        for line in self._lines.values():
            for priority, queues in line.queues.items():
                counts[priority] += sum(len(queue) for queue in queues.values())
        return counts

    def may_go(self, want: Want) -> bool:
        """Nobody waits who would have to go first."""
        line = self._lines.get(want.pool)
        if line is None or not line.length:
            return True
        rank = rules.ORDER.index(want.priority)
        return not any(line.queues[priority] for priority in rules.ORDER[: rank + 1])

    def idle(self, pool: frozenset[str]) -> Line | None:
        """The line in which a call of these would wait, if nobody does."""
        line = self._lines.get(pool)
        if line is None:
            line = self._lines[pool] = Line(self._clock())
        return None if line.length else line

    def lengths(self) -> list[tuple[frozenset[str], int]]:
        """Of the lines in which somebody waits, by what they wait for."""
        return [(pool, line.length) for pool, line in self._lines.items() if line.length]

    def demands(self) -> list[tuple[frozenset[str], Counter[Priority], float | None]]:
        """Of the lines in which somebody waits: for what, how many, since when (batch apart)."""
        found = []
        for pool, line in self._lines.items():
            if line.length:
                counts = Counter({p: sum(map(len, line.queues[p].values())) for p in rules.ORDER})
                found.append((pool, counts, line.oldest_at()))
        return found

    def watch(self, wanted_elsewhere: Callable[[], Collection[str]]) -> None:
        """Which lines others would hear of, though nobody waits in them here."""
        wanted = wanted_elsewhere() if self._lines else ()
        for pool, line in self._lines.items():
            line.is_watched = bool(wanted) and not pool.isdisjoint(wanted)

    def contended(self) -> dict[str, Service]:
        """Who had what, by the name that all processes have for it, where somebody waits: here,
        or in a process that is told of what was had here."""
        found = {}
        for pool, line in self._lines.items():
            for priority, service in line.services.items():
                if not line.length and not line.is_watched:
                    service.untold.clear()  # what is not contended is nobody's business
                elif line.queues[priority] or service.untold:
                    found[f"had:{priority}:{','.join(sorted(pool))}"] = service
        return found

    def length_for(self, deployment: str) -> int:
        """Calls that wait for it, or for any of some that it is among."""
        lengths = [line.length for pool, line in self._lines.items() if deployment in pool]
        return sum(lengths)

    def join(
        self,
        waiter: Waiter,
        pace: Pace | None,
        *,
        slots: int = 0,
        cold_seconds: float | None = None,
    ) -> Queued | TooLate | Crowded:
        """`pace`: that of the ends of calls while its deployments are busy, if known; `slots` are
        all that they have.

        `cold_seconds`: nothing is ready to serve it yet, and it waits so long for that.
        """
        want, now = waiter.want, self._clock()
        line = self._line(want)
        is_cold = cold_seconds is not None
        start, expected = _starts(line, want, pace, slots, None if is_cold else now)
        limit = min(cold_seconds if is_cold else want.waiting_seconds, want.ends_by - now)
        if start is not None and start > limit:
            return TooLate(start, limit, expected)
        if not self.makes_room(want):
            return Crowded(start, expected)
        line.arrivals.came[want.priority] += 1
        line.add(waiter, Stay(now, now + limit, start))
        return Queued()

    def makes_room(self, want: Want) -> bool:
        """For one more; False if the queue is full and nobody in it has less right."""
        line = self._line(want)
        if line.length < self._calls_max:
            return True
        place = rules.displaced(line.counts(), want.priority, want.tenant)
        if place is None:
            return False
        next(reversed(line.queues[place[0]][place[1]])).on_displaced()
        return True

    def stay(self, waiter: Waiter, until: float) -> None:
        """One that waits has patience for longer; its deadline stays."""
        queue = self._line(waiter.want).queues[waiter.want.priority][waiter.want.tenant]
        queue[waiter] = queue[waiter]._replace(until=min(until, waiter.want.ends_by))

    def expected_seconds(self, want: Want, pace: Pace | None, *, slots: int) -> float | None:
        """Until such a call would start, if it came now and others did as they do; None if nobody
        knows."""
        return _starts(self._line(want), want, pace, slots, self._clock())[1]

    def place(self, waiter: Waiter) -> Place:
        """Of one that waits."""
        want = waiter.want
        line = self._line(want)
        own = line.queues[want.priority][want.tenant]
        return progress.place(line.counts(), want.priority, want.tenant, list(own).index(waiter))

    def requeue(self, waiter: Waiter, seconds: float | None = None) -> None:
        """It yielded, and is first of its tenant's; what it did is not its tenant's to bear."""
        self.settled(waiter, 0.0)
        want, now = waiter.want, self._clock()
        until = min(now + (want.waiting_seconds if seconds is None else seconds), want.ends_by)
        self._line(want).add(waiter, Stay(now, until), first=True)

    def leave(self, waiter: Waiter) -> None:
        if line := self._lines.get(waiter.want.pool):
            line.remove(waiter)

    def dispatched(self, waiter: Waiter) -> None:
        """It goes now, whether it waited or not: it counts as its tenant's from here."""
        self._line(waiter.want).dispatched(waiter, self._clock())

    def hand_over(self, waiter: Waiter, to: Waiter) -> None:
        """One that was given a turn is known as another from here on."""
        line = self._lines.get(waiter.want.pool)
        if line and waiter in line.charged:
            line.charged[to] = line.charged.pop(waiter)

    def progressed(self, waiter: Waiter, tokens: float) -> None:
        """What it has cost so far; an estimate is only lowered at the end."""
        line = self._lines.get(waiter.want.pool)
        if line and tokens > line.charged.get(waiter, tokens):
            line.charge(waiter, tokens)

    def settled(self, waiter: Waiter, tokens: float) -> None:
        if line := self._lines.get(waiter.want.pool):
            line.settle(waiter, tokens)

    def advance(self) -> None:
        """A slot may be free: let those go whose turn it is, one of each line after the other."""
        for line in self._lines.values():
            if line.length:
                return self._advance()
        return None

    def _advance(self) -> None:
        self._again = True
        if self._advancing:
            return  # a turn has ended at once: the loop below goes round once more
        self._advancing = True
        try:
            while self._again:
                self._again = False
                for pool, line in tuple(self._lines.items()):
                    if line.length and line.offer():
                        self._again = True
                        self._lines.move_to_end(pool)
        finally:
            self._advancing = False

    def end_patience(self, now: float) -> None:
        for line in tuple(self._lines.values()):
            for waiter in _impatient(line, now):
                line.caution.learn(held=False)
                if line.has(waiter):  # one that left before it may have given it its turn
                    waiter.on_patience_ended()

    def reconsider(self) -> None:
        """What is known of deployments has changed: some may wait in vain."""
        for line in tuple(self._lines.values()):
            for waiter, stay in _stays(line):
                if line.has(waiter):
                    waiter.on_news(stay.until)

    def sweep(self, now: float) -> None:
        self.end_patience(now)
        for pool, line in tuple(self._lines.items()):
            _make_room(line, now)
            for waiter in [w for w, _ in _stays(line) if w.is_told]:
                waiter.on_waited(self.place(waiter))
            if not line.length and not line.charged:
                del self._lines[pool]  # nothing is contended: what tenants had is forgotten
                continue
            for priority, service in line.services.items():
                service.forget(line.queues[priority])

    def _line(self, want: Want) -> Line:
        line = self._lines.get(want.pool)
        if line is None:
            line = self._lines[want.pool] = Line(self._clock())
        return line


def _starts(
    line: Line, want: Want, pace: Pace | None, slots: int, now: float | None
) -> tuple[float | None, float | None]:
    """Within which time a call that joins would most surely start, and when it is expected to.

    `now` None: a model is loaded. How turns followed each other says nothing of when it will be.
    """
    own, above = None, 0.0
    if now is not None:
        own = line.rhythms[want.priority].pace(now) if line.queues[want.priority] else None
        above = line.arrivals.above(want.priority, now)
    if above:
        pace = line.slowed(pace, slots, now)
    who = line.counts(), want.priority, want.tenant
    start = rules.start(*who, pace, own, above)
    start = None if start is None else start * line.caution.factor
    return start, rules.start(*who, pace and pace.even, own and own.even, above)


def _stays(line: Line) -> list[tuple[Waiter, Stay]]:
    queues = [queue for queues in line.queues.values() for queue in queues.values()]
    return [item for queue in queues for item in queue.items()]


def _impatient(line: Line, now: float) -> list[Waiter]:
    return [waiter for waiter, stay in _stays(line) if stay.until <= now]


def _make_room(line: Line, now: float) -> None:
    """For interactive calls that waited for long, at the cost of batch calls that run."""
    queues = line.queues[Priority.INTERACTIVE].values()
    urgent = [w for queue in queues for w, stay in queue.items() if yielding.is_urgent(stay, now)]
    if not urgent:
        return
    batch = [call for call in line.charged if call.want.priority is Priority.BATCH]
    running = [(call, call.may_yield()) for call in batch]
    for waiter, call in zip(urgent, yielding.who_yields(len(urgent), running), strict=False):
        if line.has(waiter):
            call.on_yield()
            if line.has(waiter):  # a call that failed on this has ended, and let it go
                waiter.on_turn()  # at once: what yielded must not have its slot back
