"""Calls that a node makes itself, to warm engines up and to prove that they serve: written down."""

from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from control.fleet.engine_http import Answer
from control.metering.drift import attempts
from control.models import Attempt
from control.states import Purpose, TokensSource

COMPLETE, FAILED = "complete", "failed"


@dataclass(frozen=True)
class OwnCall:
    """One that has ended, as its engine told it, or as it was asked."""

    replica_id: int
    purpose: Purpose
    answer: Answer
    begun_at: datetime
    ended_at: datetime


def write(calls: list[OwnCall]) -> None:
    """Engines count them like any tenant's; nobody pays for them."""
    if calls:
        attempts.write([_row(call) for call in calls])


def _row(call: OwnCall) -> Attempt:
    told, asked = call.answer.used, call.answer.asked
    tokens_in, tokens_out = told or (asked[0], 0)
    return Attempt(
        call_id=f"own_{uuid4().hex}",
        number=1,
        replica_id=call.replica_id,
        purpose=call.purpose,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        tokens_source=TokensSource.ENGINE if told else TokensSource.ESTIMATED,
        cut=told is None,
        outcome=COMPLETE if call.answer.good else FAILED,
        started_at=call.begun_at,
        ended_at=call.ended_at,
    )
