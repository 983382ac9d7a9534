"""How far the wanted deployments have come, as lines and a bar."""

import time
from dataclasses import dataclass
from typing import TextIO

from control.fleet.facts import DeploymentFacts, ReplicaFacts, deployments
from control.states import ReplicaState

BAR_CHARACTERS = 24
LOOK_SECONDS = 0.5
LINE_EVERY_PERCENT = 10
# What one try may cost before a first start gives up; later starts go on for ever.
FAILED_LAUNCHES_MAX = 2
UNPLACED_SECONDS_MAX = 90


@dataclass(frozen=True)
class Step:
    deployment: str
    state: str
    detail: str
    percent: int
    failed_launches: int = 0

    @property
    def is_ready(self) -> bool:
        return self.state in ("ready", "degraded", "asleep")


def step(deployment: DeploymentFacts) -> Step:
    standing = deployment.standing
    live = [replica for replica in deployment.replicas if not replica.is_final]
    leading = next((replica for replica in live if replica.state == standing.state), None)
    failed = sum(replica.state == ReplicaState.FAILED for replica in deployment.replicas)
    return Step(
        deployment=deployment.name,
        state=standing.state,
        detail=(_detail(leading) if leading else "") or standing.reason,
        percent=leading.progress_percent if leading else 0,
        failed_launches=failed,
    )


def _detail(replica: ReplicaFacts) -> str:
    """While files are fetched, what is on its way; then the phase that the engine's log shows."""
    return replica.reason if replica.state == ReplicaState.PREPARING else replica.phase


def bar(one: Step, width: int, waited_seconds: int = 0) -> str:
    filled = BAR_CHARACTERS * min(one.percent, 100) // 100
    drawn = "#" * filled + "." * (BAR_CHARACTERS - filled)
    line = f"{one.deployment}  [{drawn}] {one.percent:3} %  {waited_seconds} s  {_what(one)}"
    return line[: width - 1]


def _what(one: Step) -> str:
    return one.state if one.detail in ("", one.state) else f"{one.state}: {one.detail}"


class Screen:
    """One line redrawn on a terminal; elsewhere a new line when something has changed."""

    def __init__(self, out: TextIO, width: int) -> None:
        self.out, self.width = out, width
        self.is_terminal = out.isatty()
        self._shown: dict[str, tuple] = {}

    def show(self, one: Step, waited_seconds: int = 0) -> None:
        if self.is_terminal:
            self.out.write("\r\x1b[2K" + bar(one, self.width, waited_seconds))
        elif self._shown.get(one.deployment) != (mark := _mark(one)):
            self._shown[one.deployment] = mark
            self.out.write(f"{one.deployment:<10} {one.percent:3} %  {_what(one)}\n")
        self.out.flush()

    def note(self, line: str) -> None:
        self.out.write(("\r\x1b[2K" if self.is_terminal else "") + line + "\n")
        self.out.flush()


def _mark(one: Step) -> tuple:
    return one.state, one.percent // LINE_EVERY_PERCENT, one.detail.split("(")[0]


def follow(names: set[str], screen: Screen, *, give_up: bool) -> list[Step]:
    """Until all are ready; with `give_up`, until one of them cannot be helped by waiting."""
    noted: set[str] = set()
    since: dict[str, float] = {}
    begun = time.monotonic()
    while True:
        steps = [step(one) for one in deployments() if one.name in names]
        for one in steps:
            if one.is_ready and one.deployment not in noted:
                noted.add(one.deployment)
                screen.note(f"{one.deployment:<10} ready")
        waiting = [one for one in steps if not one.is_ready]
        if not waiting:
            return []
        screen.show(waiting[0], int(time.monotonic() - begun))
        hopeless = [one for one in waiting if _is_hopeless(one, since, time.monotonic())]
        if give_up and hopeless:
            return hopeless
        time.sleep(LOOK_SECONDS)


def _is_hopeless(one: Step, since: dict[str, float], now_seconds: float) -> bool:
    if one.failed_launches >= FAILED_LAUNCHES_MAX:
        return True
    if one.state != "pending":
        since.pop(one.deployment, None)
        return False
    return now_seconds - since.setdefault(one.deployment, now_seconds) > UNPLACED_SECONDS_MAX
