"""Hears a cloud's notice that it takes this host back, and says so for the node."""

import logging
from datetime import datetime
from pathlib import Path

import httpx
from django.conf import settings

from control.checks import Refused
from control.fleet.nodes import actions, notice

WAIT_SECONDS = 2.0
BYTES_MAX = 64 * 1024

log = logging.getLogger(__name__)


def hear(node: str, *, by: str, at: datetime) -> bool:
    """True if the host goes. Heard again, it changes nothing."""
    source = settings.WEIR_LEAVING_NOTICE
    text = _asked(source) if source.startswith(("http://", "https://")) else _written(Path(source))
    told = notice.read(text, node) if text is not None else None
    if told is None:
        return False
    try:
        _say(node, told, by=by, at=at)
    except Refused as refused:
        log.warning("a notice that this host leaves cannot be written down: %s", refused)
    return True


def _say(node: str, told: notice.Leaves, *, by: str, at: datetime) -> None:
    reason = "notice of the host's owner"
    if told.at is not None:
        actions.leave_by(node, told.at, by=by, reason=reason, at=at)
    elif not actions.is_leaving(node):
        actions.leave(node, settings.WEIR_LEAVING_SECONDS, by=by, reason=reason, at=at)


def _written(path: Path) -> str | None:
    """None without the file: nobody has said anything."""
    try:
        with path.open("rb") as file:
            return file.read(BYTES_MAX).decode(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        log.warning("WEIR_LEAVING_NOTICE cannot be read: %s", error)
        return None


def _asked(url: str) -> str | None:
    """None for 404 and whatever else is no answer: clouds say so while a host stays."""
    name, _, value = settings.WEIR_LEAVING_HEADER.partition(":")
    headers = {name.strip(): value.strip()} if value else {}
    try:
        with httpx.stream(
            "GET", url, headers=headers, timeout=WAIT_SECONDS, trust_env=False
        ) as answer:
            if answer.status_code != httpx.codes.OK:
                return None
            body = b""
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > BYTES_MAX:
                    return None
            return body.decode(errors="replace")
    except httpx.HTTPError as error:
        log.info("WEIR_LEAVING_NOTICE does not answer: %s", error)
        return None
