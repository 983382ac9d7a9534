"""How much of an engine's cache its calls may hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.gateway.routing import room
from control.gateway.routing.room import Room


@pytest.mark.parametrize(
    ("of", "share", "batch"),
    [
        *[(0, 1.0, 0), (1, 1.0, 1), (2, 1.0, 1), (9, 1.0, 8), (20, 1.0, 18), (1000, 1.0, 900)],
        *[(0, 0.1, 0), (1, 0.1, 1), (2, 0.5, 1), (9, 0.5, 4), (20, 0.1, 1), (1000, 0.7, 630)],
    ],
)
def test_batch_leaves_a_tenth_and_never_halts(of, share, batch):
    assert room.batch_part(of, share) == batch


@pytest.mark.parametrize(("slots", "kept"), [(0, 0), (11, 0), (12, 1), (31, 1), (32, 2), (256, 16)])
def test_one_of_sixteen_slots_is_kept_for_interactive_calls(slots, kept):
    assert room.kept_slots(slots) == kept


@pytest.mark.parametrize(
    ("kv_tokens", "share", "usable"),
    [(None, 1.0, None), (1000, 1.0, 900), (1000, 0.5, 450), (0, 1.0, 0), (7, 1.0, 6)],
)
def test_nine_tenths_of_what_the_engine_reported_are_used(kv_tokens, share, usable):
    assert room.usable_tokens(kv_tokens, share) == usable


@pytest.mark.parametrize(
    ("tokens", "held"), [((10, 0, 100), 110), ((10, 99, 100), 110), ((10, 300, 100), 310)]
)
def test_a_call_holds_what_came_and_what_is_still_expected(tokens, held):
    assert room.held_tokens(*tokens) == held


@pytest.mark.parametrize(
    ("held", "tokens", "is_batch", "slots", "fits"),
    [
        (0, 5000, False, 8, True),  # larger than all of it: alone
        (1, 5000, False, 8, False),
        (800, 100, False, 8, True),
        (800, 101, False, 8, False),
        (700, 110, True, 8, True),
        (700, 111, True, 8, False),  # a floor of 90 is not for batch
        (400, 50, False, 4, True),  # half of the slots, half of the tokens
        (400, 51, False, 4, False),
    ],
)
def test_a_call_goes_where_there_is_room_for_all_of_it(held, tokens, is_batch, slots, fits):
    kept = Room(1000)
    kept.take(held, is_batch=is_batch)
    batch = 1.0 if is_batch else 0.0
    assert kept.fits(tokens, batch=batch, slots=slots, slots_in_all=8) is fits


def test_an_engine_that_does_not_say_what_it_holds_has_no_bound():
    kept = Room(None)
    kept.take(10**9, is_batch=False)
    assert kept.fits(10**9, batch=1.0, slots=1, slots_in_all=1)
    assert not kept.is_tight


def test_a_preempting_engine_gets_less_and_recovers_slowly():
    kept = Room(1000)
    kept.take(800, is_batch=False)
    assert kept.fits(100, batch=0.0, slots=1, slots_in_all=1)
    kept.judge(2.5)
    assert not kept.fits(100, batch=0.0, slots=1, slots_in_all=1)
    for _ in range(10):
        kept.judge(0.0)
    assert not kept.fits(100, batch=0.0, slots=1, slots_in_all=1)
    for _ in range(10):
        kept.judge(None)
    assert kept.fits(100, batch=0.0, slots=1, slots_in_all=1)


@given(st.lists(st.booleans(), max_size=200))
def test_the_share_stays_between_a_half_and_all(seconds):
    share = 1.0
    for preempted in seconds:
        before, share = share, room.share_after(share, preempted=preempted)
        assert room.SHARE_LEAST <= share <= 1.0
        assert share <= before if preempted else share >= before
