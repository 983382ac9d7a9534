"""A prompt that was in flight at two deaths of engines is refused for an hour."""

from hypothesis import given, settings
from hypothesis import strategies as st

from control.gateway.routing.deaths import fingerprint
from control.gateway.routing.strikes import Strikes
from control.gateway.wire import parse


def strikes(*added: tuple[str, str, float], most: int = 10) -> Strikes:
    made = Strikes(most)
    for prompt, death, until in added:
        made.add(prompt, death, until)
    return made


def test_one_death_is_chance_however_often_it_is_told():
    made = strikes(("p", "1:1", 60), ("p", "1:1", 60))
    assert not made.condemned
    assert made.counts_elsewhere("p", "2:1")
    assert not made.counts_elsewhere("p", "1:1")


def test_two_deaths_condemn_until_one_of_them_is_forgotten():
    made = strikes(("p", "1:1", 60), ("q", "1:1", 60))
    assert made.add("p", "2:1", 90)
    assert not made.add("p", "3:1", 90)  # told once only
    assert made.condemned == {"p"}
    made.forget(60)
    assert made.condemned == {"p"}  # two are left
    made.forget(90)
    assert not made.condemned
    assert len(made) == 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 3))))
def test_no_more_prompts_are_remembered_than_there_is_room_for(added):
    made = Strikes(5)
    for prompt, death in added:
        made.add(str(prompt), str(death), 60)
        assert len(made) <= 5
    made.forget(0)
    assert len(made.condemned) <= 5


def ask(body: bytes):
    return parse("chat.completions", body, depth_max=64)


def test_a_fingerprint_is_of_what_was_judged():
    a = ask(b'{"model":"m","messages":[{"role":"user","content":"x"}],"n":1}')
    same = ask(b'{"n":1, "messages":[{"content":"x","role":"user"}],"model":"m","stream":true}')
    other = ask(b'{"model":"m","messages":[{"role":"user","content":"y"}],"n":1}')
    assert fingerprint(a) == fingerprint(same)
    assert fingerprint(a) != fingerprint(other)
