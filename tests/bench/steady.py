"""A fleet at rest in real tables, and what one tick of reconcile costs there."""

import json
import time
from datetime import timedelta
from pathlib import Path

from django.db import connection
from django.db.backends.postgresql.psycopg_any import NumericRange

from control.models import (
    CatalogModel,
    Deployment,
    Device,
    Node,
    Replica,
    Reservation,
    Version,
)
from control.placement.memory import GIB
from control.reconcile import facts, loop
from control.states import NodeState, ReplicaState

DEPLOYMENTS, EACH, ENDED = 500, 10, 4  # replicas of one, and its earlier launches
CARDS = 8
WARM, TICKS = 2, 8


def fill() -> int:
    """Each replica has a card of its own on a host of eight; one card in five is free."""
    at = facts.database_now()
    count = DEPLOYMENTS * EACH
    nodes = Node.objects.bulk_create(
        Node(name=f"n{n}", identity=f"m{n}", heartbeat_at=at, state=NodeState.READY)
        for n in range(count * 5 // 4 // CARDS)
    )
    devices = Device.objects.bulk_create(
        [_device(node, card, at) for node in nodes for card in range(CARDS)]
    )
    deployments = _deployments()
    replicas = Replica.objects.bulk_create(
        [
            _replica(deployment, ENDED + 1 + n, devices[at_ * EACH + n].node, at)
            for at_, deployment in enumerate(deployments)
            for n in range(EACH)
        ]
        + [_over(deployment, n + 1, at) for deployment in deployments for n in range(ENDED)]
    )[:count]
    Reservation.objects.bulk_create(
        Reservation(device=device, replica=replica, memory=NumericRange(0, 80 * GIB))
        for device, replica in zip(devices, replicas, strict=False)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return count


def measure() -> str:
    """CPU seconds of this process and of its PostgreSQL backend, for each of some ticks."""
    with connection.cursor() as cursor:
        # What parallel workers would spend ends with them, unseen.
        cursor.execute("SET max_parallel_workers_per_gather = 0")
        cursor.execute("SELECT pg_backend_pid()")
        backend = cursor.fetchone()[0]
    ours, theirs = [], []
    for number in range(WARM + TICKS):
        Node.objects.update(heartbeat_at=facts.database_now())
        python, database = time.process_time(), _cpu_seconds(backend)
        done = loop.tick()
        if done:
            raise SystemExit(f"the fleet was not at rest: {done[:3]}")
        if number >= WARM:
            ours.append(time.process_time() - python)
            theirs.append(_cpu_seconds(backend) - database)
    return json.dumps({"python": ours, "postgresql": theirs})


def _deployments() -> list[Deployment]:
    models = CatalogModel.objects.bulk_create(
        CatalogModel(name=f"m{n}") for n in range(DEPLOYMENTS)
    )
    engine = {"kind": "vllm", "version": "0.32.0"}
    versions = Version.objects.bulk_create(
        Version(
            model=model,
            name="v1",
            engine=engine,
            digest=model.name,
            arguments={"max_model_len": 8192, "max_num_seqs": 32},
            source={"size_bytes": 16 * GIB},
        )
        for model in models
    )
    return Deployment.objects.bulk_create(
        Deployment(
            name=f"d{n}",
            version=version,
            replicas_min=1,
            replicas_max=EACH,
            replicas_wanted=EACH,
            placement={"share": "own"},
        )
        for n, version in enumerate(versions)
    )


def _device(node: Node, card: int, at) -> Device:
    return Device(
        node=node,
        uuid=f"GPU-{node.name}-{card}",
        index=card,
        kind="gpu",
        name=f"card {card}",
        memory_total_bytes=80 * GIB,
        read_at=at,
    )


def _replica(deployment: Deployment, generation: int, node: Node, at) -> Replica:
    return Replica(
        deployment=deployment,
        version=deployment.version,
        generation=generation,
        node=node,
        state=ReplicaState.READY,
        ready_at=at - timedelta(hours=1),
        host="127.0.0.1",
        port=20_000 + generation + deployment.pk % 1000 * 20,
        pid=generation,
        slots=32,
        room="own",
    )


def _over(deployment: Deployment, generation: int, at) -> Replica:
    return Replica(
        deployment=deployment,
        version=deployment.version,
        generation=generation,
        state=ReplicaState.STOPPED,
        ready_at=at - timedelta(hours=3),
        ended_at=at - timedelta(hours=2),
        reason="2 replicas where 1 are wanted",
    )


def _cpu_seconds(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
