"""Hosts of the model world: their devices, and RAM beside cards."""

from dataclasses import replace

from control.placement.memory import Sizes
from control.placement.room import RAM_RATIO
from control.placement.wanted import Sharing
from control.placement.world import DeviceFacts, Holder, NodeFacts
from control.states import REPLICA_FINAL, NodeState, ReplicaState
from tests.reconcile.worlds import GIB, NEED

ON_CARDS = Sizes(GIB, GIB, GIB, GIB, host_bytes=3 * GIB)
ANYWHERE = replace(NEED, sizes=NEED.sizes | {"gpu": ON_CARDS}, share=Sharing.SHARED)


class Hosts:
    """Of a Model, which has machines and rows."""

    def ram_booked(self, node):
        return sum(row.ram_bytes for row in self.rows.values() if _is_on(row, node))

    def ram_free(self, node):
        return self.machines[node].ram_bytes * RAM_RATIO - self.ram_booked(node)

    def _node(self, machine):
        holders = tuple(self._holder(row) for row in self.rows.values() if _is_on(row, machine.id))
        silent = "" if machine.state is NodeState.READY else f"is {machine.state}"
        device = DeviceFacts(machine.id, f"u{machine.id}", "device", machine.kind, machine.total)
        booked = tuple(span for holder in holders for span in holder.ranges)
        device = replace(device, booked=booked, holders=holders, blocked=silent)
        ram = {"ram_bytes": machine.ram_bytes, "ram_booked_bytes": self.ram_booked(machine.id)}
        return NodeFacts(machine.id, f"n{machine.id}", silent, (device,), **ram)

    def _holder(self, row):
        return Holder(
            row.id,
            row.deployment,
            ranges=tuple(share[1:] for share in row.held),
            ends=row.state in (*REPLICA_FINAL, ReplicaState.DRAINING),
            asleep=row.state is ReplicaState.ASLEEP,
            host_bytes=row.ram_bytes,
        )


def _is_on(row, node):
    return bool(row.held) and row.node == node
