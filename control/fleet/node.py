"""A node joins under its name, and sees to it that nobody else has it."""

import fcntl
from datetime import datetime
from typing import IO

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from control.models import Node
from control.states import NodeState
from engines import host

# Each second of each node: the words are made once.
_BEAT = (
    "UPDATE control_node SET heartbeat_at = statement_timestamp()"
    " WHERE id = %s AND identity = %s AND state <> %s"
)


class NameTaken(Exception):
    """The name belongs to another machine or another home; says what to do."""


def identity() -> str:
    """Machine id and home: what makes this node the same after a restart."""
    return f"{host.machine_id()}:{settings.WEIR_HOME}"


def join(name: str) -> Node:
    """Take the name, or the place one had before; raise NameTaken if it is another's."""
    at = timezone.now()
    with transaction.atomic():
        node, made = Node.objects.select_for_update().get_or_create(
            name=name, defaults={"identity": identity(), "address": settings.WEIR_NODE_ADDRESS}
        )
        if not made and node.identity != identity() and node.state != NodeState.REMOVED:
            raise NameTaken(
                f"node name {name!r} is taken by another machine or home ({node.identity}): "
                "choose another with WEIR_NODE_NAME, or remove that node if it will not return"
            )
        rows = Node.objects.filter(pk=node.pk)
        rows.update(
            identity=identity(),
            address=settings.WEIR_NODE_ADDRESS,
            heartbeat_at=Now(),
            note="",
            **_anew(node, at),
        )
        if node.state != NodeState.READY:
            node.move(NodeState.READY, reason="it has joined again", at=Now())
    node.refresh_from_db()
    return node


def _anew(node: Node, at: datetime) -> dict:
    """A host that was struck off, or left as it was said to, and is here again: it takes all."""
    left = node.leaving_by is not None and node.leaving_by <= at
    if not left and node.state != NodeState.REMOVED:
        return {}
    return {
        "cordoned": False,
        "draining": False,
        "leaving_by": None,
        "leaving_since": None,
        "leaving_reason": "",
    }


def heartbeat(node: Node) -> bool:
    """By the database's clock, as reconcile reads it. False: the name is no longer ours."""
    with connection.cursor() as cursor:
        cursor.execute(_BEAT, [node.pk, node.identity, NodeState.REMOVED])
        return bool(cursor.rowcount)


def hold_home() -> IO[str]:
    """One node worker to a home: the lock ends with the process. Raise NameTaken otherwise."""
    path = settings.WEIR_HOME / "node.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise NameTaken(
            f"another node worker runs in {settings.WEIR_HOME}: stop it, or use another WEIR_HOME"
        ) from None
    return file
