"""Live parts of a tenant's own pages: for its people, and of no other tenant."""

from datetime import datetime

from django.http import QueryDict

from console import own_parts
from console.live.parts import PartConsumer
from control.tenancy.members.facts import tenant_of


class OwnPartConsumer(PartConsumer):
    """Of the days and names in its address, as the page has them in its own."""

    interval_seconds = 3.0  # sums over months, for as many people as look
    known = own_parts.PARTS

    def html(self, at: datetime) -> str | None:
        tenant = tenant_of(self.scope["user"])  # each time: somebody may have been removed
        if tenant is None:
            return None
        given = QueryDict(self.scope["query_string"]).dict()
        return own_parts.html(self.name, at, tenant, given)
