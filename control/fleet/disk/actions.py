"""Asking nodes for an engine version, or for weights, before a launch needs them."""

from datetime import datetime

from django.db import transaction

from control import checks
from control.fleet import orders
from control.fleet.disk import facts, rules
from control.fleet.disk.rules import Asked, NotAsked
from control.models import Node, NodeRuntime, NodeWeights, Version
from control.models.audit import record
from control.states import FilesState, NodeState
from engines.sources import key_of
from engines.spec import BadSpec


def install_runtime(
    engine: str,
    version: str,
    *,
    device_kind: str | None = None,
    node: str | None = None,
    by: str,
    reason: str,
    at: datetime,
) -> list[Asked | NotAsked]:
    """Ask every node (or one) that can run it; refused if none can."""
    checks.require(rules.problems(engine, version, device_kind))
    with transaction.atomic():
        nodes = _nodes(node)
        decided = rules.decide(version, device_kind, facts.hosts(nodes.values()))
        asked = [one for one in decided if isinstance(one, Asked)]
        if not asked:
            why = "; ".join(f"{one.node}: {one.reason}" for one in decided)
            raise checks.refuse("version", f"no node can run {engine} {version}: {why}")
        for one in asked:
            found = {"engine": engine, "version": version, "device_kind": one.device_kind}
            _want(NodeRuntime, {"node": nodes[one.node], **found}, {}, by, at)
        subject = f"{engine} {version}"
        change = (None, {"nodes": [one.node for one in asked]})
        record("install runtime", subject, by=by, reason=reason, at=at, change=change)
        transaction.on_commit(lambda: _hint(asked))
    return decided


def prefetch(
    model: str, version: str, *, node: str | None = None, by: str, reason: str, at: datetime
) -> list[Asked]:
    """Ask every node (or one) for the weights of a version."""
    row = Version.objects.filter(model__name=model, name=version).first()
    if row is None:
        raise checks.unknown("version", f"there is no version {model}:{version}")
    if not row.source or "path" in row.source:
        raise checks.refuse("version", f"{row} has nothing to fetch: its files are where they are")
    try:
        key = key_of(row.source, row.unsafe or ())
    except BadSpec as bad:
        raise checks.refuse("version", f"{row}: {bad}; name a new version") from None
    with transaction.atomic():
        nodes = _nodes(node)
        hosts = facts.hosts(nodes.values())
        asked = [Asked(name, rules.kind_of(hosts[name])) for name in sorted(nodes)]
        content = {"source": row.source, "unsafe": row.unsafe, "engine": row.engine}
        for one in asked:
            _want(NodeWeights, {"node": nodes[one.node], "key": key}, content, by, at)
        change = (None, {"nodes": [one.node for one in asked]})
        record("prefetch weights", str(row), by=by, reason=reason, at=at, change=change)
        transaction.on_commit(lambda: _hint(asked))
    return asked


def _nodes(name: str | None) -> dict[str, Node]:
    rows = Node.objects.exclude(state=NodeState.REMOVED)
    found = {node.name: node for node in (rows.filter(name=name) if name else rows)}
    if not found:
        what = f"there is no node {name!r}" if name else "no node has joined"
        raise checks.unknown("node", what)
    return found


def _want(model, identity: dict, content: dict, by: str, at: datetime) -> None:
    """What is there or under way stays as it is; a failure is tried anew."""
    wanted = {"state": FilesState.WANTED, "percent": 0, "detail": "", "state_at": at}
    asked = {"asked_by": by[:128], "asked_at": at, **content}
    row, made = model.objects.select_for_update().get_or_create(**identity, defaults=wanted | asked)
    if not made and row.state == FilesState.FAILED:
        model.objects.filter(pk=row.pk).update(**wanted | asked)


def _hint(asked: list[Asked]) -> None:
    for one in asked:
        orders.look_at_files(one.node)
