"""Scale to zero by sleep: a card is given back, and a held call wakes the engine that stayed."""

import pytest

from tests.engines.fake_nvml import build
from tests.flows.books import read_books
from tests.flows.drift import counters_agree
from tests.flows.host import Host
from tests.flows.test_kills import SERVICE as ONE
from tests.flows.weir import Weir, is_alive, until

HELD, LEFT = 2 << 30, 256 << 20
SERVICE = ONE.replace(
    "replicas: {min: 1, max: 1}",
    "replicas: {min: 0, max: 1}, node: n2, scaling: {sleep: 1}",
).replace("arguments: {", f"arguments: {{device_bytes: {HELD}, asleep_bytes: {LEFT}, ")
CHAT = {"model": "chat-stub", "messages": [{"role": "user", "content": "hello"}]}
STATE = "SELECT state FROM control_replica ORDER BY id DESC LIMIT 1"
PATH = "SELECT new FROM control_statechange ORDER BY id"


@pytest.fixture
def places(tmp_path_factory):
    """n1 is where `weir up` runs; n2 has the cards."""
    weir, host = Weir(SERVICE, WEIR_NODE_NAME="n1"), None
    try:
        weir.with_schema().start(ready=False)
        host = Host(weir, "n2", build(tmp_path_factory.mktemp("nvml"))).start()
        weir.wait_until_ready()
        yield weir, host
    finally:
        if host:
            host.clean_up()
        weir.clean_up()


def test_an_idle_model_gives_its_card_back_and_the_next_call_wakes_it(places):
    weir, host = places
    [(pid, record)] = [(one["pid"], one) for one in host.engines().values()]
    weir.rows("UPDATE control_deployment SET replicas_wanted = 0 RETURNING id")
    until(lambda: weir.rows(STATE) == [("asleep",)], f"one that sleeps: {host.said()}")
    assert is_alive(pid)
    assert str(HELD) not in host.state.read_text()

    host.kill_worker()  # and whoever looks after it next finds it asleep
    host.start()
    with weir.client() as client:
        answer = client.post("/v1/chat/completions", json=CHAT)
    assert answer.status_code == 200, answer.text
    assert host.engines()[record["replica_id"]]["pid"] == pid
    assert weir.rows("SELECT count(*) FROM control_replica") == [(1,)]
    assert [state for (state,) in weir.rows(PATH)][-3:] == ["waking", "warming", "ready"]
    assert str(HELD) in host.state.read_text()
    until(lambda: not read_books(weir).unsettled, "calls that are settled")
    assert counters_agree(weir)
