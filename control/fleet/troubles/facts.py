"""Open troubles of the fleet, from what pages read anyway: no row is written for them."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime

from django.db import connection

from control.fleet import facts as fleet
from control.fleet.draining.rules import GONE_SECONDS
from control.fleet.facts import DeploymentFacts
from control.fleet.nodes import facts as machines
from control.fleet.nodes.facts import NodeFacts
from control.fleet.troubles import rules
from control.fleet.troubles.rules import Card, Host, Prompt, Trouble, Wanted
from control.placement import books
from control.states import DeploymentState, Priority

# By the database's clock, which stamped them too.
_REFUSED = """
SELECT refused FROM control_gatewayprocess
WHERE seen_at > clock_timestamp() - make_interval(secs => %s) AND jsonb_typeof(refused) = 'array'
"""


def troubles(at: datetime) -> list[Trouble]:
    return of(fleet.deployments(), machines.nodes(), at)


def prompts() -> list[Prompt]:
    """That any gateway heard of lately refuses: each once."""
    with connection.cursor() as cursor:
        cursor.execute(_REFUSED, [GONE_SECONDS])
        told = [one for (refused,) in cursor.fetchall() for one in json.loads(refused)]
    found = {one["prompt"]: one for one in told}
    return [
        Prompt(name, tuple(one["launches"]), datetime.fromtimestamp(one["until"], UTC))
        for name, one in sorted(found.items())
    ]


def stuck(at: datetime) -> list[tuple[str, Trouble]]:
    """With the uuid of the card, each card once."""
    found: dict[str, Trouble] = {}
    for row in books.stuck(at):
        what, since = books.left_on(row), row.replica.ended_at or at
        trouble = rules.of_stuck(row.device.node.name, row.device.name, what, since)
        found.setdefault(row.device.uuid, trouble)
    return list(found.items())


def of(
    deployments: Iterable[DeploymentFacts], nodes: Iterable[NodeFacts], at: datetime
) -> list[Trouble]:
    """The urgent first, then the oldest."""
    found: list[Trouble] = []
    for deployment in deployments:
        if deployment.state == DeploymentState.ACTIVE:
            found += rules.of_deployment(_wanted(deployment), at)
    for node in nodes:
        found += rules.of_node(Host(node.name, node.state, node.state_at, node.note))
        for device in node.devices:
            if device.quarantined_at:
                card = Card(node.name, device.name, device.quarantined_at, device.quarantine_reason)
                found += rules.of_card(card)
    found += [trouble for _, trouble in stuck(at)]
    for prompt in prompts():
        found += rules.of_prompt(prompt)
    return sorted(found, key=lambda one: (not one.is_urgent, one.since or at, one.about))


def _wanted(deployment: DeploymentFacts) -> Wanted:
    live = [replica for replica in deployment.replicas if not replica.is_final]
    return Wanted(
        name=deployment.name,
        note=deployment.note,
        hindrance=deployment.hindrance,
        hindered_at=deployment.hindered_at,
        is_interactive=deployment.placing.priority == Priority.INTERACTIVE,
        replicas_wanted=deployment.wanted,
        replicas_max=deployment.replicas_max,
        nodes=len({replica.node for replica in live if replica.node}),
    )
