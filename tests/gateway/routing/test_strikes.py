"""A prompt that was in flight at two deaths of engines is refused for an hour."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.gateway.bodies.wire import parse
from control.gateway.routing.deaths import fingerprint
from control.gateway.routing.strikes import Death, Strikes


def strikes(*added: tuple[str, Death], most: int = 10) -> Strikes:
    made = Strikes(most, seconds=3600, together_seconds=10)
    for prompt, death in added:
        made.add(prompt, death)
    return made


def a_death(launch: str, at: float = 0, *, since: float = -5, host: str = "") -> Death:
    return Death(launch, host or f"host of {launch}", since, at)


def test_one_death_is_chance_however_often_it_is_told():
    made = strikes(("p", a_death("1:1")), ("p", a_death("1:1", 2)))
    assert not made.condemned
    assert made.counts_elsewhere("p", a_death("2:1"))
    assert not made.counts_elsewhere("p", a_death("1:1"))


def test_two_deaths_condemn_until_one_of_them_is_forgotten():
    made = strikes(("p", a_death("1:1")), ("q", a_death("1:1")))
    assert made.add("p", a_death("2:1", 90))
    assert not made.add("p", a_death("3:1", 90))  # told once only
    assert made.condemned == {"p"}
    made.forget(3600)
    assert made.condemned == {"p"}  # two are left
    [told] = made.told(5)
    assert (told.prompt, told.launches, told.until) == ("p", ("2:1", "3:1"), 3690)
    made.forget(3690)
    assert not made.condemned
    assert made.told(5) == []
    assert len(made) == 0


@pytest.mark.parametrize(
    ("second", "is_another"),
    [
        (a_death("2:1", 3, host="h"), False),  # the host fell, and both engines with it
        (a_death("2:1", 3, host="i"), True),
        (a_death("2:1", 11, host="h"), True),  # it stands: the two fell apart
        (a_death("2:1", 3, since=1, host="h"), True),  # it got the prompt of the first, and died
    ],
)
def test_engines_that_die_with_their_host_die_one_death(second, is_another):
    made = strikes(("p", a_death("1:1", host="h")))
    assert made.counts_elsewhere("p", second) == is_another
    assert made.add("p", second) == is_another
    assert bool(made.condemned) == is_another
    assert made.add("p", a_death("3:1", 4, host="j")) is not is_another  # another host's counts


def test_whoever_tells_of_a_death_later_does_not_move_it():
    late = a_death("1:1", 8, since=7, host="h")
    made = strikes(("p", a_death("1:1", host="h")), ("p", late))
    assert made.add("p", a_death("2:1", 3, since=1, host="h"))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 3))))
def test_no_more_prompts_are_remembered_than_there_is_room_for(added):
    made = strikes(most=5)
    for prompt, death in added:
        made.add(str(prompt), a_death(str(death)))
        assert len(made) <= 5
    made.forget(3600)
    assert len(made.condemned) <= 5


def ask(body: bytes):
    return parse("chat.completions", body, depth_max=64)


def test_a_fingerprint_is_of_what_was_judged():
    a = ask(b'{"model":"m","messages":[{"role":"user","content":"x"}],"n":1}')
    same = ask(b'{"n":1, "messages":[{"content":"x","role":"user"}],"model":"m","stream":true}')
    other = ask(b'{"model":"m","messages":[{"role":"user","content":"y"}],"n":1}')
    assert fingerprint(a) == fingerprint(same)
    assert fingerprint(a) != fingerprint(other)
