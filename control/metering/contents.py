"""What makes two reports of a call the same: a hash of all that its usage event is made of."""

import hashlib
from operator import attrgetter

import msgspec

from control.metering.records import Close
from control.states import Outcome

UNHASHED = Close.__struct_fields__[-len(Close.__struct_defaults__) :]
_AS_DEFAULT = dict(zip(UNHASHED, Close.__struct_defaults__, strict=True))
_unhashed = attrgetter(*UNHASHED)
_LAST_HASHED = b'"ended_at":'
_encode = msgspec.json.Encoder().encode


def content_hash(close: Close) -> str:
    """When a lost call ended is only our guess."""
    if close.outcome == Outcome.LOST:
        close = msgspec.structs.replace(close, ended_at=close.started_at)
    if _unhashed(close) != Close.__struct_defaults__:
        # An older release does not know them, and may store what a newer one has written.
        close = msgspec.structs.replace(close, **_AS_DEFAULT)
    return hashlib.sha256(_encode(close)).hexdigest()


def hashes_of_lines(lines: list[bytes], closes: list[Close]) -> tuple[list[str], list[Close]]:
    """The same of ends as `line_of` has written them, without writing them again.

    Beside them the ends that say more than is hashed: nothing else asks about the others.
    """
    hashes, rich = [], []
    for line, close in zip(lines, closes, strict=True):
        more = line.find(b",", line.find(_LAST_HASHED))
        if more >= 0:
            rich.append(close)
        if close.outcome == "lost":
            hashes.append(content_hash(close))
        else:
            hashed = line[:-1] if more < 0 else line[:more] + b"}"
            hashes.append(hashlib.sha256(hashed).hexdigest())
    return hashes, rich
