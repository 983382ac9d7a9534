"""How a message is signed for the URL that it goes to, and how often that is tried (pure)."""

import base64
import hashlib
import hmac
from datetime import datetime, timedelta

RETRY_AFTER = tuple(timedelta(seconds=each) for each in (10, 60, 300, 1800, 7200))
TRIES_MAX = len(RETRY_AFTER) + 1


def retry_at(tries: int, at: datetime) -> datetime | None:
    """None: it was tried often enough."""
    return at + RETRY_AFTER[tries - 1] if tries < TRIES_MAX else None


def signed(body: bytes, id_: str, at: datetime, *secrets: bytes) -> dict[str, str]:
    """Headers as standardwebhooks.com has them: HMAC-SHA256 over id, second and body.

    One signature a secret, the newest first: a receiver takes a message that one of them fits.
    """
    second = str(int(at.timestamp()))
    told = f"{id_}.{second}.".encode() + body
    macs = [hmac.new(secret, told, hashlib.sha256).digest() for secret in secrets]
    return {
        "content-type": "application/json",
        "webhook-id": id_,
        "webhook-timestamp": second,
        "webhook-signature": " ".join(f"v1,{base64.b64encode(mac).decode()}" for mac in macs),
    }


def secret_text(secret: bytes) -> str:
    """As receivers enter it."""
    return "whsec_" + base64.b64encode(secret).decode()
