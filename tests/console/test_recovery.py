"""What failures taught is shown and undone: on pages, over REST, from a shell."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from control.models import AuditEntry, Deployment, Device, Node, Override


@pytest.fixture
def override(fleet):
    fleet(1)
    deployment = Deployment.objects.get(name="dep-1")
    until = timezone.now() + timedelta(minutes=9)
    Deployment.objects.filter(pk=deployment.pk).update(guarded_until=until, note="crash loop: x")
    return Override.objects.create(
        deployment=deployment,
        version=deployment.version,
        cause="memory_short_while_serving",
        changes={"max_num_seqs": 12},
        reason="smaller steps",
        created_at=timezone.now(),
    )


@pytest.fixture
def card(fleet):
    fleet(1)
    device = Device.objects.order_by("pk").first()
    at = timezone.now()
    Device.objects.filter(pk=device.pk).update(quarantined_at=at, quarantine_reason="Xid 79")
    return device


def test_a_page_shows_overrides_and_the_guard(console, override):
    shown = console.get("/deployments/dep-1/").content.decode()
    for word in ("memory_short_while_serving", "max_num_seqs 12", "smaller steps", "Guarded until"):
        assert word in shown


def test_an_override_is_dropped_from_the_page(console, override):
    console.post(f"/deployments/dep-1/overrides/{override.pk}/drop/")
    override.refresh_from_db()
    assert override.dropped_at
    assert AuditEntry.objects.filter(action="drop override").exists()
    assert "max_num_seqs 12" not in console.get("/deployments/dep-1/").content.decode()


def test_an_operator_says_retry(console, override):
    console.post("/deployments/dep-1/retry/")
    deployment = Deployment.objects.get(name="dep-1")
    assert deployment.retry_at
    assert not deployment.note


def test_a_card_is_shown_in_quarantine_and_released(console, card):
    page = f"/nodes/{card.node.name}/"
    assert "Release" in console.get(page).content.decode()
    console.post(f"{page}release/", {"device": card.uuid})
    card.refresh_from_db()
    assert card.quarantined_at is None


def test_a_shell_quarantines_and_releases(card):
    node = card.node.name
    call_command("node", "release", node, card.uuid)
    card.refresh_from_db()
    assert card.quarantined_at is None
    call_command("node", "quarantine", node, card.uuid, reason="burns")
    card.refresh_from_db()
    assert card.quarantine_reason == "burns"
    assert Node.objects.filter(name=node).exists()
