"""People of a tenant over REST: who see its figures and nothing else."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.base import NAME, Form, OperatorsOnly, read
from control.tenancy.facts import tenant
from control.tenancy.members import actions, facts

USERNAME = OpenApiParameter("username", str, OpenApiParameter.PATH)


class MemberForm(Form):
    username = serializers.CharField()


class MemberShape(serializers.Serializer):
    username = serializers.CharField()
    added_at = serializers.DateTimeField()
    added_by = serializers.CharField()
    last_login = serializers.DateTimeField(allow_null=True)
    has_password = serializers.BooleanField()


class InvitationShape(serializers.Serializer):
    username = serializers.CharField()
    link = serializers.CharField(help_text="Where a password is chosen, once, within three days")


def _invited(request: Request, made: actions.Invitation) -> Response:
    told = {"username": made.username, "link": request.build_absolute_uri(made.path)}
    answer = InvitationShape(told).data
    return Response(answer, status=201, headers={"Cache-Control": "no-store"})


class Members(OperatorsOnly, APIView):
    @extend_schema(parameters=[NAME], responses=MemberShape(many=True))
    def get(self, request: Request, name: str) -> Response:
        if tenant(name) is None:
            raise NotFound(f"there is no tenant {name!r}")
        return Response(MemberShape(facts.members(name), many=True).data)

    @extend_schema(parameters=[NAME], request=MemberForm, responses={201: InvitationShape})
    def post(self, request: Request, name: str) -> Response:
        """Add somebody. The link in the answer is in no other."""
        username = read(MemberForm, request)["username"]
        return _invited(request, actions.add_member(name, username, **self.who()))


class Member(OperatorsOnly, APIView):
    @extend_schema(parameters=[NAME, USERNAME], request=None, responses={201: InvitationShape})
    def post(self, request: Request, name: str, username: str) -> Response:
        """Another link."""
        return _invited(request, actions.invite_again(name, username, **self.who()))

    @extend_schema(parameters=[NAME, USERNAME], responses={204: None})
    def delete(self, request: Request, name: str, username: str) -> Response:
        """Remove somebody, and sign them out."""
        actions.remove_member(name, username, **self.who())
        return Response(status=204)
