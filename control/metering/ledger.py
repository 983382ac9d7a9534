"""Movements of money: postings that sum to zero, each transfer once, never changed."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction

from control.states import LedgerAccount


class Unbalanced(Exception):
    """The postings of a transfer do not sum to zero in each currency."""


@dataclass(frozen=True)
class PostingWanted:
    tenant_id: int
    account: str
    currency: str
    amount_pico: int


@dataclass(frozen=True)
class TransferWanted:
    """Known by its key: posting it twice posts it once."""

    idempotency_key: str
    reason: str
    at: datetime
    postings: tuple[PostingWanted, ...]


def usage_transfer(
    batch: int, tenant_id: int, currency: str, amount_pico: int, at: datetime
) -> TransferWanted:
    """The tenant owes what its calls of one batch cost."""
    return TransferWanted(
        idempotency_key=f"usage:{batch}:{tenant_id}:{currency}",
        reason="usage",
        at=at,
        postings=(
            PostingWanted(tenant_id, LedgerAccount.RECEIVABLE, currency, amount_pico),
            PostingWanted(tenant_id, LedgerAccount.REVENUE, currency, -amount_pico),
        ),
    )


def post(transfers: Sequence[TransferWanted]) -> int:
    """Post what is not posted yet, in one transaction; returns how many that were."""
    for transfer in transfers:
        _check(transfer)
    if not transfers:
        return 0
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO control_transfer (idempotency_key, reason, at)"
            " SELECT * FROM unnest(%s::text[], %s::text[], %s::timestamptz[])"
            " ON CONFLICT (idempotency_key) DO NOTHING RETURNING idempotency_key, id",
            [
                [transfer.idempotency_key for transfer in transfers],
                [transfer.reason for transfer in transfers],
                [transfer.at for transfer in transfers],
            ],
        )
        new = dict(cursor.fetchall())
        rows = [
            (new[transfer.idempotency_key], posting)
            for transfer in {wanted.idempotency_key: wanted for wanted in transfers}.values()
            if transfer.idempotency_key in new
            for posting in transfer.postings
        ]
        cursor.execute(
            "INSERT INTO control_posting (transfer_id, tenant_id, account, currency, amount_pico)"
            " SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[],"
            " %s::numeric[])",
            [
                [transfer_id for transfer_id, _ in rows],
                [posting.tenant_id for _, posting in rows],
                [posting.account for _, posting in rows],
                [posting.currency for _, posting in rows],
                [posting.amount_pico for _, posting in rows],
            ],
        )
    return len(new)


def balances(tenant_id: int | None = None) -> dict[tuple[str, str], int]:
    """(account, currency) -> pico-units, of one tenant or of all."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT account, currency, sum(amount_pico) FROM control_posting"
            " WHERE %s::bigint IS NULL OR tenant_id = %s GROUP BY 1, 2 ORDER BY 1, 2",
            [tenant_id, tenant_id],
        )
        return {(account, currency): int(amount) for account, currency, amount in cursor}


def _check(transfer: TransferWanted) -> None:
    sums: dict[str, int] = defaultdict(int)
    for posting in transfer.postings:
        sums[posting.currency] += posting.amount_pico
    if len(transfer.postings) < 2 or any(sums.values()):
        raise Unbalanced(f"{transfer.idempotency_key}: {dict(sums)}")
