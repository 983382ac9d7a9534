"""Who may open what: operators (Django's staff users); people of a tenant its own pages."""

import hashlib

import redis
from channels.db import database_sync_to_async
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import LoginView, PasswordResetConfirmView
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from control.tenancy.members.facts import tenant_of

# 4403 reads as HTTP's 403 for a socket: the page then asks to sign in instead of retrying.
CLOSE_REFUSED = 4403
OWN_SOCKETS = "/live/own/"  # of people of a tenant
FAILURES_MAX = 10  # wrong passwords for one name in a minute; then even the right one waits
FAILURES_SECONDS = 60
CONTENT_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


def is_operator(user) -> bool:
    return bool(user and user.is_authenticated and user.is_active and user.is_staff)


def for_members(view):
    """Of people who belong to a tenant: the view finds its name in `request.tenant`."""
    view.is_for_members = True
    return view


def who(request: HttpRequest) -> dict:
    """What every action asks for: who, why and when."""
    return {"by": request.user.username, "reason": "console", "at": timezone.now()}


def said(values: QueryDict, name: str) -> str:
    """What a form or an address says, without the one character that PostgreSQL cannot keep."""
    return values.get(name, "").strip().replace("\0", "")


class OperatorsOnly(LoginRequiredMiddleware):
    """Every view asks for an operator, unless it says @login_not_required (or is the API's), or
    @for_members: then for somebody of a tenant, whose pages show that tenant and no other."""

    def process_view(self, request: HttpRequest, view_func, view_args, view_kwargs):
        if not getattr(view_func, "login_required", True):
            return None
        is_for_members = getattr(view_func, "is_for_members", False)
        if not is_for_members and is_operator(request.user):
            return None
        if request.user.is_authenticated:
            return self._of_a_tenant(request, is_for_members)
        answer = self.handle_no_permission(request, view_func)
        if request.htmx:  # a swapped-in login page would look like a broken part
            return HttpResponse(headers={"HX-Redirect": answer["Location"]})
        return answer

    def _of_a_tenant(self, request: HttpRequest, is_for_members: bool) -> HttpResponse | None:
        tenant = tenant_of(request.user)
        if tenant and is_for_members:
            request.tenant = tenant
            return None
        if tenant and request.path == reverse("overview"):
            return redirect("own")
        context = {"is_member": bool(tenant), "is_operator": is_operator(request.user)}
        return render(request, "pages/refused.html", context, status=403)


class ContentPolicy:
    """Pages load nothing from elsewhere, and no other site may frame them."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not request.path.startswith("/api/"):  # its browsable pages have inline scripts
            response.headers.setdefault("Content-Security-Policy", CONTENT_POLICY)
        return response


class GuardedSockets:
    """The same rule for WebSockets: refused before they are accepted."""

    def __init__(self, inner):
        self.inner = inner

    async def __call__(self, scope, receive, send):
        if await _may_listen(scope):
            return await self.inner(scope, receive, send)
        await receive()
        return await send({"type": "websocket.close", "code": CLOSE_REFUSED})


async def _may_listen(scope) -> bool:
    user = scope.get("user")
    if scope["path"].startswith(OWN_SOCKETS):
        return await database_sync_to_async(tenant_of)(user) is not None
    return is_operator(user)


class OperatorForm(AuthenticationForm):
    def clean(self) -> dict:
        name = self.cleaned_data.get("username", "")
        if failures(name) >= FAILURES_MAX:
            raise forms.ValidationError("Too many wrong passwords for this name: wait a minute.")
        try:
            return super().clean()
        except forms.ValidationError:
            failures(name, one_more=True)
            raise

    def confirm_login_allowed(self, user) -> None:
        super().confirm_login_allowed(user)
        if not is_operator(user) and not tenant_of(user):
            raise forms.ValidationError(
                "This account is not an operator, and of no tenant. Ask an operator.",
                code="not_operator",
            )


def failures(name: str, *, one_more: bool = False) -> int:
    """Wrong passwords of a name in the last minute. Without Valkey none: people must get in."""
    key = f"console:login-failures:{hashlib.sha256(name.encode()).hexdigest()[:32]}"
    options = {"socket_timeout": 1, "socket_connect_timeout": 1}
    try:
        with redis.Redis.from_url(settings.REDIS_LIVE_URL, **options) as valkey:
            if not one_more:
                return int(valkey.get(key) or 0)
            count = valkey.incr(key)
            valkey.expire(key, FAILURES_SECONDS, nx=True)
            return count
    except (redis.RedisError, OSError):
        return 0


class SignIn(LoginView):
    template_name = "pages/login.html"
    authentication_form = OperatorForm
    redirect_authenticated_user = True

    def get_default_redirect_url(self) -> str:
        return super().get_default_redirect_url() if is_operator(self.request.user) else "/own/"


class ChoosePassword(PasswordResetConfirmView):
    """Under the link that an operator was given for somebody of a tenant."""

    template_name = "pages/password.html"
    post_reset_login = False
    success_url = "/login/"

    def get_user(self, uidb64: str):
        user = super().get_user(uidb64)
        return user if _is_member(user) else None

    def form_valid(self, form):
        messages.success(self.request, "The password is set: sign in with it.")
        return super().form_valid(form)


def _is_member(user) -> bool:
    """Operators' passwords are not set by a link."""
    return bool(user and user.is_active and not user.is_staff and hasattr(user, "member"))
