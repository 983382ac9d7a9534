"""What stands against closing a period."""

from datetime import UTC, datetime, timedelta

import pytest

from control.metering.invoices.closing import Backlog, why_not_close
from control.states import PeriodState

BEGINS, ENDS = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("backlog", "at", "says"),
    [
        (Backlog(), ENDS, []),
        (Backlog(), ENDS - timedelta(seconds=1), ["it runs until 2026-12-01 00:00 UTC"]),
        (Backlog(earlier_open=datetime(2026, 10, 1, tzinfo=UTC)), ENDS, ["from 2026-10-01 is not"]),
        (Backlog(not_stored=("gw-1",)), ENDS, ["may wait in spools (gw-1)"]),
        (Backlog(open_calls=3), ENDS, ["3 calls of it have not ended"]),
        (Backlog(incidents=("replica 7",)), ENDS, ["drift is not explained (replica 7)"]),
        (Backlog(open_calls=1, incidents=("r",)), ENDS, ["1 calls", "drift"]),
    ],
)
def test_what_stands_against_a_close(backlog, at, says):
    found = why_not_close(PeriodState.CLOSING, ENDS, at, backlog)
    assert len(found) == len(says)
    for problem, text in zip(found, says, strict=True):
        assert text in problem.what


def test_nothing_stands_against_closing_what_is_closed():
    assert why_not_close(PeriodState.CLOSED, ENDS, BEGINS, Backlog(open_calls=1)) == []
