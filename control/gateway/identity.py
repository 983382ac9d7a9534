"""Who calls: a key's digest, looked up in the snapshot."""

from control.gateway import errors
from control.models.sealing import digest_of
from control.routes.snapshot import Identities, Identity

_KEY_BYTES_MAX = 512


def identify(authorization: bytes | None, identities: Identities, at_seconds: float) -> Identity:
    """One answer for unknown, revoked and expired keys: which it is, is not for callers to learn.

    Times are epoch seconds. A key is never repeated in a message or a log.
    """
    scheme, _, key = (authorization or b"").strip().partition(b" ")
    key = key.strip()
    if scheme.lower() != b"bearer" or not key:
        raise errors.NoKey(
            "You did not provide an API key. Send it in the header 'Authorization: Bearer KEY'."
        )
    identity = identities.keys.get(digest_of(key)) if len(key) <= _KEY_BYTES_MAX else None
    expired = identity and identity.expires_at is not None and identity.expires_at <= at_seconds
    if identity is None or expired:
        raise errors.UnknownKey("The API key is not valid: unknown, revoked or expired.")
    return identity
