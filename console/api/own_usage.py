"""`GET /v1/usage`: a tenant's own usage, asked with a key of its at the gateway."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from control.checks import Problem, Refused
from control.metering.own import facts, rules
from control.metering.own.facts import KeyScope, OwnRow
from control.metering.own.rules import UsageAsked
from control.routes import passes


@login_not_required  # by a password: who asks is told by the gateway, under its signature
@require_safe
def show(request: HttpRequest) -> JsonResponse:
    at = timezone.now()
    query = request.META.get("QUERY_STRING", "")  # as it came: what is signed
    target = f"{request.path}?{query}" if query else request.path
    given = request.headers.get(passes.HEADER, "")
    key_id = passes.key_of(given, request.method, target.encode(), at.timestamp())
    scope = None if key_id is None else facts.scope_of_key(key_id)
    if scope is None:
        return _error(401, "invalid_api_key", "Ask the gateway, with an API key.", None)
    try:
        query = {name: values[-1] for name, values in request.GET.lists()}
        asked = rules.asked(query, at, scope.timezone)
        if asked.project not in ("", scope.project):
            raise Refused(_not_its_own(scope))
    except Refused as refusal:
        problem = refusal.problems[0]
        text = f"'{problem.field}' {problem.what}."
        return _error(400, "invalid_value", text, problem.field)
    return JsonResponse(_body(asked, scope))


def _not_its_own(scope: KeyScope) -> list[Problem]:
    return [Problem("project", f"is another one: this key reads '{scope.project}'")]


def _body(asked: UsageAsked, scope: KeyScope) -> dict:
    usage = facts.usage(asked, scope.tenant, scope.project_id)
    return {
        "object": "usage",
        "tenant": scope.tenant,
        "project": scope.project,
        "from": asked.first.isoformat(),
        "to": asked.after.isoformat(),
        "timezone": asked.timezone,
        "group_by": list(asked.group_by),
        "data": [_row(row, asked.group_by) for row in usage.rows],
        "total": _row(usage.total, ()),
        "has_more": usage.has_more,
    }


def _row(row: OwnRow, names: tuple[str, ...]) -> dict:
    return {
        **dict(zip(names, row.group, strict=True)),
        "calls": row.calls,
        **{name: getattr(row, name) for name in facts.COUNTS},
        "amounts": [{"currency": name, "amount": amount} for name, amount in row.amounts],
    }


def _error(status: int, code: str, message: str, param: str | None) -> JsonResponse:
    kind = "authentication_error" if status == 401 else "invalid_request_error"
    error = {"message": message, "type": kind, "param": param, "code": code}
    return JsonResponse({"error": error}, status=status)
