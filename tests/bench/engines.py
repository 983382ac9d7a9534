"""Stub engines for a node worker that is measured: rows that it finds, launches and scrapes."""

from django.db.backends.postgresql.psycopg_any import NumericRange
from django.utils import timezone

from control.models import CatalogModel, Deployment, Device, Replica, Reservation, Version
from control.placement.memory import GIB
from control.states import ReplicaState


def place(node: str, count: int) -> int:
    """One launch a card, placed: what follows is the node's doing."""
    version = Version.objects.create(
        model=CatalogModel.objects.create(name="scraped"),
        name="v1",
        engine={"kind": "stub", "version": "1"},
        digest="scraped",
        arguments={"max_model_len": 2048},
    )
    deployment = Deployment.objects.create(
        name="scraped", version=version, replicas_wanted=count, replicas_max=count
    )
    cards = Device.objects.filter(node__name=node, kind="gpu").select_related("node")
    for number, card in enumerate(cards.order_by("index")[:count], 1):
        replica = Replica.objects.create(
            deployment=deployment,
            version=version,
            generation=number,
            node=card.node,
            state=ReplicaState.PLACED,
            state_at=timezone.now(),
            room="shared",
            kv_bytes=8 * GIB,
        )
        Reservation.objects.create(
            device=card, replica=replica, memory=NumericRange(0, 24 * GIB), state="held"
        )
    return count
