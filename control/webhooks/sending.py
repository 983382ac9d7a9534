"""Messages to URLs: each try written down before it is made, bounded in number and time."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

import httpx
from django.db import transaction
from django.db.models import F

from control.models import Letter
from control.states import Delivery
from control.webhooks import rules

SECONDS_MAX = 5.0  # of one try, whatever the host does meanwhile
AT_ONCE = 16  # of each kind
SENDER_IS_DEAD_AFTER = timedelta(seconds=60)
ANSWER_CHARACTERS_MAX = 200

log = logging.getLogger(__name__)


class Message(NamedTuple):
    """What is sent: the same id and bytes at each try."""

    id: str
    body: bytes
    secrets: tuple[bytes, ...]  # the newest first; two while one is rotated


class Box(NamedTuple):
    """Letters of one kind: the rows that wait, with what their words are made of."""

    rows: type[Letter]
    with_: str  # the tie that `words` follows
    words: Callable[[Letter, datetime], Message]


class Envelope(NamedTuple):
    rows: type[Letter]
    id: int
    name: str
    url: str
    tries: int
    headers: dict[str, str]
    body: bytes


def send(boxes: Iterable[Box], at: datetime) -> int:
    """All that are due, `AT_ONCE` of a kind at most; how many were tried.

    A process that is killed while it sends leaves `sending` behind: it may have arrived, so it is
    not sent again and shown as unknown. A try that was refused, or had no answer in time, is made
    again under the same id.
    """
    envelopes: list[Envelope] = []
    for box in boxes:
        _give_up_on_the_dead(box, at)
        envelopes += _claim(box, at)
    answers = asyncio.run(_post_all(envelopes)) if envelopes else []
    for envelope, answer in zip(envelopes, answers, strict=True):
        _settle(envelope, answer, at)
    return len(envelopes)


def _give_up_on_the_dead(box: Box, at: datetime) -> None:
    dead = box.rows.objects.filter(delivery=Delivery.SENDING, try_at__lte=at)
    dead.update(delivery=Delivery.UNKNOWN, answer="its sender died while it was sent")


def _claim(box: Box, at: datetime) -> list[Envelope]:
    with transaction.atomic():
        due = box.rows.objects.filter(delivery=Delivery.WAITING, try_at__lte=at)
        locked = due.select_for_update(skip_locked=True, of=("self",)).select_related(box.with_)
        rows = list(locked.order_by("try_at", "pk")[:AT_ONCE])
        box.rows.objects.filter(pk__in=[row.pk for row in rows]).update(
            delivery=Delivery.SENDING, tries=F("tries") + 1, try_at=at + SENDER_IS_DEAD_AFTER
        )
    return [_envelope(box, row, at) for row in rows]


def _envelope(box: Box, row: Letter, at: datetime) -> Envelope:
    message = box.words(row, at)
    headers = rules.signed(message.body, message.id, at, *message.secrets)
    return Envelope(box.rows, row.pk, message.id, row.url, row.tries + 1, headers, message.body)


async def _post_all(envelopes: list[Envelope]) -> list[str]:
    """ "" for each that was taken, else what was wrong."""
    # Neither a proxy of the environment nor a redirect leads elsewhere than operators said.
    async with httpx.AsyncClient(timeout=SECONDS_MAX, trust_env=False) as client:
        return await asyncio.gather(*(_post(client, envelope) for envelope in envelopes))


async def _post(client: httpx.AsyncClient, envelope: Envelope) -> str:
    try:
        async with asyncio.timeout(SECONDS_MAX):
            request = client.build_request(
                "POST", envelope.url, headers=envelope.headers, content=envelope.body
            )
            answer = await client.send(request, stream=True)  # its body is nobody's business
            await answer.aclose()
    except TimeoutError:
        return f"no answer within {SECONDS_MAX:g} s"
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return "" if answer.is_success else f"status {answer.status_code}"


def _settle(envelope: Envelope, answer: str, at: datetime) -> None:
    again = rules.retry_at(envelope.tries, at)
    if not answer:
        outcome = {"delivery": Delivery.DELIVERED, "try_at": None}
    elif again:
        outcome = {"delivery": Delivery.WAITING, "try_at": again}
    else:
        outcome = {"delivery": Delivery.FAILED, "try_at": None}
        log.error("message %s cannot be delivered: %s", envelope.name, answer)
    row = envelope.rows.objects.filter(pk=envelope.id, delivery=Delivery.SENDING)
    row.update(answer=answer[:ANSWER_CHARACTERS_MAX], **outcome)
