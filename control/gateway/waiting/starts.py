"""Models that cannot start: who would wait for one in vain is told so at once, and why."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from control.gateway import errors
from control.routes.snapshot import DeploymentInfo
from control.states import Hindrance


class InVain(NamedTuple):
    """Nothing will serve this call while it can wait."""

    hindrance: Hindrance
    cause: str  # of the last failed launch
    wait_seconds: float | None  # until it is tried again, where that is known


class Starts:
    """Of one process: what hinders which deployment, as the last snapshot has it."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._hindered: dict[str, DeploymentInfo] = {}

    def know(self, deployments: Iterable[DeploymentInfo]) -> bool:
        """Whether something is hindered that was not, or not so."""
        before = self._hindered
        self._hindered = {one.name: one for one in deployments if one.hindrance}
        return any(before.get(name) != one for name, one in self._hindered.items())

    def in_vain(self, wanted: Collection[str], limit_seconds: float) -> InVain | None:
        """None if it is worth to wait so long for one of those."""
        if not self._hindered:
            return None
        return in_vain(wanted, self._hindered, self._wall(), limit_seconds)


def in_vain(
    wanted: Collection[str],
    hindered: Mapping[str, DeploymentInfo],
    at: float,
    limit_seconds: float,
) -> InVain | None:
    """The best of their prospects, if it is none: the soonest try, else what may end of itself."""
    prospects = [_prospect(hindered.get(name), at, limit_seconds) for name in wanted]
    if None in prospects:
        return None
    return min(prospects, key=_rank, default=None)


def refusal_of(vain: InVain, route: str, retry_seconds: float) -> errors.ModelLoading:
    """`retry_seconds`: where nobody knows when it is worth to come again."""
    cause = f" ({vain.cause})" if vain.cause else ""
    match vain.hindrance:
        case Hindrance.UNPLACED:
            text = f"No machine has room for the model behind '{route}' at the moment."
        case Hindrance.BACK_OFF:
            text = (
                f"The model behind '{route}' failed to start{cause}"
                f" and is tried again in {vain.wait_seconds:.0f} s."
            )
        case _:
            text = (
                f"The model behind '{route}' failed to start{cause}"
                " and is not tried again before its operators have changed something."
            )
    wait = retry_seconds if vain.wait_seconds is None else max(vain.wait_seconds, 1.0)
    return errors.ModelLoading(text, wait_seconds=wait)


def _prospect(info: DeploymentInfo | None, at: float, limit_seconds: float) -> InVain | None:
    if info is None:
        return None
    hindrance = Hindrance(info.hindrance)
    if hindrance is not Hindrance.BACK_OFF:
        return InVain(hindrance, info.cause, None)
    seconds = (info.launch_after or at) - at
    return InVain(hindrance, info.cause, seconds) if seconds > limit_seconds else None


def _rank(vain: InVain) -> tuple[bool, float, bool]:
    given_up = vain.hindrance is Hindrance.GIVEN_UP
    return vain.wait_seconds is None, vain.wait_seconds or 0.0, given_up
