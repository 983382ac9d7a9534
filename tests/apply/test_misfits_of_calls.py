"""Refusals of what a service.yaml says of how calls are treated: line, field, what to do."""

import pytest

from tests.apply.documents import refusal, service
from tests.apply.test_misfits import ROUTE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            service(ROUTE + "    rules: [{targets: [{deployment: d}]}]"),
            "5: routes[0].rules[0]: names no condition",
        ),
        (
            service(ROUTE + "    rules:\n      - tenants: [a]\n        colour: red"),
            "7: routes[0].rules[0].colour: is not understood; known here are header, hours",
        ),
        (
            service(ROUTE + "    rules:\n      - tenants: [a]"),
            "6: routes[0].rules[0].targets: a route has 1 to 32 targets",
        ),
        (
            service(ROUTE + "    rules: [{hours: [22, '6'], targets: [{deployment: d}]}]"),
            "5: routes[0].rules[0].hours[1]: is a text, not a whole number",
        ),
        (
            service(ROUTE + "    rules: [{hours: [22, 25], targets: [{deployment: d}]}]"),
            "5: routes[0].rules[0].hours[1]: 25 is not between 0 and 24",
        ),
        (
            service(ROUTE + "    rules: [{input_tokens: {from: 1}, targets: [{deployment: d}]}]"),
            "5: routes[0].rules[0].input_tokens.from: is not understood; known here are max, min",
        ),
        (
            service(ROUTE + "    rules: [{header: {name: x-a}, targets: [{deployment: d}]}]"),
            "5: routes[0].rules[0].header.value: is required",
        ),
        (
            service(ROUTE + "    policy: random"),
            "5: routes[0].policy: 'random' is not one of round_robin, least_calls",
        ),
        (
            service(ROUTE + "    waiting_seconds: soon"),
            "5: routes[0].waiting_seconds: is a text, not a number",
        ),
        (
            service(ROUTE + "    waiting_seconds: 1e999"),
            "5: routes[0].waiting_seconds: inf is not between 0 and 3600",
        ),
        (
            service(ROUTE + "    bucket: {calls: 5}"),
            "5: routes[0].bucket.calls: is not understood; known here are burst_seconds, calls_per",
        ),
        (
            service(ROUTE + "    moderation: {before: true}"),
            "5: routes[0].moderation.url: is required",
        ),
        (
            service(ROUTE + "    moderation: {url: 'http://u:p@judge'}"),
            "5: routes[0].moderation.url: holds a secret",
        ),
        (
            service(ROUTE + "    members: [cache_salt]"),
            "5: routes[0].members[0]: 'cache_salt' is not the caller's to set",
        ),
        (
            service("deployments: [{name: d, model: m, version: v, bucket: {burst_seconds: 0}}]"),
            "2: deployments[0].bucket.burst_seconds: 0 is not between 0.1 and 3600",
        ),
        (
            service("tenants: [{name: a, keys: [{name: k, endpoints: [chat]}]}]"),
            "2: tenants[0].keys[0].endpoints[0]: 'chat' is not one of chat.completions",
        ),
        (
            service("tenants: [{name: a, keys: [{name: k, networks: [10.0.0.1/8]}]}]"),
            "2: tenants[0].keys[0].networks[0]: '10.0.0.1/8' has bits beyond its prefix: write 10",
        ),
        (
            service("tenants: [{name: a, keys: [{name: k, priority: high}]}]"),
            "2: tenants[0].keys[0].priority: 'high' is not one of interactive",
        ),
    ],
)
def test_a_misfit_is_told_with_line_and_field(text, said):
    assert any(line.startswith(said) for line in refusal(text)), refusal(text)
