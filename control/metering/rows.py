"""Closed calls as rows of usage events, in the binary form that PostgreSQL's COPY reads."""

import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime
from operator import attrgetter
from struct import Struct
from typing import NamedTuple

from control.metering.instants import microseconds, microseconds_of
from control.metering.months import month_of
from control.metering.prices.rules import Charge
from control.metering.records import Close
from control.metering.rules import Tokens

KIND = "final"
AS_TOLD = (  # the same for many calls, hence encoded once
    *("tenant_id", "project_id", "key_id", "route", "version_id", "replica_id", "endpoint"),
    *("stream", "priority", "attempts", "outcome", "status", "finish_reason", "tokens_source"),
)
COLUMNS = (
    *AS_TOLD,
    *("kind", "corrects", "batch", "ingested_at", "price_id", "currency"),
    *("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens"),
    *("delivered_tokens", "billed_input", "billed_cached_input", "billed_output"),
    *("billed_reasoning", "started_at", "ended_at", "month"),
    *("first_token_at", "amount_pico", "call_id", "content_hash"),
)
HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TAIL = b"\xff\xff"
_BEGIN = Struct(">h").pack(len(COLUMNS))
_NULL = b"\xff\xff\xff\xff"
_EPOCH_2000 = datetime(2000, 1, 1, tzinfo=UTC)
_OFFSET = microseconds_of(_EPOCH_2000)
_DAY_2000 = _EPOCH_2000.toordinal()
_length = Struct(">i").pack
_eight = Struct(">iq").pack
_two = Struct(">ih").pack
_flag = Struct(">i?").pack
_HASH = _length(64)
_counts = Struct(">" + "iq" * 11 + "ii").pack
_DIGITS_MAX = 10  # of NUMERIC(38, 0), in base 10,000
_decimals = [Struct(">ihhHh" + "h" * count).pack for count in range(_DIGITS_MAX + 1)]
_THREE_DIGITS, _FIVE_DIGITS = 10_000**3, 10_000**5
_as_told = attrgetter(*AS_TOLD)


class Alike:
    """Calls that tell the same, but for numbers: how their rows begin."""

    __slots__ = ("begins", "of_price")

    def __init__(self, begins: bytes) -> None:
        self.begins = begins
        self.of_price: dict[int | None, bytes] = {}


class Made(NamedTuple):
    """One call as it will be stored, and its row."""

    close: Close
    tokens: Tokens
    charged: Charge
    held_pico: int  # by its gateway, for it
    content_hash: str
    alike: Alike
    started_us: int
    first_us: int  # 0: none came
    ended_us: int
    row: bytes


class Maker:
    """Rows of one batch. Raises ValueError for a call that no table takes."""

    def __init__(self, batch: int, at: datetime) -> None:
        ingested = _eight(8, microseconds_of(at) - _OFFSET)
        self._of_batch = b"".join((_text(KIND), _text(""), _eight(8, batch), ingested))
        self._alike: dict[tuple, Alike] = {}
        self.months: set[date] = set()

    def make(
        self,
        ends: Sequence[tuple[Close, str]],
        tokens: Sequence[Tokens],
        priced: Sequence[tuple[Charge, int]],
        started: Sequence[int],
    ) -> list[Made]:
        """`ends` with the hashes of what they say, `started` in microseconds."""
        ended = microseconds([close.ended_at for close, _ in ends])
        first = microseconds([close.first_token_at or 0.0 for close, _ in ends])
        try:
            return [*map(self._made, ends, tokens, priced, started, first, ended)]
        except struct.error as error:
            raise ValueError(f"a number is out of range: {error}") from error

    def _made(self, end, tokens: Tokens, priced, started: int, first: int, ended: int) -> Made:
        (close, hash_), (charged, held_pico), call_id = end, priced, end[0].call_id
        read, cached, written, reasoning, delivered = tokens
        amount, _, price_id, _, fresh, cached_, output, reasoned = charged
        month = month_of(call_id)
        self.months.add(month)
        told = _as_told(close)
        alike = self._alike.get(told) or self._told(told)
        counts = _counts(  # each with its length in bytes
            *(8, read, 8, cached, 8, written, 8, reasoning, 8, delivered),
            *(8, fresh, 8, cached_, 8, output, 8, reasoned),
            *(8, started - _OFFSET, 8, ended - _OFFSET, 4, month.toordinal() - _DAY_2000),
        )
        begins = alike.of_price.get(price_id) or _priced(alike, charged)
        first_ = _eight(8, first - _OFFSET) if first else _NULL
        row = b"".join(
            (begins, counts, first_, decimal(amount), _text(call_id), _HASH, hash_.encode())
        )
        return Made(close, tokens, charged, held_pico, hash_, alike, started, first, ended, row)

    def _told(self, told: tuple) -> Alike:
        tenant, project, key, route, version, replica, endpoint, stream, *rest = told
        priority, attempts, outcome, status, finish_reason, source = rest
        begins = b"".join(
            (
                _BEGIN,
                *(_eight(8, id_) for id_ in (tenant, project, key)),
                _text(route),
                *(_NULL if id_ is None else _eight(8, id_) for id_ in (version, replica)),
                _text(endpoint),
                _flag(1, stream),
                _text(priority),
                _two(2, attempts),
                _text(outcome),
                _two(2, status),
                _text(finish_reason),
                _text(source),
                self._of_batch,
            )
        )
        alike = self._alike[told] = Alike(begins)
        return alike


def _priced(alike: Alike, charged: Charge) -> bytes:
    price_id = charged.price_id
    id_ = _NULL if price_id is None else _eight(8, price_id)
    begins = alike.of_price[price_id] = alike.begins + id_ + _text(charged.currency)
    return begins


def copied(made: Sequence[Made]) -> bytes:
    return b"".join((HEAD, *[one.row for one in made], TAIL))


def decimal(number: int) -> bytes:
    """A whole NUMERIC: a sign and digits of base 10,000, the first one first."""
    if 0 <= number < _FIVE_DIGITS:  # nearly all; of zeroes before and behind it thinks nothing
        high, low = divmod(number, _THREE_DIGITS)
        return _decimals[5](
            *(18, 5, 4, 0, 0, high // 10_000, high % 10_000),
            *(low // 100_000_000, low // 10_000 % 10_000, low % 10_000),
        )
    sign, left = (0x4000, -number) if number < 0 else (0, number)
    digits = []
    while left:
        left, digit = divmod(left, 10_000)
        digits.append(digit)
    count = len(digits)
    if count > _DIGITS_MAX:
        raise ValueError(f"{number} has more digits than the table takes")
    return _decimals[count](8 + 2 * count, count, max(count - 1, 0), sign, 0, *digits[::-1])


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _length(len(encoded)) + encoded
