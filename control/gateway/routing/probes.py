"""Asks replicas that have left the rotation whether they are well, and who they are."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from control.gateway.http1.pool import Pool
from control.gateway.http1.proof import Inquiry
from control.gateway.limits import Limits
from control.gateway.routing import identity
from control.gateway.routing.health import Cause
from control.routes.snapshot import ReplicaInfo

log = logging.getLogger(__name__)


class Probed(Protocol):
    info: ReplicaInfo
    key: str
    probing: bool


class Prober:
    """`on_verdict` gets what is wrong with a replica, None if it may serve again."""

    def __init__(
        self,
        limits: Limits,
        clock: Callable[[], float],
        on_verdict: Callable[[Probed, Cause | None], None],
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._on_verdict = on_verdict
        self._probes: set[asyncio.Task] = set()

    def start(self, live: Probed) -> None:
        """One at a time of each replica."""
        if not live.probing:
            live.probing = True
            task = asyncio.get_running_loop().create_task(self._probe(live))
            self._probes.add(task)
            task.add_done_callback(self._probes.discard)

    def close(self) -> None:
        for task in tuple(self._probes):
            task.cancel()

    async def _probe(self, live: Probed) -> None:
        """Always with a verdict: calls may wait for it."""
        try:
            cause = await self._cause(live)
        except Exception:
            log.exception("a replica could not be asked whether it is well")
            cause = Cause.ERROR  # which is no death
        finally:
            live.probing = False
        self._on_verdict(live, cause)

    async def _cause(self, live: Probed) -> Cause | None:
        info = live.info
        pool = Pool(info.host, info.port, tls=info.tls, limits=self._limits, clock=self._clock)
        try:
            cause = identity.judge_health(
                info, await self._ask(pool, identity.health_request(info, live.key))
            )
            if cause is None:
                cause = identity.judge_models(
                    info, await self._ask(pool, identity.models_request(info, live.key))
                )
            return cause
        finally:
            pool.close()

    async def _ask(self, pool: Pool, request: bytes):
        inquiry = Inquiry()
        sending = pool.send(inquiry, request)
        reply = await inquiry.reply(self._limits.probe_seconds)
        if reply is None:
            sending.abort()
        return reply
