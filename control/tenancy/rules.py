"""What a tenant, a project and a key may be: names, limits, budgets, secrets."""

from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from zoneinfo import available_timezones

from control import checks
from control.checks import Problem
from control.states import Priority

SECRET_CHARACTERS = (32, 256)
KEY_ROUTES_MAX = 200
LIMIT_MAX = 2**31 - 1
TOKEN_LIMIT_MAX = 10**15
PERIODS = ("month", "day")
DEFAULT_PROJECT = "default"
OPERATORS = "operators"  # the platform's own tenant: the playground's calls are its calls
_WIDE = {"input_tokens_per_minute", "output_tokens_per_minute"}
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

    @property
    def named(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class BudgetWanted:
    amount: Decimal
    currency: str
    period: str = "month"

    def __str__(self) -> str:
        return f"{self.amount.normalize():f} {self.currency} a {self.period}"


@dataclass(frozen=True)
class TenantWanted:
    """A tenant, whole: what is left out has its default."""

    name: str
    priority: str = Priority.STANDARD
    timezone: str = "UTC"
    limits: Limits = Limits()
    budget: BudgetWanted | None = None


@dataclass(frozen=True)
class ProjectWanted:
    tenant: str
    name: str
    limits: Limits = Limits()
    budget: BudgetWanted | None = None


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
    ]


def project_problems(wanted: ProjectWanted) -> list[Problem]:
    return [
        *checks.name("name", wanted.name),
        *limit_problems("limits", wanted.limits),
        *budget_problems("budget", wanted.budget),
    ]


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
    if wanted.expires_at is not None and wanted.expires_at.tzinfo is None:
        problems.append(Problem("expires_at", "needs an offset, as in 2027-01-01T00:00:00Z"))
    return problems


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
    return [
        *checks.amount(f"{path}.amount", budget.amount),
        *checks.currency(f"{path}.currency", budget.currency),
        *checks.one_of(f"{path}.period", budget.period, PERIODS),
    ]


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
