"""Where a route's calls go: its first rule that matches a call, or else its own targets."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from control.routes.snapshot import RouteInfo, RuleInfo


class Asked(NamedTuple):
    """What rules look at. Header names are in lower case; the hour is UTC's."""

    tenant: str
    priority: str
    input_tokens: int
    hour: int
    headers: Mapping[bytes, bytes]


def narrowed(route: RouteInfo, asked: Asked) -> RouteInfo:
    """The route as this call sees it: all that follows reads its targets only."""
    for rule in route.rules:
        if matches(rule, asked):
            return msgspec.structs.replace(route, targets=rule.targets, rules=())
    return route


def matches(rule: RuleInfo, asked: Asked) -> bool:
    if rule.tenants and asked.tenant not in rule.tenants:
        return False
    if rule.priorities and asked.priority not in rule.priorities:
        return False
    if rule.input_tokens_min is not None and asked.input_tokens < rule.input_tokens_min:
        return False
    if rule.input_tokens_max is not None and asked.input_tokens > rule.input_tokens_max:
        return False
    return _in_hours(rule, asked) and _has_header(rule, asked)


def hour_of(epoch_seconds: float) -> int:
    return int(epoch_seconds) // 3600 % 24


def _in_hours(rule: RuleInfo, asked: Asked) -> bool:
    if rule.hours is None:
        return True
    begin, end = rule.hours
    if begin <= end:
        return begin <= asked.hour < end
    return asked.hour >= begin or asked.hour < end  # through midnight


def _has_header(rule: RuleInfo, asked: Asked) -> bool:
    if rule.header is None:
        return True
    name, value = rule.header
    return asked.headers.get(name.encode()) == value.encode()
