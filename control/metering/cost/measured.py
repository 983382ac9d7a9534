"""What an hour's cost is made of, as it was measured: devices, who held them, calls, rates."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from fractions import Fraction

from django.db import connection

from control.metering.cost.allocation import IdlePolicy, PoolPolicy
from control.metering.cost.assembly import DeviceFacts, User, World
from control.metering.cost.lines import Line
from control.metering.cost.parts import RateFacts
from control.metering.cost.presence import AWAY_MAX, Present, SeenHour, by_hour
from control.metering.cost.rules import HOUR
from control.metering.rules import ENDED_BY_THE_PLATFORM
from control.models import CostPool, CostRate, DeviceHour, DeviceUse, Project, Replica
from control.states import Outcome

CALL_SECONDS_MAX = 900  # longer than any call may run: how far back one may have begun

# Nobody is charged for it: by its price, or, where the model has none, as if it had.
_UNBILLED = (
    "CASE WHEN price_id IS NULL THEN output_tokens = 0"
    " ELSE billed_input + billed_cached_input + billed_output + billed_reasoning = 0 END"
)
# The platform ended it: what the caller caused (hanging up, reading too slowly) is the caller's.
_FAILED = f"(outcome = ANY(%(ended)s) AND {_UNBILLED})"
# A call is in the engine from its start, or from when the launch that it waited for was ready. It
# holds its prompt all the time, an answer that grows evenly half of it. Its share is the greater of
# that of the time and that of the cache: both over one denominator, so that they are whole numbers.
WEIGHTS = f"""
WITH runs AS (
  SELECT replica_id, tenant_id, project_id, {_FAILED} AS failed,
    greatest(started_at, %(begin)s) AS begun, least(ended_at, %(end)s) AS ended,
    greatest(input_tokens, 0) AS read, greatest(output_tokens, 0) AS made
  FROM control_usageevent
  WHERE kind = 'final' AND replica_id IS NOT NULL AND started_at >= %(since)s
    AND started_at < %(end)s AND ended_at > %(begin)s
  UNION ALL
  SELECT replica_id, NULL, NULL, TRUE,
    greatest(started_at, %(begin)s), least(ended_at, %(end)s), input_tokens, output_tokens
  FROM control_attempt
  WHERE purpose IN ('retry', 'continuation') AND started_at >= %(since)s
    AND started_at < %(end)s AND ended_at > %(begin)s
), times AS (
  SELECT runs.*, (greatest(extract(epoch FROM ended - greatest(begun, replica.ready_at)), 0)
    * 1000000)::numeric(20, 0) AS microseconds
  FROM runs JOIN control_replica replica ON replica.id = runs.replica_id
), caches AS (
  SELECT *, div((2 * read + made) * microseconds, 2) AS cache FROM times
), sums AS (
  SELECT replica_id, sum(microseconds) AS time, sum(cache) AS cache FROM caches GROUP BY 1
)
SELECT caches.replica_id, CASE WHEN failed THEN NULL ELSE tenant_id END,
  CASE WHEN failed THEN NULL ELSE project_id END, failed,
  sum(greatest(microseconds * greatest(sums.cache, 1), caches.cache * sums.time))
FROM caches JOIN sums USING (replica_id) GROUP BY 1, 2, 3, 4
"""
VOLUMES = f"""
SELECT replica_id, version_id, tenant_id, project_id, {_FAILED} AS failed, currency,
  count(*) FILTER (WHERE kind = 'final'),
  sum(CASE WHEN price_id IS NOT NULL THEN billed_input + billed_cached_input
    WHEN {_FAILED} OR outcome = %(rejected)s THEN 0 ELSE input_tokens END),
  sum(CASE WHEN price_id IS NOT NULL THEN billed_cached_input
    WHEN {_FAILED} OR outcome = %(rejected)s THEN 0 ELSE cached_input_tokens END),
  sum(CASE WHEN price_id IS NOT NULL THEN billed_output + billed_reasoning
    WHEN {_FAILED} OR outcome = %(rejected)s THEN 0 ELSE output_tokens END),
  coalesce(sum(floor(extract(epoch FROM first_token_at - started_at) * 1000)), 0),
  count(first_token_at), sum(amount_pico)
FROM control_usageevent WHERE started_at >= %(begin)s AND started_at < %(end)s
GROUP BY 1, 2, 3, 4, 5, 6
"""


def world(hour: datetime) -> World:
    end = hour + HOUR
    devices, calls = _devices(hour), _weights(hour)
    ids = {*calls, *(replica_id for device in devices for _, replica_id in device.lines)}
    return World(
        ends_at=end,
        devices=devices,
        rates=rates(),
        replicas=replicas(ids),
        calls=calls,
        policies={pool: _policy(pool, end) for pool in {device.pool for device in devices}},
        reserved={
            User(Line.IDLE, tenant_id, project_id): devices
            for project_id, tenant_id, devices in Project.objects.filter(
                devices_guaranteed__gt=0
            ).values_list("pk", "tenant_id", "devices_guaranteed")
        },
    )


def rates() -> list[RateFacts]:
    return [RateFacts(**row) for row in CostRate.objects.values()]


def presence(since: datetime, until: datetime) -> dict[datetime, dict[str, Present]]:
    """Hour → devices that were there, by whole hours."""
    rows = DeviceHour.objects.filter(hour__gte=since - AWAY_MAX, hour__lt=until + AWAY_MAX)
    names = ("device_uuid", *SeenHour._fields[1:])
    return by_hour(map(SeenHour._make, rows.values_list(*names)), since, until)


def _devices(hour: datetime) -> list[DeviceFacts]:
    """All that were there in this hour, seen in it or only before and after it."""
    lines: dict[str, dict] = defaultdict(dict)
    for row in DeviceUse.objects.filter(hour=hour):
        lines[row.device_uuid][Line(row.line), row.replica_id] = row.microseconds
    found = []
    for uuid, present in presence(hour, hour + HOUR).get(hour, {}).items():
        seen = present.seen
        in_it = seen.hour == hour
        found.append(
            DeviceFacts(
                pool=seen.pool,
                name=seen.name,
                kind=seen.kind,
                period=present.microseconds,
                lines=lines[uuid],
                millijoules=seen.millijoules if in_it else 0,
                energy_microseconds=seen.energy_microseconds if in_it else 0,
            )
        )
    return found


def replicas(ids: Iterable[int]) -> dict[int, tuple[int | None, int | None]]:
    rows = Replica.objects.filter(pk__in=list(ids))
    return {
        pk: (deployment_id, launched or wanted)
        for pk, deployment_id, launched, wanted in rows.values_list(
            "pk", "deployment_id", "version_id", "deployment__version_id"
        )
    }


def _weights(hour: datetime) -> dict[int, dict[User, int]]:
    found: dict[int, dict[User, int]] = defaultdict(dict)
    for replica_id, tenant_id, project_id, failed, weight in query(WEIGHTS, hour):
        user = User(Line.FAILURE if failed else Line.BUSY, tenant_id, project_id)
        found[replica_id][user] = int(weight)
    return found


def _policy(pool: str, at: datetime) -> PoolPolicy:
    entries = CostPool.objects.filter(pool=pool, valid_from__lte=at)
    row = entries.order_by("-valid_from", "-pk").first()
    if row is None:
        return PoolPolicy()
    return PoolPolicy(IdlePolicy(row.idle), Fraction(row.practical_ratio))


def query(statement: str, hour: datetime) -> list[tuple]:
    ended = [str(outcome) for outcome in ENDED_BY_THE_PLATFORM]
    values = {
        "begin": hour,
        "end": hour + HOUR,
        "since": hour - timedelta(seconds=CALL_SECONDS_MAX),
        "ended": ended,
        "rejected": str(Outcome.REJECTED),
    }
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()
