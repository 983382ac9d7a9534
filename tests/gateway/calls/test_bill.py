"""What a call counts for: whole in its limits, by its work in its tenant's turns."""

import json

import pytest

from control.gateway.admission.rules import Used
from control.gateway.calls.bill import NOTHING, cost_of, used_of
from control.gateway.streams.chunks import Usage
from control.states import Outcome
from tests.gateway.upstream import Script, answered
from tests.gateway.waiting.test_calls import OTHER, busy, served, waits

USAGE = Usage(100, 80, 10, 0)  # input, cached of it, output, reasoning of it


@pytest.mark.parametrize(
    ("outcome", "first_token_at", "used"),
    [
        (Outcome.COMPLETE, 1.0, Used(100, 10)),  # cached tokens count whole
        (Outcome.CLIENT_CLOSED, None, Used(100, 10)),
        (Outcome.TRUNCATED, 1.0, Used(100, 10)),
        (Outcome.UPSTREAM_ERROR, None, NOTHING),
        (Outcome.DEADLINE, None, NOTHING),
    ],
)
def test_what_a_call_counts_for_in_its_limits(outcome, first_token_at, used):
    assert used_of(USAGE, outcome, first_token_at) == used


def test_what_a_call_counts_for_in_its_tenants_turns():
    assert cost_of(USAGE) == 20 + 8 + 20  # cached a tenth, output twice


def cached(tokens: int) -> Script:
    """An answer whose prompt was cached whole."""
    script = answered(tokens_in=tokens, tokens_out=1)
    body = json.loads(script.body)
    body["usage"]["prompt_tokens_details"] = {"cached_tokens": tokens}
    script.body = json.dumps(body).encode()
    return script


async def test_what_was_cached_is_trued_up_in_the_next_turns(tmp_path):
    async with busy(tmp_path, tokens=(1, 0)) as place:
        plain, short = answered(tokens_in=500, tokens_out=1), answered(tokens_in=1, tokens_out=1)
        place.engine.scripts = [cached(1000), plain, short]
        for n in range(3):
            await waits(place, f"cached {n}")
        for n in range(3):
            await waits(place, f"plain {n}", key=OTHER)
        order = await served(place)
        # A thousand cached tokens are a hundred, and less than the other's five hundred.
        assert order == ["cached 0", "plain 0", "cached 1", "cached 2", "plain 1", "plain 2"]
