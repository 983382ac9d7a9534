"""What a route may be: a public name, weighted deployments, and what is added to a call."""

from collections import Counter
from dataclasses import dataclass

from control import checks
from control.checks import Problem

TARGETS_MAX = 32
WEIGHT_MAX = 1000
STOP_WORDS_MAX = 8
STOP_CHARACTERS_MAX = 256
OUTPUT_TOKENS_MAX = 2**31 - 1


@dataclass(frozen=True)
class TargetWanted:
    deployment: str
    weight: int = 100


@dataclass(frozen=True)
class RouteWanted:
    """A route, whole: what is left out has its default."""

    name: str
    targets: tuple[TargetWanted, ...]
    stop: tuple[str, ...] = ()
    output_tokens_default: int | None = None
    output_tokens_max: int | None = None
    note: str = ""


def route_problems(wanted: RouteWanted) -> list[Problem]:
    return [
        *checks.public_name("name", wanted.name),
        *_target_problems(wanted.targets),
        *_stop_problems(wanted.stop),
        *_output_problems(wanted),
        *checks.text("note", wanted.note),
    ]


def _target_problems(targets: tuple[TargetWanted, ...]) -> list[Problem]:
    if not 1 <= len(targets) <= TARGETS_MAX:
        return [Problem("targets", f"a route has 1 to {TARGETS_MAX} targets")]
    problems = []
    for number, target in enumerate(targets):
        problems += checks.whole(f"targets[{number}].weight", target.weight, 0, WEIGHT_MAX)
    names = Counter(target.deployment for target in targets)
    for number, target in enumerate(targets):
        if names[target.deployment] > 1:
            what = f"{target.deployment!r} is named twice: add the weights up"
            problems.append(Problem(f"targets[{number}].deployment", what))
    if not problems and not any(target.weight for target in targets):
        problems.append(Problem("targets", "every weight is 0: no call could go anywhere"))
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
