"""What each deployment has to do in one gateway process, as autoscaling wants to know it."""

from control.gateway.routing.replicas import LiveReplicas
from control.gateway.waiting.queue import Waiting
from control.states import Priority
from control.telemetry.messages import DeploymentLoad


def loads(replicas: LiveReplicas, waiting: Waiting, now: float) -> dict[str, DeploymentLoad]:
    """Deployment -> its calls. One that waits for any of several counts in equal parts."""
    found: dict[str, DeploymentLoad] = {}
    for live in replicas.all():
        name = live.info.deployment
        known = found.get(name, DeploymentLoad())
        batch = live.batch_in_flight
        found[name] = known.plus(running=live.in_flight - batch, batch_running=batch)
    for pool, counts, oldest_at in waiting.demands():
        batch = counts.pop(Priority.BATCH)
        part = 1 / len(pool)
        for name in pool:
            found[name] = found.get(name, DeploymentLoad()).plus(
                waiting=part * sum(counts.values()),
                batch_waiting=part * batch,
                oldest_seconds=0.0 if oldest_at is None else now - oldest_at,
            )
    return {name: load for name, load in found.items() if load.calls}
