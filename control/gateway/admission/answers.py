"""What a tenant reads of its limits: which one refused its call, how long to wait, what is left."""

from control.gateway import errors
from control.gateway.admission.credit import Unfunded, Unpriced
from control.gateway.admission.rules import Check, Level, Refused, Slots, duration_text
from control.gateway.admission.told import HEADERS, Names
from control.gateway.errors import Headers, Refusal
from control.metering.rules import amount_text
from control.routes.snapshot import Identity
from control.states import BudgetUnit

_RATES: dict[str, tuple[str, type[Refusal]]] = {
    "requests_per_second": ("requests per second", errors.RateLimited),
    "requests_per_minute": ("requests per min (RPM)", errors.RateLimited),
    "input_tokens_per_minute": ("input tokens per min (TPM)", errors.TokensLimited),
    "output_tokens_per_minute": ("output tokens per min (TPM)", errors.TokensLimited),
    "end_user_requests_per_minute": ("requests per min (RPM)", errors.RateLimited),
    "end_user_output_tokens_per_minute": ("output tokens per min (TPM)", errors.TokensLimited),
    "address_requests_per_minute": ("requests per min (RPM)", errors.RateLimited),
}
_BUCKETS = ("calls_per_second", "tokens_per_second")  # of routes and deployments


def refusal_of(refused: Refused | Unfunded, route: str, identity: Identity) -> Refusal:
    """Clients parse the wait in the text: it is the same as in the headers."""
    if isinstance(refused, Unfunded):
        return budget_spent(refused, identity)
    if refused.check.limit in _BUCKETS:
        return slow_down(refused, route)
    check, where = refused.check, f"for '{route}' in {_scope(refused.check.scope, identity)}"
    if isinstance(check, Slots):
        what = "identical calls" if check.limit == "identical_calls" else "calls"
        return errors.TooManyCalls(
            f"Limit reached {where} on {what} at once: Limit {check.most}."
            " Please try again when one of them has ended.",
            wait_seconds=refused.wait_seconds,
        )
    of, kind = _RATES[check.limit]
    if refused.wait_seconds is None:
        return errors.NeverFits(
            f"Request too large {where} on {of}: Limit {check.units}, Requested"
            f" {refused.requested}. Shorten the prompt or lower 'max_tokens'."
        )
    left = next(level.remaining for level in refused.levels if level.check == check)
    wait = duration_text(errors.wait_milliseconds(refused.wait_seconds) / 1000)
    return kind(
        f"Rate limit reached {where} on {of}: Limit {check.units}, Used {check.units - left},"
        f" Requested {refused.requested}. Please try again in {wait}.",
        wait_seconds=refused.wait_seconds,
    )


def budget_spent(unfunded: Unfunded, identity: Identity) -> Refusal:
    """What is spent and what calls only hold are told apart: the latter may come back."""
    budget = unfunded.budget
    if not unfunded.known:
        return errors.BudgetUnknown(
            "What is left of a budget cannot be asked at the moment. Please try again shortly.",
            wait_seconds=1,
        )
    amount, spent, held, requested = (
        str(units) if budget.unit == BudgetUnit.TOKENS else amount_text(units)
        for units in (unfunded.amount, unfunded.spent, unfunded.held, unfunded.requested)
    )
    if budget.unit == BudgetUnit.CREDIT:
        return errors.BudgetSpent(
            f"The prepaid credit of {_scope(budget.scope, identity)} has too little left: Bought"
            f" {amount} {budget.currency}, Spent {spent}, Held by calls that run {held}, Requested"
            f" at most {requested}. Top it up, or lower 'max_tokens'."
        )
    return errors.BudgetSpent(
        f"The budget of {_scope(budget.scope, identity)}, {budget.text}, has too little left:"
        f" Limit {amount}, Spent {spent}, Held by calls that run {held}, Requested at most"
        f" {requested}. Lower 'max_tokens', or have the budget raised."
    )


def unpriced(unpriced: Unpriced, route: str) -> Refusal:
    return errors.Unpriced(
        f"A budget pays for this call, and '{route}' has no price in its currency"
        f" ({unpriced.currency}). Ask your operator to set one, or call another model.",
        param="model",
        why=unpriced,
    )


def slow_down(refused: Refused, route: str) -> Refusal:
    """The route or a deployment has no room for it, whoever asks."""
    wait = duration_text(errors.wait_milliseconds(refused.wait_seconds) / 1000)
    return errors.SlowDown(
        f"More is asked of '{route}' than it can do. Please slow down and try again in {wait}.",
        wait_seconds=refused.wait_seconds,
    )


def ratelimit_headers(levels: tuple[Level, ...], refused: Check | None = None) -> Headers:
    """Of requests and of tokens, each of the limit that refused the call, or is the tightest."""
    tightest: dict[Names, Level] = {}
    for level in levels:
        names = HEADERS.get(level.check.limit)
        if names is None:
            continue
        best = tightest.get(names)
        if (
            best is None
            or level.check == refused
            or best.check != refused
            and _is_tighter(level, best)
        ):
            tightest[names] = level
    headers: list[tuple[bytes, bytes]] = []
    for (limit, remaining, reset), level in tightest.items():
        headers.append((limit, b"%d" % level.check.units))
        headers.append((remaining, b"%d" % max(level.remaining, 0)))
        headers.append((reset, duration_text(level.reset_seconds).encode()))
    return tuple(headers)


def _is_tighter(level: Level, than: Level) -> bool:
    """Of one kind what has least left; input and output are compared by their shares."""
    one, other = level.remaining, than.remaining
    if level.check.limit == than.check.limit:
        return one < other
    return one * than.check.units < other * level.check.units


_PERSONS = {"u": "one end user of ", "a": "one client address of "}


def _scope(scope: str, identity: Identity) -> str:
    """`u:t:1:…` is one end user within tenant 1; who it is, is not known here."""
    person = _PERSONS.get(scope[0], "")
    kind, name = {
        "t": ("tenant", identity.tenant),
        "p": ("project", identity.project),
        "k": ("key", identity.key),
    }[scope[2 if person else 0]]
    return f"{person}{kind} '{name}'"
