"""Incidents as messages to the operator's URL."""

from datetime import datetime

from control.fleet.incidents import facts, rules
from control.fleet.incidents.rules import Told
from control.models import IncidentLetter
from control.webhooks.sending import Box, Message


def words(row: IncidentLetter, _: datetime) -> Message:
    of = row.incident
    told = Told(
        id=of.pk,
        event=row.event,
        at=row.at,
        kind=of.kind,
        about=of.about,
        what=of.what,
        is_urgent=of.is_urgent,
        opened_at=of.opened_at,
        # Of its opening, also when it has ended meanwhile: each try has the same bytes.
        ended_at=of.ended_at if row.event == rules.ENDED else None,
    )
    return Message(rules.message_id(told), rules.message(told), (facts.secret(),))


BOX = Box(IncidentLetter, "incident", words)
