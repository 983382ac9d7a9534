"""Closed calls as rows of usage events, in the binary form that PostgreSQL's COPY reads."""

import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime
from operator import attrgetter
from struct import Struct
from typing import NamedTuple

from control.metering.months import month_of
from control.metering.prices.rules import Charge
from control.metering.rules import Tokens
from control.metering.spool import Close

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
MICROSECONDS = 10**6
_BEGIN = Struct(">h").pack(len(COLUMNS))
_NULL = b"\xff\xff\xff\xff"
_EPOCH_2000 = datetime(2000, 1, 1, tzinfo=UTC)
_OFFSET = int(_EPOCH_2000.timestamp()) * MICROSECONDS
_DAY_2000 = _EPOCH_2000.toordinal()
_INSTANT_MAX = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp()) * MICROSECONDS
_length = Struct(">i").pack
_eight = Struct(">iq").pack
_two = Struct(">ih").pack
_flag = Struct(">i?").pack
_HASH = _length(64)
_counts = Struct(">" + "iq" * 11 + "ii").pack
_DIGITS_MAX = 10  # of NUMERIC(38, 0), in base 10,000
_decimals = [Struct(">ihhHh" + "h" * count).pack for count in range(_DIGITS_MAX + 1)]
_as_told = attrgetter(*AS_TOLD)


class Made(NamedTuple):
    """One call as it will be stored, and its row."""

    close: Close
    tokens: Tokens
    charged: Charge
    held_pico: int  # by its gateway, for it
    started_at: datetime
    started_us: int
    first_us: int | None
    ended_us: int
    row: bytes


Priced = tuple[Close, Tokens, Charge, int, datetime]  # as Made begins


class Maker:
    """Rows of one batch. Raises ValueError for a call that no table takes."""

    def __init__(self, batch: int, at: datetime) -> None:
        self._of_batch = b"".join(
            (_text(KIND), _text(""), _eight(8, batch), _instant(microseconds(at.timestamp())))
        )
        self._alike: dict[tuple, bytes] = {}
        self._of_prices: dict[tuple, bytes] = {}
        self.months: set[date] = set()

    def make(self, priced: Priced, content_hash: str) -> Made:
        close, tokens, charged, _, _ = priced
        started, ended = microseconds(close.started_at), microseconds(close.ended_at)
        first = None if close.first_token_at is None else microseconds(close.first_token_at)
        call_id = close.call_id
        month = month_of(call_id)
        self.months.add(month)
        told, price = _as_told(close), charged[1:3]
        alike, of_price = self._alike.get(told), self._of_prices.get(price)
        try:
            row = b"".join(
                (
                    alike or self._told(told),
                    of_price or self._price(price),
                    _counts(  # each with its length in bytes
                        *(8, tokens[0], 8, tokens[1], 8, tokens[2], 8, tokens[3], 8, tokens[4]),
                        *(8, charged[4], 8, charged[5], 8, charged[6], 8, charged[7]),
                        *(8, started - _OFFSET, 8, ended - _OFFSET),
                        *(4, month.toordinal() - _DAY_2000),
                    ),
                    _NULL if first is None else _eight(8, first - _OFFSET),
                    decimal(charged[0]),
                    _text(call_id),
                    _HASH,
                    content_hash.encode(),
                )
            )
        except struct.error as error:
            raise ValueError(f"a number is out of range: {error}") from error
        return Made(*priced, started, first, ended, row)

    def _told(self, told: tuple) -> bytes:
        tenant, project, key, route, version, replica, endpoint, stream, *rest = told
        priority, attempts, outcome, status, finish_reason, source = rest
        encoded = self._alike[told] = b"".join(
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
        return encoded

    def _price(self, price: tuple[str, int | None]) -> bytes:
        currency, price_id = price
        id_ = _NULL if price_id is None else _eight(8, price_id)
        encoded = self._of_prices[price] = id_ + _text(currency)
        return encoded


def copied(made: Sequence[Made]) -> bytes:
    return b"".join((HEAD, *[one.row for one in made], TAIL))


def microseconds(epoch_seconds: float) -> int:
    """As datetime has them; an instant that it does not know is refused."""
    whole = int(epoch_seconds)
    instant = whole * 1_000_000 + round((epoch_seconds - whole) * 1_000_000)
    if not 0 <= instant < _INSTANT_MAX:
        raise ValueError(f"{epoch_seconds!r} is no instant after 1970")
    return instant


def decimal(number: int) -> bytes:
    """A whole NUMERIC: a sign and digits of base 10,000, the first one first."""
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


def _instant(epoch_microseconds: int) -> bytes:
    return _eight(8, epoch_microseconds - _OFFSET)
