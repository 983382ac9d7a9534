"""What a route may be: a public name, weighted deployments, and how its calls are treated."""

import re
from collections import Counter
from collections.abc import Iterator

from control import checks
from control.checks import Problem
from control.routes.conditions import rule_problems
from control.routes.wanted import ModerationWanted, RouteWanted, TargetWanted
from control.states import Priority, RoutingPolicy

TARGETS_MAX = 32
WEIGHT_MAX = 1000
STOP_WORDS_MAX = 8
STOP_CHARACTERS_MAX = 256
OUTPUT_TOKENS_MAX = 2**31 - 1
RULES_MAX = 32
DEADLINE_MS_MAX = 3_600_000
WAIT_SECONDS_MAX = 3600.0
MEDIA_HOSTS_MAX = 64
MEMBERS_MAX = 32
MODERATION_MS_MAX = 10_000
ON_REPLICA_LOSS = ("continue", "end")
# What the gateway sends by itself, and what would let one tenant reach another's cache.
OWN_MEMBERS = frozenset(
    {
        "cache_salt",
        "kv_transfer_params",
        "priority",
        "request_id",
        "return_token_ids",
        "vllm_xargs",
    }
)
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_MEMBER = re.compile(r"[a-z_]{1,64}")


def route_problems(wanted: RouteWanted) -> list[Problem]:
    return [
        *checks.public_name("name", wanted.name),
        *target_problems("targets", wanted.targets),
        *_rules_problems(wanted),
        *(checks.name("fallback", wanted.fallback) if wanted.fallback is not None else []),
        *_stop_problems(wanted.stop),
        *_output_problems(wanted),
        *_choice_problems(wanted),
        *_time_problems(wanted),
        *_media_problems(wanted.media_hosts),
        *_member_problems(wanted.members),
        *checks.bucket("bucket", wanted.bucket),
        *_moderation_problems(wanted.moderation),
        *checks.between("sample", wanted.sample, 0, 1),
        *checks.text("note", wanted.note),
    ]


def target_problems(path: str, targets: tuple[TargetWanted, ...]) -> list[Problem]:
    if not 1 <= len(targets) <= TARGETS_MAX:
        return [Problem(path, f"a route has 1 to {TARGETS_MAX} targets")]
    problems = []
    for number, target in enumerate(targets):
        problems += checks.whole(f"{path}[{number}].weight", target.weight, 0, WEIGHT_MAX)
    names = Counter(target.deployment for target in targets)
    for number, target in enumerate(targets):
        if names[target.deployment] > 1:
            what = f"{target.deployment!r} is named twice: add the weights up"
            problems.append(Problem(f"{path}[{number}].deployment", what))
    if not problems and not any(target.weight for target in targets):
        problems.append(Problem(path, "every weight is 0: no call could go anywhere"))
    return problems


def deployments_named(wanted: RouteWanted) -> Iterator[tuple[str, str]]:
    """Where the route names a deployment, and which."""
    for number, target in enumerate(wanted.targets):
        yield f"targets[{number}].deployment", target.deployment
    for number, rule in enumerate(wanted.rules):
        for place, target in enumerate(rule.targets):
            yield f"rules[{number}].targets[{place}].deployment", target.deployment
    if wanted.fallback is not None:
        yield "fallback", wanted.fallback


def tenants_named(wanted: RouteWanted) -> Iterator[tuple[str, str]]:
    for number, rule in enumerate(wanted.rules):
        for place, name in enumerate(rule.tenants):
            yield f"rules[{number}].tenants[{place}]", name


def _rules_problems(wanted: RouteWanted) -> list[Problem]:
    if len(wanted.rules) > RULES_MAX:
        return [Problem("rules", f"a route has at most {RULES_MAX} rules")]
    problems = []
    for number, rule in enumerate(wanted.rules):
        path = f"rules[{number}]"
        problems += target_problems(f"{path}.targets", rule.targets)
        problems += [problem.under(path) for problem in rule_problems(rule)]
    return problems


def _stop_problems(stop: tuple[str, ...]) -> list[Problem]:
    if len(stop) > STOP_WORDS_MAX:
        return [Problem("stop", f"has more than {STOP_WORDS_MAX} stop words")]
    return [
        Problem(f"stop[{number}]", f"has 1 to {STOP_CHARACTERS_MAX} characters, none of them NUL")
        for number, word in enumerate(stop)
        if not 1 <= len(word) <= STOP_CHARACTERS_MAX or not _storable(word)
    ]


def _storable(word: str) -> bool:
    """A stop word may hold any character but the two kinds that no database takes."""
    return not any(character == "\x00" or "\ud800" <= character <= "\udfff" for character in word)


def _output_problems(wanted: RouteWanted) -> list[Problem]:
    default, most = wanted.output_tokens_default, wanted.output_tokens_max
    problems = [
        *checks.whole("output_tokens_default", default, 1, OUTPUT_TOKENS_MAX),
        *checks.whole("output_tokens_max", most, 1, OUTPUT_TOKENS_MAX),
    ]
    if not problems and default is not None and most is not None and default > most:
        problems.append(Problem("output_tokens_default", f"is above output_tokens_max, {most}"))
    return problems


def _choice_problems(wanted: RouteWanted) -> list[Problem]:
    return [
        *checks.one_of("policy", wanted.policy, RoutingPolicy),
        *checks.one_of("on_replica_loss", wanted.on_replica_loss, ON_REPLICA_LOSS),
        *checks.one_of("priority", wanted.priority, Priority),
    ]


def _time_problems(wanted: RouteWanted) -> list[Problem]:
    problems = checks.whole("deadline_ms", wanted.deadline_ms, 1, DEADLINE_MS_MAX)
    for name in ("waiting_seconds", "cold_start_seconds", "commit_after_seconds"):
        problems += checks.between(name, getattr(wanted, name), 0, WAIT_SECONDS_MAX)
    return problems


def _media_problems(hosts: tuple[str, ...]) -> list[Problem]:
    if len(hosts) > MEDIA_HOSTS_MAX:
        return [Problem("media_hosts", f"has more than {MEDIA_HOSTS_MAX} hosts")]
    return [
        Problem(f"media_hosts[{number}]", f"{host!r} is no host: images.example.com, in lower case")
        for number, host in enumerate(hosts)
        if not _HOST.fullmatch(host)
    ]


def _member_problems(members: tuple[str, ...]) -> list[Problem]:
    if len(members) > MEMBERS_MAX:
        return [Problem("members", f"has more than {MEMBERS_MAX} members")]
    problems = []
    for number, name in enumerate(members):
        if not _MEMBER.fullmatch(name):
            what = f"{name!r} is no member: use a to z and _, 64 characters at most"
            problems.append(Problem(f"members[{number}]", what))
        elif name in OWN_MEMBERS:
            problems.append(Problem(f"members[{number}]", f"{name!r} is not the caller's to set"))
    return problems


def _moderation_problems(moderation: ModerationWanted | None) -> list[Problem]:
    if moderation is None:
        return []
    problems = [
        *checks.url("moderation.url", moderation.url),
        *checks.whole("moderation.timeout_ms", moderation.timeout_ms, 1, MODERATION_MS_MAX),
    ]
    if not (moderation.before or moderation.after):
        what = "is asked neither before nor after a call: name one, or leave moderation out"
        problems.append(Problem("moderation", what))
    return problems
