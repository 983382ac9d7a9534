"""Cures of failures as overrides, guards, quarantine; and what operators do about them."""

from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from control import checks
from control.models import Deployment, Device, Override, Replica, SnapshotPart
from control.models.audit import record
from control.models.replica import REASON_CHARACTERS_MAX
from control.recovery import facts, rules
from control.recovery.blame import facts as blame_facts
from control.recovery.blame import rules as blame
from control.recovery.rules import Cure, NoCure
from control.states import DeploymentState, Part


def recover(*, by: str, at: datetime) -> None:
    """One round: cure what failed, end what has passed, take cards away that are to blame."""
    for replica in facts.failed(at):
        if replica.cause == rules.SERVING:
            _guard(replica)
        match rules.cure(facts.failure(replica)):
            case Cure() as found:
                _cure(replica, found, by=by, at=at)
            case NoCure(reason=reason) if reason not in replica.reason:
                told = f"{replica.reason} ({reason})"[:REASON_CHARACTERS_MAX]
                Replica.objects.filter(pk=replica.pk).update(reason=told)
    _end_what_has_passed(at)
    if not blame_facts.anything(at):
        return
    for verdict in blame.judge(blame_facts.cards(at), blame_facts.deaths(at)):
        if isinstance(verdict, blame.Quarantine):
            _quarantine(verdict, by=by, at=at)


def drop_override(deployment: str, override_id: int, *, by: str, reason: str, at: datetime) -> None:
    """The next launch is again as its version asks, as far as this one goes."""
    with transaction.atomic():
        rows = Override.objects.select_for_update().filter(deployment__name=deployment)
        found = rows.filter(pk=override_id, dropped_at=None).select_related("deployment").first()
        if found is None:
            what = f"{deployment!r} has no override {override_id} in force"
            raise checks.unknown("override", what)
        found.dropped_at = at
        found.save(update_fields=["dropped_at"])
        change = ({"cause": found.cause, **found.changes}, None)
        record("drop override", deployment, by=by, reason=reason, at=at, change=change)
        SnapshotPart.raise_version(Part.ROUTES)


def retry(deployment: str, *, by: str, reason: str, at: datetime) -> None:
    """Launch again now, however often it failed: earlier failures count no longer."""
    with transaction.atomic():
        rows = Deployment.objects.filter(name=deployment, state=DeploymentState.ACTIVE)
        again = {"retry_at": at, "launch_after": at, "note": "", "hindrance": ""}
        if not rows.update(**again, hindrance_cause=""):
            raise checks.unknown("deployment", f"there is no active deployment {deployment!r}")
        record("retry deployment", deployment, by=by, reason=reason, at=at)
        SnapshotPart.raise_version(Part.ROUTES)


def quarantine_device(node: str, uuid: str, *, by: str, reason: str, at: datetime) -> None:
    """Nothing new is placed on it; what runs there goes on."""
    with transaction.atomic():
        _known(node, uuid)
        rows = Device.objects.filter(uuid=uuid, quarantined_at=None)
        if rows.update(quarantined_at=at, quarantine_reason=reason):
            record("quarantine device", uuid, by=by, reason=reason, at=at)


def release_device(node: str, uuid: str, *, by: str, reason: str, at: datetime) -> None:
    """Back into use: what spoke against it until now counts no longer."""
    with transaction.atomic():
        before = _known(node, uuid).quarantine_reason
        rows = Device.objects.filter(uuid=uuid).exclude(quarantined_at=None)
        accepted = {"ecc_accepted": F("ecc_uncorrected")} if _counts_ecc(uuid) else {}
        if rows.update(quarantined_at=None, quarantine_reason="", released_at=at, **accepted):
            change = ({"quarantined": before}, None)
            record("release device", uuid, by=by, reason=reason, at=at, change=change)


def _cure(replica: Replica, found: Cure, *, by: str, at: datetime) -> None:
    deployment = replica.deployment
    on_host = found.changes.host_engines_max is not None
    try:
        with transaction.atomic():
            Override.objects.create(
                deployment=deployment,
                version_id=replica.version_id,
                replica=replica,
                node=replica.node if on_host else None,
                cause=replica.cause,
                changes=found.changes.stored(),
                reason=found.reason,
                created_at=at,
            )
            change = (None, {"cause": replica.cause, **found.changes.stored()})
            why = f"{found.reason}: {found.changes}"
            record("cure deployment", deployment.name, by=by, reason=why, at=at, change=change)
            SnapshotPart.raise_version(Part.ROUTES)
    except IntegrityError:
        return  # another was first


def _guard(replica: Replica) -> None:
    """Once for each failure, cured or not: calls that were too much for it go on coming."""
    since = replica.ended_at
    until = since + timedelta(seconds=rules.GUARD_SECONDS)
    known = Q(guarded_since__gte=since)
    with transaction.atomic():
        rows = Deployment.objects.filter(pk=replica.deployment_id).exclude(known)
        if rows.update(guarded_since=since, guarded_until=until):
            SnapshotPart.raise_version(Part.ROUTES)


def _end_what_has_passed(at: datetime) -> None:
    """What held a device may be gone by then; its readings say whether it is."""
    old = at - timedelta(seconds=rules.AVOID_SECONDS)
    rows = Override.objects.filter(dropped_at=None, cause=rules.OCCUPIED, created_at__lt=old)
    rows.update(dropped_at=at)


def _quarantine(verdict: blame.Quarantine, *, by: str, at: datetime) -> None:
    with transaction.atomic():
        rows = Device.objects.filter(pk=verdict.device_id, quarantined_at=None)
        if rows.update(quarantined_at=at, quarantine_reason=verdict.reason):
            uuid = Device.objects.get(pk=verdict.device_id).uuid
            record("quarantine device", uuid, by=by, reason=verdict.reason, at=at)


def _known(node: str, uuid: str) -> Device:
    found = Device.objects.select_for_update().filter(uuid=uuid, node__name=node).first()
    if found is None:
        raise checks.unknown(
            "device", f"node {node!r} has no device {uuid!r}: `weir node list` names them"
        )
    return found


def _counts_ecc(uuid: str) -> bool:
    return Device.objects.filter(uuid=uuid).exclude(ecc_uncorrected=None).exists()
