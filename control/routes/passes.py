"""A pass: the gateway tells `web` which key asks, so that nobody else can say so."""

import hashlib
import hmac

from control.models.sealing import derived

HEADER = "x-weir-pass"
SECONDS_MAX = 30  # between the gateway's clock and that of web, and for the way
_PURPOSE = "passes"


def pass_of(key_id: int, method: str, target: bytes, at: float) -> str:
    """Good for this key, this request and this moment."""
    said = f"{key_id}.{int(at)}"
    return f"{said}.{_signed(said, method, target)}"


def key_of(given: str, method: str, target: bytes, at: float) -> int | None:
    """The key's id, or None: nobody who knows WEIR_SECRET said so, lately and of this."""
    key_id, _, rest = given.partition(".")
    second, _, mac = rest.partition(".")
    if not (key_id.isdecimal() and second.isdecimal() and len(given) < 128 and given.isascii()):
        return None
    if not hmac.compare_digest(mac, _signed(f"{key_id}.{second}", method, target)):
        return None
    return int(key_id) if abs(at - int(second)) <= SECONDS_MAX else None


def _signed(said: str, method: str, target: bytes) -> str:
    text = f"{said}.{method} ".encode() + target
    return hmac.new(derived(_PURPOSE).encode(), text, hashlib.sha256).hexdigest()
