"""Wakes an engine on its node: its memory must be there still, and then it warms up as any."""

from datetime import datetime

from control.fleet import engine_http, launch, node_tasks, turns
from control.fleet.sleeping import rules
from control.fleet.sleeping.falling import held_now
from control.models import Replica, SnapshotPart, WakeUp
from control.states import Part, ReplicaState
from engines import gpu, supervisor

CAUSE = "wake_up"  # of a failure: reconcile launches another at once
CHANGES_READ = 10  # from waking to ready it is three


def wake(replica: Replica, at: datetime) -> None:
    """One look; may be repeated by the process after a kill."""
    if turns.is_awaited(replica, at=at):
        return  # an engine that measures a card must not see memory go there
    if why := _woken(replica):
        node_tasks.fail(replica, CAUSE, f"did not wake up: {why}", at=at)
        return
    fields = {"awake": None, "phase": "warming", "progress_percent": 90, "progress_at": at}
    fields["host_memory_ready_bytes"] = None  # of what it keeps of its sleep it must not be worn
    reason = "woke up; a call will tell whether it serves"
    replica.move(ReplicaState.WARMING, reason=reason, by=node_tasks.by(), at=at, **fields)


def _woken(replica: Replica) -> str:
    """Why it is not awake; empty when it says that it is."""
    if supervisor.adopt(launch.folder_of(replica)) is None:
        return "its process has ended"
    where = engine_http.address(replica)
    if engine_http.is_sleeping(where) is False:
        return ""  # it was asked before, by a worker that was killed
    held, readings = (replica.awake or {}).get("held", {}), gpu.read()
    now = held_now(replica, readings, tuple(held))
    free = {one.uuid: None if one.error else one.memory_free_bytes for one in readings}
    if why := rules.no_room(held, now, free):
        return why
    answer = engine_http.wake_up(where)
    if not answer.good:
        return answer.reason
    return "" if engine_http.is_sleeping(where) is False else "it says that it sleeps on"


def at_ready(replica: Replica, at: datetime) -> None:
    """How long it took, to be told to calls that are held for the next one."""
    before = replica.changes.order_by("-at", "-pk").values_list("new", "at")[1:CHANGES_READ]
    for new, since in before:
        if new == ReplicaState.READY:
            return
        if new == ReplicaState.WAKING:
            seconds = max(0.0, (at - since).total_seconds())
            WakeUp.objects.create(
                replica=replica, version_id=replica.version_id, seconds=seconds, at=at
            )
            SnapshotPart.raise_version(Part.ROUTES)
            return
