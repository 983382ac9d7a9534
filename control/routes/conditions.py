"""When a route's rule matches: whose call, how urgent, how long, at which hour, by which header."""

import re

from control import checks
from control.checks import Problem
from control.routes.wanted import RuleWanted
from control.states import Priority

TENANTS_MAX = 200
INPUT_TOKENS_MAX = 2**31 - 1
HEADER_VALUE_CHARACTERS_MAX = 256
SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})
_HEADER = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


def rule_problems(rule: RuleWanted) -> list[Problem]:
    if not _names_a_condition(rule):
        what = "names no condition: the route's own targets are for calls that match no rule"
        return [Problem("", what)]
    return [
        *_tenant_problems(rule.tenants),
        *_priority_problems(rule.priorities),
        *_length_problems(rule),
        *_hour_problems(rule.hours),
        *_header_problems(rule.header),
    ]


def _names_a_condition(rule: RuleWanted) -> bool:
    lengths = (rule.input_tokens_min, rule.input_tokens_max)
    listed = rule.tenants or rule.priorities or rule.hours or rule.header
    return bool(listed) or any(bound is not None for bound in lengths)


def _tenant_problems(tenants: tuple[str, ...]) -> list[Problem]:
    if len(tenants) > TENANTS_MAX:
        return [Problem("tenants", f"has more than {TENANTS_MAX} tenants")]
    return [
        problem
        for number, name in enumerate(tenants)
        for problem in checks.name(f"tenants[{number}]", name)
    ]


def _priority_problems(priorities: tuple[str, ...]) -> list[Problem]:
    if len(set(priorities)) < len(priorities):
        return [Problem("priorities", "names one of them twice")]
    return [
        problem
        for number, name in enumerate(priorities)
        for problem in checks.one_of(f"priorities[{number}]", name, Priority)
    ]


def _length_problems(rule: RuleWanted) -> list[Problem]:
    least, most = rule.input_tokens_min, rule.input_tokens_max
    problems = [
        *checks.whole("input_tokens.min", least, 0, INPUT_TOKENS_MAX),
        *checks.whole("input_tokens.max", most, 0, INPUT_TOKENS_MAX),
    ]
    if not problems and least is not None and most is not None and most < least:
        problems.append(Problem("input_tokens.max", f"{most} is below input_tokens.min, {least}"))
    return problems


def _hour_problems(hours: tuple[int, ...] | None) -> list[Problem]:
    """From 22 until 6 passes midnight; from 0 until 24 is the whole day."""
    if hours is None:
        return []
    if len(hours) != 2:
        return [Problem("hours", "is [from, until] in UTC, as in [22, 6]")]
    begin, end = hours
    problems = [*checks.whole("hours[0]", begin, 0, 23), *checks.whole("hours[1]", end, 0, 24)]
    if not problems and begin == end:
        problems.append(Problem("hours", f"from {begin} until {end} is no time: [0, 24] is a day"))
    return problems


def _header_problems(header: tuple[str, str] | None) -> list[Problem]:
    if header is None:
        return []
    name, value = header
    problems = []
    if not _HEADER.fullmatch(name):
        what = f"{name!r} is no header: use a to z, digits and -, as in x-team"
        problems.append(Problem("header.name", what))
    elif name in SECRET_HEADERS:
        problems.append(Problem("header.name", f"{name!r} carries secrets: choose another"))
    if not 1 <= len(value) <= HEADER_VALUE_CHARACTERS_MAX or not _visible(value):
        most = HEADER_VALUE_CHARACTERS_MAX
        problems.append(Problem("header.value", f"is 1 to {most} printable ASCII characters"))
    return problems


def _visible(value: str) -> bool:
    return value.isascii() and value.isprintable() and value == value.strip()
