"""What people of a tenant see of their usage and budgets is live, and of no other tenant."""

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model

from console.access import CLOSE_REFUSED
from console.live.own import OwnPartConsumer
from console.live.parts import CLOSE_UNKNOWN
from control.metering.ingest import ship
from control.models import TenantMember
from control.tenancy.members import actions
from tests.console.conftest import BY
from tests.console.sockets import Socket, connected
from tests.metering import conftest as metering
from tests.metering.conftest import AT, a_house, spool

MONTH = "month=2026-11"
HEARD_MAX = 20

house = metering.house


@pytest.fixture
def cookie(transactional_db, client, house):
    actions.add_member("acme", "bob", **BY)
    client.force_login(get_user_model().objects.get(username="bob"))
    return client.cookies.output(header="", sep=";").strip()


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(OwnPartConsumer, "interval_seconds", 0.05)


def call(house, folder, name: str) -> None:
    began = {"started_at": AT.timestamp(), "ended_at": AT.timestamp() + 1}
    spool(folder, house.close(name, **began), owner=f"gw-{name}")
    ship(folder, (), AT)


async def hear_until(page: Socket, words: str) -> str:
    for _ in range(HEARD_MAX):
        heard = await page.hear()
        if words in heard:
            return heard
    raise AssertionError(f"{words} was not heard")


@pytest.mark.parametrize(
    ("page", "part", "socket"),
    [
        ("/own/", "own-usage", "/live/own/usage/?"),
        (f"/own/?{MONTH}&key=ci", "own-usage", f"/live/own/usage/?{MONTH}&amp;key=ci"),
        ("/own/budgets/", "own-budgets", "/live/own/budgets/"),
    ],
)
def test_a_page_listens_for_the_days_and_names_in_its_address(client, cookie, page, part, socket):
    shown = client.get(page).content.decode()
    assert f'<div ws-connect="{socket}"><div id="{part}"' in shown
    assert 'class="live"' in shown


async def test_the_table_by_day_shows_a_call_as_soon_as_it_is_stored(cookie, house, tmp_path):
    async with connected(f"/live/own/usage/?{MONTH}", cookie) as page:
        first = await page.hear()
        assert "No calls in these days" in first
        assert 'id="as-of"' in first
        await sync_to_async(call)(house, tmp_path, "c-1")
        heard = await hear_until(page, "By day")
        heard = heard if "2026-11-20" in heard else await hear_until(page, "2026-11-20")
        assert "0.000285" in heard
        await sync_to_async(call)(house, tmp_path, "c-2")
        await hear_until(page, "0.00057")


async def test_only_what_the_address_names_is_heard(cookie, house, tmp_path):
    await sync_to_async(call)(house, tmp_path, "c-1")
    async with connected(f"/live/own/usage/?{MONTH}&key=another", cookie) as page:
        assert "No calls in these days" in await page.hear()
    async with connected(f"/live/own/usage/?{MONTH}&group_by=key", cookie) as page:
        heard = await page.hear()
        assert "By key" in heard
        assert "0.000285" in heard
    async with connected("/live/own/usage/?month=nonsense", cookie) as page:
        assert "By day" in await page.hear()  # of this month, as the page has it


async def test_no_address_leads_to_another_tenant(cookie, tmp_path):
    rival = await sync_to_async(a_house)("rival")
    await sync_to_async(call)(rival, tmp_path, "c-rival")
    async with connected(f"/live/own/usage/?{MONTH}&tenant=rival", cookie) as page:
        assert "No calls in these days" in await page.hear()


async def test_budgets_are_live(cookie):
    async with connected("/live/own/budgets/", cookie) as page:
        assert "No budgets" in await page.hear()


async def test_who_is_removed_or_set_inactive_hears_no_more(cookie):
    async def cut(change) -> None:
        socket = Socket("/live/own/budgets/", cookie=cookie)
        assert await socket.connect() is None
        await socket.hear()
        await sync_to_async(change)()
        for _ in range(HEARD_MAX):
            message = await socket.app.receive_output(60)
            if message["type"] == "websocket.close":
                assert message["code"] == CLOSE_REFUSED
                return
        raise AssertionError("the socket was not closed")

    users = get_user_model().objects.filter(username="bob")
    await cut(lambda: users.update(is_active=False))
    await sync_to_async(users.update)(is_active=True)
    await cut(TenantMember.objects.all().delete)


async def test_a_part_that_does_not_exist_is_refused(cookie):
    socket = Socket("/live/own/secrets/", cookie=cookie)
    assert await socket.connect() is None
    assert await socket.closed() == CLOSE_UNKNOWN


@pytest.mark.django_db(transaction=True)
async def test_operators_and_strangers_are_refused(client, operator):
    await sync_to_async(client.force_login)(operator)
    cookie = client.cookies.output(header="", sep=";").strip()
    assert await Socket("/live/own/usage/", cookie=cookie).connect() == CLOSE_REFUSED
    assert await Socket("/live/own/usage/").connect() == CLOSE_REFUSED
