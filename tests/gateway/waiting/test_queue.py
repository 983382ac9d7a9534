"""Lines of calls without a slot: whose turn it is, who has to leave, and what tenants have had."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.gateway import errors
from control.gateway.waiting import answers, rules
from control.gateway.waiting.queue import Waiting
from control.gateway.waiting.rules import Crowded, Pace, Queued, TooLate, Want
from control.states import Priority

INTERACTIVE, STANDARD, BATCH = rules.ORDER
NEVER = float("inf")


class Room:
    """Slots that waiters take, as many as there are, and what they were given to."""

    def __init__(self, slots: int = 0, calls_max: int = 100) -> None:
        self.slots = slots
        self.went: list[str] = []
        self.now = 100.0
        self.waiting = Waiting(calls_max=calls_max, clock=lambda: self.now)

    def waiter(self, name: str, priority=STANDARD, tenant=1, tokens=10, **more) -> "Waiter":
        pool, ends_by = more.get("pool", "d"), more.get("ends_by", NEVER)
        return Waiter(self, name, Want(frozenset([pool]), priority, tenant, tokens, ends_by, 10))

    def join(self, name: str, *given, pace: Pace | None = None, **more) -> "Waiter":
        waiter = self.waiter(name, *given, **more)
        waiter.decision = self.waiting.join(waiter, pace)
        return waiter

    def free(self, slots: int) -> list[str]:
        before = len(self.went)
        self.slots += slots
        self.waiting.advance()
        return self.went[before:]


class Waiter:
    def __init__(self, room: Room, name: str, want: Want) -> None:
        self.room, self.name, self.want = room, name, want
        self.end = ""
        self.yields = 0
        self.is_told = False

    def on_turn(self, *, owed: bool = False) -> bool:
        if not self.room.slots:
            return False
        self.room.slots -= 1
        self.room.waiting.dispatched(self)
        self.room.went.append(self.name)
        return True

    def on_patience_ended(self) -> None:
        self._ended("in vain")

    def on_displaced(self) -> None:
        self._ended("displaced")

    def may_yield(self) -> bool:
        return self.yields < 2 and not self.end

    def on_yield(self) -> None:
        self.yields += 1
        self.room.slots += 1
        self.room.went.remove(self.name)
        self.room.waiting.requeue(self)

    def _ended(self, how: str) -> None:
        self.end = how
        self.room.waiting.leave(self)
        self.room.waiting.advance()


def test_first_come_first_served_and_lines_take_turns():
    room = Room()
    for name in ("a0", "a1", "a2", "b0", "b1"):
        room.join(name, pool=name[0])
    assert room.free(4) == ["a0", "b0", "a1", "b1"]
    assert len(room.waiting) == 1
    assert room.free(1) == ["a2"]
    assert len(room.waiting) == 0


def test_the_urgent_go_first_and_the_others_get_their_share():
    room = Room(calls_max=1000)
    for n in range(60):
        for priority in rules.ORDER:
            room.join(f"{priority} {n}", priority)
    went = room.free(60)
    assert went[:5] == [f"interactive {n}" for n in range(5)]
    assert 47 <= sum(name.startswith("interactive") for name in went) <= 52
    assert 7 <= sum(name.startswith("standard") for name in went) <= 10
    assert 2 <= sum(name.startswith("batch") for name in went) <= 4


def test_nobody_goes_before_those_who_wait_for_the_same_but_the_more_urgent():
    room = Room()
    room.join("waits", STANDARD)
    may_go = {p: room.waiting.may_go(room.waiter("new", p).want) for p in rules.ORDER}
    assert may_go == {INTERACTIVE: True, STANDARD: False, BATCH: False}
    assert room.waiting.may_go(room.waiter("elsewhere", BATCH, pool="other").want)


def test_a_flood_of_one_tenant_does_not_starve_another():
    room = Room()
    for n in range(50):
        room.join(f"flood {n}", tenant=1)
    for n in range(3):
        room.join(f"calm {n}", tenant=2)
    assert room.free(6) == ["flood 0", "calm 0", "flood 1", "calm 1", "flood 2", "calm 2"]


def test_large_calls_get_fewer_turns_and_what_was_used_counts_in_the_end():
    room = Room()
    for n in range(9):
        room.join(f"large {n}", tenant=1, tokens=30)
        room.join(f"small {n}", tenant=2, tokens=10)
    assert Counter(name[:5] for name in room.free(8)) == {"large": 2, "small": 6}
    wordy = room.join("wordy", tenant=3)
    assert "wordy" in room.free(3)  # level with the least served of those who wait
    room.waiting.progressed(wordy, 5)  # less than was estimated: not yet
    room.waiting.progressed(wordy, 500)
    room.waiting.settled(wordy, 400)
    room.waiting.settled(wordy, 400)  # once
    room.join("wordy again", tenant=3)
    assert "wordy again" not in room.free(8)


def test_a_call_that_would_start_too_late_is_refused_at_arrival():
    room = Room()
    assert room.join("nobody knows", pace=None).decision == Queued()
    assert room.join("in 4 s", pace=Pace(2.0)).decision == Queued()
    assert room.join("in 12 s", pace=Pace(4.0)).decision == TooLate(12.0, 10, 12.0)
    assert room.join("wanted in 5 s", pace=Pace(2.0), ends_by=105).decision == TooLate(6.0, 5, 6.0)
    assert room.join("of another", tenant=2, pace=Pace(4.0)).decision == Queued()
    assert room.join("more urgent", INTERACTIVE, pace=Pace(4.0)).decision == Queued()
    assert len(room.waiting) == 4


def test_a_refusal_tells_when_a_start_is_expected_not_when_it_is_nearly_sure():
    room = Room()
    uneven = Pace(4.0, 2.0)
    for n in range(2):
        room.join(f"{n}", pace=None)
    refused = room.join("third", pace=uneven).decision
    assert refused.expected_seconds == 12.0
    assert refused.start_seconds == uneven.seconds_for(3) > 19
    told = answers.refusal_of(refused, "chat")
    assert told.wait_seconds == 12.0
    assert "only in 20.3 s" in told.message
    assert room.waiting.expected_seconds(room.waiter("x").want, uneven, slots=0) == 12.0
    assert answers.busy("chat", 12.0).wait_seconds == 12.0
    assert answers.busy("chat", None).wait_seconds == 2.0
    assert dict(errors.headers_of(answers.busy("chat", 400.0)))[b"retry-after"] == b"60"


def test_a_priority_that_gets_few_turns_is_measured_by_these():
    """The urgent that keep coming do not wait long enough to be counted."""
    room = Room(calls_max=1000)
    for n in range(5):
        assert room.join(f"plain {n}", pace=Pace(0.5)).decision == Queued()
    for _ in range(3):
        room.now += 3
        room.waiting.leave(room.join("urgent", INTERACTIVE))
        room.free(1)
    assert room.join("plain 5", pace=Pace(0.5)).decision == Queued()  # in 9 s
    late = room.join("plain 6", pace=Pace(0.5)).decision
    assert late == TooLate(pytest.approx(12 * 1.02**3), 10, 12.0)  # three guesses did not hold


def test_a_full_queue_makes_room_for_who_has_more_right_to_it():
    room = Room(calls_max=4)
    flood = [room.join(f"flood {n}") for n in range(4)]
    assert room.join("flood 4", pace=Pace(1.0)).decision == Crowded(5.0, 5.0)
    for tenant in (2, 3):
        assert room.join(f"of {tenant}", tenant=tenant).decision == Queued()
    assert [waiter.end for waiter in flood] == ["", "", "displaced", "displaced"]
    assert room.join("of 2 again", tenant=2).decision == Crowded(None)
    assert room.join("bulk", BATCH, tenant=4).decision == Crowded(None)
    assert room.join("urgent", INTERACTIVE).decision == Queued()
    assert len(room.waiting) == 4


def test_patience_ends_and_leaving_twice_is_harmless():
    room = Room()
    first, second = room.join("a"), room.join("b", ends_by=105)
    room.waiting.leave(first)
    room.waiting.leave(first)
    room.waiting.sweep(104.9)
    assert second.end == ""
    room.waiting.sweep(105.0)
    assert second.end == "in vain"
    assert len(room.waiting) == 0
    room.waiting.sweep(106.0)
    assert not room.waiting._lines


def test_a_turn_that_ends_at_once_passes_on():
    """An engine that refuses the connection gives its slot back inside the turn."""
    room = Room()

    class Failing(Waiter):
        def on_turn(self, *, owed: bool = False) -> bool:
            super().on_turn()
            room.slots += 1
            room.waiting.settled(self, 0)
            room.waiting.advance()
            return True

    for n in range(3):
        waiter = room.waiter(f"failing {n}")
        waiter.__class__ = Failing
        room.waiting.join(waiter, None)
    room.join("good")
    assert room.free(1) == ["failing 0", "failing 1", "failing 2", "good"]


STEPS = st.one_of(
    st.tuples(
        st.just("join"),
        st.sampled_from(rules.ORDER),
        st.integers(1, 3),
        st.integers(0, 40),
    ),
    st.tuples(st.just("free"), st.integers(1, 3)),
    st.tuples(st.just("leave"), st.integers(0, 30)),
    st.tuples(st.just("end"), st.integers(0, 30), st.integers(0, 100)),
    st.tuples(st.just("time"), st.integers(0, 6)),
)


class Played:
    """A room in which anything happens, and the calls that were in it."""

    def __init__(self) -> None:
        self.room = Room(calls_max=8)
        self.all: list[Waiter] = []

    def join(self, priority: Priority, tenant: int, tokens: int) -> None:
        waiter = self.room.join(str(len(self.all)), priority, tenant, tokens)
        if waiter.decision != Queued():
            waiter.end = "refused"
        self.all.append(waiter)
        self.room.waiting.advance()

    def free(self, slots: int) -> None:
        self.room.free(slots)

    def leave(self, n: int) -> None:
        for waiter in self.all[n : n + 1]:
            self.room.waiting.leave(waiter)
            if waiter.name not in self.room.went:
                waiter.end = waiter.end or "left"

    def end(self, n: int, tokens: int) -> None:
        for name in self.room.went[n : n + 1]:
            self.room.waiting.settled(self.all[int(name)], tokens)

    def time(self, seconds: int) -> None:
        self.room.now += seconds
        self.room.waiting.sweep(self.room.now)

    def still(self) -> list[Waiter]:
        return [w for w in self.all if not w.end and w.name not in self.room.went]


@given(st.lists(STEPS, max_size=120))
def test_no_slot_is_idle_while_somebody_waits_and_each_call_ends_once(steps):
    played = Played()
    room = played.room
    for name, *how in steps:
        getattr(played, name)(*how)
        still = played.still()
        assert len(room.waiting) == len(still) <= 8
        assert not (room.slots and still)
        counts = {p: sum(w.want.priority is p for w in still) for p in rules.ORDER}
        assert room.waiting.by_priority() == counts
        assert len(set(room.went)) == len(room.went)
        assert all(
            queue
            for line in room.waiting._lines.values()
            for queues in line.queues.values()
            for queue in queues.values()
        )


def test_who_got_a_turn_when_another_gave_up_does_not_give_up_with_it():
    room = Room()
    first, second = room.join("first"), room.join("second")
    room.slots, room.now = 1, 120.0
    room.waiting.sweep(room.now)
    assert (first.end, second.end, room.went) == ("in vain", "", ["second"])
