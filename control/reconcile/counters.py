"""Reads what engines that Weir did not launch have counted, as nodes read their own."""

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from control.fleet import engine_http
from control.metering.drift.external import actions
from control.metering.drift.external.rules import NO_COUNTERS, has_counters
from control.models import Replica
from control.reconcile.probes import PROBED, Target, targets
from control.states import ReplicaState
from control.telemetry.sample import Unread
from engines.vllm.metrics import parse_metrics

READ = (*PROBED, ReplicaState.DRAINING)
ENGINES_MAX = 500
AT_ONCE = 8
SHARED = "it serves others too, as its version says (shared)"


def read(at: datetime) -> None:
    """Of each once. A page that does not come is tried again in the next turn."""
    found = targets(READ)[:ENGINES_MAX]
    several = used_by_several(found)
    asked = []
    for target in found:
        why = SHARED if _is_shared(target.replica) else several.get(target.replica.pk, "")
        if why:  # what others make it count meanwhile is nobody's
            actions.not_read(target.replica.pk, why, at, counts_on=False)
        else:
            asked.append(target)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="counters") as pool:
        pages = list(pool.map(lambda target: engine_http.metrics_of_any(target.address), asked))
    for target, page in zip(asked, pages, strict=True):
        _note(target.replica.pk, page, at)


def used_by_several(found: Iterable[Target]) -> dict[int, str]:
    """Replica → why its engine's counters are not its own: one engine, more than one replica."""
    found = list(found)
    users = Counter(target.address.url for target in found)
    return {
        target.replica.pk: f"{users[target.address.url]} replicas use the engine at its address"
        for target in found
        if users[target.address.url] > 1
    }


def _note(replica_id: int, page: str | Unread, at: datetime) -> None:
    match page:
        case Unread(why):
            actions.not_read(replica_id, why, at, counts_on=True)
        case _ if not has_counters(page):
            actions.not_read(replica_id, NO_COUNTERS, at, counts_on=True)
        case _:
            actions.note(replica_id, parse_metrics(page), at)


def _is_shared(replica: Replica) -> bool:
    return bool(replica.version.engine.get("shared"))
