"""One gateway process: the loop that serves, and what runs beside it."""

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import uvloop

from control.gateway.admission.lender import Lender
from control.gateway.http1.listener import Listener
from control.gateway.known.presence import Presence
from control.gateway.known.snapshot import Hearer, Keeper, Known
from control.gateway.limits import Limits
from control.gateway.process import succession
from control.gateway.process.loads import loads
from control.gateway.process.reports import Reporter
from control.gateway.process.sweep import guarded, hurry, sweep
from control.gateway.relayed import Web
from control.gateway.serve import Gateway
from control.gateway.shared import Clock, shared
from control.metering.bounds import Bounds
from control.metering.spool import SpoolWriter

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
_PARENT_DIED = signal.SIGUSR1
_SUCCESSION_LOOK_SECONDS = 0.2
_TICK_SECONDS = 1.0
_HURRIES = 10  # a tick, for what ends at a moment that its caller named
_DRAIN_LOOK_SECONDS = 0.05
_GARBAGE_OBJECTS = 20_000  # a call leaves about a hundred, most of them freed at once


@dataclass(frozen=True)
class Place:
    """Where a worker serves, and what it serves from."""

    owner: str
    listener: int  # file number of the socket to accept from
    processes: int
    database_url: str
    redis_url: str
    home: Path
    web_url: str = ""


def spool_folder(home: Path) -> Path:
    return home / "spool"


def run(place: Place, limits: Limits) -> None:
    """Returns when it was told to stop and its calls have ended."""
    os.set_blocking(sys.stdout.fileno(), False)  # a parent that does not read stops no call
    uvloop.run(Worker(place, limits).serve())


class Worker:
    def __init__(self, place: Place, limits: Limits) -> None:
        self._place = place
        self._limits = limits
        self._clock = Clock()
        self.may_listen = asyncio.Event()
        self._reporter = Reporter(sys.stdout.fileno())
        self._presence = Presence(place.owner)

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        stopping, orphaned = asyncio.Event(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        loop.add_signal_handler(_PARENT_DIED, orphaned.set)
        _watch_parent(self._place.owner, orphaned)
        self.build()
        _look_for_garbage_seldom()
        keeper = self._follow_snapshot(loop)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.may_listen.wait(), self._limits.first_snapshot_seconds)
        await self._listener.listen(socket.socket(fileno=self._place.listener))
        ticking = loop.create_task(self._tick_forever())
        sharing = loop.create_task(self._share_forever())
        leaving = loop.create_task(self._leave_to_successors(orphaned, stopping))
        await stopping.wait()
        await self._drain()
        keeper.stop()
        ticking.cancel()
        sharing.cancel()
        leaving.cancel()
        self._close()

    def build(self) -> None:
        bounds = Bounds(self._limits.spool_bytes, self._limits.spool_events)
        spool = SpoolWriter(spool_folder(self._place.home), self._place.owner, bounds=bounds)
        self._shared = shared(
            redis_url=self._place.redis_url,
            processes=self._place.processes,
            spool=spool,
            limits=self._limits,
            clock=self._clock,
            lender=Lender(url=self._place.database_url, owner=self._place.owner),
        )
        web = self._place.web_url
        self._shared.web = Web(web, self._limits, self._clock.now, self._clock.wall)
        self._gateway = Gateway(self._shared)
        self._listener = Listener(self._gateway, self._limits)

    def _follow_snapshot(self, loop: asyncio.AbstractEventLoop) -> Keeper:
        keeper = Keeper(
            url=self._place.database_url,
            folder=self._place.home / "snapshot",
            limits=self._limits,
            hearer=Hearer(
                known=lambda known: loop.call_soon_threadsafe(self.know, known),
                confirmed=lambda ago: loop.call_soon_threadsafe(self.confirm, ago),
                nothing=lambda: loop.call_soon_threadsafe(self.may_listen.set),
            ),
            presence=self._presence,
        )
        keeper.start()
        return keeper

    def know(self, known: Known) -> None:
        self._gateway.know(known.identities, known.routes)
        self._gateway.know_replicas(known.replicas, known.keys)
        self._presence.serve(known.replicas.version, self._shared.replicas)
        self._listen_if_it_knows()

    def confirm(self, seconds_ago: float) -> None:
        self._gateway.confirm(self._clock.now() - seconds_ago)
        self._listen_if_it_knows()

    def _listen_if_it_knows(self) -> None:
        """One that is started beside others would else refuse its share of calls for a while."""
        if self._gateway.snapshot_age_seconds() is not None:
            self.may_listen.set()

    async def _tick_forever(self) -> None:
        ticks = 0
        while True:
            ticks += 1
            sweep(self._gateway, self._listener, self._clock.now())
            self._presence.keep(self._shared.replicas, self._shared.deaths.strikes)
            if ticks % self._limits.refused_flush_seconds == 0:
                self._flush_refused()
            self._report()
            for _ in range(_HURRIES - 1):
                await asyncio.sleep(_TICK_SECONDS / _HURRIES)
                hurry(self._gateway, self._clock.now())
            await asyncio.sleep(_TICK_SECONDS / _HURRIES)

    async def _share_forever(self) -> None:
        """Slots go from one process to another faster than all else that is done in time."""
        while self._place.processes > 1:
            guarded(self._shared.slots.sweep, self._clock.now())
            guarded(self._shared.elsewhere.sweep, self._clock.now())
            guarded(self._shared.retries.sweep, self._clock.now())
            await asyncio.sleep(self._limits.slot_exchange_seconds)

    async def _leave_to_successors(self, orphaned: asyncio.Event, stopping: asyncio.Event) -> None:
        """Nobody is to notice that the parent was killed; but without one nothing is shipped."""
        await orphaned.wait()
        spool = spool_folder(self._place.home)
        log.warning("the gateway's parent is gone: serving until others do")
        until = self._clock.now() + self._limits.orphan_seconds
        while self._clock.now() < until:
            if succession.is_succeeded(spool, self._place.owner):
                break
            await asyncio.sleep(_SUCCESSION_LOOK_SECONDS)
        stopping.set()

    def _flush_refused(self) -> None:
        try:
            self._shared.flush_refused()
        except OSError:
            log.exception("refusals could not be written down")

    def _report(self) -> None:
        """To the parent, which sums and publishes."""
        gateway, calls = self._gateway, self._shared.calls
        waiting = self._shared.waiting.by_priority()
        tally = self._shared.tally
        tally.gauges = {
            "in_flight": len(calls) - waiting.total(),
            **{f'waiting{{priority="{name}"}}': count for name, count in waiting.items()},
            "connections": len(self._listener.connections),
            "snapshot_age_seconds": gateway.snapshot_age_seconds() or 0.0,
            **self._shared.counters.gauges(),
            "budgets_away": int(self._shared.money.is_away),
            "ejected_replicas": self._shared.replicas.ejected(),
            "spool_full": 0 if self._shared.spool.has_room else 1,
            "workers": 1,
        }
        told = loads(self._shared.replicas, self._shared.waiting, self._clock.now())
        self._reporter.tell(tally, gateway.snapshot_age_seconds(), told)

    async def _drain(self) -> None:
        """Answer what has begun, and who was let in; new ones go to other processes."""
        self._gateway.draining = True
        await self._listener.accept_waiting()
        self._listener.stop_listening()
        until = self._clock.now() + self._limits.drain_seconds
        while self._clock.now() < until:
            if not self._shared.calls and not self._listener.is_needed():
                return
            await asyncio.sleep(_DRAIN_LOOK_SECONDS)
        for call in tuple(self._shared.calls):
            call.drain()
        await asyncio.sleep(_DRAIN_LOOK_SECONDS)

    def _close(self) -> None:
        for call in tuple(self._shared.calls):
            call.on_client_gone()
        self._listener.close()
        self._shared.slots.close()
        self._shared.replicas.close()
        self._shared.judges.close()
        self._shared.web.close()
        self._shared.counters.close()
        self._shared.money.close()  # before the spool: whoever ships its end ends the leases
        self._flush_refused()
        self._shared.outbox.flush()
        self._report()
        self._shared.spool.close()


def _look_for_garbage_seldom() -> None:
    """What is imported by now stays: searching it again and again took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_OBJECTS, 10, 10)


def _watch_parent(owner: str, orphaned: asyncio.Event) -> None:
    """The kernel tells of its death; it may have died before anybody asked to be told."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(_PARENT_DIED), 0, 0, 0)
    if not succession.has_parent(owner):
        orphaned.set()
