"""Why an engine ended: what its log says, and what the kernel did to it."""

from control.models import Replica
from engines import host
from engines.kinds import KINDS
from engines.spec import Cause

HOST_MEMORY = "host_memory_exhausted"
# Ends that a kernel short of memory brings about: it kills, and the engine cannot say why.
_SILENT = frozenset({"killed", "worker_died", "exited", "crashed"})


class Endings:
    """Remembers how often the kernel had killed for memory while each engine lived."""

    def __init__(self) -> None:
        self._kills: dict[int, int | None] = {}

    def alive(self, replica_id: int) -> None:
        if replica_id not in self._kills:  # it reads a dozen files, and is asked each second
            self._kills[replica_id] = host.oom_kills()

    def keep_only(self, replica_ids: set[int]) -> None:
        self._kills = {pk: count for pk, count in self._kills.items() if pk in replica_ids}

    def cause(self, replica: Replica, log: str, exit_code: int | None) -> Cause:
        said = KINDS[replica.version.engine["kind"]].read_cause(log, exit_code)
        return with_kills(said, self._kills.get(replica.pk), host.oom_kills())


def with_kills(said: Cause, before: int | None, now: int | None) -> Cause:
    """An engine's own words count first; a silent end beside kills for memory was one of them."""
    if before is None or now is None or now <= before or said.code not in _SILENT:
        return said
    detail = f"the host ran out of memory and its kernel ended processes of engines; {said.detail}"
    return Cause(HOST_MEMORY, detail, retry=True)
