"""What all of the operators' API shares: who may call, pages of rows, and named errors."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter
from rest_framework import mixins, serializers, viewsets
from rest_framework.authentication import BasicAuthentication, SessionAuthentication
from rest_framework.exceptions import APIException, NotFound, ValidationError
from rest_framework.pagination import LimitOffsetPagination
from rest_framework.permissions import IsAdminUser
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import exception_handler

from console.parts import Rows
from control.checks import Problem, Refused, Unknown

REASON_CHARACTERS_MAX = 500
NAME_CHARACTERS_MAX = 96
NAME = OpenApiParameter("name", str, OpenApiParameter.PATH)
TENANT = OpenApiParameter("tenant", str, description="Only of this one")


class Pages(LimitOffsetPagination):
    default_limit = 100
    max_limit = 1000


class OperatorsOnly:
    """Staff, by password or by the console's session; whatever goes wrong is answered by name."""

    # Basic comes first, so that a caller without credentials hears 401 and how to sign in.
    authentication_classes = (BasicAuthentication, SessionAuthentication)
    permission_classes = (IsAdminUser,)
    renderer_classes = (JSONRenderer,)  # pages for people are the console's

    def get_exception_handler(self):
        return answer

    def who(self) -> dict:
        """Who, why and when, for the audit; a caller may say why in the query: ?reason=."""
        request: Request = self.request
        return {
            "by": request.user.get_username(),
            "reason": request.query_params.get("reason", "API")[:REASON_CHARACTERS_MAX],
            "at": timezone.now(),
        }


class Noun(OperatorsOnly, mixins.ListModelMixin, viewsets.GenericViewSet, ABC):
    """One noun of the platform: a list in pages, and whatever actions its view adds."""

    pagination_class = Pages
    lookup_field = "name"

    @abstractmethod
    def rows(self) -> Rows | list:
        """All of the noun, for the list to page through."""

    def get_queryset(self) -> Rows | list:
        return [] if getattr(self, "swagger_fake_view", False) else self.rows()

    def render(self, facts: object | None, what: str) -> Response:
        if facts is None:
            raise NotFound(what)
        return Response(self.get_serializer(facts).data)


class Form(serializers.Serializer):
    """What a caller sends: a member that is not understood is refused, not passed over."""

    def to_internal_value(self, data):
        value = super().to_internal_value(data)
        if unknown := sorted(set(data) - set(self.fields)):
            known = ", ".join(self.fields)
            what = f"is not understood; known here are {known}"
            raise serializers.ValidationError(dict.fromkeys(unknown, what))
        return value


def read(form: type[Form], request: Request) -> dict:
    """The members of the body, or a ValidationError that names each bad one."""
    given = form(data=request.data)
    given.is_valid(raise_exception=True)
    return given.validated_data


def named(request: Request, name: str) -> str:
    """A name of the query; empty if it is left out."""
    value = request.query_params.get(name, "")
    if len(value) > NAME_CHARACTERS_MAX or "\x00" in value:
        raise ValidationError({name: "is no name"})
    return value


def answer(error: Exception, context: dict) -> Response | None:
    """Every error as {error: {code, message, problems: [{field, what}]}}."""
    if isinstance(error, Refused):
        status, code = (404, "not_found") if isinstance(error, Unknown) else (400, "refused")
        return Response(_body(code, list(error.problems)), status=status)
    response = exception_handler(error, context)
    if response is None or not isinstance(error, APIException):
        return response
    problems = list(_problems(error.detail)) if isinstance(error, ValidationError) else []
    response.data = _body(error.default_code, problems or [Problem("", str(error.detail))])
    return response


def _body(code: str, problems: list[Problem]) -> dict:
    message = "; ".join(str(problem) for problem in problems)
    named = [{"field": it.field, "what": it.what} for it in problems if it.field]
    return {"error": {"code": code, "message": message, "problems": named}}


def _problems(detail: object, path: str = "") -> Iterator[Problem]:
    """Nested details → one problem for each field."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            below = (
                path if name == "non_field_errors" else ".".join(filter(None, (path, str(name))))
            )
            yield from _problems(inner, below)
    elif isinstance(detail, list):
        for inner in detail:
            yield from _problems(inner, path)
    else:
        yield Problem(path, str(detail))
