"""A node's eyes: each second its heartbeat, its devices, and a look at each of its launches."""

import logging
from concurrent.futures import Future, wait
from datetime import datetime, timedelta
from threading import Event, Thread

from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone

from control.fleet import devices, launch, looks, node_tasks, ram, starts, waking
from control.fleet import node as nodes
from control.fleet.crew import Crew
from control.fleet.disk import work
from control.fleet.launches import Launches
from control.fleet.loads import Loads
from control.fleet.nodes import notices
from control.metering import usage_time
from control.models import Node, Replica
from control.states import REPLICA_FINAL, ReplicaState, ReservationState
from control.telemetry.outages import DATABASE_AWAY, Outage
from control.telemetry.publish import Publisher
from engines import gpu, orphans, ours, supervisor
from engines.spec import EngineRecord, GpuReading

BEAT_SECONDS = 1.0
SHARE_SECONDS_MAX = 0.5
ORPHANS_EVERY_BEATS = 30
PEAKS_EVERY_BEATS = 15
NOTICE_EVERY_BEATS = 5
FILES_EVERY_BEATS = 5
FREE_EVERY_BEATS = 10  # devices that nobody holds are counted too, but seldom
DISK_EVERY_BEATS = 30
FOLDERS_KEPT = timedelta(hours=24)
MEMBERS_EVERY = timedelta(seconds=10)

log = logging.getLogger(__name__)


class Watch:
    """What it remembers between looks may be lost at any time: rows and processes are the truth."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._publisher = Publisher()
        self._devices = devices.Recorder(node)
        self._ram = ram.Teller(node)
        self._readings: list[GpuReading] = []
        self._loads = Loads(self._publisher)
        self._engines = looks.Engines(self._loads, self._look_soon)
        self._use = usage_time.UseMeter()
        self._members = Members()
        self._launches = Launches(node)
        self._peaks = starts.Peaks()
        self._outage = Outage(log, "the node cannot reach the database")
        self._crew = Crew(self._outage)
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="watch", daemon=True)
        self._beats = 0
        self._holds = True  # a device of the node, for all that it knows
        self._fetches = True

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        self._engines.stop()
        self._crew.stop()
        try:
            self._use.flush(timezone.now(), now=True)
        except DatabaseError as error:
            log.warning("the last seconds of device time are not counted: %s", error)
        self._publisher.close()

    def _run(self) -> None:
        while not self._stopping.wait(BEAT_SECONDS):
            try:
                self._beat(timezone.now())
                self._outage.is_over()
            except DATABASE_AWAY as error:
                self._outage.goes_on(error)
                connection.close()
            except DatabaseError as error:
                log.warning("the node's beat failed: %s", error)
                connection.close()

    def _beat(self, at: datetime) -> None:
        """Turns run beside each other: a hanging driver or engine delays only its own."""
        if not nodes.heartbeat(self.node):
            log.error("node %s was removed or claimed by another: restart it", self.node)
        turns = [self._crew.turn("devices", self.read_devices)]
        self._now_and_then(at)
        self._beats += 1
        launches = self._launches.rows(at)
        self._keep_only({replica.pk for replica in launches})
        quick = []
        if launches or self._holds or self._beats % FREE_EVERY_BEATS == 0:
            quick.append(("device time", self.count_use))
        for replica in launches:
            task = f"replica {replica.pk}", self._look_at, replica
            if self._engines.is_quick(replica):
                quick.append(task)
            else:
                turns.append(self._crew.turn(*task))
        turns += self._crew.in_a_row("a row", quick)
        self._crew.turn("samples", self._share, [turn for turn in turns if turn])

    def _now_and_then(self, at: datetime) -> None:
        if settings.WEIR_LEAVING_NOTICE and self._beats % NOTICE_EVERY_BEATS == 0:
            self._crew.turn("notice", self.hear_notice)
        if self._beats % ORPHANS_EVERY_BEATS == 0:
            self._crew.turn("leftovers", self.clear_leftovers)
        if self._beats % PEAKS_EVERY_BEATS == 0:
            self._crew.turn("peaks", self.note_peaks)
        if self._fetches or self._beats % FILES_EVERY_BEATS == 0:
            self._crew.turn("files", self.look_at_files)
        if self._beats % DISK_EVERY_BEATS == 0:
            self._crew.turn("disk", work.tell, self.node, at)

    def launches(self) -> list[int]:
        """All that may have a process or a booking here."""
        return [replica.pk for replica in self._launches.rows(timezone.now())]

    def _keep_only(self, replica_ids: set[int]) -> None:
        self._loads.keep_only(replica_ids)
        self._engines.keep_only(replica_ids)
        self._peaks.keep_only(replica_ids)

    def _share(self, turns: list[Future]) -> None:
        """What all looks of a beat saw goes out together; of one that takes longer next time."""
        wait(turns, timeout=SHARE_SECONDS_MAX)
        self._publisher.flush()

    def _look_soon(self, replica_id: int) -> None:
        """Something has ended that a look waits for; the next beat looks anyway."""
        if self._thread.is_alive():
            self._crew.turn(f"replica {replica_id}", self.look, replica_id)

    def look(self, replica_id: int) -> None:
        if replica := node_tasks.mine(replica_id):
            self._look_at(replica)

    def _look_at(self, replica: Replica) -> None:
        if replica.state in (ReplicaState.PLACED, ReplicaState.PREPARING):
            node_tasks.prepare_replica(replica.pk)
        elif replica.state == ReplicaState.DRAINING:
            self._loads.measure(replica, timezone.now())
            node_tasks.stop_replica(replica.pk)
        elif replica.state in REPLICA_FINAL:
            node_tasks.stop_replica(replica.pk)
        elif replica.state == ReplicaState.WAKING:
            waking.wake(replica, timezone.now())
        else:
            self._engines.look(replica, timezone.now())

    def read_devices(self) -> None:
        readings = self._readings = devices.named(gpu.read(xids=True), self.node)
        self._engines.device_bytes = devices.bytes_by_process(readings)
        at = timezone.now()
        self._devices.record(readings, self._our_pids(readings, at), at)
        if any(reading.kind == "gpu" for reading in readings):
            self._ram.tell(at)
        self._publisher.later(devices.samples(self.node, readings, at))

    def look_at_files(self) -> None:
        """What was asked for ahead: a hint says it at once, its progress is told each second."""
        self._fetches = work.look(self.node, timezone.now())

    def hear_notice(self) -> None:
        """Whether the cloud wants the host back; then what runs here moves away in time."""
        notices.hear(self.node.name, by=node_tasks.by(), at=timezone.now())

    def count_use(self) -> None:
        """Each device is paid for each second, whatever it does."""
        at = timezone.now()
        joules = {one.uuid: one.energy_joules for one in self._readings}
        seen = usage_time.look(self.node, joules, self._loads.busy_ratio)
        for device in seen:
            self._use.note(device, at)
        self._use.keep_only({device.uuid for device in seen})
        self._holds = any(device.holders for device in seen)
        self._use.flush(at)

    def note_peaks(self) -> None:
        """What launches really hold corrects the estimate of the next one."""
        readings, members = self._readings, self._members.of(_records(), timezone.now())
        for replica in self._launches.serving():
            if replica.kv_tokens is not None:
                pids = members.get(replica.pk, set())
                used = devices.used_by(readings, pids)
                self._peaks.note(replica, used, devices.private_bytes(pids), at=timezone.now())

    def clear_leftovers(self) -> None:
        """End engines of this home that no row wants, and forget folders of long ended ones.

        A launch that has ended and holds nothing is looked at no more: what runs of it is nobody's.
        """
        known = set(self.launches())
        home = str(settings.WEIR_HOME)
        # Asked again: what was launched between the question and the look is somebody's.
        if found := orphans.find(home, known) - set(self.launches()):
            log.warning("ending engines that nobody wants, of replicas %s", sorted(found))
            orphans.end(home, found, node_tasks.STOP_GRACE_SECONDS)
        old = Replica.objects.filter(
            node=self.node, state__in=REPLICA_FINAL, ended_at__lt=timezone.now() - FOLDERS_KEPT
        )
        for replica in old.exclude(reservations__state=ReservationState.HELD):
            folder = launch.folder_of(replica)
            if folder.exists():
                supervisor.forget(folder)

    def _our_pids(self, readings: list[GpuReading], at: datetime) -> set[int]:
        """On cards: of those that the driver shows. RAM is held by all that our launches made."""
        records = _records()
        if any(reading.kind == "cpu" for reading in readings):
            return set().union(*self._members.of(records, at).values())
        return ours.among(records, {pid for one in readings for pid, _ in one.processes})


class Members:
    """The processes of our launches: all of a host's are read for it, so not every second."""

    def __init__(self) -> None:
        self._found: dict[int, set[int]] = {}
        self._read_of: list[EngineRecord] = []
        self._read_at: datetime | None = None

    def of(self, records: list[EngineRecord], at: datetime) -> dict[int, set[int]]:
        old = self._read_at is None or at - self._read_at >= MEMBERS_EVERY
        if old or records != self._read_of:
            self._found = ours.by_launch(records)
            self._read_of, self._read_at = records, at
        return self._found


def _records() -> list[EngineRecord]:
    """Of the engines of this home that run."""
    folders = sorted((settings.WEIR_HOME / "engines").glob("replica-*"))
    return [record for folder in folders if (record := supervisor.adopt(folder))]
