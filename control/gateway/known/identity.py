"""Who calls: a key's digest, looked up in the snapshot, and the address that it may come from."""

import functools
import ipaddress
from typing import NamedTuple

from control.gateway import errors
from control.gateway.http1.request import Request
from control.models.sealing import digest_of
from control.routes.snapshot import Identities, Identity

_KEY_BYTES_MAX = 512
_FORWARDED_MAX = 32  # hops that are looked at
Networks = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]


class KeyRefused(NamedTuple):
    """For operators: callers are not told whether a key is unknown or only expired."""

    why: str
    key_id: int | None = None
    address: str = ""  # where that is why


class EndpointRefused(NamedTuple):
    endpoint: str
    allowed: tuple[str, ...]


def identify(request: Request, identities: Identities, at_seconds: float) -> Identity:
    """One answer for unknown, revoked and expired keys: which it is, is not for callers to learn.

    Times are epoch seconds. A key is never repeated in a message or a log.
    """
    digest = request.head.kept
    if digest is None:
        key = _key_of(request.headers)
        # Kept for as long as the client sends the same head; what it opens is looked up each time.
        digest = request.head.kept = digest_of(key) if len(key) <= _KEY_BYTES_MAX else ""
    identity = identities.keys.get(digest)
    expired = identity and identity.expires_at is not None and identity.expires_at <= at_seconds
    if identity is None or expired:
        why = KeyRefused("unknown or revoked")
        if expired:
            why = KeyRefused("expired", identity.key_id)
        raise errors.UnknownKey("The API key is not valid: unknown, revoked or expired.", why=why)
    if identity.networks and not is_within(request.address, identity.networks):
        why = KeyRefused("not from this address", identity.key_id, request.address)
        raise errors.AddressNotAllowed("The API key may not be used from this address.", why=why)
    return identity


def _key_of(headers: dict[bytes, bytes]) -> bytes:
    """OpenAI's clients send a bearer, Anthropic's `x-api-key`; both are good everywhere."""
    authorization = headers.get(b"authorization")
    if authorization is None:
        key = headers.get(b"x-api-key", b"").strip()
    else:
        scheme, _, key = authorization.strip().partition(b" ")
        key = key.strip() if scheme.lower() == b"bearer" else b""
    if not key:
        raise errors.NoKey(
            "You did not provide an API key. Send it in the header 'Authorization: Bearer KEY'."
        )
    return key


def judge_endpoint(identity: Identity, endpoint: str) -> None:
    if identity.endpoints is None:
        return
    if endpoint.removesuffix(".count_tokens") not in identity.endpoints:
        raise errors.PermissionDenied(
            f"The API key may not call '{endpoint}'. It may call:"
            f" {', '.join(identity.endpoints) or 'nothing'}.",
            why=EndpointRefused(endpoint, tuple(identity.endpoints)),
        )


def client_of(peer: str, forwarded: bytes | None, proxies: tuple[str, ...]) -> str:
    """The last address that is not a proxy of ours: what is before it, anybody may have written."""
    if not forwarded or not is_within(peer, proxies):
        return peer
    client = peer
    for hop in reversed(forwarded.split(b",")[-_FORWARDED_MAX:]):
        address = _address_of(hop.strip().decode("latin-1"))
        if address is None:
            return client
        client = address
        if not is_within(client, proxies):
            return client
    return client


def is_within(address: str, networks: tuple[str, ...]) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    found = getattr(found, "ipv4_mapped", None) or found
    return any(found in network for network in networks_of(networks))


@functools.lru_cache(4096)
def networks_of(named: tuple[str, ...]) -> Networks:
    """What cannot be read allows nobody; whoever stored it should have refused it."""
    networks = []
    for name in named:
        try:
            networks.append(ipaddress.ip_network(name, strict=False))
        except ValueError:
            continue
    return tuple(networks)


def _address_of(hop: str) -> str | None:
    """Proxies write an address, or one with a port, IPv6 then in brackets."""
    if hop.startswith("["):
        hop = hop[1:].partition("]")[0]
    elif hop.count(":") == 1:
        hop = hop.partition(":")[0]
    try:
        return str(ipaddress.ip_address(hop))
    except ValueError:
        return None
