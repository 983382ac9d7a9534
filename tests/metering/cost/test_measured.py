"""Whose a replica's busy time was: what the database sums of any calls is what the rule says."""

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from control.metering.cost import measured
from control.metering.cost.assembly import User
from control.metering.cost.lines import Line
from control.metering.rules import ENDED_BY_THE_PLATFORM
from control.models import Attempt, Deployment, Price, Replica, UsageEvent
from control.states import Outcome, Purpose
from tests.metering.conftest import AT, House, a_house

HOUR = 3_600_000_000


@dataclass(frozen=True)
class Run:
    """A call, or another try of one; microseconds after the hour began."""

    begun: int = 0
    lasted: int = 10
    read: int = 100
    made: int = 50
    owner: int = 0
    replica: int = 0
    outcome: Outcome = Outcome.COMPLETE
    billed: int | None = 150  # None: its model has no price
    purpose: Purpose = Purpose.CALL


@pytest.fixture
def houses(house) -> list[House]:
    return [house, a_house("globex")]


@pytest.fixture
def replicas(house) -> list[Replica]:
    deployment = Deployment.objects.create(name="gemma", version=house.version)
    made = {"deployment": deployment, "version": house.version}
    return [Replica.objects.create(generation=number, **made) for number in (1, 2)]


def store(runs: list[Run], houses: list[House], replicas: list[Replica]) -> None:
    price = Price.objects.get()
    for number, run in enumerate(runs):
        owner, begins_at = houses[run.owner], AT + timedelta(microseconds=run.begun)
        told = {
            "call_id": f"req_{number}",
            "replica_id": replicas[run.replica].pk,
            "outcome": run.outcome,
            "input_tokens": run.read,
            "output_tokens": run.made,
            "tokens_source": "engine",
            "started_at": begins_at,
            "ended_at": begins_at + timedelta(microseconds=run.lasted),
        }
        if run.purpose is not Purpose.CALL:
            Attempt.objects.create(number=1, purpose=run.purpose, **told)
            continue
        UsageEvent.objects.create(
            tenant=owner.tenant,
            project=owner.project,
            key=owner.key,
            route="chat-small",
            endpoint="chat",
            stream=True,
            priority="standard",
            status=200,
            price=None if run.billed is None else price,
            billed_output=run.billed or 0,
            content_hash="c",
            **told,
        )


def weights(runs, houses, replicas) -> dict[int, dict[User, int]]:
    """As hours of cost are made of them; nothing of it is left."""
    with transaction.atomic():
        store(runs, houses, replicas)
        found = measured.world(AT).calls
        transaction.set_rollback(True)
    return found


def by_the_rule(runs, houses, replicas, ready) -> dict[int, dict[User, int]]:
    """A run's share is the greater of that of the time and that of the cache it held.

    It held its prompt all the time, an answer that grows evenly half of it. Runs overlap in a
    batch: shares mean something only beside the others on the replica.
    """
    found: dict[int, dict[User, int]] = defaultdict(lambda: defaultdict(int))
    for place, replica in enumerate(replicas):
        held = []
        for run in runs:
            if run.replica == place and run.purpose in (
                Purpose.CALL,
                Purpose.RETRY,
                Purpose.CONTINUATION,
            ):
                begun, ended = max(run.begun, 0), min(run.begun + run.lasted, HOUR)
                if run.begun < HOUR and run.begun + run.lasted > 0:
                    time = max(ended - max(begun, ready[place] or 0), 0)
                    held.append((run, time, (2 * run.read + run.made) * time // 2))
        whole = sum(time for _, time, _ in held)
        caches = sum(cache for *_, cache in held)
        for run, time, cache in held:
            found[replica.pk][user_of(run, houses)] += max(time * (caches or 1), cache * whole)
    return {pk: dict(shares) for pk, shares in found.items()}


def user_of(run: Run, houses: list[House]) -> User:
    """The platform's where it ended the call and nobody is charged; its other tries always are."""
    is_free = run.made == 0 if run.billed is None else run.billed == 0
    if run.purpose is not Purpose.CALL or (run.outcome in ENDED_BY_THE_PLATFORM and is_free):
        return User(Line.FAILURE, None, None)
    owner = houses[run.owner]
    return User(Line.BUSY, owner.tenant.pk, owner.project.pk)


runs = st.builds(
    Run,
    begun=st.integers(-800_000_000, HOUR),
    lasted=st.integers(0, 800_000_000),
    read=st.integers(0, 40_000),
    made=st.integers(0, 3),
    owner=st.integers(0, 1),
    replica=st.integers(0, 1),
    outcome=st.sampled_from(Outcome),
    billed=st.sampled_from([None, 0, 150]),
    purpose=st.sampled_from([Purpose.CALL] * 4 + list(Purpose)),
)


@given(
    runs=st.lists(runs, max_size=8),
    ready=st.tuples(*[st.none() | st.integers(-HOUR, HOUR)] * 2),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_database_shares_as_the_rule_does(houses, replicas, runs, ready):
    for replica, after in zip(replicas, ready, strict=True):
        replica.ready_at = None if after is None else AT + timedelta(microseconds=after)
        replica.save()
    expected = by_the_rule(runs, houses, replicas, ready)
    assert weights(runs, houses, replicas) == expected


def shares(runs, houses, replicas) -> Fraction:
    """Of the first tenant, beside the second."""
    [found] = weights(runs, houses, replicas).values()
    first, second = (found[User(Line.BUSY, house.tenant.pk, house.project.pk)] for house in houses)
    return Fraction(first, second)


def test_request_times_that_overlap_are_shares_of_the_busy_time(houses, replicas):
    assert shares([Run(), Run(owner=1)], houses, replicas) == 1


def test_a_long_context_pays_for_the_cache_that_it_holds(houses, replicas):
    short = Run(lasted=1000, read=100, made=100)
    long = replace(short, read=28_400, owner=1)
    # short: max(1/2, 150/28600), long: max(1/2, 28450/28600)
    assert shares([short, long], houses, replicas) == Fraction(14_300, 28_450)


def test_calls_that_hold_no_cache_share_by_time(houses, replicas):
    one = Run(lasted=1, read=0, made=0)
    assert shares([one, replace(one, lasted=3, owner=1)], houses, replicas) == Fraction(1, 3)


@pytest.mark.parametrize(
    ("outcome", "billed", "line"),
    [
        ("upstream_error", 0, Line.FAILURE),
        ("lost", 0, Line.FAILURE),
        ("drained", 0, Line.FAILURE),
        ("deadline", 0, Line.FAILURE),
        ("truncated", 40, Line.BUSY),  # charged for what it generated: cost is with its revenue
        ("client_closed", 0, Line.BUSY),  # the tenant's own doing
        ("slow_client", 0, Line.BUSY),
        ("complete", 0, Line.BUSY),
    ],
)
def test_failed_work_is_the_tenants_if_the_tenant_caused_it(
    houses, replicas, outcome, billed, line
):
    [found] = weights([Run(outcome=outcome, billed=billed)], houses, replicas).values()
    assert [user.line for user in found] == [line]
