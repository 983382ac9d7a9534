"""A price book as it is asked for: read from text, checked, and told as text again. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from control import checks
from control.checks import Problem
from control.metering.rules import currency_of, per_million_text, pico_per_token
from control.states import Interrupted, Priority

CLASSES = ("input", "cached_input", "output", "reasoning")
NEEDED = ("input", "output")
PRIORITIES = tuple(str(priority) for priority in Priority)
ROWS_MAX = 64  # of one version
FROM_TOKENS_MAX = 10**15
STEP = "0.01"  # of a price per million tokens
STEP_PICO = 10_000
REASON_CHARACTERS_MAX = 1000


@dataclass(frozen=True)
class RowWanted:
    """What a token of each class costs, for a priority (empty is every other), from a volume on."""

    input_pico: int
    cached_input_pico: int
    output_pico: int
    reasoning_pico: int | None = None
    priority: str = ""
    tier_from_tokens: int = 0

    @property
    def key(self) -> tuple[str, int]:
        return self.priority, self.tier_from_tokens

    @property
    def per_million(self) -> dict[str, str]:
        """As it was written; reasoning only if it has a price of its own."""
        picos = (self.input_pico, self.cached_input_pico, self.output_pico, self.reasoning_pico)
        pairs = zip(CLASSES, picos, strict=True)
        return {name: per_million_text(pico) for name, pico in pairs if pico is not None}


@dataclass(frozen=True)
class PriceWanted:
    """A version of a book that an operator asks for; made by `price_wanted`, which checks it."""

    model: str
    currency: str
    rows: tuple[RowWanted, ...]
    tenant: str = ""  # everyone without a book of their own
    interrupted: str = Interrupted.GENERATED
    step_pico: int = STEP_PICO
    valid_from: datetime | None = None  # now
    valid_until: datetime | None = None
    below_cost_reason: str = ""

    @property
    def name(self) -> str:
        return f"{self.model} for {self.tenant}" if self.tenant else self.model

    @property
    def subject(self) -> str:
        """Its name in a file, which may hold a version to come beside the one of today."""
        begins = self.valid_from
        return f"{self.name} from {begins.isoformat()}" if begins else self.name

    @property
    def content(self) -> tuple:
        """What makes two versions the same, whenever they begin and whatever was said of them."""
        return self.currency, self.rows, self.interrupted, self.step_pico, self.valid_until

    @property
    def flat(self) -> dict[str, str | None]:
        """Its fields as people write them, by name."""
        begins, ends = self.valid_from, self.valid_until
        named: dict[str, str | None] = {"currency": self.currency}
        for row in self.rows:
            of = "".join(f"[{part}]" for part in (row.priority, row.tier_from_tokens) if part)
            named |= {f"per_million{of}.{name}": text for name, text in row.per_million.items()}
        return named | {
            "interrupted": self.interrupted,
            "step": per_million_text(self.step_pico),
            "valid_from": begins and begins.isoformat(),
            "valid_until": ends and ends.isoformat(),
            "below_cost_reason": self.below_cost_reason or None,
        }


def price_wanted(
    model: str,
    currency: str,
    per_million: Mapping[str, object],
    *,
    further: Iterable[Mapping[str, object]] = (),
    terms: Mapping[str, object] | None = None,
) -> PriceWanted:
    """The short form, and `further` rows, each a mapping of priority, from_tokens, per_million.

    `terms` are tenant, interrupted, step, valid_from, valid_until, below_cost_reason.
    """
    rows = [row_wanted("", per_million)]
    for number, named in enumerate(further):
        rows.append(_further(f"rows[{number}]", named))
    given = dict(terms or {})
    until = given.get("valid_until")
    step_pico = pico_per_token("step", given.get("step") or STEP)
    wanted = PriceWanted(
        model=model,
        currency=currency_of(currency),
        rows=tuple(sorted(rows, key=lambda row: row.key)),
        tenant=str(given.get("tenant") or ""),
        interrupted=str(given.get("interrupted") or Interrupted.GENERATED),
        step_pico=step_pico,
        valid_from=given.get("valid_from"),
        valid_until=until,
        below_cost_reason=str(given.get("below_cost_reason") or "").strip(),
    )
    checks.require(problems(wanted))
    return wanted


def row_wanted(
    path: str, per_million: Mapping[str, object], priority: str = "", from_tokens: int = 0
) -> RowWanted:
    """Prices per million tokens: without a cached one the input's holds, so does the output's."""
    at = f"{path}.per_million".lstrip(".")
    for name in sorted(set(per_million) - set(CLASSES)):
        raise checks.refuse(f"{at}.{name}", f"is unknown: use {', '.join(CLASSES)}")
    for name in NEEDED:
        if per_million.get(name) is None:
            raise checks.refuse(f"{at}.{name}", "is missing: name a price, 0 is one")
    picos = {
        name: pico_per_token(f"{at}.{name}", value)
        for name, value in per_million.items()
        if value is not None
    }
    return RowWanted(
        input_pico=picos["input"],
        cached_input_pico=picos.get("cached_input", picos["input"]),
        output_pico=picos["output"],
        reasoning_pico=picos.get("reasoning"),
        priority=priority,
        tier_from_tokens=from_tokens,
    )


def _further(path: str, named: Mapping[str, object]) -> RowWanted:
    known = ("priority", "from_tokens", "per_million")
    for name in sorted(set(named) - set(known)):
        raise checks.refuse(f"{path}.{name}", f"is unknown: use {', '.join(known)}")
    priority, from_tokens = named.get("priority") or "", named.get("from_tokens") or 0
    per_million = named.get("per_million") or {}
    if not isinstance(per_million, Mapping):
        raise checks.refuse(f"{path}.per_million", 'is a mapping, as in {input: "0.10", …}')
    if isinstance(from_tokens, bool) or not isinstance(from_tokens, int):
        raise checks.refuse(f"{path}.from_tokens", "is a whole number of tokens")
    return row_wanted(path, per_million, str(priority), from_tokens)


def problems(wanted: PriceWanted) -> list[Problem]:
    found = []
    policies = [str(policy) for policy in Interrupted]
    if wanted.interrupted not in policies:
        found.append(Problem("interrupted", f"is one of {', '.join(policies)}"))
    if wanted.step_pico < 1:
        found.append(Problem("step", "is more than 0: proposed prices are multiples of it"))
    begins, until = wanted.valid_from, wanted.valid_until
    for name, instant in (("valid_from", begins), ("valid_until", until)):
        if instant and instant.tzinfo is None:
            found.append(Problem(name, "has no zone: end it with Z, or with +08:00 as in Shanghai"))
    if found:
        return found
    if until and begins and until <= begins:
        found.append(Problem("valid_until", "is after valid_from, or left out"))
    if len(wanted.below_cost_reason) > REASON_CHARACTERS_MAX:
        what = f"is longer than {REASON_CHARACTERS_MAX} characters"
        found.append(Problem("below_cost_reason", what))
    return found + _row_problems(wanted.rows)


def _row_problems(rows: tuple[RowWanted, ...]) -> list[Problem]:
    if len(rows) > ROWS_MAX:
        return [Problem("rows", f"are more than {ROWS_MAX}")]
    found, keys = [], set()
    for row in rows:
        if row.priority and row.priority not in PRIORITIES:
            found.append(Problem("rows", f"{row.priority!r} is none of {', '.join(PRIORITIES)}"))
        if not 0 <= row.tier_from_tokens <= FROM_TOKENS_MAX:
            found.append(Problem("rows", f"from_tokens is between 0 and {FROM_TOKENS_MAX}"))
        if row.key in keys:
            found.append(Problem("rows", f"two are of {_told(row)}"))
        keys.add(row.key)
    for priority in sorted({row.priority for row in rows}):
        if (priority, 0) not in keys:
            what = f"{priority} has tiers but no price from 0 tokens on: name that too"
            found.append(Problem("rows", what))
    return found


def _told(row: RowWanted) -> str:
    return f"{row.priority or 'every other priority'} from {row.tier_from_tokens} tokens on"
