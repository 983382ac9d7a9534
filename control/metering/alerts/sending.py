"""Alerts to tenants' URLs: each try written down before it is made, bounded in number and time."""

import asyncio
import logging
from datetime import datetime, timedelta
from typing import NamedTuple

import httpx
from django.db import transaction
from django.db.models import F

from control.metering.alerts import facts, rules
from control.models import BudgetAlert
from control.states import Delivery

SECONDS_MAX = 5.0  # of one try, whatever the host does meanwhile
AT_ONCE = 16
SENDER_IS_DEAD_AFTER = timedelta(seconds=60)
ANSWER_CHARACTERS_MAX = 200

log = logging.getLogger(__name__)


class Letter(NamedTuple):
    id: int
    url: str
    tries: int
    headers: dict[str, str]
    body: bytes


def send(at: datetime) -> int:
    """All that are due, `AT_ONCE` at most; how many were tried.

    Who is killed while it sends leaves `sending` behind: it may have arrived, so it is not sent
    again and shown as unknown. A try that was refused, or had no answer in time, is made again
    under the same id.
    """
    _give_up_on_the_dead(at)
    letters = _claim(at)
    answers = asyncio.run(_post_all(letters)) if letters else []
    for letter, answer in zip(letters, answers, strict=True):
        _settle(letter, answer, at)
    return len(letters)


def _give_up_on_the_dead(at: datetime) -> None:
    dead = BudgetAlert.objects.filter(delivery=Delivery.SENDING, try_at__lte=at)
    dead.update(delivery=Delivery.UNKNOWN, answer="its sender died while it was sent")


def _claim(at: datetime) -> list[Letter]:
    with transaction.atomic():
        due = BudgetAlert.objects.filter(delivery=Delivery.WAITING, try_at__lte=at)
        locked = due.select_for_update(skip_locked=True, of=("self",)).select_related("tenant")
        rows = list(locked.order_by("try_at", "pk")[:AT_ONCE])
        BudgetAlert.objects.filter(pk__in=[row.pk for row in rows]).update(
            delivery=Delivery.SENDING, tries=F("tries") + 1, try_at=at + SENDER_IS_DEAD_AFTER
        )
    return [_letter(row, at) for row in rows]


def _letter(row: BudgetAlert, at: datetime) -> Letter:
    alert = facts.alert_of(row)
    body = rules.message(alert)
    secret = facts.secret_of(row.tenant_id)
    headers = rules.signed(body, rules.message_id(alert), at, secret)
    return Letter(row.pk, row.url, row.tries + 1, headers, body)


async def _post_all(letters: list[Letter]) -> list[str]:
    """ "" for each that was taken, else what was wrong."""
    # Neither a proxy of the environment nor a redirect leads elsewhere than operators said.
    async with httpx.AsyncClient(timeout=SECONDS_MAX, trust_env=False) as client:
        return await asyncio.gather(*(_post(client, letter) for letter in letters))


async def _post(client: httpx.AsyncClient, letter: Letter) -> str:
    try:
        async with asyncio.timeout(SECONDS_MAX):
            request = client.build_request(
                "POST", letter.url, headers=letter.headers, content=letter.body
            )
            answer = await client.send(request, stream=True)  # its body is nobody's business
            await answer.aclose()
    except TimeoutError:
        return f"no answer within {SECONDS_MAX:g} s"
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return "" if answer.is_success else f"status {answer.status_code}"


def _settle(letter: Letter, answer: str, at: datetime) -> None:
    again = rules.retry_at(letter.tries, at)
    if not answer:
        outcome = {"delivery": Delivery.DELIVERED, "try_at": None}
    elif again:
        outcome = {"delivery": Delivery.WAITING, "try_at": again}
    else:
        outcome = {"delivery": Delivery.FAILED, "try_at": None}
        log.error("alert %s cannot be delivered: %s", letter.id, answer)
    row = BudgetAlert.objects.filter(pk=letter.id, delivery=Delivery.SENDING)
    row.update(answer=answer[:ANSWER_CHARACTERS_MAX], **outcome)
