"""Cards, nodes and needs for tests of placement, in a line each."""

from control.placement.memory import GIB, Sizes
from control.placement.world import DeviceFacts, Holder, Need, NodeFacts

CARD = 80 * GIB


def a_card(number, **fields):
    return DeviceFacts(number, f"GPU-{number}", f"card {number}", "gpu", CARD, **fields)


def linked(*numbers):
    names = {f"GPU-{number}" for number in numbers}
    return [a_card(it, links=frozenset(names - {f"GPU-{it}"})) for it in numbers]


def ram(number=1, gib=64, **fields):
    return DeviceFacts(number, f"cpu-{number}", "RAM", "cpu", gib * GIB, **fields)


def held(number, *holders, **fields):
    """A card on which these hold memory."""
    booked = tuple(span for holder in holders for span in holder.ranges)
    return a_card(number, booked=booked, holders=holders, **fields)


def a_holder(replica_id, start_gib, end_gib, **fields):
    fields = {"name": f"d#{replica_id}", "ranges": ((start_gib * GIB, end_gib * GIB),)} | fields
    return Holder(replica_id, fields.pop("deployment_id", 9), **fields)


def a_node(*devices, number=1, **fields):
    return NodeFacts(number, f"n{number}", devices=devices, **fields)


def a_need(gib=30, devices=1, kv_gib=0, share="shared", **fields):
    size = Sizes(gib * GIB, 0, kv_gib * GIB, GIB)
    fields = {"sizes": {"gpu": size, "cpu": size}, "version_id": 1, "deployment_id": 1} | fields
    return Need(devices=devices, share=share, name=fields.pop("name", "d"), **fields)
