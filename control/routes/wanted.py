"""A route as an operator wants it: whole, what is left out has its default."""

from dataclasses import dataclass

from control.checks import Bucket
from control.states import Priority, RoutingPolicy


@dataclass(frozen=True)
class TargetWanted:
    deployment: str
    weight: int = 100


@dataclass(frozen=True)
class RuleWanted:
    """Where calls go that match all that it names."""

    targets: tuple[TargetWanted, ...]
    tenants: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()
    input_tokens_min: int | None = None
    input_tokens_max: int | None = None
    hours: tuple[int, int] | None = None  # from, until (excluded), UTC; may pass midnight
    header: tuple[str, str] | None = None  # name, value


@dataclass(frozen=True)
class ModerationWanted:
    """A judge asked over HTTP: of the prompt, of the answer, or of both."""

    url: str
    before: bool = True
    after: bool = False
    timeout_ms: int = 500
    fail_open: bool = True


@dataclass(frozen=True)
class RouteWanted:
    name: str
    targets: tuple[TargetWanted, ...]
    stop: tuple[str, ...] = ()
    output_tokens_default: int | None = None
    output_tokens_max: int | None = None
    note: str = ""
    rules: tuple[RuleWanted, ...] = ()
    fallback: str | None = None
    policy: str = RoutingPolicy.LOAD_AWARE
    on_replica_loss: str = "continue"
    priority: str = Priority.INTERACTIVE
    deadline_ms: int | None = None
    waiting_seconds: float | None = None
    cold_start_seconds: float | None = None
    commit_after_seconds: float | None = None
    progress: bool = False
    shared_prefix: bool = False
    media_hosts: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    bucket: Bucket | None = None
    moderation: ModerationWanted | None = None
    sample: float = 0.01
