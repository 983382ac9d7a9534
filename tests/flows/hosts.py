"""A running platform on three hosts, and what is asked of all of them."""

from tests.flows.host import Host
from tests.flows.namespaces import Network, why_not
from tests.flows.test_kills import SERVICE as ONE
from tests.flows.weir import Weir, until

# Instead of 15 and 60. Whoever was away for a moment has six seconds to be heard again: a heartbeat
# comes each second, later where three test runs share two cores.
UNKNOWN_SECONDS, LOST_SECONDS = 2, 8
SERVICE = ONE.replace("replicas: {min: 1, max: 1}", "replicas: {min: 3, max: 3}")
RULES = f'{{"unknown_seconds": {UNKNOWN_SECONDS}, "lost_seconds": {LOST_SECONDS}}}'
LIMITS = '{"lease_seconds": 6}'
PLACED = (
    "SELECT r.id, coalesce(n.name, ''), r.state FROM control_replica r"
    " LEFT JOIN control_node n ON n.id = r.node_id WHERE r.state NOT IN ('stopped', 'failed')"
)


class Hosts:
    """n1 is where `weir up` runs; n2 and n3 have worker, home, queue and cards of their own."""

    def __init__(self, library):
        self.weir = Weir(
            SERVICE,
            WEIR_NODE_NAME="n1",
            WEIR_RECONCILE=RULES,
            WEIR_GATEWAY_LIMITS=LIMITS,
            WEIR_DRAIN_SECONDS="30",
        )
        self.library = library
        self.others: dict[str, Host] = {}

    def start(self):
        self.weir.with_schema().start()
        for name in ("n2", "n3"):
            self.add(name)
        return self

    def add(self, name):
        """With a network of its own, where this machine lets us make one."""
        network = None if why_not() else Network()
        self.others[name] = Host(self.weir, name, self.library, network).start()

    def __getitem__(self, name):
        return self.others[name]

    def replicas(self, state="ready"):
        """Node → replicas in that state."""
        found = {"n1": set(), "n2": set(), "n3": set()}
        for pk, node, its in self.weir.rows(PLACED):
            if its == state:
                found.setdefault(node, set()).add(pk)
        return found

    def engines(self):
        return {"n1": set(self.weir.engines())} | {
            name: set(host.engines()) for name, host in self.others.items()
        }

    def launches(self):
        [(count,)] = self.weir.rows("SELECT count(*) FROM control_replica")
        return count

    def at_rest(self):
        """Three ready replicas, their engines and no other, and books that say the same."""
        ready = self.replicas()
        booked = self.weir.rows(
            "SELECT DISTINCT replica_id FROM control_reservation WHERE state = 'held'"
        )
        live = {pk for pk, _, _ in self.weir.rows(PLACED)}
        mine = set().union(*ready.values())
        return (
            len(mine) == 3 and live == mine == {pk for (pk,) in booked} and ready == self.engines()
        )

    def wait_for_rest(self):
        until(self.at_rest, "three replicas, with their engines and bookings alone")

    def is_drained(self, name):
        asked = "SELECT draining FROM control_node WHERE name = %s"
        left = [pk for pk, node, _ in self.weir.rows(PLACED) if node == name]
        return self.weir.rows(asked, name) == [(True,)] and not left

    def state(self, name):
        [(state,)] = self.weir.rows("SELECT state FROM control_node WHERE name = %s", name)
        return state

    def clean_up(self):
        for host in self.others.values():
            host.clean_up()
        self.weir.clean_up()


def place_on(hosts, name):
    """At least one replica there, by asking the others to take no new one and one to leave."""
    hosts.wait_for_rest()
    if hosts.replicas()[name]:
        return
    other = next(node for node, its in hosts.replicas().items() if its)
    for node in {"n1", "n2", "n3"} - {name, other}:
        hosts.weir.weir("node", "cordon", node)
    hosts.weir.weir("node", "drain", other)
    until(lambda: hosts.replicas()[name] and hosts.at_rest(), f"a replica on {name}")
    for node in {"n1", "n2", "n3"} - {name}:
        hosts.weir.weir("node", "uncordon", node)


def ready_elsewhere(hosts, name):
    return sum(len(its) for node, its in hosts.replicas().items() if node != name)
