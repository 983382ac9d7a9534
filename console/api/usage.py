"""Usage over REST: sums of a month's calls, in groups."""

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.base import OperatorsOnly, named
from console.api.shapes import UsageShape
from control.metering import exports, facts

GROUPS_MAX = 4
FILTERS = ("tenant", "key", "model", "route")
PARAMETERS = [
    OpenApiParameter("month", str, description="As in 2026-11; this month if left out"),
    OpenApiParameter("group", str, many=True, enum=[*facts.GROUPS, *facts.TIMES], default="model"),
    *(OpenApiParameter(name, str, description="Only calls of this one") for name in FILTERS),
]


class Usage(OperatorsOnly, APIView):
    @extend_schema(parameters=PARAMETERS, responses=UsageShape(many=True))
    def get(self, request: Request) -> Response:
        """Calls, tokens and amounts of the calls that started in a month (UTC), by group."""
        given = request.query_params
        since, until = exports.month(given.get("month", f"{timezone.now():%Y-%m}"))
        names = {name: named(request, name) for name in FILTERS}
        wanted = exports.UsageWanted(since, until, **names)
        rows = facts.usage(wanted, given.getlist("group")[:GROUPS_MAX] or ["model"])
        return Response(UsageShape(rows, many=True).data)
