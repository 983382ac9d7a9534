"""Values → the words a page shows: bytes, counts, money, durations, states."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal

from django.template import Library

register = Library()

NOTHING = "–"
GIB = 2**30
MIB = 2**20


@register.filter
def memory(value: int | None) -> str:
    """Bytes in GiB, or MiB when they are few."""
    if value is None:
        return NOTHING
    return f"{value / GIB:.1f} GiB" if value >= GIB else f"{value / MIB:.0f} MiB"


@register.filter
def count(value: int | None) -> str:
    """12,345 in full; from ten million on 12.3 M."""
    if value is None:
        return NOTHING
    if abs(value) >= 10**9:
        return f"{value / 10**9:.2f} G"
    if abs(value) >= 10**7:
        return f"{value / 10**6:.1f} M"
    return f"{value:,}"


@register.filter
def signed(value: int) -> str:
    """What is too much or too little, in full."""
    return f"{value:+,}" if value else "0"


@register.filter
def of(key: str, values: Mapping[str, float]) -> float | None:
    """What a mapping says of a key: {{ device.uuid|of:utilisation }}."""
    return values.get(key)


@register.filter
def percent(value: float | None) -> str:
    """A ratio, as a rule from 0 to 1; a margin may lie far below."""
    if value is None:
        return NOTHING
    return f"{value * 100:.1f} %" if value > -9.995 else "below −999 %"


@register.filter
def percents(value: str | None) -> str:
    """The same of a decimal in percents."""
    return NOTHING if value is None else percent(float(value) / 100)


@register.filter
def share(part: float | None, whole: float | None) -> int:
    """Whole percents of a bar, never outside it."""
    if not part or not whole:
        return 0
    return max(0, min(100, round(100 * part / whole)))


@register.filter
def money(value: Decimal | str | None) -> str:
    """Two decimals, more only where two would show nothing."""
    if value is None:
        return NOTHING
    shown = Decimal(value)
    if shown == 0 or abs(shown) >= Decimal("0.1"):
        return f"{shown:,.2f}"
    return f"{shown:.6f}".rstrip("0").ljust(4, "0")


@register.filter
def moment(value: datetime | None) -> str:
    return NOTHING if value is None else f"{value:%Y-%m-%d %H:%M:%S}"


@register.filter
def ago(value: datetime | None, now: datetime) -> str:
    """How long before `now`, in steps that keep a live part still: <10 s, 20 s, 12 min, 3 h."""
    if value is None:
        return NOTHING
    seconds = (now - value).total_seconds()
    if seconds < 90:
        return "<10 s" if seconds < 10 else f"{seconds // 10 * 10:.0f} s"
    return duration(seconds)


@register.filter
def seconds(value: float | None) -> str:
    """Of a call: 84 ms, 1.25 s."""
    if value is None:
        return NOTHING
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


@register.filter
def hours(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds / 3600:,.2f} h"


@register.filter
def duration(seconds: float | timedelta | None) -> str:
    if seconds is None:
        return NOTHING
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    if seconds < 90:
        return f"{max(0, seconds):.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} d"


@register.filter
def quoted(value: str) -> str:
    """As one would write it in a service.yaml, so that line breaks and spaces are seen."""
    return json.dumps(value, ensure_ascii=False)


@register.filter
def spaced(value: str) -> str:
    """A field's name as words: requests_per_minute → requests per minute."""
    return str(value).replace("_", " ")
