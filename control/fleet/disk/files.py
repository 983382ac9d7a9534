"""What a launch needs on this node's disk: its engine's environment, its model's weights."""

from collections.abc import Mapping
from pathlib import Path

from django.conf import settings

from control.fleet.disk import facts, rules
from control.models import Node, Replica
from engines import host, runtime, weights, weights_cache
from engines.requirements import Refused
from engines.sources import key_of
from engines.spec import BadSpec, Install

CORRUPT = "weights_corrupt"  # of the causes of a failure


def ensure_runtime(node: Node, engine: Mapping, device_kind: str) -> Install:
    """Refused, before anything is downloaded, where this host cannot run it."""
    kind, version = engine["kind"], engine.get("version", "")
    if kind == "vllm" and not node.host:
        say_host(node)
    if kind == "vllm" and not _is_installed(version, device_kind):
        checked = rules.check_host(version, device_kind, facts.host(node))
        if isinstance(checked, Refused):
            return Install("failed", 0, f"{kind} {version}: {checked}")
    means = runtime.Means(settings.WEIR_ENGINE_PYTHON, settings.WEIR_WHEELS)
    return runtime.ensure(kind, version, device_kind, settings.WEIR_RUNTIMES, means)


def ensure_weights(
    source: dict, unsafe: Mapping | None, runtime_path: Path, holder: Replica | None = None
) -> Install:
    """Fetched, verified and, for a launch, held: what a live replica uses gives way to nothing."""
    wanted = weights.Wanted(
        source=source,
        root=settings.WEIR_WEIGHTS,
        runtime=runtime_path,
        unsafe=tuple(sorted(unsafe or ())),
        limit_bytes=settings.WEIR_WEIGHTS_BYTES_MAX,
        offline=settings.WEIR_WHEELS,
    )
    found = weights.ensure(wanted)
    if holder is None or found.state != "done" or "path" in source:
        return found
    if weights_cache.hold(settings.WEIR_WEIGHTS, wanted.key, holder_name(holder.pk)):
        return found
    return Install("running", 0, "has given way to other weights: fetched again")


def fetch_anew(replica: Replica) -> str:
    """What is done about weights that turned out corrupt: once they are fetched again.

    Empty: nothing is, for they lie where an operator put them, or were fetched again before.
    """
    source, unsafe = replica.version.source or {}, replica.version.unsafe or ()
    before = Replica.objects.filter(version=replica.version_id, node=replica.node_id, cause=CORRUPT)
    if since := replica.deployment.retry_at:
        before = before.filter(ended_at__gt=since)
    if "path" in source or before.exclude(pk=replica.pk).exists():
        return ""
    try:
        found = weights_cache.discard(settings.WEIR_WEIGHTS, key_of(source, unsafe))
    except BadSpec:
        return ""
    return "its files were removed and are fetched anew, once" if found else ""


def let_go(replica_id: int) -> None:
    weights_cache.release(settings.WEIR_WEIGHTS, holder_name(replica_id))


def say_host(node: Node) -> None:
    """What engines may need more of than this host has; read as its worker starts."""
    found = runtime.facts(settings.WEIR_ENGINE_PYTHON)
    told = {"machine": found.machine, "glibc": found.glibc, "python": found.python}
    told["memory_bytes"] = host.memory_bytes()[0]
    Node.objects.filter(pk=node.pk).update(host=told)
    node.host = told


def holder_name(replica_id: int) -> str:
    return f"replica-{replica_id}"


def _is_installed(version: str, device_kind: str) -> bool:
    return runtime.installed("vllm", version, device_kind, settings.WEIR_RUNTIMES)
