"""Media in content parts: what a part may hold, and from which hosts an engine may fetch."""

import re
from typing import Any, NamedTuple

from control.gateway import errors
from control.gateway.bodies import checks

Link = tuple[str, str]  # the member's path, the URL

# Strict on purpose: what this does not understand, an engine's own reader may understand otherwise.
# No user, no IPv6 literal, no backslash, no blank, and a host only of letters, digits, - and dots.
_LINK = re.compile(
    r"https?://(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(?::\d{1,5})?"
    r"(?:[/?][!-\[\]-~]*)?",
    re.ASCII,
)
_DATA = re.compile(
    r"data:[a-zA-Z0-9.+-]{1,64}/[a-zA-Z0-9.+-]{1,64}(?:;[\w=.+-]{1,64}){0,4};base64,"
)
_SHOWN = 32  # characters of a URL that a message repeats


class HostNotAllowed(NamedTuple):
    """What its route allows is told beside it."""

    host: str
    allowed: tuple[str, ...]


def note(url: Any, param: str, links: list[Link]) -> None:
    """Judge the form of a URL; one of a host is kept, to be judged when the route is known."""
    checks.text(url, param)
    if url.startswith("data:"):
        if not _DATA.match(url):
            raise errors.InvalidValue(
                f"'{param}' must be 'data:TYPE/SUBTYPE;base64,…'.", param=param
            )
        return
    if not _LINK.fullmatch(url):
        raise errors.InvalidValue(
            f"'{param}' must be a data: URL, or an http(s) URL of a plain host name without user"
            f" information, not '{url[:_SHOWN]}'.",
            param=param,
        )
    links.append((param, url))


def judge(links: tuple[Link, ...], hosts: tuple[str, ...]) -> None:
    """Hosts are matched whole, or below a name with a leading dot. None named is none allowed."""
    for param, url in links:
        found = _LINK.fullmatch(url)
        host = found["host"].lower() if found else ""
        if not any(_matches(host, allowed.lower()) for allowed in hosts):
            raise errors.InvalidValue(
                f"'{param}' names the host '{host[:64]}', which is not allowed for this model."
                " Send the media itself as a data: URL.",
                param=param,
                why=HostNotAllowed(host[:64], hosts),
            )


def _matches(host: str, allowed: str) -> bool:
    if allowed.startswith("."):
        return host.endswith(allowed) and len(host) > len(allowed)
    return bool(host) and host == allowed
