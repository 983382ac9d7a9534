"""Somebody of a tenant is invited, chooses a password, and watches usage grow while calls run."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import HANG_MS, opened, sign_in
from tests.flows.weir import Weir
from tests.threads import Threads

FAINT = Path(__file__).with_name("faint.js")
pytestmark = pytest.mark.browser
CALLS = 12
TOKENS = 5
PASSWORD = secrets.token_urlsafe(18)
CHAT = {"model": "chat-stub", "messages": [{"role": "user", "content": "hi"}]}
PAGES = ("/own/", "/own/calls/", "/own/budgets/", "/own/invoices/", "/own/password/")
expect.set_options(timeout=HANG_MS)


@pytest.fixture
def member(browser: Browser, page: Page, weir: Weir) -> Iterator[Page]:
    """Whom an operator adds, in a browser of its own, signed in; removed at the end."""
    page.goto("/tenants/acme/")
    page.get_by_label("Name or address").fill("bob")
    page.get_by_role("button", name="Add", exact=True).click()
    told = page.get_by_text("who chooses a password there").inner_text()
    with opened(browser, weir) as own:
        own.goto(told.split()[-1])
        own.get_by_label("Password").fill(PASSWORD)
        own.get_by_label("Again").fill(PASSWORD)
        own.get_by_role("button", name="Set it").click()
        own.wait_for_url("**/login/")
        sign_in(own, "bob", PASSWORD)
        own.wait_for_url(f"{weir.console_url}/own/")
        yield own
    row = page.locator("tr", has_text="bob")
    if row.count():
        row.get_by_role("button", name="Remove").click()


def figure(page: Page, label: str) -> Locator:
    return page.locator("#own-usage .figure", has_text=label).first.locator(".value")


def count(page: Page, label: str) -> int:
    return int(figure(page, label).inner_text().replace(",", ""))


def call(weir: Weir) -> int:
    with weir.client() as client:
        body = CHAT | {"max_tokens": TOKENS}
        return client.post("/v1/chat/completions", json=body).status_code


def test_a_member_sees_its_usage_grow_while_calls_run(member: Page, weir: Weir):
    expect(member.locator(".live")).to_have_attribute("data-live", "live")
    calls, tokens = count(member, "Calls"), count(member, "Output tokens")
    loaded = member.evaluate("performance.timeOrigin")
    seen = set()
    for batch in range(1, 4):
        with Threads(CALLS // 3) as threads:
            answers = [threads.submit(call, weir) for _ in range(CALLS // 3)]
            assert {answer.result() for answer in answers} == {200}
        expect(figure(member, "Calls")).to_have_text(f"{calls + batch * CALLS // 3:,}")
        seen.add(count(member, "Output tokens"))
    assert sorted(seen) == [tokens + TOKENS * CALLS // 3 * batch for batch in (1, 2, 3)]
    assert member.evaluate("performance.timeOrigin") == loaded  # nobody has loaded it anew
    today = member.locator("#own-usage tbody tr").first
    expect(today).to_contain_text("USD")


@pytest.mark.parametrize("width", [1280, 390])
def test_a_members_pages_fit_and_can_be_read(member: Page, width):
    member.set_viewport_size({"width": width, "height": 844})
    for address in PAGES:
        assert member.goto(address).status == 200
        assert member.evaluate("document.documentElement.scrollWidth") <= width, address
        assert member.evaluate(FAINT.read_text()) == [], address


def test_the_operators_pages_are_refused_to_a_member(member: Page, weir: Weir):
    asked = member.context.request
    refused = {asked.get(f"{weir.console_url}{path}").status for path in ("/nodes/", "/usage/")}
    assert refused == {403}


def test_removed_a_member_is_signed_out_at_once(member: Page, page: Page, weir: Weir):
    page.goto("/tenants/acme/")
    page.locator("tr", has_text="bob").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("bob is removed")).to_be_visible()
    member.goto("/own/")
    expect(member.get_by_role("button", name="Sign in")).to_be_visible()
