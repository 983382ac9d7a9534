"""Three hosts: losing one moves its replicas, and nothing that is away stops a running call."""

import os
import signal
import time
import warnings
from contextlib import contextmanager

import psutil
import pytest

from tests.engines.fake_nvml import build
from tests.flows.books import read_books
from tests.flows.hosts import LOST_SECONDS, Hosts, place_on, ready_elsewhere
from tests.flows.namespaces import why_no_firewall, why_not
from tests.flows.traffic import traffic
from tests.flows.weir import until


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


@pytest.mark.skipif(bool(why_not()), reason=f"its cable cannot be cut: {why_not()}")
def test_a_host_whose_cable_is_cut_is_replaced_and_comes_back(hosts):
    """Nobody answers and nothing is refused, as when a switch dies: only time tells."""
    place_on(hosts, "n2")
    hosts.wait_for_rest()
    before = hosts["n2"].engines()
    with traffic(hosts.weir, different=True) as calls:
        hosts["n2"].network.cut()
        until(lambda: hosts.state("n2") == "lost", "a host thought lost")
        until(lambda: ready_elsewhere(hosts, "n2") == 3, "replacements on other hosts")
        calls.wait_for_answers()
        assert hosts["n2"].engines() == before  # never stopped for lack of control
        hosts["n2"].network.mend()
        until(lambda: hosts.state("n2") == "ready", "n2 again")
        hosts.wait_for_rest()
        calls.wait_for_answers()


def test_engines_listen_where_gateways_reach_their_host(hosts):
    place_on(hosts, "n2")
    network = hosts["n2"].network
    told = hosts.weir.rows(
        "SELECT host(n.address) FROM control_replica r JOIN control_node n ON n.id = r.node_id"
        " WHERE n.name = 'n2' AND r.state = 'ready'"
    )
    assert told[0] == (network.addresses.host if network else "127.0.0.1",)
    if lacking := why_not() or why_no_firewall():
        warnings.warn(f"hosts share a network, or have no firewall: {lacking}", stacklevel=1)


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
    hosts.add("n3")


def test_without_control_calls_and_engines_go_on(hosts, calls):
    launches, engines = hosts.launches(), hosts.engines()
    with stopped(hosts.weir.pids()["control"], hosts.weir.pids()["scheduler"]):
        calls.wait_for_answers()
        pass_by(LOST_SECONDS + 1)
    calls.wait_for_answers()
    assert (hosts.launches(), hosts.engines()) == (launches, engines)
    assert calls.broken == []


@pytest.mark.parametrize("server", ["postgres", "valkey"])
def test_after_the_servers_were_away_nothing_is_launched_twice(hosts, calls, server):
    launches, engines = hosts.launches(), hosts.engines()
    with stopped(hosts.weir.pids()[server]):
        pass_by(LOST_SECONDS + 1)
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
