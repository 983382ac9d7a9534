"""Engines that die, and the prompts that they die of: those are refused, in every process."""

import logging
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple, Protocol

import msgspec

from control.gateway import errors
from control.gateway.admission.valkey import Reply, ReplyError, Valkey, encode
from control.gateway.bodies.wire import Ask
from control.gateway.limits import Limits
from control.gateway.recording.metrics import Tally
from control.gateway.routing.health import DEATHS, Cause
from control.gateway.routing.live import Live
from control.gateway.routing.strikes import Death, Strikes

log = logging.getLogger(__name__)

_KEY = "prompts:deaths:2"  # "fingerprint launch host since at", scored by when it is forgotten
_POLL_SECONDS = 1.0
_OTHER_WAY = frozenset({"stream", "user"})  # the same prompt, asked in another way


class Tried(Protocol):
    live: Live
    cause: Cause | None
    sent_at: float


class Clock(Protocol):
    now: Callable[[], float]
    wall: Callable[[], float]


class Suspect(NamedTuple):
    """A replica that may have died, when it was left, and what it worked on since when."""

    live: Live
    at: float
    tries: list[tuple[Ask, float]]


class Deaths:
    def __init__(
        self,
        valkey: Valkey,
        tally: Tally,
        limits: Limits,
        clock: Clock,
        host: str,
    ) -> None:
        self._valkey = valkey
        self._tally = tally
        self._limits = limits
        self._clock = clock
        self._wall = clock.wall
        self._host = host
        self.strikes = Strikes(
            limits.deadly_prompts,
            seconds=limits.deadly_prompt_seconds,
            together_seconds=limits.host_death_seconds,
        )
        # By replica, until a probe has told: a lost connection alone is no death.
        self._suspects: dict[int, Suspect] = {}
        self._polled_at = float("-inf")

    @property
    def condemned(self) -> frozenset[str]:
        """Fingerprints; empty nearly always, and then nothing is computed of any call."""
        return self.strikes.condemned

    def judge(self, ask: Ask) -> None:
        prompt = fingerprint(ask)
        if prompt in self.strikes.condemned:
            raise errors.PromptRefused(
                "Two engines failed while they worked on exactly this request. It is not accepted"
                " for an hour; please change it, or ask the operator.",
                why=self.strikes.verdict(prompt),
            )

    def spares(self, ask: Ask, lost: Tried) -> bool:
        """Whether a call may be tried again or continued that lost its engine in this way."""
        if lost.cause not in DEATHS:
            return True
        for live, _, tries in self._suspects.values():
            said_so = live is not lost.live and live.health.out is Cause.DIED
            if said_so and any(ask is suspect for suspect, _ in tries):
                return False  # the first of two deaths, though no probe has told yet
        if not self.strikes:
            return True
        death = self._death(lost.live, lost.sent_at, self._wall())
        return not self.strikes.counts_elsewhere(fingerprint(ask), death)

    # --- what the rotation tells ---

    def suspected(self, live: Live) -> None:
        """It may have died: what it worked on is kept until that is known."""
        tries = [(one.ask, one.sent_at) for one in live.attempts if one.is_at_engine()]
        # From here its calls go elsewhere: what another engine got before, it did not get of this.
        self._suspects[live.id] = Suspect(live, self._wall(), tries[: self._limits.deadly_prompts])

    def judged(self, live: Live, died: bool) -> None:
        _, at, tries = self._suspects.pop(live.id, Suspect(live, 0.0, []))
        if not died or not tries:
            return
        info = live.info

        def tell() -> None:
            self._tally.add("engine_deaths_total", deployment=info.deployment)
            log.error("replica %d died with %d calls in flight", info.id, len(tries))

        self._once(f"death:{_launch(live)}", tell)
        first: dict[str, float] = {}
        for ask, sent_at in tries:
            prompt = fingerprint(ask)
            first[prompt] = min(sent_at, first.get(prompt, sent_at))
        struck = {prompt: self._death(live, sent, at) for prompt, sent in first.items()}
        for prompt, death in struck.items():
            self._strike(prompt, death)
        self._share(struck)

    def _death(self, live: Live, sent_at: float, at: float) -> Death:
        since = self._wall() - (self._clock.now() - sent_at)
        return Death(_launch(live), live.info.host, since, at)

    # --- with the other processes ---

    def sweep(self, now: float) -> None:
        if now - self._polled_at < _POLL_SECONDS:
            return
        self._polled_at = now
        wall = self._wall()
        self.strikes.forget(wall)
        if self._valkey.connected:
            most = self._limits.deadly_prompts
            command = ("ZRANGE", _KEY, wall, "+inf", "BYSCORE", "LIMIT", 0, most)
            self._valkey.send(encode(*command), self._learned)

    def _learned(self, reply: Reply) -> None:
        if isinstance(reply, ReplyError):
            return
        for member in reply:
            prompt, launch, host, since, at = member.decode().split(" ")
            self._strike(prompt, Death(launch, host, float(since), float(at)))

    def _share(self, struck: dict[str, Death]) -> None:
        if not self._valkey.connected:
            return
        seconds = int(self._limits.deadly_prompt_seconds)
        words = []
        for prompt, death in struck.items():
            words += (death.at + seconds, " ".join((prompt, *map(str, death))))
        for command in (
            ("ZADD", _KEY, *words),
            ("ZREMRANGEBYSCORE", _KEY, "-inf", self._wall()),
            ("EXPIRE", _KEY, seconds),
        ):
            self._valkey.send(encode(*command), _ignore)

    def _strike(self, prompt: str, death: Death) -> None:
        def tell() -> None:
            self._tally.add("deadly_prompts_total")
            log.error("the prompt %s was in flight at two deaths: it is refused now", prompt)

        if self.strikes.add(prompt, death):
            self._once(f"prompt:{prompt}", tell)

    def _once(self, what: str, tell: Callable[[], None]) -> None:
        """By one process of this host: all learn of it, and those that start later too."""
        if not self._valkey.connected:
            return tell()

        def on_reply(reply: Reply) -> None:
            if reply is not None:  # nothing is what a key that is there already answers
                tell()

        seconds = int(self._limits.deadly_prompt_seconds)
        command = ("SET", f"told:{self._host}:{what}", 1, "NX", "EX", seconds)
        return self._valkey.send(encode(*command), on_reply)


def fingerprint(ask: Ask) -> str:
    """Of what was judged, not of its bytes: spaces and the order of members make no other one."""
    fields = {name: value for name, value in ask.fields.items() if name not in _OTHER_WAY}
    text = msgspec.json.encode([ask.endpoint, ask.model, fields], order="sorted")
    return blake2b(text, digest_size=16).hexdigest()


def _launch(live: Live) -> str:
    return f"{live.id}:{live.info.generation}"


def _ignore(_reply: Reply) -> None:
    return None
