"""Engines that die, and the prompts that they die of: those are refused, in every process."""

import logging
from collections.abc import Callable
from hashlib import blake2b
from typing import Protocol

import msgspec

from control.gateway import errors
from control.gateway.admission.valkey import Reply, ReplyError, Valkey, encode
from control.gateway.limits import Limits
from control.gateway.metrics import Tally
from control.gateway.routing.health import DEATHS, Cause
from control.gateway.routing.live import Live
from control.gateway.routing.strikes import Strikes
from control.gateway.wire import Ask

log = logging.getLogger(__name__)

_KEY = "prompts:deaths"  # "fingerprint death", scored by when it is forgotten
_POLL_SECONDS = 1.0
_OTHER_WAY = frozenset({"stream", "user"})  # the same prompt, asked in another way


class Tried(Protocol):
    live: Live
    cause: Cause | None


class Deaths:
    def __init__(
        self,
        valkey: Valkey,
        tally: Tally,
        limits: Limits,
        wall: Callable[[], float],
        host: str,
    ) -> None:
        self._valkey = valkey
        self._tally = tally
        self._limits = limits
        self._wall = wall
        self._host = host
        self._strikes = Strikes(limits.deadly_prompts)
        # By replica, until a probe has told: a lost connection alone is no death.
        self._suspects: dict[int, tuple[Live, list[Ask]]] = {}
        self._polled_at = float("-inf")

    @property
    def condemned(self) -> frozenset[str]:
        """Fingerprints; empty nearly always, and then nothing is computed of any call."""
        return self._strikes.condemned

    def judge(self, ask: Ask) -> None:
        if fingerprint(ask) in self._strikes.condemned:
            raise errors.PromptRefused(
                "Two engines failed while they worked on exactly this request. It is not accepted"
                " for an hour; please change it, or ask the operator."
            )

    def spares(self, ask: Ask, lost: Tried) -> bool:
        """Whether a call may be tried again or continued that lost its engine in this way."""
        if lost.cause not in DEATHS:
            return True
        for live, suspects in self._suspects.values():
            said_so = live is not lost.live and live.health.out is Cause.DIED
            if said_so and any(ask is suspect for suspect in suspects):
                return False  # the first of two deaths, though no probe has told yet
        if not self._strikes:
            return True
        return not self._strikes.counts_elsewhere(fingerprint(ask), _death(lost.live))

    # --- what the rotation tells ---

    def suspected(self, live: Live) -> None:
        """It may have died: what it worked on is kept until that is known."""
        asks = [attempt.ask for attempt in live.attempts if attempt.is_at_engine()]
        self._suspects[live.id] = live, asks[: self._limits.deadly_prompts]

    def judged(self, live: Live, died: bool) -> None:
        _, asks = self._suspects.pop(live.id, (live, []))
        if not died or not asks:
            return
        until = self._wall() + self._limits.deadly_prompt_seconds
        death, prompts = _death(live), {fingerprint(ask) for ask in asks}
        info = live.info

        def tell() -> None:
            self._tally.add("engine_deaths_total", deployment=info.deployment)
            log.error("replica %d died with %d calls in flight", info.id, len(asks))

        self._once(f"death:{death}", tell)
        for prompt in prompts:
            self._strike(prompt, death, until)
        self._share(prompts, death, until)

    # --- with the other processes ---

    def sweep(self, now: float) -> None:
        if now - self._polled_at < _POLL_SECONDS:
            return
        self._polled_at = now
        wall = self._wall()
        self._strikes.forget(wall)
        if self._valkey.connected:
            most = self._limits.deadly_prompts
            command = ("ZRANGE", _KEY, wall, "+inf", "BYSCORE", "LIMIT", 0, most, "WITHSCORES")
            self._valkey.send(encode(*command), self._learned)

    def _learned(self, reply: Reply) -> None:
        if isinstance(reply, ReplyError):
            return
        for member, until in zip(reply[::2], reply[1::2], strict=True):
            prompt, _, death = member.decode().partition(" ")
            self._strike(prompt, death, float(until))

    def _share(self, prompts: set[str], death: str, until: float) -> None:
        if not self._valkey.connected:
            return
        words = [word for prompt in prompts for word in (until, f"{prompt} {death}")]
        seconds = int(self._limits.deadly_prompt_seconds)
        for command in (
            ("ZADD", _KEY, *words),
            ("ZREMRANGEBYSCORE", _KEY, "-inf", self._wall()),
            ("EXPIRE", _KEY, seconds),
        ):
            self._valkey.send(encode(*command), _ignore)

    def _strike(self, prompt: str, death: str, until: float) -> None:
        def tell() -> None:
            self._tally.add("deadly_prompts_total")
            log.error("the prompt %s was in flight at two deaths: it is refused now", prompt)

        if self._strikes.add(prompt, death, until):
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


def _death(live: Live) -> str:
    return f"{live.id}:{live.info.generation}"


def _ignore(_reply: Reply) -> None:
    return None
