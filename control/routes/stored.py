"""A wanted route ↔ its row: plain columns, lists, and JSON for what is an object."""

from collections.abc import Iterable

import msgspec

from control.checks import Bucket
from control.models import Route
from control.routes.wanted import ModerationWanted, RouteWanted, RuleWanted, TargetWanted

PLAIN = (
    "output_tokens_default",
    "output_tokens_max",
    "policy",
    "on_replica_loss",
    "priority",
    "deadline_ms",
    "waiting_seconds",
    "cold_start_seconds",
    "commit_after_seconds",
    "progress",
    "shared_prefix",
    "sample",
    "note",
)
LISTS = ("stop", "media_hosts", "members")
OBJECTS = {"bucket": Bucket | None, "moderation": ModerationWanted | None}


def columns(wanted: RouteWanted) -> dict:
    """What the row holds; its targets and its fallback are rows of their own."""
    return {
        **{name: getattr(wanted, name) for name in PLAIN},
        **{name: list(getattr(wanted, name)) for name in LISTS},
        **{name: msgspec.to_builtins(getattr(wanted, name)) for name in OBJECTS},
        "rules": [_named(rule) for rule in wanted.rules],
    }


def wanted(route: Route, targets: Iterable[TargetWanted], fallback: str | None) -> RouteWanted:
    return RouteWanted(
        name=route.name,
        targets=tuple(targets),
        fallback=fallback,
        rules=msgspec.convert(route.rules, tuple[RuleWanted, ...]),
        **{name: getattr(route, name) for name in PLAIN},
        **{name: tuple(getattr(route, name)) for name in LISTS},
        **{name: msgspec.convert(getattr(route, name), kind) for name, kind in OBJECTS.items()},
    )


def _named(rule: RuleWanted) -> dict:
    """A rule without the conditions that it does not name."""
    parts = msgspec.to_builtins(rule)
    return {name: value for name, value in parts.items() if value not in (None, [], ())}
