"""What a launch needs on this node's disk: its engine's environment, its model's weights."""

from collections.abc import Mapping
from pathlib import Path

from django.conf import settings

from control.fleet.disk import facts, rules
from control.models import Node, Replica
from engines import host, runtime, weights, weights_cache
from engines.requirements import Refused
from engines.spec import Install


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
