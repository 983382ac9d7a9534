"""What a node looks at each second: beside each other or in a row, and nothing twice at once."""

from concurrent.futures import wait
from threading import Event

import pytest
from django.db import OperationalError

from control.fleet.crew import Crew

HANG_SECONDS = 60


class Told:
    """An outage that only notes what it is told."""

    def __init__(self):
        self.errors = []

    def goes_on(self, error):
        self.errors.append(error)


@pytest.fixture
def crew():
    made = Crew(Told())
    yield made
    made.stop()


def over(turns):
    done, left = wait([turn for turn in turns if turn], HANG_SECONDS)
    assert not left
    return done


def test_those_of_a_row_come_one_after_the_other_in_one_thread(crew):
    seen = []
    turns = crew.in_a_row("row", [(f"look {n}", seen.append, n) for n in range(5)])
    assert len(over(turns)) == 1
    assert seen == list(range(5))
    assert crew.in_a_row("row", []) == []


def test_one_that_hangs_delays_itself_alone(crew):
    begun, go_on, seen = Event(), Event(), []

    def hangs():
        begun.set()
        go_on.wait(HANG_SECONDS)

    tasks = [("hangs", hangs), ("other", seen.append, 1)]
    [row] = crew.in_a_row("row", tasks)
    assert begun.wait(HANG_SECONDS)
    hanging, other = crew.in_a_row("row", tasks)
    assert hanging is None  # it is not begun twice
    over([other])
    assert seen == [1]
    go_on.set()
    over([row])


def test_one_that_fails_is_told_of_and_the_next_one_has_its_turn(crew, caplog):
    seen = []

    def fails():
        raise ValueError("no such thing")

    def away():
        raise OperationalError("the server closed the connection")

    tasks = [("bad", fails), ("away", away), ("good", seen.append, 1)]
    over(crew.in_a_row("row", tasks))
    over(crew.in_a_row("row", tasks))
    assert seen == [1, 1]
    assert [str(one) for one in crew._outage.errors] == ["the server closed the connection"] * 2
    assert caplog.text.count("a look at bad failed") == 2


def test_nothing_begins_once_it_has_ended(crew):
    crew.stop()
    assert crew.turn("late", print) is None
    assert crew.in_a_row("row", [("late", print)]) == [None]
