"""Which prompts were in flight at which deaths of engines: two of them, and it is not chance."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

DEATHS_MAX = 2


class Death(NamedTuple):
    """The end of one launch of one replica, in which a prompt was since an instant."""

    launch: str
    host: str
    since: float
    at: float


class Condemned(NamedTuple):
    """A prompt that is refused until then, and the launches that ended with it."""

    prompt: str
    launches: tuple[str, ...]
    until: float


class Strikes:
    """By fingerprint of a judged body. Times are given.

    Engines of one host that end together, each already at work on the prompt, ended with their
    host: that is one death. An engine that got the prompt after the first had died counts.
    """

    def __init__(self, prompts_max: int, *, seconds: float, together_seconds: float) -> None:
        self.condemned: frozenset[str] = frozenset()
        self._prompts_max = prompts_max
        self._seconds = seconds  # for which a death counts
        self._together_seconds = together_seconds
        self._deaths: OrderedDict[str, dict[str, Death]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._deaths)

    def add(self, prompt: str, death: Death) -> bool:
        """True if this makes it one that is refused. The one heard of longest ago is forgotten."""
        deaths = self._deaths.setdefault(prompt, {})
        self._deaths.move_to_end(prompt)
        known = deaths.get(death.launch, death)  # others tell of it too, and later
        first = Death(*known[:2], min(known.since, death.since), min(known.at, death.at))
        deaths[death.launch] = first
        if len(self._deaths) > self._prompts_max:
            self._deaths.popitem(last=False)
        is_new = prompt not in self.condemned and self._count(deaths.values()) >= DEATHS_MAX
        if is_new:
            self.condemned |= {prompt}
        return is_new

    def counts_elsewhere(self, prompt: str, death: Death) -> bool:
        """It was in flight at another death before."""
        others = self._deaths.get(prompt, {}).values()
        return any(
            other.launch != death.launch and not self._is_one(other, death) for other in others
        )

    def told(self, most: int) -> list[Condemned]:
        """Those that are refused, for people: so many."""
        return [self.verdict(prompt) for prompt in sorted(self.condemned)[:most]]

    def verdict(self, prompt: str) -> Condemned:
        """Of one that is refused."""
        deaths = sorted(self._deaths.get(prompt, {}).values(), key=lambda it: it.at)
        until = deaths[-DEATHS_MAX].at + self._seconds if len(deaths) >= DEATHS_MAX else 0.0
        return Condemned(prompt, tuple(one.launch for one in deaths), until)

    def forget(self, now: float) -> None:
        """What is over; also of those that were condemned."""
        for prompt, deaths in tuple(self._deaths.items()):
            for launch in [one for one, it in deaths.items() if it.at + self._seconds <= now]:
                del deaths[launch]
            if not deaths:
                del self._deaths[prompt]
        if self.condemned:
            counts = {p: self._count(self._deaths.get(p, {}).values()) for p in self.condemned}
            self.condemned = frozenset(p for p, count in counts.items() if count >= DEATHS_MAX)

    def _count(self, deaths: Iterable[Death]) -> int:
        counted: list[Death] = []
        for death in sorted(deaths, key=lambda it: it.at):
            if not any(self._is_one(death, other) for other in counted):
                counted.append(death)
        return len(counted)

    def _is_one(self, one: Death, other: Death) -> bool:
        """They ended with their host, and not one after the other of the same prompt."""
        near = abs(one.at - other.at) <= self._together_seconds
        return (
            near and one.host == other.host and max(one.since, other.since) < min(one.at, other.at)
        )
