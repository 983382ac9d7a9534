"""The connections of one listener, and what they share: memory for bodies, the turn's writes."""

from control.gateway.http1.body_memory import Bodies
from control.gateway.http1.turn import Turn
from control.gateway.limits import Limits


class Connections(set):
    """Those that are open."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self.bodies = Bodies(limits)
        self.turn = Turn()

    def leave(self, connection: object) -> None:
        self.discard(connection)
        self.bodies.release(connection)
