"""What ordinary calls of one key on one route, answered whole, have in common to one replica."""

from typing import NamedTuple

import msgspec

from control.gateway.bodies import ordinary
from control.gateway.calls.plan import is_salted
from control.gateway.express import ways
from control.gateway.express.asked import Asked
from control.gateway.known.footing import Footing
from control.gateway.routing.live import Live
from control.gateway.streams.names import Name
from control.routes.snapshot import Identity, ReplicaInfo

_encode = msgspec.json.Encoder().encode


class WholeWay(NamedTuple):
    """As long as nothing changes of the replica."""

    info: ReplicaInfo
    served_name: str
    salt: str  # of the engine's prefix cache, empty if it knows of none
    asked: bytes  # templates of the request and of records
    name: Name | None  # what the answer is to call its model, if the engine does not
    opened: bytes
    closed: bytes

    def request(self, call_id: bytes, asked: Asked) -> bytes:
        chat = asked.chat
        chat.model = self.served_name
        if asked.max_tokens is not None:
            chat.max_tokens = asked.max_tokens
        if self.salt:
            chat.cache_salt = self.salt
        body = _encode(chat)
        return self.asked % (call_id, call_id[4:], call_id[20:], len(body), body)


def whole_way_of(footing: Footing, identity: Identity, priority: str, live: Live) -> WholeWay:
    salt = footing.salt if is_salted(ordinary.ENDPOINT, live.info.engine) else ""
    return WholeWay(**ways.common(footing, identity, priority, live, streams=False), salt=salt)
