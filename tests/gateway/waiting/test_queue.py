"""Queues of calls without a slot."""

from control.gateway.waiting.queue import Waiting


class Waiter:
    def __init__(self, waiting: Waiting, route: str, slots: list, name: str) -> None:
        self.waiting, self.route, self.slots, self.name = waiting, route, slots, name
        self.gave_up = False

    def on_turn(self) -> bool:
        if not self.slots:
            return False
        self.slots.pop().append(self.name)
        self.waiting.leave(self.route, self)
        return True

    def on_patience_ended(self) -> None:
        self.gave_up = True
        self.waiting.leave(self.route, self)


def queues(slots: list, **counts: int) -> tuple[Waiting, dict[str, Waiter]]:
    waiting = Waiting(calls_max=3, seconds_max=10, clock=lambda: 100.0)
    waiters = {}
    for route, count in counts.items():
        for n in range(count):
            waiter = Waiter(waiting, route, slots, f"{route}{n}")
            assert waiting.join(route, waiter)
            waiters[waiter.name] = waiter
    return waiting, waiters


def test_first_come_first_served_and_routes_take_turns():
    went: list[str] = []
    slots: list[list[str]] = [went] * 4
    waiting, _ = queues(slots, a=3, b=2)
    waiting.advance()
    assert went == ["a0", "b0", "a1", "b1"]
    assert len(waiting) == 1
    slots.append(went)
    waiting.advance()
    assert went[-1] == "a2"
    assert waiting.is_empty("a")


def test_a_full_queue_takes_nobody():
    waiting, _ = queues([], a=3)
    assert not waiting.join("a", Waiter(waiting, "a", [], "a3"))
    assert waiting.join("b", Waiter(waiting, "b", [], "b0"))


def test_patience_ends_and_leaving_twice_is_harmless():
    waiting, waiters = queues([], a=2)
    waiting.leave("a", waiters["a0"])
    waiting.leave("a", waiters["a0"])
    waiting.sweep(109.9)
    assert not waiters["a1"].gave_up
    waiting.sweep(110.0)
    assert waiters["a1"].gave_up
    assert len(waiting) == 0
