"""What holds of token limits whatever comes: all or none, never too much, settled exactly once."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from control.gateway.admission.rules import (
    Admitted,
    Gcra,
    Hold,
    Level,
    Rate,
    Refused,
    Slots,
    Used,
    admit,
    corrections,
)

IN, OUT = "input_tokens_per_minute", "output_tokens_per_minute"


def rate(scope: str, limit: str, units: int) -> Rate:
    return Rate(scope, limit, units, Gcra(Fraction(60, units), units))


limit_sizes = st.integers(1, 50)
gaps = st.fractions(0, 70, max_denominator=8)
tokens = st.integers(0, 60)


@st.composite
def checks(draw) -> tuple:
    """Up to three scopes, each with some of its limits."""
    made = []
    for scope in ("t:1", "p:4", "k:9"):
        for limit in ("requests_per_minute", IN, OUT):
            if draw(st.booleans()):
                made.append(rate(scope, limit, draw(limit_sizes)))
        if draw(st.booleans()):
            made.append(Slots(scope, "concurrent_calls", draw(st.integers(0, 3))))
    return tuple(made)


calls = st.lists(st.tuples(gaps, tokens, tokens), max_size=30)


class Bucket:
    """The same limit as a level that refills, may owe, and is told what was really used."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.rate = capacity, Fraction(capacity, 60)
        self.level, self.since = Fraction(capacity), Fraction(0)

    def refill(self, at: Fraction) -> None:
        self.level = min(self.capacity, self.level + self.rate * (at - self.since))
        self.since = at

    def settle(self, at: Fraction, over: int) -> None:
        self.refill(at)
        lowest = min(self.level, -self.capacity) if over > 0 else self.level - over
        self.level = min(self.capacity, max(self.level - over, lowest))


@given(limit_sizes, st.lists(st.tuples(gaps, tokens, tokens), max_size=40))
def test_gcra_that_is_settled_is_a_bucket_that_is_settled(capacity, steps):
    gcra, bucket = rate("t:1", IN, capacity).gcra, Bucket(capacity)
    tat = at = Fraction(0)
    for gap, asked, used in steps:
        at += gap
        bucket.refill(at)
        taken = gcra.take(tat, at, asked)
        fits = asked <= capacity and bucket.level >= asked
        assert hasattr(taken, "tat") == fits
        if fits:
            tat = taken.tat
            bucket.level -= asked
            at += gap / 2
            tat = gcra.adjust(tat, at, used - asked)
            bucket.settle(at, used - asked)
        assert max(tat - at, 0) * bucket.rate == capacity - _level_at(bucket, at)
        assert -capacity <= _level_at(bucket, at) <= capacity


def _level_at(bucket: Bucket, at: Fraction) -> Fraction:
    bucket.refill(at)
    return bucket.level


def level_of(check: Rate, seen: dict, at: Fraction) -> Level:
    """Asked for by a call that is refused, so that nothing changes."""
    nobody = Slots("t:1", "concurrent_calls", 0)
    return admit(Hold((check, nobody)), seen, at).levels[0]


@given(checks(), calls)
def test_all_limits_have_room_or_nothing_is_taken(checks, calls):
    seen: dict = {}
    at = Fraction(0)
    for gap, tokens_in, tokens_out in calls:
        at += gap
        hold = Hold(checks, tokens_in, tokens_out)
        alone = [admit(hold._replace(checks=(check,)), seen, at) for check in checks]
        answer = admit(hold, seen, at)
        assert isinstance(answer, Admitted) == all(isinstance(one, Admitted) for one in alone)
        if isinstance(answer, Refused):
            refused = [one.wait_seconds for one in alone if isinstance(one, Refused)]
            never = None in refused
            assert answer.wait_seconds == (None if never else max(refused))
        else:
            seen |= answer.tats
        for level in answer.levels:  # what is told is what the next call finds
            assert level == level_of(level.check, seen, at)


@given(checks(), calls)
def test_waiting_exactly_the_told_time_succeeds(checks, calls):
    rates = tuple(check for check in checks if isinstance(check, Rate))
    seen: dict = {}
    at = Fraction(0)
    for gap, tokens_in, tokens_out in calls:
        at += gap
        hold = Hold(rates, tokens_in, tokens_out)
        answer = admit(hold, seen, at)
        if isinstance(answer, Refused) and answer.wait_seconds is not None:
            at += answer.wait_seconds
            answer = admit(hold, seen, at)
            assert isinstance(answer, Admitted)
        if isinstance(answer, Admitted):
            seen |= answer.tats


@given(limit_sizes, calls, st.data())
def test_no_window_grants_more_than_the_bucket_and_what_refills(capacity, calls, data):
    check, seen = rate("t:1", IN, capacity), {}
    at, granted = Fraction(0), []
    for gap, tokens_in, _ in calls:
        at += gap
        answer = admit(Hold((check,), tokens_in), seen, at)
        if isinstance(answer, Admitted):
            seen |= answer.tats
            granted.append((at, tokens_in))
    since = data.draw(st.sampled_from([at for at, _ in granted] or [0]))
    inside = sum(units for when, units in granted if when >= since)
    assert inside <= capacity + Fraction(capacity, 60) * (at - since)


@given(limit_sizes, st.lists(st.tuples(gaps, tokens, tokens, st.integers(0, 5)), max_size=30))
def test_what_is_used_stays_within_the_limit_but_for_what_was_underestimated(capacity, calls):
    """Calls end in any order; each is settled once, by what it used."""
    check, seen, at = rate("t:1", IN, capacity), {}, Fraction(0)
    running: list[tuple[Hold, Used]] = []
    used = over = 0
    for gap, asked, really, ending in calls:
        at += gap
        hold = Hold((check,), asked)
        answer = admit(hold, seen, at)
        if isinstance(answer, Admitted):
            seen |= answer.tats
            running.append((hold, Used(really)))
            used += really
            over += max(really - asked, 0)
        if ending < len(running):
            hold, ended = running.pop(ending)
            for name, (rated, units) in corrections(hold, ended).items():
                seen[name] = rated.gcra.adjust(seen.get(name, 0), at, units)
    still = sum(hold.input_tokens - now.input_tokens for hold, now in running)
    assert used + min(still, 0) <= capacity + Fraction(capacity, 60) * at + over


@given(limit_sizes, st.lists(gaps, max_size=20))
def test_refilling_does_not_depend_on_how_often_it_is_looked_at(capacity, looks):
    check = rate("t:1", IN, capacity)
    seen = admit(Hold((check,), capacity), {}, Fraction(0)).tats
    at, before = Fraction(0), 0
    for gap in looks:
        at += gap
        level = level_of(check, seen, at)
        assert before <= level.remaining <= capacity
        assert level.remaining == min(capacity, int(Fraction(capacity, 60) * at))
        before = level.remaining


@given(limit_sizes, tokens, tokens)
def test_a_clock_that_goes_back_changes_nothing(capacity, first, second):
    check, hold = rate("t:1", IN, capacity), Hold((rate("t:1", IN, capacity),), second)
    taken = admit(Hold((check,), min(first, capacity)), {}, Fraction(100))
    now, before = admit(hold, taken.tats, Fraction(100)), admit(hold, taken.tats, Fraction(90))
    assert isinstance(now, Admitted) or isinstance(before, Refused)
    assert taken.levels[0].remaining == capacity - min(first, capacity)


@given(checks(), tokens, tokens)
def test_a_failure_gives_back_every_token_and_no_request(checks, tokens_in, tokens_out):
    hold = Hold(checks, tokens_in, tokens_out)
    answer = admit(hold, {}, Fraction(0))
    if isinstance(answer, Refused):
        return
    seen = dict(answer.tats)
    for name, (check, units) in corrections(hold, Used()).items():
        seen[name] = check.gcra.adjust(seen[name], Fraction(0), units)
    for (_, limit), tat in seen.items():
        assert (tat > 0) == (limit == "requests_per_minute")
    assert corrections(hold, Used(tokens_in, tokens_out)) == {}
