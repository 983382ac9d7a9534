"""One launch of one engine, as the calls of this process find it."""

from collections.abc import Callable

from control.gateway.http1.client import Pool
from control.gateway.http1.proof import Proof, Reply
from control.gateway.limits import Limits
from control.gateway.routing import identity, keys
from control.gateway.routing.candidates import Candidate
from control.gateway.routing.health import Health
from control.routes.snapshot import ReplicaInfo


class Live(Candidate):
    """Another launch is another object, with connections and a health of its own."""

    def __init__(self, info: ReplicaInfo, limits: Limits, clock: Callable[[], float]) -> None:
        super().__init__(info.id, info.slots, seed=keys.replica_seed(info.deployment, info.id))
        self.info = info
        self.key = ""
        self.health = Health(limits)
        self.probing = False
        self.room.resize(info.kv_tokens)
        self.proof = Proof(
            lambda: identity.models_request(self.info, self.key),
            self._judge,
            limits=limits,
            clock=clock,
        )
        self.pool = Pool(
            info.host, info.port, tls=info.tls, limits=limits, clock=clock, proof=self.proof
        )

    @property
    def failures(self) -> int:
        return self.health.failures

    def _judge(self, reply: Reply | None) -> str | None:
        return identity.judge_models(self.info, reply)
