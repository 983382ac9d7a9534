"""Where its weights lie already: fetched ahead, or kept of an earlier launch."""

import pytest

from control.models import NodeWeights, Replica
from control.placement import books
from control.reconcile import loop
from control.states import FilesState, ReplicaState
from engines.sources import key_of
from tests.fleet.rows import a_version
from tests.placement.world import AT, VLLM, a_host, a_launch, wants

SOURCE = {"huggingface": "org/m", "revision": "a" * 40}


@pytest.fixture
def hosts(db):
    return [a_host(name) for name in ("n1", "n2", "n3")]


def cached(node, state=FilesState.DONE, source=SOURCE):
    told = {"key": key_of(source), "source": source, "state": state}
    NodeWeights.objects.create(node=node, state_at=AT, **told)


def wanted(name="d", source=SOURCE):
    return wants(name, version=a_version(f"m-{name}", engine=VLLM, source=source))


@pytest.mark.parametrize("warm", [0, 1, 2])
def test_a_launch_goes_where_its_weights_were_fetched_ahead(hosts, warm):
    cached(hosts[warm])
    wanted()
    loop.tick(AT)
    assert Replica.objects.get().node == hosts[warm]


def test_what_is_still_on_its_way_or_of_another_version_counts_for_nothing(hosts):
    cached(hosts[0], FilesState.RUNNING)
    cached(hosts[1], source=SOURCE | {"revision": "b" * 40})
    wanted()
    assert [node.weights for node in books.nodes(AT)] == [frozenset()] * 3


def test_a_launch_that_is_over_says_nothing_of_a_disk_that_was_emptied(hosts):
    deployment = wanted()
    replica = a_launch(deployment, hosts[0].devices.get())
    assert books.nodes(AT)[0].weights == {deployment.version_id}
    Replica.objects.filter(pk=replica.pk).update(state=ReplicaState.STOPPED)
    assert books.nodes(AT)[0].weights == frozenset()
    cached(hosts[0])
    assert books.nodes(AT)[0].weights == {deployment.version_id}
