"""Who may open what: operators (Django's staff users), signed in; all else is refused."""

import hashlib

import redis
from django import forms
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

# 4403 reads as HTTP's 403 for a socket: the page then asks to sign in instead of retrying.
CLOSE_REFUSED = 4403
FAILURES_MAX = 10  # wrong passwords for one name in a minute; then even the right one waits
FAILURES_SECONDS = 60
CONTENT_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


def is_operator(user) -> bool:
    return bool(user and user.is_authenticated and user.is_active and user.is_staff)


def who(request: HttpRequest) -> dict:
    """What every action asks for: who, why and when."""
    return {"by": request.user.username, "reason": "console", "at": timezone.now()}


class OperatorsOnly(LoginRequiredMiddleware):
    """Every view asks for an operator, unless it says @login_not_required (or is the API's)."""

    def process_view(self, request: HttpRequest, view_func, view_args, view_kwargs):
        if not getattr(view_func, "login_required", True) or is_operator(request.user):
            return None
        if request.user.is_authenticated:
            return render(request, "pages/refused.html", status=403)
        answer = self.handle_no_permission(request, view_func)
        if request.htmx:  # a swapped-in login page would look like a broken part
            return HttpResponse(headers={"HX-Redirect": answer["Location"]})
        return answer


class ContentPolicy:
    """Pages load nothing from elsewhere, and no other site may frame them."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not request.path.startswith("/api/"):  # its browsable pages have inline scripts
            response.headers.setdefault("Content-Security-Policy", CONTENT_POLICY)
        return response


class OperatorSockets:
    """The same rule for WebSockets: refused before they are accepted."""

    def __init__(self, inner):
        self.inner = inner

    async def __call__(self, scope, receive, send):
        if is_operator(scope.get("user")):
            return await self.inner(scope, receive, send)
        await receive()
        return await send({"type": "websocket.close", "code": CLOSE_REFUSED})


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
        if not is_operator(user):
            raise forms.ValidationError(
                "This account is not an operator. Ask one to set its staff flag.",
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
