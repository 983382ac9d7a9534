"""Whatever the world looks like: planning again on the result of a plan comes to rest."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as some

from control.reconcile.rules import plan
from control.reconcile.world import BackOff, Drain, Fail, Lose, Note, Start, Stop, Wake, World
from control.states import DeploymentState, Hindrance, NodeState, ReplicaState
from tests.reconcile.worlds import AT, GIB, a_deployment, a_node, a_replica, ago, failed

REPLICAS = some.lists(
    some.builds(
        lambda state, current, node, age, level: a_replica(
            state, is_current=current, node_state=node, state_at=ago(age), sleep_level=level
        ),
        some.sampled_from([s for s in ReplicaState if s not in ("stopped", "failed")]),
        some.booleans(),
        some.sampled_from(list(NodeState)),
        some.integers(0, 1000),
        some.integers(0, 1),
    ),
    max_size=5,
).map(lambda rows: tuple(replace(r, id=n + 1, generation=n + 1) for n, r in enumerate(rows)))
ENDED = some.lists(some.builds(failed, some.integers(0, 900), retry=some.booleans()), max_size=3)


@given(
    replicas=REPLICAS,
    ended=ENDED,
    wanted=some.integers(0, 3),
    state=some.sampled_from(list(DeploymentState)),
    sleep=some.integers(0, 1),
    total=some.sampled_from([GIB, 5 * GIB, 64 * GIB]),
)
def test_planning_again_on_its_own_result_comes_to_rest(
    replicas, ended, wanted, state, sleep, total
):
    ended = tuple(sorted(ended, key=lambda launch: launch.ended_at, reverse=True))
    deployment = a_deployment(wanted, *replicas, state=state, sleep=sleep, ended=ended)
    world = World(AT, (deployment,), (a_node(total=total),))
    for _ in range(40):
        actions = plan(world)
        if not actions:
            break
        assert len(actions) == 1
        world = replace(world, deployments=(carried_out(world.deployments[0], actions[0]),))
    assert plan(world) == []


def carried_out(deployment, action):
    """The world after the action, as the tables would show it."""

    def with_state(replica_id, state, **fields):
        return tuple(
            replace(r, state=state, state_at=AT, **fields) if r.id == replica_id else r
            for r in deployment.replicas
        )

    match action:
        case Start():
            new = a_replica("placed", action.generation, state_at=AT)
            return replace(
                deployment,
                generation=action.generation,
                replicas=(*deployment.replicas, new),
                note="",
                hindrance=Hindrance.NONE,
            )
        case Drain(replica_id=id_, sleep=level):
            drains = with_state(id_, ReplicaState.DRAINING, sleep_level=level)
            return replace(deployment, replicas=drains)
        case Wake() | Lose():
            to = ReplicaState.WAKING if isinstance(action, Wake) else ReplicaState.LOST
            kept = {} if to is ReplicaState.LOST else {"sleep_level": 0}
            return replace(deployment, replicas=with_state(action.replica_id, to, **kept))
        case Stop() | Fail():
            left = tuple(r for r in deployment.replicas if r.id != action.replica_id)
            return replace(deployment, replicas=left)
        case BackOff():
            told = {"note": action.note, "hindrance": action.hindrance}
            return replace(deployment, launch_after=action.launch_after, **told)
        case Note():
            return replace(deployment, note=action.note, hindrance=action.hindrance)
