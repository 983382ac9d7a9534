"""What of the fleet is an incident now, and those that were, with who was told."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import F, Q

from control.fleet.incidents.rules import DRIFT, Seen
from control.fleet.troubles import facts as open_now
from control.fleet.troubles import rules as troubles
from control.fleet.troubles.rules import CRASH_LOOP, Card, Host, Trouble, Wanted
from control.metering.drift import books
from control.models import Deployment, Device, Incident, IncidentLetter, Node
from control.models.sealing import digest_of
from control.states import DeploymentState, NodeState
from control.webhooks import rules as webhooks

OF_A_KIND_MAX = 200  # seen at once: who has more knows already
ROWS_MAX = 200


@dataclass(frozen=True)
class LetterFacts:
    event: str
    at: datetime
    url: str
    delivery: str
    tries: int
    answer: str


@dataclass(frozen=True)
class IncidentFacts:
    id: int
    kind: str
    about: str
    what: str
    is_urgent: bool
    opened_at: datetime
    ended_at: datetime | None
    letters: tuple[LetterFacts, ...]


def incidents(*, first: int = 0, count: int = 50) -> list[IncidentFacts]:
    """Open ones first, then the newest."""
    rows = Incident.objects.prefetch_related("letters")
    rows = rows.order_by(F("ended_at").desc(nulls_first=True), "-opened_at", "-pk")
    return [_incident(row) for row in rows[first : first + min(count, ROWS_MAX)]]


def url() -> str:
    """Whom the operator lets know; empty: nobody."""
    return settings.WEIR_ALERT_URL


def secret() -> bytes:
    """Derived: known wherever WEIR_SECRET is, stored nowhere."""
    return bytes.fromhex(digest_of("derived:alerts:operator"))


def secret_text() -> str:
    return webhooks.secret_text(secret())


def seen(at: datetime) -> list[Seen]:
    """Six questions, whatever the fleet's size: only what is in trouble is read."""
    stuck = [_seen(trouble, uuid) for uuid, trouble in open_now.stuck(at)[:OF_A_KIND_MAX]]
    return [*_deployments(at), *_nodes(), *_cards(), *stuck, *_drifts(), *_prompts()]


def _deployments(at: datetime) -> Iterator[Seen]:
    hindered = Q(note__startswith=CRASH_LOOP) | ~Q(hindrance="")
    rows = Deployment.objects.filter(hindered, state=DeploymentState.ACTIVE).order_by("name")
    for row in rows[:OF_A_KIND_MAX]:
        wanted = Wanted(
            name=row.name,
            note=row.note,
            hindrance=row.hindrance,
            hindered_at=row.hindered_at,
            is_interactive=False,  # few replicas are a warning on pages, and no incident
            replicas_wanted=row.replicas_wanted,
            replicas_max=row.replicas_max,
            nodes=0,
        )
        for trouble in troubles.of_deployment(wanted, at):
            yield _seen(trouble, row.name)


def _nodes() -> Iterator[Seen]:
    for row in Node.objects.filter(state=NodeState.LOST).order_by("name")[:OF_A_KIND_MAX]:
        for trouble in troubles.of_node(Host(row.name, row.state, row.state_at, row.note)):
            yield _seen(trouble, row.name)


def _cards() -> Iterator[Seen]:
    rows = Device.objects.filter(quarantined_at__isnull=False).select_related("node")
    for row in rows.order_by("-quarantined_at", "pk")[:OF_A_KIND_MAX]:
        card = Card(row.node.name, row.name, row.quarantined_at, row.quarantine_reason)
        for trouble in troubles.of_card(card):
            yield _seen(trouble, row.uuid)


def _prompts() -> Iterator[Seen]:
    for prompt in open_now.prompts():
        for trouble in troubles.of_prompt(prompt):
            yield _seen(trouble, prompt.fingerprint)


def _drifts() -> Iterator[Seen]:
    for hour in books.open_incidents(limit=OF_A_KIND_MAX):
        tokens = " and ".join(f"{count:+} {name}" for name, count in hour.unexplained.items())
        what = f"its engine counted {tokens} tokens that no attempt explains"
        about = f"{hour.replica} {hour.begin_at:%Y-%m-%d %H}h"
        yield Seen(DRIFT, str(hour.id), about, what, is_urgent=True)


def _seen(trouble: Trouble, key: str) -> Seen:
    return Seen(trouble.kind, key, trouble.about, trouble.what, trouble.is_urgent)


def _incident(row: Incident) -> IncidentFacts:
    return IncidentFacts(
        id=row.pk,
        kind=row.kind,
        about=row.about,
        what=row.what,
        is_urgent=row.is_urgent,
        opened_at=row.opened_at,
        ended_at=row.ended_at,
        letters=tuple(_letter(one) for one in sorted(row.letters.all(), key=lambda one: one.pk)),
    )


def _letter(row: IncidentLetter) -> LetterFacts:
    return LetterFacts(row.event, row.at, row.url, row.delivery, row.tries, row.answer)
