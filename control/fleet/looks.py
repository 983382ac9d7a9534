"""One look at one launched engine: signs, verdict, move."""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from time import monotonic
from typing import assert_never

from django.conf import settings
from django.utils import timezone

from control.fleet import engine_http, launch, node_tasks, own_calls, returning, starts, waking
from control.fleet.disk import files
from control.fleet.endings import Endings
from control.fleet.health import rules
from control.fleet.health.rules import (
    Advance,
    Canary,
    Died,
    History,
    Hung,
    NeverLaunched,
    Returned,
    Signs,
    Stay,
    Unwell,
    WarmUp,
    Well,
)
from control.fleet.kept_logs import KeptLogs
from control.fleet.loads import Loads
from control.fleet.own_calls import OwnCall
from control.fleet.warming import rules as warming
from control.fleet.warming.actions import WarmUps
from control.models import IllegalMove, Replica
from control.states import REPLICA_BEFORE_READY, Purpose, ReplicaState
from engines import supervisor
from engines.kinds import KINDS
from engines.spec import EngineRecord, Phase

CANARY_SECONDS = 30
QUICK_SECONDS = 0.1
PORT_TAKEN = "port_taken"  # of the causes

log = logging.getLogger(__name__)


class Engines:
    """Remembers earlier looks and the identity of processes, to read how they ended."""

    device_bytes: Mapping[int, int] = {}  # of cards, by process; as of the last reading

    def __init__(self, loads: Loads, look_soon: Callable[[int], None] = lambda _: None) -> None:
        self._loads = loads
        self._histories: dict[int, History] = {}
        self._records: dict[int, EngineRecord] = {}
        self._logs = KeptLogs()
        self._warm_ups = WarmUps(look_soon)
        self._endings = Endings()
        self._quick: set[int] = set()  # engines that answer at once

    def keep_only(self, replica_ids: set[int]) -> None:
        """Forget launches that are over."""
        self._warm_ups.keep_only(replica_ids)
        self._endings.keep_only(replica_ids)
        self._logs.keep_only(replica_ids)
        self._quick &= replica_ids
        for memory in (self._histories, self._records):
            for gone in set(memory) - replica_ids:
                memory.pop(gone, None)

    def stop(self) -> None:
        self._warm_ups.stop()

    def is_quick(self, replica: Replica) -> bool:
        """It serves, and the last look at it took no time: nobody waits for the next one."""
        return replica.state == ReplicaState.READY and replica.pk in self._quick

    def look(self, replica: Replica, at: datetime) -> None:
        began = monotonic()
        signs = self._signs(replica, at)
        quick = signs.answers and monotonic() - began < QUICK_SECONDS
        (self._quick.add if quick else self._quick.discard)(replica.pk)
        history = rules.remember(self._histories.get(replica.pk, History()), signs, at)
        self._histories[replica.pk] = history
        state = ReplicaState(replica.state)
        verdict = rules.judge(state, signs, history, at, settings.WEIR_HANG_SECONDS)
        self._logs.keep(replica, at, due=not isinstance(verdict, Stay))
        if history.grew_at == at:
            # What it has taken of its host is not to come any more.
            held = supervisor.host_memory_bytes(launch.folder_of(replica))
            rows = Replica.objects.filter(pk=replica.pk, state=replica.state)
            rows.update(progress_at=at, host_memory_bytes=held)
        try:
            self._carry_out(verdict, replica, signs, at)
        except IllegalMove as error:
            log.info("%s has moved on: %s", replica, error)
        if state in REPLICA_BEFORE_READY and replica.state == ReplicaState.READY:
            kind = KINDS[replica.version.engine["kind"]]
            said = kind.read_startup(supervisor.log_text(launch.folder_of(replica)))
            starts.at_ready(replica, said, at=at)
            waking.at_ready(replica, at)

    def _signs(self, replica: Replica, at: datetime) -> Signs:
        folder = launch.folder_of(replica)
        record = supervisor.adopt(folder)
        if record is None or record.generation != replica.generation:
            return Signs(alive=False, launched=replica.pid is not None)
        self._records[replica.pk] = record
        self._endings.alive(replica.pk)
        starting = replica.state in REPLICA_BEFORE_READY
        kind = KINDS[replica.version.engine["kind"]]
        health = engine_http.health(engine_http.address(replica))
        return Signs(
            alive=True,
            phase=kind.read_phase(supervisor.log_text(folder)) if starting else None,
            answers=health.good,
            says_dead=health.says_dead,
            load=None if starting else self._loads.measure(replica, at),
            memory_bytes=supervisor.held_bytes(folder, self.device_bytes) if starting else None,
            context_tokens=replica.version.arguments.get("max_model_len") or 0,
        )

    def _carry_out(
        self, verdict: rules.Verdict, replica: Replica, signs: Signs, at: datetime
    ) -> None:
        match verdict:
            case Stay():
                _progress(replica, signs.phase, at)
            case Advance(to=to):
                reason = signs.phase.detail if signs.phase else "its log says so"
                _move(replica, to, reason, at, **_shown(signs.phase), progress_at=at)
            case WarmUp():
                self._warm_up(replica, at)
            case Canary():
                self._canary(replica, at)
            case Unwell(reason=reason) | Well(reason=reason):
                unwell = isinstance(verdict, Unwell)
                to = ReplicaState.UNHEALTHY if unwell else ReplicaState.READY
                _move(replica, to, reason, at)
            case Returned(well=well):
                returning.returned(replica, at, well=well)
            case Died() | Hung() | NeverLaunched():
                self._ended(verdict, replica, at)
            case _:
                assert_never(verdict)

    def _warm_up(self, replica: Replica, at: datetime) -> None:
        answer = self._warm_ups.answer(replica.pk, engine_http.address(replica), replica.slots)
        own_calls.write(self._warm_ups.own_calls())
        if answer is None:
            return
        if answer.good:
            _serve(replica, at)
        elif (failed := self._warm_ups.failed(replica.pk)) >= warming.FAILED_MAX:
            why = f"{failed} warm-ups in a row failed. {answer.reason}"
            node_tasks.fail(replica, "warm_up", why, at=at)
        else:
            rows = Replica.objects.filter(pk=replica.pk, state=replica.state)
            rows.exclude(reason=answer.reason).update(reason=answer.reason)

    def _canary(self, replica: Replica, at: datetime) -> None:
        begun_at = timezone.now()
        answer = engine_http.one_token(engine_http.address(replica), CANARY_SECONDS)
        own_calls.write([OwnCall(replica.pk, Purpose.PROBE, answer, begun_at, timezone.now())])
        history = self._histories[replica.pk]
        self._histories[replica.pk] = rules.after_canary(history, answer.good, at)

    def _ended(self, verdict: Died | Hung | NeverLaunched, replica: Replica, at: datetime) -> None:
        if replica.state == ReplicaState.LOST:
            reason = "its engine was gone when the node came back"
            _move(replica, ReplicaState.STOPPED, reason, at)
            node_tasks.stop_replica(replica.pk)
            return
        self._loads.ended(replica.pk)
        match verdict:
            case NeverLaunched():
                if (at - replica.state_at).total_seconds() < rules.LAUNCH_SECONDS:
                    return
                node_tasks.fail(replica, "not_launched", "no process was started", at=at)
            case Hung(reason=reason):
                node_tasks.fail(replica, "hung", reason, at=at)
            case Died():
                self._died(replica, at)

    def _died(self, replica: Replica, at: datetime) -> None:
        record = self._records.get(replica.pk)
        code = supervisor.exit_code(record) if record else None
        cause = self._endings.cause(replica, supervisor.log_text(launch.folder_of(replica)), code)
        if cause.code == PORT_TAKEN and node_tasks.take_another_port(replica.pk):
            return
        anew = files.fetch_anew(replica) if cause.code == files.CORRUPT else ""
        why = f"{cause.detail} ({anew})" if anew else cause.detail
        node_tasks.fail(replica, cause.code, why, retry=cause.retry or bool(anew), at=at)


def _serve(replica: Replica, at: datetime) -> None:
    """From here gateways send it calls."""
    load = node_tasks.load_of(replica)
    _move(
        replica,
        ReplicaState.READY,
        "warmed up, and answered a call of one token",
        at,
        phase="ready",
        progress_percent=100,
        kv_tokens=load.kv_cache_tokens if load else None,
    )


def _progress(replica: Replica, phase: Phase | None, at: datetime) -> None:
    """Written when it moved; the instant is what a stall is measured by."""
    if phase is None:
        return
    shown = _shown(phase)
    rows = Replica.objects.filter(pk=replica.pk, state=replica.state)
    rows.exclude(**shown).update(**shown, reason=phase.detail, progress_at=at)


def _shown(phase: Phase | None) -> dict:
    return {"phase": phase.name, "progress_percent": phase.percent} if phase else {}


def _move(replica: Replica, to: ReplicaState, reason: str, at: datetime, **fields) -> bool:
    return replica.move(to, reason=reason, by=node_tasks.by(), at=at, **fields)
