"""Which prompts were in flight at which deaths of engines: two of them, and it is not chance."""

from collections import OrderedDict

DEATHS_MAX = 2


class Strikes:
    """By fingerprint of a judged body; a death is one launch of one replica. Times are given."""

    def __init__(self, prompts_max: int) -> None:
        self.condemned: frozenset[str] = frozenset()
        self._prompts_max = prompts_max
        self._deaths: OrderedDict[str, dict[str, float]] = OrderedDict()  # until when each counts

    def __len__(self) -> int:
        return len(self._deaths)

    def add(self, prompt: str, death: str, until: float) -> bool:
        """True if this makes it one that is refused. The one heard of longest ago is forgotten."""
        deaths = self._deaths.setdefault(prompt, {})
        self._deaths.move_to_end(prompt)
        deaths[death] = max(until, deaths.get(death, 0.0))
        if len(self._deaths) > self._prompts_max:
            self._deaths.popitem(last=False)
        is_new = len(deaths) >= DEATHS_MAX and prompt not in self.condemned
        if is_new:
            self.condemned |= {prompt}
        return is_new

    def counts_elsewhere(self, prompt: str, death: str) -> bool:
        """It was in flight at another death before."""
        return any(other != death for other in self._deaths.get(prompt, ()))

    def forget(self, now: float) -> None:
        """What is over; also of those that were condemned."""
        for prompt, deaths in tuple(self._deaths.items()):
            for death in [death for death, until in deaths.items() if until <= now]:
                del deaths[death]
            if not deaths:
                del self._deaths[prompt]
        if self.condemned:
            kept = {p for p in self.condemned if len(self._deaths.get(p, ())) >= DEATHS_MAX}
            self.condemned = frozenset(kept)
