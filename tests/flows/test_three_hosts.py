"""Three hosts: losing one moves its replicas, and nothing that is away stops a running call."""

import os
import signal
import time
from contextlib import contextmanager

import psutil
import pytest

from tests.engines.fake_nvml import build
from tests.flows.books import read_books
from tests.flows.host import Host
from tests.flows.test_kills import SERVICE as ONE
from tests.flows.traffic import traffic
from tests.flows.weir import Weir, until

UNKNOWN_SECONDS, LOST_SECONDS = 2, 4  # instead of 15 and 60
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
        self.weir.start()
        for name in ("n2", "n3"):
            self.others[name] = Host(self.weir, name, self.library).start()
        return self

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


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    made = Hosts(build(tmp_path_factory.mktemp("nvml")))
    try:
        made.start()
        # Placed on the only node that was there; each host gets its own by a drain and back.
        made.weir.weir("node", "drain", "n1")
        until(lambda: not made.replicas()["n1"] and made.at_rest(), "replicas on n2 and n3")
        made.weir.weir("node", "uncordon", "n1")
        yield made
    finally:
        made.clean_up()


@pytest.fixture
def calls(hosts):
    """Callers that never rest, from a fleet at rest to a fleet at rest."""
    hosts.wait_for_rest()
    with traffic(hosts.weir) as running:
        yield running
        hosts.wait_for_rest()
        running.wait_for_answers()


@contextmanager
def stopped(*pids):
    """They live and do nothing, as behind a cut cable."""
    processes = [psutil.Process(pid) for pid in pids]
    everyone = [one for process in processes for one in (*process.children(), process)]
    for one in everyone:
        one.suspend()
    try:
        yield
    finally:
        for one in everyone:
            one.resume()


def pass_by(seconds):
    """Of the platform's time, which nothing but the clock moves."""
    time.sleep(seconds)


def test_every_host_tells_its_own_cards_and_how_they_are_joined(hosts):
    rows = hosts.weir.rows(
        "SELECT n.name, d.uuid, d.links FROM control_device d JOIN control_node n"
        " ON n.id = d.node_id WHERE d.kind = 'gpu' ORDER BY d.uuid"
    )
    assert [(node, uuid) for node, uuid, _ in rows] == [
        (name, f"GPU-{name}-{index}") for name in ("n2", "n3") for index in (0, 1)
    ]
    assert rows[0][2] == [{"uuid": "GPU-n2-1", "kind": "nvlink"}]


def test_a_drained_host_is_left_by_replicas_one_by_one_and_no_call_notices(hosts, calls):
    hosts["n2"].weir_node("drain", "n2", "--reason", "repair")
    until(lambda: hosts.is_drained("n2"), "n2 to be drained")
    assert not hosts["n2"].engines()
    hosts.wait_for_rest()
    hosts["n2"].weir_node("uncordon", "n2")
    calls.wait_for_answers()
    assert calls.broken == []


def test_a_notice_in_a_file_takes_a_host_out_in_time(hosts, calls):
    hosts["n3"].notice.touch()
    until(lambda: hosts.is_drained("n3"), "n3 to be drained")
    hosts["n3"].notice.unlink()
    hosts["n3"].weir_node("uncordon", "n3")
    calls.wait_for_answers()
    assert calls.broken == []


def test_p04_a_short_cut_changes_nothing(hosts, calls):
    launches, engines = hosts.launches(), hosts.engines()
    hosts["n2"].freeze()
    until(lambda: hosts.state("n2") == "unknown", "a silence that is noticed")
    hosts["n2"].thaw()
    until(lambda: hosts.state("n2") == "ready", "n2 again")
    assert (hosts.launches(), hosts.engines()) == (launches, engines)
    assert calls.broken == []


def test_p04_a_long_cut_replaces_what_runs_there_and_stops_nothing(hosts, calls):
    place_on(hosts, "n2")
    before = hosts["n2"].engines()
    assert before
    hosts["n2"].freeze()
    until(lambda: hosts.state("n2") == "lost", "a host thought lost")
    until(lambda: ready_elsewhere(hosts, "n2") == 3, "replacements on other hosts")
    # Never stopped for lack of control: whoever still talks to them is answered.
    assert hosts["n2"].engines() == before
    hosts["n2"].thaw()
    hosts.wait_for_rest()
    assert calls.broken == []


def test_a_dead_host_is_replaced_and_its_bookings_end_with_its_removal(hosts):
    place_on(hosts, "n3")
    hosts.wait_for_rest()
    lost = hosts.replicas()["n3"]
    assert lost
    with traffic(hosts.weir, different=True) as calls:
        hosts["n3"].die()
        until(lambda: ready_elsewhere(hosts, "n3") == 3, "replacements on other hosts")
        calls.wait_for_answers()
        kept = hosts.weir.rows(
            "SELECT DISTINCT replica_id FROM control_reservation WHERE state = 'held'"
            " AND replica_id = ANY(%s)",
            list(lost),
        )
        assert {pk for (pk,) in kept} == lost  # nobody has seen its processes gone
        hosts["n2"].weir_node("remove", "n3", "--reason", "burnt down")
        hosts.wait_for_rest()
    hosts.others["n3"].clean_up()
    hosts.others["n3"] = Host(hosts.weir, "n3", hosts.library).start()


def test_without_control_calls_and_engines_go_on(hosts, calls):
    launches, engines = hosts.launches(), hosts.engines()
    with stopped(hosts.weir.pids()["control"], hosts.weir.pids()["scheduler"]):
        calls.wait_for_answers()
        pass_by(2 * LOST_SECONDS)
    calls.wait_for_answers()
    assert (hosts.launches(), hosts.engines()) == (launches, engines)
    assert calls.broken == []


@pytest.mark.parametrize("server", ["postgres", "valkey"])
def test_after_the_servers_were_away_nothing_is_launched_twice(hosts, calls, server):
    launches, engines = hosts.launches(), hosts.engines()
    with stopped(hosts.weir.pids()[server]):
        pass_by(2 * LOST_SECONDS)
    until(lambda: {hosts.state(n) for n in ("n1", "n2", "n3")} == {"ready"}, "all hosts again")
    calls.wait_for_answers()
    assert (hosts.launches(), hosts.engines()) == (launches, engines)
    assert calls.broken == []


def test_what_was_needed_while_the_broker_was_away_is_done_once(hosts, calls):
    """A hint to a node is lost; the node looks by itself, and reconcile asks nobody twice."""
    launches = hosts.launches()
    with stopped(hosts.weir.pids()["valkey"]):
        name = next(name for name, its in hosts.replicas().items() if its and name != "n1")
        os.kill(next(iter(hosts[name].engines().values()))["pid"], signal.SIGKILL)
        pass_by(LOST_SECONDS)
    hosts.wait_for_rest()
    assert hosts.launches() == launches + 1


def test_the_books_balance_after_all_of_it(hosts):
    hosts.wait_for_rest()
    assert until(lambda: not faults(hosts), "books that balance")


def faults(hosts):
    books = read_books(hosts.weir)
    books.engines = set().union(*hosts.engines().values())
    return books.faults(None)


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
