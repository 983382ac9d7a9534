"""What a host with cards has free of its RAM, told every few seconds: a launch takes some too."""

from datetime import datetime, timedelta

from control.models import Node
from engines import host

TOLD_EVERY = timedelta(seconds=5)


class Teller:
    """A host without cards offers its RAM as a device, and tells of it there."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._told_at: datetime | None = None

    def tell(self, at: datetime) -> None:
        if self._told_at and at - self._told_at < TOLD_EVERY:
            return
        _, free = host.memory_bytes()
        Node.objects.filter(pk=self._node.pk).update(memory_free_bytes=free, memory_read_at=at)
        self._told_at = at
