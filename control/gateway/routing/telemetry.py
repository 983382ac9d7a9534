"""What engines say of themselves once a second, read off the request path."""

import logging
from collections.abc import Callable, Iterable

import msgspec

from control.gateway.admission.valkey import Reply, ReplyError, Valkey, encode
from control.gateway.routing.candidates import LOAD_SECONDS_MAX, EngineLoad
from control.gateway.routing.live import Live
from control.telemetry.messages import REPLICA, ReplicaSample

log = logging.getLogger(__name__)

_POLL_SECONDS = 1.0


_said = msgspec.json.Decoder(ReplicaSample).decode


class Telemetry:
    """`replicas` gives those that are known now; `on_said` gets each new sample of one."""

    def __init__(
        self,
        valkey: Valkey,
        replicas: Callable[[], Iterable[Live]],
        on_said: Callable[[Live, ReplicaSample, float], None],
        *,
        now: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._valkey = valkey
        self._replicas = replicas
        self._on_said = on_said
        self._now = now
        self._wall = wall
        self._asked_at = float("-inf")
        self._waits = False

    def sweep(self, now: float) -> None:
        """One MGET a second, of all replicas."""
        if now - self._asked_at < _POLL_SECONDS or self._waits or not self._valkey.connected:
            return
        self._asked_at = now
        asked = list(self._replicas())
        for live in asked:
            live.mark(now)
        if not asked:
            return

        def on_reply(reply: Reply) -> None:
            self._waits = False
            if not isinstance(reply, ReplyError):
                self._heard(asked, reply)

        self._waits = True
        self._valkey.send(
            encode("MGET", *(f"live:{REPLICA}:{live.id}" for live in asked)), on_reply
        )

    def _heard(self, asked: list[Live], texts: list[bytes | None]) -> None:
        now = self._now()
        for live, text in zip(asked, texts, strict=True):
            said = _read(text)
            if said is None:
                continue
            at = now - max(self._wall() - said.at, 0.0)
            known = live.engine
            if now - at > LOAD_SECONDS_MAX or known is not None and said.at <= live.said_at:
                continue
            live.said_at = said.at
            live.engine = EngineLoad(
                said.running, said.waiting, said.kv_cache_ratio, at, live.in_flight_at(at)
            )
            cached = said.cached_prompt_tokens_per_second or 0.0
            live.cache_hits.saw(cached, said.prompt_tokens_per_second or 0.0, at)
            self._on_said(live, said, at)


def _read(text: bytes | None) -> ReplicaSample | None:
    try:
        return _said(text) if text else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
