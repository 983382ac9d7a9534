"""Which gateways serve, and by which version of the replicas."""

from django.db import connection

from control.fleet.draining.rules import GONE_SECONDS, GatewayFacts

# By the database's clock, which stamped them too.
_ALL = """
SELECT owner, replicas_version, extract(epoch FROM clock_timestamp() - seen_at),
coalesce((calls->>%s)::bigint, 0) FROM control_gatewayprocess
WHERE seen_at > clock_timestamp() - make_interval(secs => %s) ORDER BY owner
"""


def gateways(replica_id: int) -> list[GatewayFacts]:
    """Those heard of lately, with their calls on this replica."""
    with connection.cursor() as cursor:
        cursor.execute(_ALL, [str(replica_id), GONE_SECONDS])
        return [
            GatewayFacts(owner, version, max(float(silent), 0.0), calls)
            for owner, version, silent, calls in cursor.fetchall()
        ]
