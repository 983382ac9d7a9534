"""Batch gets less of an engine while interactive streams are slow there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.gateway.routing import tempo
from control.gateway.routing.tempo import Tempo


@pytest.mark.parametrize(
    ("share", "pace", "after"),
    [
        (1.0, 0.2, 0.7),
        (0.12, 0.2, tempo.SHARE_LEAST),
        (0.5, 0.05, 0.55),
        (0.5, 0.1, 0.55),  # just in time
        (0.98, 0.05, 1.0),
        (0.5, None, 0.55),  # nobody is slowed down
    ],
)
def test_the_share_is_lowered_by_a_factor_and_raised_by_steps(share, pace, after):
    assert tempo.share_after(share, pace, 0.1) == pytest.approx(after)


def test_the_pace_is_that_of_all_streams_in_the_last_second():
    replica = Tempo()
    replica.note(1.0, 30)
    replica.note(1.0, 1)
    replica.sweep(0.1)
    assert replica.batch_share == 1.0
    replica.note(1.0, 9)
    replica.note(1.0, 0)  # it stands still
    replica.sweep(0.1)
    assert replica.batch_share == pytest.approx(0.7)
    replica.sweep(0.1)
    assert replica.batch_share == pytest.approx(0.75)


@given(st.lists(st.one_of(st.none(), st.floats(0, 10)), max_size=200))
def test_the_share_stays_within_its_bounds(paces):
    share = 1.0
    for pace in paces:
        share = tempo.share_after(share, pace, 0.1)
        assert tempo.SHARE_LEAST <= share <= 1.0
