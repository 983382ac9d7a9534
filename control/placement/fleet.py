"""The nodes of one plan, in the order of their free memory: what is given away is gone at once."""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property

from control.placement.groups import largest_linked
from control.placement.room import free_bytes
from control.placement.wanted import Policy
from control.placement.world import DeviceFacts, Holder, Need, NodeFacts, Placed, ProjectQuota, Room

# Free bytes of a device, of its whole node, place of the node, all negated: the tightest gaps stand
# at the end, where packing takes them, and a list is changed there without moving the rest.
Entry = tuple[int, int, int]
Shelf = tuple[str, str, int]  # kind of devices, pool ("" is any), version on disk (0 is any)
EMPTY, RAM = "empty", "ram"


class Fleet:
    """Of one plan, in one thread: reserve() and keep() change it.

    A shelf holds one entry for each node and size of gap, sorted: the tightest fit is found by
    bisection, and a reservation moves the entries of one node only.
    """

    def __init__(self, nodes: Iterable[NodeFacts], quotas: Iterable[ProjectQuota] = ()):
        self._nodes = sorted(nodes, key=lambda node: node.name)
        self._place = {node.id: place for place, node in enumerate(self._nodes)}
        self._names = {node.name: node.id for node in self._nodes}
        self._shelves: dict[Shelf, list[Entry]] = defaultdict(list)
        self._entries: list[list[tuple[Shelf, Entry]]] = []
        self._warm: dict[int, list[int]] = defaultdict(list)  # version → places of nodes with it
        self._shelved: set[int] = {0}  # versions that have shelves: those that were asked for
        self._sizes: set[int] = set()  # of groups of empty cards that were asked for
        self.quotas = {quota.id: quota for quota in quotas}
        self.held: dict[int, set[int]] = defaultdict(set)  # project → devices
        self.empty_cards = 0
        self.linked_most = 0  # the largest group of linked devices anywhere
        for place, node in enumerate(self._nodes):
            self._count(node, place)
        for shelf in self._shelves.values():
            shelf.sort()

    @property
    def nodes(self) -> list[NodeFacts]:
        return self._nodes

    @cached_property
    def sleeps(self) -> bool:
        """Somebody does, as the plan began."""
        devices = (device for node in self._nodes for device in node.devices)
        return any(holder.asleep for device in devices for holder in device.holders)

    def node(self, node_id: int) -> NodeFacts:
        return self._nodes[self._place[node_id]]

    def named(self, name: str) -> NodeFacts | None:
        node_id = self._names.get(name)
        return None if node_id is None else self.node(node_id)

    def warm(self, need: Need, room: Room, least: int) -> Iterator[NodeFacts]:
        """As walk, of nodes that have the weights on their disk."""
        version = need.version_id
        if version not in self._warm:
            return iter(())
        if version not in self._shelved:
            self._shelve(version)
        return self.walk(need, room, least, version)

    def walk(self, need: Need, room: Room, least: int, version: int = 0) -> Iterator[NodeFacts]:
        """Nodes with a gap of that size, each once, the best by the need's policy first."""
        seen: set[int] = set()
        if room is Room.OWN and need.devices > 1 and need.devices not in self._sizes:
            self._size(need.devices)
        for name in _shelves(need, room):
            shelf = self._shelves.get((name, need.pool, version), [])
            end = bisect_right(shelf, (-least, 0, 0))
            spread = need.policy == Policy.SPREAD
            for at in range(end) if spread else range(end - 1, -1, -1):
                place = -shelf[at][2]
                if place not in seen:
                    seen.add(place)
                    yield self._nodes[place]

    def largest(self, need: Need, room: Room) -> int:
        """The largest gap there is for it."""
        names = (EMPTY,) if room is Room.OWN else _shelves(need, room)
        shelves = (self._shelves.get((name, need.pool, 0)) for name in names)
        return max((-shelf[0][0] for shelf in shelves if shelf), default=0)

    def reserve(self, placed: Placed, need: Need) -> None:
        """What was just given away is booked: one plan never gives it twice."""
        given = {share.device_id: share.ranges for share in placed.shares}
        node = self.node(placed.node_id)
        devices = tuple(
            _booked(device, given[device.id], need) if device.id in given else device
            for device in node.devices
        )
        after = replace(
            _with(node, need.deployment_id),
            devices=devices,
            ram_booked_bytes=node.ram_booked_bytes + placed.host_bytes,
            ram_coming_bytes=node.ram_coming_bytes + placed.host_bytes,
        )
        self._change(node, after)
        if need.project_id is not None:
            self.held[need.project_id] |= set(given)

    def keep(self, device_ids: Iterable[int], why: str) -> None:
        """Give nothing of these devices away in this plan: somebody more urgent waits for them."""
        wanted = set(device_ids)
        for node in [n for n in self._nodes if any(d.id in wanted for d in n.devices)]:
            devices = tuple(
                replace(device, blocked=device.blocked or why) if device.id in wanted else device
                for device in node.devices
            )
            self._change(node, replace(node, devices=devices))

    def _change(self, before: NodeFacts, after: NodeFacts) -> None:
        place = self._place[before.id]
        for key, entry in self._entries[place]:
            shelf = self._shelves[key]
            del shelf[bisect_left(shelf, entry)]
        self.empty_cards -= _empty_cards(before)
        self._nodes[place] = after
        self._entries[place] = list(_entries(after, place, self._shelved, self._sizes))
        for key, entry in self._entries[place]:
            insort(self._shelves[key], entry)
        self.empty_cards += _empty_cards(after)

    def _shelve(self, version: int) -> None:
        self._shelved.add(version)
        for place in self._warm[version]:
            for key, entry in _entries(self._nodes[place], place, {version}, self._sizes):
                self._entries[place].append((key, entry))
                self._shelves[key].append(entry)
        for key in [key for key in self._shelves if key[2] == version]:
            self._shelves[key].sort()

    def _size(self, count: int) -> None:
        """Shelves of so many empty cards of one node: most nodes have too few to be looked at."""
        self._sizes.add(count)
        for place, node in enumerate(self._nodes):
            for key, entry in _grouped(node, place, self._shelved, {count}):
                self._entries[place].append((key, entry))
                self._shelves[key].append(entry)
        for key in [key for key in self._shelves if key[0] == _empty(count)]:
            self._shelves[key].sort()

    def _count(self, node: NodeFacts, place: int) -> None:
        self._entries.append(list(_entries(node, place, self._shelved, self._sizes)))
        for key, entry in self._entries[place]:
            self._shelves[key].append(entry)
        for version in node.weights:
            self._warm[version].append(place)
        for device in node.devices:
            for holder in device.holders:
                if holder.project_id is not None:
                    self.held[holder.project_id].add(device.id)
        self.empty_cards += _empty_cards(node)
        # One host whose devices are all linked says enough of all others of its size.
        if len(node.devices) > self.linked_most and any(it.links for it in node.devices):
            self.linked_most = max(self.linked_most, largest_linked(node.devices))


def shelf_of(device: DeviceFacts) -> str:
    """Launches that share a card are of one priority, so a shared card is looked for under it."""
    if device.kind == "cpu":
        return RAM
    if not device.booked:
        return EMPTY
    return _shared(device.holders[0].priority if device.holders else "")


def _shelves(need: Need, room: Room) -> tuple[str, ...]:
    match room:
        case Room.RAM:
            return (RAM,)
        case Room.OWN:
            return (_empty(need.devices),)
        case Room.SHARED:
            both = (_shared(need.priority), EMPTY)
            return both[::-1] if need.policy == Policy.SPREAD else both


def _shared(priority: str) -> str:
    return f"shared {priority}"


def _empty(count: int) -> str:
    return EMPTY if count == 1 else f"{EMPTY} {count}"


def _entries(
    node: NodeFacts, place: int, shelved: set[int], sizes: set[int]
) -> Iterator[tuple[Shelf, Entry]]:
    """`shelved`: the versions whose shelves it may stand on; 0 is the one for all."""
    if node.blocked:
        return
    gaps = [(shelf_of(it), free_bytes(it)) for it in node.devices if not it.blocked]
    total = sum(free for _, free in gaps)
    yield from _on_shelves(set(gaps), node, (total, place), shelved)
    if sizes:
        yield from _grouped(node, place, shelved, sizes)


def _grouped(
    node: NodeFacts, place: int, shelved: set[int], sizes: set[int]
) -> Iterator[tuple[Shelf, Entry]]:
    """For each size of a group, the smallest gap of the largest such group of empty cards."""
    if node.blocked:
        return
    usable = [device for device in node.devices if not device.blocked]
    total = sum(free_bytes(device) for device in usable)
    empty = sorted((free_bytes(it) for it in usable if shelf_of(it) == EMPTY), reverse=True)
    gaps = {(_empty(count), empty[count - 1]) for count in sizes if count <= len(empty)}
    yield from _on_shelves(gaps, node, (total, place), shelved)


def _on_shelves(
    gaps: set[tuple[str, int]], node: NodeFacts, rest: tuple[int, int], shelved: set[int]
) -> Iterator[tuple[Shelf, Entry]]:
    versions = (shelved & node.weights) | (shelved & {0})
    total, place = rest
    for name, free in gaps:
        if free:
            entry = (-free, -total, -place)
            for version in versions:
                yield (name, "", version), entry
                yield (name, node.pool, version), entry


def _empty_cards(node: NodeFacts) -> int:
    if node.blocked:
        return 0
    return sum(shelf_of(device) == EMPTY and not device.blocked for device in node.devices)


def _with(node: NodeFacts, deployment_id: int) -> NodeFacts:
    return replace(node, deployments=node.deployments | {deployment_id})


def _booked(device: DeviceFacts, ranges: tuple, need: Need) -> DeviceFacts:
    holder = Holder(
        0, need.deployment_id, need.name, need.model_id, need.priority, need.project_id, ranges
    )
    coming = sum(upper - lower for lower, upper in ranges) if device.kind == "cpu" else 0
    return replace(
        device,
        booked=device.booked + ranges,
        holders=(*device.holders, holder),
        coming_bytes=device.coming_bytes + coming,
    )
