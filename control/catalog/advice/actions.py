"""Which versions could serve for others: a relation that operators name and take back."""

from datetime import datetime

from django.db import transaction

from control import checks
from control.catalog.advice.rules import VariantKind, VariantWanted
from control.models import Variant, Version
from control.models.audit import record


def save_variant(wanted: VariantWanted, *, by: str, reason: str, at: datetime) -> None:
    of, version = _version("of", wanted.of), _version("version", wanted.version)
    with transaction.atomic():
        rows = Variant.objects.select_for_update().filter(of=of, version=version)
        before = rows.first()
        kind = before.kind if before else VariantKind.NONE
        if kind == wanted.kind:
            return
        if wanted.kind == VariantKind.NONE:
            rows.delete()
        else:
            rows.update_or_create(
                of=of, version=version, defaults={"kind": wanted.kind, "created_at": at}
            )
        change = ({"kind": str(kind)}, {"kind": wanted.kind})
        record("save variant", wanted.subject, by=by, reason=reason, at=at, change=change)


def _version(field: str, name: str) -> Version:
    model, _, version = name.partition(":")
    found = Version.objects.filter(model__name=model, name=version).first()
    if found is None:
        raise checks.unknown(field, f"there is no version {name!r}")
    return found
