"""Deployments that ran out of memory a while ago: less of their cache, and no call too large."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from control.gateway import errors
from control.routes.cache_use import GUARDED_SHARE
from control.routes.snapshot import DeploymentInfo, RouteInfo, TargetInfo


class Guard:
    """`tokens_max`: of a call, the largest that was served since; one step's worth at first."""

    __slots__ = ("since", "tokens_max", "until")

    def __init__(self, since: float, until: float, tokens_max: int) -> None:
        self.since, self.until, self.tokens_max = since, until, tokens_max


class Guarded(NamedTuple):
    """A call of so many tokens, where no deployment takes more than so many for a while."""

    tokens: int
    tokens_max: int
    wait_seconds: float
    deployments: tuple[str, ...]


class Guards:
    """Of one process. Empty, and then nothing of it is asked, while nothing is guarded."""

    def __init__(self) -> None:
        self.deployments: Mapping[str, Guard] = {}

    def know(self, deployments: Iterable[DeploymentInfo], wall: float) -> bool:
        """Whether others are guarded than before; what was learned of a guard stays."""
        before, known = self.deployments, {}
        for one in deployments:
            if one.guarded_until is None or one.guarded_until <= wall:
                continue
            guard = before.get(one.name)
            if guard is None or guard.since != one.guarded_since:
                guard = Guard(one.guarded_since or wall, one.guarded_until, one.guard_tokens)
            known[one.name] = guard
        self.deployments = known
        return before.keys() != known.keys()

    def sweep(self, wall: float) -> bool:
        """Whether a guard has ended."""
        kept = {name: guard for name, guard in self.deployments.items() if guard.until > wall}
        ended = len(kept) < len(self.deployments)
        self.deployments = kept
        return ended

    def share(self, deployment: str) -> float:
        return GUARDED_SHARE if deployment in self.deployments else 1.0

    def open(self, targets: tuple[TargetInfo, ...], tokens: int) -> tuple[TargetInfo, ...]:
        """Without those that such a call is too large for now."""
        return tuple([one for one in targets if self._admits(one.deployment, tokens)])

    def judge(self, route: RouteInfo, tokens: int, wall: float) -> None:
        """Raises if no deployment of the route takes so large a call before the guard ends."""
        names = [target.deployment for target in route.targets if target.weight > 0]
        names += [route.fallback] if route.fallback else []
        if not names or any(self._admits(name, tokens) for name in names):
            return
        guards = [self.deployments[name] for name in names]
        most, until = max(it.tokens_max for it in guards), min(it.until for it in guards)
        wait_seconds = max(until - wall, 1.0)
        raise errors.Overloaded(
            f"The model behind '{route.name}' ran out of memory a moment ago: for now it takes "
            f"calls of {most} tokens at most, prompt and answer together. Ask for fewer, or retry.",
            wait_seconds=wait_seconds,
            why=Guarded(tokens, most, wait_seconds, tuple(names)),
        )

    def served(self, deployment: str, tokens: int) -> None:
        """A call of this size ended well."""
        guard = self.deployments.get(deployment)
        if guard is not None and tokens > guard.tokens_max:
            guard.tokens_max = tokens

    def _admits(self, deployment: str, tokens: int) -> bool:
        guard = self.deployments.get(deployment)
        return guard is None or tokens <= guard.tokens_max
