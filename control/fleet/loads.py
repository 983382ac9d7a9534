"""What a serving engine says of its load: shared, counted, and noted on its launch's row."""

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from control.fleet import engine_http, launch, use
from control.metering.drift import counts
from control.models import Replica, SnapshotPart
from control.states import Part, ReplicaState
from control.telemetry.publish import Publisher
from control.telemetry.sample import EngineAddress, EngineReader, Unread
from engines import supervisor
from engines.kinds import KINDS
from engines.spec import EngineLoad


class Loads:
    """Remembers the last reading of each engine, to tell what has changed since."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._reader = EngineReader()
        self._use = use.Use()
        self._counts = counts.Counts()

    def keep_only(self, replica_ids: set[int]) -> None:
        """Forget launches that are over."""
        self._reader.keep_only(replica_ids)
        self._use.keep_only(replica_ids)
        self._counts.keep_only(replica_ids)

    def measure(self, replica: Replica, at: datetime) -> EngineLoad | None:
        """Read its load and share it with whoever watches; None if it does not answer."""
        where = engine_http.address(replica)
        parse = KINDS[replica.version.engine["kind"]].parse_metrics
        engine = EngineAddress(replica.pk, str(replica), where.url, where.key, parse)
        sample = self._reader.read(engine, at.timestamp())
        if isinstance(sample, Unread):
            return None
        self._publisher.later([sample])
        load = self._reader.load(replica.pk)
        if load is not None:
            self._counts.note(replica.pk, load, timezone.now())
        _note_cache(replica, load)
        awake = replica.state != ReplicaState.ASLEEP  # then its host holds its weights
        if load is not None and awake and self._use.is_due(replica.pk, at):
            use.write(replica, load, supervisor.host_memory_bytes(launch.folder_of(replica)))
        return load

    def busy_ratio(self, replica_id: int) -> float:
        return self._reader.busy_ratio(replica_id)

    def ended(self, replica_id: int) -> None:
        """Its counts are written down: no later reading will come."""
        self._counts.flush(replica_id)


def _note_cache(replica: Replica, load: EngineLoad | None) -> None:
    """How many tokens its cache holds, if it had not said so when it became ready."""
    if replica.kv_tokens is not None or load is None or not load.kv_cache_tokens:
        return
    with transaction.atomic():
        rows = Replica.objects.filter(pk=replica.pk, kv_tokens=None)
        if rows.update(kv_tokens=load.kv_cache_tokens):
            SnapshotPart.raise_version(Part.REPLICAS)
