"""What one try holds of its replica: a slot and a part of its cache, trued up, given back once."""

from control.gateway.routing.live import Live
from control.gateway.routing.replicas import READY, LiveReplicas
from control.gateway.routing.room import held_tokens
from control.gateway.streams.chunks import Usage
from control.gateway.waiting.rules import Want
from control.states import Priority


class Share:
    def __init__(self, replicas: LiveReplicas, live: Live, want: Want) -> None:
        self._replicas = replicas
        self._live = live
        self._want = want
        self._taken = False
        self._kv_tokens = want.kv_tokens
        self._paced_at: float | None = None  # when its tokens were counted last
        self._paced_tokens = 0

    def take(self) -> None:
        self._taken = True
        self._replicas.took(self._live, self._want)

    def taken_before(self) -> None:
        """Where it is counted already."""
        self._taken = True

    def give_back(self) -> None:
        """Once. Nothing, of a try that failed before it took any."""
        if not self._taken:
            return
        self._taken = False
        self._replicas.gave_back(self._live, self._want, self._kv_tokens)

    @property
    def is_of_use(self) -> bool:
        """To another call: the replica takes new ones."""
        return self._live.slots > 0 and self._live.info.state == READY

    def look_away(self) -> None:
        """The tenant is slow to read: the pace is not the engine's."""
        self._paced_at = None

    def sweep(self, usage: Usage, now: float) -> None:
        """Hold what came so far, and what is still expected; note how fast it comes."""
        want, output = self._want, usage.output
        if want.priority is Priority.INTERACTIVE and output:
            if self._paced_at is not None:
                self._live.tempo.note(now - self._paced_at, output - self._paced_tokens)
            self._paced_at, self._paced_tokens = now, output
        holds = held_tokens(usage.input, output, want.kv_tokens - want.input_tokens)
        if holds != self._kv_tokens:
            self._replicas.holds(self._live, want, holds - self._kv_tokens)
            self._kv_tokens = holds
