"""What a tenant, a project and a key may be: names, limits, budgets, secrets."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from ipaddress import ip_network
from zoneinfo import available_timezones

from control import checks
from control.checks import Problem
from control.states import BudgetMode, Priority

SECRET_CHARACTERS = (32, 256)
KEY_ROUTES_MAX = 200
KEY_NETWORKS_MAX = 64
ENDPOINTS = (  # as the gateway names them
    "chat.completions",
    "completions",
    "responses",
    "messages",
    "embeddings",
    "rerank",
    "score",
    "models",
    "usage",
)
LIMIT_MAX = 2**31 - 1
TOKEN_LIMIT_MAX = 10**15
DEVICES_MAX = 1_000_000
PERIODS = ("month", "day")
DEFAULT_PROJECT = "default"
OPERATORS = "operators"  # the platform's own tenant: the playground's calls are its calls
_WIDE = {
    "input_tokens_per_minute",
    "output_tokens_per_minute",
    "end_user_output_tokens_per_minute",
}
_TIMEZONES = frozenset(available_timezones())


@dataclass(frozen=True)
class Limits:
    """Ceilings of one scope. None is no limit; scopes do not inherit, all must have room."""

    requests_per_second: int | None = None
    burst: int | None = None
    requests_per_minute: int | None = None
    input_tokens_per_minute: int | None = None
    output_tokens_per_minute: int | None = None
    concurrent_calls: int | None = None
    context_tokens: int | None = None
    output_tokens: int | None = None
    end_user_requests_per_minute: int | None = None  # of each `user` that calls name
    end_user_output_tokens_per_minute: int | None = None
    address_requests_per_minute: int | None = None  # of each client address
    identical_calls: int | None = None  # in flight at once, of one key

    @property
    def named(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class BudgetWanted:
    """Money, tokens, or both; a call has to fit in what is left of each."""

    amount: Decimal | None = None
    currency: str = ""
    period: str = "month"
    tokens: int | None = None
    mode: str = BudgetMode.HARD

    def __str__(self) -> str:
        money = [] if self.amount is None else [f"{self.amount.normalize():f} {self.currency}"]
        tokens = [] if self.tokens is None else [f"{self.tokens} tokens"]
        soft = ", soft" if self.mode == BudgetMode.SOFT else ""
        return f"{' and '.join([*money, *tokens])} a {self.period}{soft}"


@dataclass(frozen=True)
class TenantWanted:
    """A tenant, whole: what is left out has its default."""

    name: str
    priority: str = Priority.STANDARD
    timezone: str = "UTC"
    limits: Limits = Limits()
    budget: BudgetWanted | None = None
    prepaid: str = ""  # the currency of the credit that pays for its calls; empty: it pays later
    alert_url: str = ""  # told when a budget or the credit is used up to 50, 80 and 100 %


@dataclass(frozen=True)
class DeviceQuota:
    """How many devices the deployments of a project may count on, and may hold at most."""

    guaranteed: int = 0
    maximum: int | None = None  # None is no limit


@dataclass(frozen=True)
class ProjectWanted:
    tenant: str
    name: str
    limits: Limits = Limits()
    budget: BudgetWanted | None = None
    devices: DeviceQuota = DeviceQuota()


@dataclass(frozen=True)
class KeyWanted:
    """A key without its secret, which is given or made beside it."""

    tenant: str
    name: str
    project: str = DEFAULT_PROJECT
    routes: tuple[str, ...] | None = None
    expires_at: datetime | None = None
    limits: Limits = Limits()
    budget: BudgetWanted | None = None
    endpoints: tuple[str, ...] | None = None  # None is every endpoint
    networks: tuple[str, ...] = ()  # CIDR; none named is anywhere
    priority: str | None = None  # the most urgent of its calls; None is its tenant's


@dataclass(frozen=True)
class NewKey:
    """A key just made: the only time its secret is known in clear."""

    key_id: int
    secret: str = field(repr=False)
    shown: str


def tenant_problems(wanted: TenantWanted) -> list[Problem]:
    zone = wanted.timezone
    known = [] if zone in _TIMEZONES else [Problem("timezone", f"{zone!r} is no IANA time zone")]
    return [
        *checks.name("name", wanted.name),
        *checks.one_of("priority", wanted.priority, Priority),
        *known,
        *limit_problems("limits", wanted.limits),
        *budget_problems("budget", wanted.budget),
        *(checks.currency("prepaid", wanted.prepaid) if wanted.prepaid else ()),
        *(checks.url("alert_url", wanted.alert_url) if wanted.alert_url else ()),
    ]


def project_problems(wanted: ProjectWanted) -> list[Problem]:
    return [
        *checks.name("name", wanted.name),
        *limit_problems("limits", wanted.limits),
        *budget_problems("budget", wanted.budget),
        *_device_problems("devices", wanted.devices),
    ]


def _device_problems(field: str, quota: DeviceQuota) -> list[Problem]:
    found = [
        *checks.whole(f"{field}.guaranteed", quota.guaranteed, 0, DEVICES_MAX),
        *checks.whole(f"{field}.maximum", quota.maximum, 0, DEVICES_MAX),
    ]
    if not found and quota.maximum is not None and quota.maximum < quota.guaranteed:
        what = f"{quota.maximum} is below {field}.guaranteed, {quota.guaranteed}"
        found.append(Problem(f"{field}.maximum", what))
    return found


def key_problems(wanted: KeyWanted) -> list[Problem]:
    routes = wanted.routes or ()
    problems = [
        *checks.name("name", wanted.name),
        *limit_problems("limits", wanted.limits),
        *budget_problems("budget", wanted.budget),
        *checks.whole("routes", len(routes), 0, KEY_ROUTES_MAX),
    ]
    for number, route in enumerate(routes):
        problems += checks.public_name(f"routes[{number}]", route)
    problems += _endpoint_problems(wanted.endpoints)
    problems += _network_problems(wanted.networks)
    if wanted.priority is not None:
        problems += checks.one_of("priority", wanted.priority, Priority)
    if wanted.expires_at is not None and wanted.expires_at.tzinfo is None:
        problems.append(Problem("expires_at", "needs an offset, as in 2027-01-01T00:00:00Z"))
    return problems


def unknown_routes(wanted: tuple[str, ...] | None, known: Collection[str]) -> list[Problem]:
    """Whoever names one means one that there is: a key for another would open nothing."""
    what = "make it first, or take one of those that `weir status` lists"
    return [
        Problem(f"routes[{number}]", f"there is no route {route!r}: {what}")
        for number, route in enumerate(wanted or ())
        if route not in known
    ]


def _endpoint_problems(endpoints: tuple[str, ...] | None) -> list[Problem]:
    if endpoints == ():
        return [Problem("endpoints", "names none: revoke the key, or leave endpoints out for all")]
    return [
        problem
        for number, name in enumerate(endpoints or ())
        for problem in checks.one_of(f"endpoints[{number}]", name, ENDPOINTS)
    ] + _twice("endpoints", endpoints or ())


def _network_problems(networks: tuple[str, ...]) -> list[Problem]:
    if problems := checks.whole("networks", len(networks), 0, KEY_NETWORKS_MAX):
        return problems
    return [
        Problem(f"networks[{number}]", what)
        for number, text in enumerate(networks)
        if (what := _no_network(text))
    ] + _twice("networks", networks)


def _no_network(text: str) -> str:
    try:
        ip_network(text)
    except ValueError:
        pass
    else:
        return ""
    try:
        return f"{text!r} has bits beyond its prefix: write {ip_network(text, strict=False)}"
    except ValueError:
        return f"{text!r} is no network: write 192.0.2.0/24, 192.0.2.7 or 2001:db8::/32"


def _twice(path: str, values: tuple[str, ...]) -> list[Problem]:
    return [
        Problem(f"{path}[{number}]", f"{value!r} is named twice")
        for number, value in enumerate(values)
        if value in values[:number]
    ]


def limit_problems(path: str, limits: Limits) -> list[Problem]:
    problems = []
    for limit in fields(limits):
        most = TOKEN_LIMIT_MAX if limit.name in _WIDE else LIMIT_MAX
        problems += checks.whole(f"{path}.{limit.name}", getattr(limits, limit.name), 1, most)
    if limits.burst is not None and limits.requests_per_second is None:
        what = "is the size of the bucket that requests_per_second fills: name both"
        problems.append(Problem(f"{path}.burst", what))
    return problems


def budget_problems(path: str, budget: BudgetWanted | None) -> list[Problem]:
    if budget is None:
        return []
    problems = checks.one_of(f"{path}.period", budget.period, PERIODS)
    problems += checks.whole(f"{path}.tokens", budget.tokens, 0, TOKEN_LIMIT_MAX)
    problems += checks.one_of(f"{path}.mode", budget.mode, BudgetMode)
    if budget.amount is not None:
        problems += checks.amount(f"{path}.amount", budget.amount)
        problems += checks.currency(f"{path}.currency", budget.currency)
    elif budget.tokens is None:
        problems.append(Problem(f"{path}.amount", "is required, or tokens, or both"))
    elif budget.currency:
        problems.append(Problem(f"{path}.currency", "is of an amount: name both or neither"))
    return problems


def secret_problems(path: str, secret: str) -> list[Problem]:
    """A secret travels in a header, so it is printable ASCII; nothing of it is repeated here."""
    low, high = SECRET_CHARACTERS
    if not low <= len(secret) <= high:
        return [Problem(path, f"has {len(secret)} characters; a secret has {low} to {high}")]
    if not (secret.isascii() and secret.isprintable()) or secret != secret.strip():
        return [Problem(path, "a secret is printable ASCII without a blank at either end")]
    return []


def shown(secret: str) -> str:
    """What may be seen of a secret later: its first 3 and last 4 characters."""
    return f"{secret[:3]}…{secret[-4:]}"
