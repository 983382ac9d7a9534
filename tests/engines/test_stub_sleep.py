"""The stub sleeps as vLLM does in dev mode: calls hang meanwhile, and an answer proves nothing."""

import httpx

from engines.stub.card import Cards
from tests.engines.fake_nvml import card, write_state
from tests.engines.stub import HELLO, eventually, running_stub
from tests.threads import Threads


def test_a_call_to_a_sleeper_hangs_until_it_wakes(monkeypatch):
    monkeypatch.setenv("VLLM_SERVER_DEV_MODE", "1")
    with running_stub() as engine, Threads(1) as thread:

        def sleeping():
            return httpx.get(f"{engine.url}/is_sleeping", timeout=30).json()["is_sleeping"]

        assert not sleeping()
        assert httpx.post(f"{engine.url}/sleep?level=7", timeout=30).status_code == 400
        assert httpx.post(f"{engine.url}/sleep?level=1&mode=abort", timeout=30).status_code == 200
        assert sleeping()
        assert httpx.get(f"{engine.url}/health", timeout=30).status_code == 200
        call = thread.submit(engine.post, HELLO)
        eventually(lambda: engine.seen()["requests_total"])
        assert not call.done()
        assert httpx.post(f"{engine.url}/wake_up", timeout=30).status_code == 200
        assert call.result().status_code == 200


def test_what_an_engine_holds_is_beside_what_others_hold(tmp_path):
    state = tmp_path / "state"
    others = {"gpu.0.process.0": "4242:1000", "memory": 1}
    write_state(state, **card(0, memory_used=5000), **card(1, memory_used=70), **others)
    engine = Cards(str(state), "GPU-0")
    for holds, used in ((900, 5900), (200, 5200), (0, 5000)):
        engine.hold(holds)
        lines = dict(line.split("=", 1) for line in state.read_text().splitlines())
        processes = [value for name, value in lines.items() if ".process." in name]
        assert (int(lines["gpu.0.memory_used"]), len(processes)) == (used, 1 + bool(holds))
        assert (lines["gpu.1.memory_used"], "4242:1000" in processes) == ("70", True)
    Cards("", "GPU-0").hold(900)  # no fake driver: nothing to tell
