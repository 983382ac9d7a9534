"""Secrets at rest: digests of tenants' keys, and encryption of what must be read back."""

import base64
import functools
import hashlib
import hmac

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

UNSEALED_KEPT_MAX = 256


def digest_of(secret: str | bytes) -> str:
    """HMAC-SHA256 under WEIR_SECRET, hex: what is stored of a tenant's key."""
    data = secret.encode() if isinstance(secret, str) else secret
    keyed = _keyed(settings.WEIR_SECRET).copy()
    keyed.update(data)
    return keyed.hexdigest()


def derived(purpose: str) -> str:
    """A secret of our own for one purpose: known wherever WEIR_SECRET is, stored nowhere."""
    return f"weir-{purpose}-{digest_of('derived:' + purpose)[:40]}"


@functools.cache
def _keyed(secret: bytes) -> hmac.HMAC:
    """The key is hashed in once: each gateway call digests a key."""
    return hmac.new(secret, digestmod="sha256")


@functools.cache
def _fernet(secret: bytes) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(b"fernet:" + secret).digest()))


def seal(text: str) -> bytes:
    return _fernet(settings.WEIR_SECRET).encrypt(text.encode())


def unseal(sealed: bytes | memoryview | str) -> str:
    """Raises InvalidToken for what was sealed under another WEIR_SECRET."""
    data = sealed.encode() if isinstance(sealed, str) else bytes(sealed)
    return _unsealed(settings.WEIR_SECRET, data)


@functools.lru_cache(UNSEALED_KEPT_MAX)
def _unsealed(secret: bytes, data: bytes) -> str:
    """A node asks each of its engines twice a second, with its key."""
    return _fernet(secret).decrypt(data).decode()


def opened(sealed: bytes | memoryview | None) -> str | None:
    """What was sealed, or None: there is nothing, or WEIR_SECRET has changed since."""
    try:
        return unseal(sealed) if sealed else None
    except InvalidToken:
        return None
