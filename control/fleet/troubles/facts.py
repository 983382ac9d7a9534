"""Open troubles of the fleet, from what pages read anyway: no row is written for them."""

from collections.abc import Iterable
from datetime import datetime

from control.fleet import facts as fleet
from control.fleet.facts import DeploymentFacts
from control.fleet.nodes import facts as machines
from control.fleet.nodes.facts import NodeFacts
from control.fleet.troubles import rules
from control.fleet.troubles.rules import Card, Host, Trouble, Wanted
from control.states import DeploymentState, Priority


def troubles(at: datetime) -> list[Trouble]:
    return of(fleet.deployments(), machines.nodes(), at)


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
