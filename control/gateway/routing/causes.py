"""What a refusal that came of an engine says about its health."""

from control.gateway import errors
from control.gateway.routing.health import Cause


def cause_of(refusal: errors.Refusal | None) -> Cause:
    match refusal:
        case errors.EngineDied():
            return Cause.DIED
        case errors.EngineBusy():
            return Cause.BUSY
        case errors.UpstreamTimeout():
            return Cause.SILENT
        case _:
            return Cause.ERROR
