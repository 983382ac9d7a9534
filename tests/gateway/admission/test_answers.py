"""Which limit the headers of an answer tell of: the one that refused it, else the tightest."""

import pytest

from control.gateway.admission.answers import ratelimit_headers
from control.gateway.admission.rules import Level, checks_of
from tests.gateway.place import chat, route

IN, OUT, RPM = "input_tokens_per_minute", "output_tokens_per_minute", "requests_per_minute"
LIMITS = {RPM: 100, IN: 100_000, OUT: 1000}
REQUESTS, INPUT, OUTPUT = checks_of("t:1", LIMITS)
KEYS_INPUT = checks_of("k:9", {IN: 50_000})[0]


@pytest.mark.parametrize(
    ("left", "refused", "limit"),
    [
        ({INPUT: 50_000, OUTPUT: 900}, None, 100_000),  # the half is less than nine tenths
        ({INPUT: 99_000, OUTPUT: 900}, None, 1000),
        ({INPUT: 99_000, OUTPUT: 10}, INPUT, 100_000),
        ({OUTPUT: 10, INPUT: 99_000}, INPUT, 100_000),
        ({INPUT: 1, OUTPUT: 900}, OUTPUT, 1000),
        ({INPUT: 30_000, KEYS_INPUT: 40_000}, None, 100_000),  # of one kind, what has least left
        ({INPUT: 30_000, KEYS_INPUT: 40_000}, KEYS_INPUT, 50_000),
        ({INPUT: 50_000, OUTPUT: 900}, REQUESTS, 100_000),
    ],
)
def test_the_limit_that_the_token_headers_tell_of(left, refused, limit):
    levels = tuple(Level(check, remaining, 1.5) for check, remaining in left.items())
    headers = dict(ratelimit_headers(levels, refused))
    assert headers[b"x-ratelimit-limit-tokens"] == b"%d" % limit
    [told] = [n for check, n in left.items() if check.units == limit]
    assert headers[b"x-ratelimit-remaining-tokens"] == b"%d" % told


async def test_a_refusal_shows_the_bucket_that_refused(place, engines):
    place.know(route(), scopes={"t:1": {IN: 200, OUT: 2000}})
    refused = await place.post(chat("x" * 3000, max_tokens=1999))
    assert (refused.status, refused.error["type"]) == (429, "tokens")
    assert refused.headers["x-ratelimit-limit-tokens"] == "200"
