"""The calls that wait for the same deployments: whose turn it is, and what tenants have had."""

from typing import Protocol

from control.gateway.waiting import rules
from control.gateway.waiting.arrivals import Arrivals
from control.gateway.waiting.pace import Caution, Pace, Rhythm
from control.gateway.waiting.progress import Place
from control.gateway.waiting.rules import Service, Turns, Want
from control.gateway.waiting.yielding import Stay
from control.states import Priority

# What is believed of a call before a few have ended. Shorter ones will have told so by then.
_HELD_SECONDS_LEAST = 1.0


class Waiter(Protocol):
    want: Want
    is_told: bool  # it wants to hear of its place

    def on_turn(self, *, owed: bool = False) -> bool:
        """Try to go now; False leaves the call where it waits.

        `owed`: it goes before interactive calls that wait, so what is kept for these is its too.
        """

    def on_patience_ended(self) -> None: ...

    def on_news(self, until: float) -> None:
        """Of what it waits for; `until` is the end of its patience."""

    def on_displaced(self) -> None:
        """The queue is full, and another call has more right to this one's place."""

    def on_waited(self, place: Place) -> None:
        """Another second."""

    def may_yield(self) -> bool:
        """It runs, its slot is of use to others, and its tenant has received nothing."""

    def on_yield(self) -> None:
        """Stop running, and wait again."""


class Line:
    """The calls that wait for one set of deployments, and what tenants have had of these."""

    def __init__(self, at: float) -> None:
        # By priority and tenant, as they came.
        self.queues: dict[Priority, dict[int, dict[Waiter, Stay]]] = {p: {} for p in rules.ORDER}
        self.services = {p: Service() for p in rules.ORDER}
        self.rhythms = {p: Rhythm() for p in rules.ORDER}
        self.turns = Turns()
        self.charged: dict[Waiter, float] = {}  # calls that were given a turn and go on
        self.length = 0
        self.is_watched = False  # calls wait in other processes for what is served here
        self.arrivals = Arrivals(at)
        self.caution = Caution()
        self._contended_at = at  # since when somebody waits
        self._turns_given = 0  # since then

    def add(self, waiter: Waiter, stay: Stay, *, first: bool = False) -> None:
        priority, tenant = waiter.want.priority, waiter.want.tenant
        queues = self.queues[priority]
        if not queues:
            self.turns.begins(priority)
            self.rhythms[priority].begins(stay.since)
        if tenant not in queues:
            self.services[priority].lift(tenant, queues)
            queues[tenant] = {}
        queues[tenant] = {waiter: stay} | queues[tenant] if first else queues[tenant]
        queues[tenant][waiter] = stay
        if not self.length:
            self._contended_at, self._turns_given = stay.since, 0
        self.length += 1

    def slowed(self, pace: Pace | None, slots: int, at: float) -> Pace | None:
        """Not faster than turns were given since somebody waits, if all slots end their calls now.

        The first ends are those of short calls, and before them nothing is known at all.
        """
        if not slots or not self.length:
            return pace
        seconds = max(at - self._contended_at, _HELD_SECONDS_LEAST) / (slots + self._turns_given)
        return pace if pace and pace.seconds > seconds else Pace(seconds, seconds)

    def remove(self, waiter: Waiter) -> bool:
        """False if it did not wait."""
        priority, tenant = waiter.want.priority, waiter.want.tenant
        queues = self.queues[priority]
        queue = queues.get(tenant)
        if queue is None or queue.pop(waiter, None) is None:
            return False
        self.length -= 1
        if not queue:
            del queues[tenant]
            if not queues:
                self.services[priority].left(tenant)
        return True

    def has(self, waiter: Waiter) -> bool:
        return waiter in self.queues[waiter.want.priority].get(waiter.want.tenant, ())

    def waiting(self) -> list[Priority]:
        return [priority for priority in rules.ORDER if self.queues[priority]]

    def oldest_at(self) -> float | None:
        """Since when the first of them waits, batch apart; it came first of its tenant's."""
        queues = [q for p in rules.ORDER[:-1] for q in self.queues[p].values()]
        return min((next(iter(queue.values())).since for queue in queues), default=None)

    def counts(self) -> rules.Waiting:
        return {
            priority: {tenant: len(queue) for tenant, queue in queues.items()}
            for priority, queues in self.queues.items()
        }

    def offer(self) -> bool:
        """A turn for the first who can use it; False if nobody can."""
        waiting = self.waiting()
        for priority in self.turns.order(waiting):
            queues = self.queues[priority]
            if not queues:
                continue  # those asked before made them leave
            tenant = self.services[priority].least(queues)
            if next(iter(queues[tenant])).on_turn(owed=Priority.INTERACTIVE in waiting):
                return True
            if priority is not Priority.BATCH:
                # What has no room for this one may have for smaller ones: it would never have its
                # turn. Batch has a bound of its own, so others may well find room.
                return False
        return False

    def dispatched(self, waiter: Waiter, at: float) -> None:
        want = waiter.want
        service, queues = self.services[want.priority], self.queues[want.priority]
        tokens = self.charged[waiter] = rules.INPUT_WEIGHT * want.input_tokens
        if not self.length:
            self.arrivals.came[want.priority] += 1
            service.serve_at_once(want.tenant, tokens)
            return service.note(want.tenant, tokens) if self.is_watched else None
        self._turns_given += 1
        self.turns.took(want.priority, self.waiting())
        if queues:
            self.rhythms[want.priority].had_turn(at)
        if want.tenant not in queues:
            service.lift(want.tenant, queues)
        service.charge(want.tenant, tokens)
        self._learn(queues.get(want.tenant, {}).get(waiter), at)
        self.arrivals.came[want.priority] += not self.remove(waiter)
        if not queues:
            service.left(want.tenant)
        return None

    def _learn(self, stay: Stay | None, at: float) -> None:
        if stay and stay.guess_seconds is not None:
            self.caution.learn(held=at - stay.since <= stay.guess_seconds)

    def charge(self, waiter: Waiter, tokens: float) -> None:
        """Its cost is `tokens` in all."""
        before = self.charged.get(waiter)
        if before is not None:
            self.charged[waiter] = tokens
            self.services[waiter.want.priority].charge(waiter.want.tenant, tokens - before)

    def settle(self, waiter: Waiter, tokens: float) -> None:
        """As `charge`, and it is no more."""
        before = self.charged.pop(waiter, None)
        if before is not None:
            self.services[waiter.want.priority].charge(waiter.want.tenant, tokens - before)
