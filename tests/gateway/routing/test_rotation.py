"""What takes a replica out of the rotation goes on whatever becomes of its calls."""

from types import SimpleNamespace

from control.gateway.routing.health import Cause
from control.telemetry.messages import ReplicaSample
from tests.gateway.place import replica
from tests.gateway.upstream import Upstream


class Tried:
    """A call at an engine; the first of two that ends is the end of the other."""

    def __init__(self, live, sent_at: float) -> None:
        self.live, self.sent_at, self.ended = live, sent_at, 0
        self.ask = SimpleNamespace(input_estimate=1)
        live.attempts.add(self)

    def is_at_engine(self) -> bool:
        return True

    def time_out(self, message: str) -> None:
        self.ended += 1
        self.live.attempts.clear()


async def test_a_call_that_is_over_is_not_timed_out_again(place):
    place.know_replicas(replica(1, 1))
    live, rotation = place.shared.replicas._live[1], place.shared.replicas.rotation
    tried = [Tried(live, place.time.now()) for _ in range(2)]
    for _ in range(40):
        place.time.pushed_seconds += 1
        said = ReplicaSample(
            replica_id=1, label="d#1", at=place.time.wall(), running=1, kv_cache_ratio=0.5
        )
        rotation.heard(live, said, place.time.now())
    assert live.health.out == "stalled"
    assert sum(one.ended for one in tried) == 1


async def test_a_probe_that_cannot_be_sent_is_a_verdict_too(place):
    """Its key cannot be written. Calls do not wait for it any more, and it is asked again."""
    upstream = Upstream()
    place.know_replicas(replica(1, await upstream.start()), keys={1: "\ud800"})
    live = place.shared.replicas._live[1]
    place.shared.replicas.failed(live, Cause.BROKE)
    assert live.coming
    await place.until(lambda: not live.coming)
    assert (live.health.out, live.probing) == (Cause.ERROR, False)
    live.key = ""
    place.push(60)
    await place.until(lambda: not live.health.out)
    await upstream.stop()
