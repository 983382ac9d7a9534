"""Whether a deployment whose launches failed may launch again now, later or no more (pure)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from control.reconcile.world import BackOff, DeploymentFacts, Ended, Note, Policy, World
from control.states import Hindrance, ReplicaState

# Ends that say nothing of the version's next launch: its node was taken away, it did not wake.
NOT_ITS_OWN = frozenset({"node_removed", "wake_up"})


@dataclass(frozen=True)
class Held:
    """Not now; the action is what has to be written down, if anything."""

    action: Note | BackOff | None


def failures(deployment: DeploymentFacts, at: datetime, policy: Policy) -> list[Ended]:
    """Failed launches in a row, newest first; a stable one ends the row, or a person's retry."""
    stable = timedelta(seconds=policy.stable_seconds)
    proved = [
        replica.ready_at
        for replica in deployment.replicas
        if replica.is_current and replica.ready_at and at - replica.ready_at >= stable
    ]
    # One launched later is stable; an older one beside it proves nothing.
    settled_at = max(filter(None, (*proved, deployment.retry_at)), default=None)
    row = []
    for launch in deployment.ended:
        if settled_at and launch.ended_at <= settled_at:
            break
        if launch.state is ReplicaState.FAILED and launch.cause not in NOT_ITS_OWN:
            row.append(launch)
        if launch.ready_at and launch.ended_at - launch.ready_at >= stable:
            break
    return row


def backoff_seconds(failed: int, deployment_id: int, policy: Policy) -> float:
    """Doubles with each failure in a row; spread by a tenth, so that not all start at once."""
    delay = min(policy.backoff_seconds * 2 ** min(failed - 1, 30), policy.backoff_seconds_max)
    return delay * (1 + (deployment_id * 7919 + failed * 104729) % 10 / 100)


def held_back(deployment: DeploymentFacts, world: World, *, is_served: bool) -> Held | None:
    """Back-off after failures in a row. A `launch_after` behind the failure settles it."""
    row = failures(deployment, world.at, world.policy)
    if not row:
        return None
    last, policy = row[0], world.policy
    back_off = Hindrance.NONE if is_served else Hindrance.BACK_OFF
    if deployment.launch_after is not None and deployment.launch_after > last.ended_at:
        if world.at >= deployment.launch_after:
            return None
        return Held(note(deployment, deployment.note, back_off, last.cause))
    what = f"{last.cause or 'failed'}: {last.reason}"
    if text := _given_up(row, policy, what):
        given_up = Hindrance.NONE if is_served else Hindrance.GIVEN_UP
        return Held(note(deployment, text, given_up, last.cause))
    due = last.ended_at + timedelta(seconds=backoff_seconds(len(row), deployment.id, policy))
    kind = "crash loop: " if len(row) >= policy.crash_loop_failures else ""
    text = f"{kind}failed {len(row)} times in a row, next try at {due:%H:%M:%S} UTC. {what}"
    return Held(BackOff(deployment.id, due, text, back_off, last.cause))


def note(
    deployment: DeploymentFacts,
    text: str,
    hindrance: Hindrance = Hindrance.NONE,
    cause: str = "",
) -> Note | None:
    if (deployment.note, deployment.hindrance) == (text, hindrance):
        return None
    return Note(deployment.id, text, hindrance, cause)


def _given_up(row: list[Ended], policy: Policy, what: str) -> str:
    """Why nothing more is launched until a person changes the deployment, or says retry."""
    if len(row) >= policy.crash_loop_stops:
        return f"crash loop: stopped after {len(row)} failures in a row. {what}"
    if not row[0].retry and not row[0].cured:
        return f"not tried again, it would fail the same way. {what}"
    return ""
