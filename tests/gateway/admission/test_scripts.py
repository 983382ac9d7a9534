"""The steps in a real Valkey decide as the pure rules do, call by call, with a clock of ours."""

from fractions import Fraction

import pytest
import redis
from django.conf import settings
from hypothesis import HealthCheck, given
from hypothesis import settings as how
from hypothesis import strategies as st

from control.gateway.admission import scripts
from control.gateway.admission.commands import SINCE, Commands, key_of
from control.gateway.admission.rules import (
    Admitted,
    Gcra,
    Hold,
    Rate,
    Refused,
    Slots,
    Used,
    admit,
    corrections,
)

NOW = b"local now = tonumber(redis.call('GET', 'test:now'))\n"
COMMANDS = Commands(scripts.steps(NOW), lease_microseconds=10**15)
BODIES = {scripts.sha(step): step for step in COMMANDS.steps}
START = Fraction(1_800_000_000)
SECOND = 1_000_000  # the store counts whole microseconds
limit_sizes = st.sampled_from([1, 2, 3, 5, 10, 40, 1000])  # a unit is a whole number of them
tokens = st.integers(0, 1200)


@st.composite
def checks(draw) -> tuple:
    made = []
    for scope in ("t:1", "k:9"):
        for limit in ("requests_per_minute", "input_tokens_per_minute", "output_tokens_per_minute"):
            if draw(st.booleans()):
                units = draw(limit_sizes)
                made.append(Rate(scope, limit, units, Gcra(Fraction(60, units), units)))
        if draw(st.booleans()):
            made.append(Slots(scope, "concurrent_calls", draw(st.integers(0, 3))))
    return tuple(made)


class Store:
    """Runs a command that a gateway would send, at the time that a test says."""

    def __init__(self, client: redis.Redis, *, forgot: bool) -> None:
        self.client = client
        self.client.flushdb()
        if not forgot:
            self.client.set(SINCE, 0)

    def run(self, command: bytes, at: Fraction) -> list[int]:
        words = command.split(b"\r\n")[2::2]
        self.client.set("test:now", int(at * SECOND))
        return self.client.eval(BODIES[words[1].decode()], *words[2:])


@pytest.fixture(scope="module")
def client():
    with redis.Redis.from_url(settings.REDIS_LIVE_URL) as client:
        yield client


def tats(checks: tuple, client: redis.Redis) -> dict:
    stored = {check[:2]: client.get(key_of(check)) for check in checks if isinstance(check, Rate)}
    return {name: Fraction(int(tat), SECOND) for name, tat in stored.items() if tat}


calls = st.lists(
    st.tuples(st.fractions(0, 70, max_denominator=8), tokens, tokens, tokens), max_size=12
)


@given(checks(), calls, st.data())
@how(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_valkey_decides_as_the_rules_do(client, checks, calls, data):
    forgot = data.draw(st.booleans())  # what it held before, so that all starts empty
    store = Store(client, forgot=forgot)
    store.run(COMMANDS.take("first", Hold(())), START)
    rates = [check for check in checks if isinstance(check, Rate)]
    seen: dict = {check[:2]: START + 60 for check in rates} if forgot else {}
    live: dict[str, Hold] = {}
    at = START
    for number, (gap, tokens_in, tokens_out, used) in enumerate(calls):
        at += round(gap, 3)
        name = f"req_{number}"
        hold = Hold(checks, tokens_in, tokens_out)
        held = {c[:2]: len(live) for c in checks if isinstance(c, Slots)}
        wanted = admit(hold, seen | held, at)
        command = COMMANDS.take(name, hold)
        if checks:
            assert_same(store.run(command, at), wanted, hold, at)
        if isinstance(wanted, Admitted):
            seen |= wanted.tats
            live[name] = hold
        if live and data.draw(st.booleans()):
            name, hold = data.draw(st.sampled_from(sorted(live.items())))
            end(store, name, live.pop(name), Used(used, used // 2), at, seen)
        stored = tats(checks, client)
        assert all(max(stored[name], at) == max(seen[name], at) for name in stored)
    for name in tuple(live):
        end(store, name, live.pop(name), Used(), at, seen)
    assert not client.keys("calls:*")


def assert_same(reply: list[int], wanted: Admitted | Refused, hold: Hold, at: Fraction) -> None:
    number, wait, *levels = reply
    if isinstance(wanted, Refused):
        assert hold.checks[number - 1] == wanted.check
        assert wait == (-1 if wanted.wait_seconds is None else wanted.wait_seconds * SECOND)
    else:
        assert (number, wait) == (0, 0)
    told = [(level.remaining, level.reset_seconds * SECOND) for level in wanted.levels]
    assert list(zip(levels[::2], levels[1::2], strict=True)) == told


def end(store: Store, name: str, hold: Hold, used: Used, at: Fraction, seen: dict) -> None:
    changes = corrections(hold, used)
    for rate, (check, units) in changes.items():
        seen[rate] = check.gcra.adjust(seen.get(rate, 0), at, units)
    if command := COMMANDS.settle(name, hold, used):
        store.run(command, at)
