"""What ordinary streamed calls of one key on one route have in common, to one replica."""

from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from control.gateway.bodies import ordinary
from control.gateway.bodies.ordinary import Chat, StreamOptions
from control.gateway.calls.continuation import ENGINES
from control.gateway.calls.plan import is_salted
from control.gateway.express import ways
from control.gateway.express.asked import Asked
from control.gateway.known.footing import Footing
from control.gateway.limits import Limits
from control.gateway.routing.live import Live
from control.gateway.streams.ids import TokenIds
from control.gateway.streams.names import Name
from control.gateway.streams.relay import Reader
from control.routes.snapshot import Identity, ReplicaInfo

_encode = msgspec.json.Encoder().encode
_TOLD = b',"stream_options":{"include_usage":true,"continuous_usage_stats":true}'
_IDS = b',"return_token_ids":true'


class StreamWay(NamedTuple):
    """As long as nothing changes of the replica."""

    info: ReplicaInfo
    served_name: str
    salted: bytes  # the salt of the engine's prefix cache as a member, if it knows of one
    continues: bool  # another engine may go on with an answer, from its token ids
    asked: bytes  # templates of the request and of records
    name: Name | None  # what the answer is to call its model, if the engine does not
    opened: bytes
    closed: bytes

    def request(self, call_id: bytes, asked: Asked) -> bytes:
        """Usage is always asked for, as in all streams."""
        chat = asked.chat
        chat.model = self.served_name
        chat.stream_options = UNSET
        if asked.max_tokens is not None:
            chat.max_tokens = asked.max_tokens
        more = _TOLD + _IDS if self.asks_ids(chat) else _TOLD
        body = b"%b%b%b}" % (_encode(chat)[:-1], more, self.salted)
        return self.asked % (call_id, call_id[4:], call_id[20:], len(body), body)

    def asks_ids(self, chat: Chat) -> bool:
        """As `continuation` has it: of what bars it an ordinary call may have a seed alone."""
        if not self.continues or chat.seed is UNSET:
            return self.continues
        return chat.temperature == 0

    def reader(self, chat: Chat, told: StreamOptions | UnsetType, limits: Limits) -> Reader:
        """For the stream that comes back; `told` is what the tenant wants to be told."""
        ids = TokenIds(limits.token_id_bytes, shown=False) if self.asks_ids(chat) else None
        reader = Reader(
            include_usage=told is not UNSET and told.include_usage is True,
            running_usage=told is not UNSET and told.continuous_usage_stats is True,
            choices=1,
            event_bytes_max=limits.event_bytes,
            token_ids=ids,
        )
        reader.name = self.name
        return reader


def stream_way_of(footing: Footing, identity: Identity, priority: str, live: Live) -> StreamWay:
    info, route = live.info, footing.route
    salted = is_salted(ordinary.ENDPOINT, info.engine) and footing.salt
    return StreamWay(
        **ways.common(footing, identity, priority, live, streams=True),
        salted=b',"cache_salt":%b' % _encode(footing.salt) if salted else b"",
        continues=route.on_replica_loss == "continue" and info.engine in ENGINES,
    )
