"""A person signs in, watches, asks, makes a key, and ends it."""

from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import HANG_MS
from tests.flows.weir import Weir, until

FAINT = Path(__file__).with_name("faint.js")
pytestmark = pytest.mark.browser
PAGES = (
    "/",
    "/deployments/",
    "/deployments/stub/",
    "/nodes/",
    "/models/",
    "/models/routes/chat-stub/",
    "/tenants/",
    "/tenants/acme/",
    "/keys/",
    "/usage/",
    "/usage/drift/",
    "/costs/",
    "/playground/",
    "/audit/",
)
expect.set_options(timeout=HANG_MS)


def points(page: Page) -> int:
    return int(page.locator("#charts").get_attribute("data-points"))


def answered(weir: Weir, secret: str) -> int:
    answer = httpx.get(
        f"{weir.gateway_url}/v1/models",
        headers={"Authorization": f"Bearer {secret}"},
        timeout=HANG_MS / 1000,
    )
    return answer.status_code


def ask(page: Page, text: str) -> None:
    expect(page.locator("#playground")).to_have_attribute("data-connected", "true")
    page.get_by_label("Message").fill(text)
    page.get_by_role("button", name="Send").click()


def test_a_live_chart_moves(page: Page):
    expect(page.locator("#charts .uplot").first).to_be_visible()
    seen = points(page)
    page.wait_for_function(
        "seen => Number(document.getElementById('charts').dataset.points) > seen + 2", arg=seen
    )
    expect(page.locator(".live")).to_have_attribute("data-live", "live")
    memory = page.locator('[data-chart="memory"] output')
    assert memory.inner_text().strip().endswith("GiB")


def test_the_playground_streams_an_answer_with_its_figures(page: Page):
    page.goto("/playground/")
    ask(page, "What is the capital of France?")
    expect(page.locator("#playground")).to_have_attribute("data-answers", "1")
    answer = page.locator('.bubble[data-role="assistant"]')
    assert answer.locator(".bubble-text").inner_text().strip()
    figures = answer.locator(".bubble-figures").inner_text()
    for word in ("first token", "tokens per second", "USD", "req_"):
        assert word in figures
    request = figures.split("request ")[1].split()[0]
    page.locator("[data-code] summary").click()
    assert "/v1/chat/completions" in page.locator("#code-curl").inner_text()
    assert "chat-stub" in page.locator("#code-python").inner_text()

    def is_metered() -> bool:
        page.goto("/usage/")
        return page.locator(f'[title="{request}"]').count() == 1

    until(is_metered, "the playground's call in Usage")


def test_an_answer_is_stopped(page: Page, weir: Weir):
    [engine] = weir.engines().values()
    url = f"http://{engine['host']}:{engine['port']}/stub/script"
    slow = {"script": {"tokens": 4000, "token_seconds": 0.05}, "times": 1}
    httpx.post(url, json=slow, timeout=30).raise_for_status()
    page.goto("/playground/")
    page.get_by_label("Max tokens").fill("1500")
    ask(page, "Count for ever.")
    answer = page.locator('.bubble[data-role="assistant"] .bubble-text')
    until(lambda: len(answer.inner_text()) > 10, "the beginning of a long answer")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".bubble-figures")).to_contain_text("stopped")


def test_a_gateways_refusal_is_said_in_words(page: Page):
    page.goto("/playground/")
    page.get_by_label("Max tokens").fill("999999")
    ask(page, "Too much.")
    expect(page.locator('.bubble[data-role="error"]')).to_be_visible()
    assert len(page.locator('.bubble[data-role="error"]').inner_text()) > 20


def test_a_key_is_made_used_copied_and_revoked(page: Page, weir: Weir):
    page.goto("/keys/")
    page.get_by_label("Tenant").select_option("acme")
    page.get_by_label("Name").fill("browser")
    page.get_by_role("button", name="Create key").click()
    secret = page.locator("#secret").inner_text()
    page.get_by_role("button", name="Copy").click()
    until(lambda: page.evaluate("navigator.clipboard.readText()") == secret, "the key copied")
    until(lambda: answered(weir, secret) == 200, "the new key at the gateway")
    page.goto("/keys/")
    assert secret not in page.content()
    page.on("dialog", lambda dialog: dialog.accept())
    row = page.locator("tr", has_text="browser")
    row.get_by_role("button", name="Revoke").click()
    expect(page.locator("tr", has_text="browser")).to_contain_text("revoked")
    until(lambda: answered(weir, secret) == 401, "the revoked key refused by the gateway")


def test_deployments_are_live_and_the_log_is_shown(page: Page):
    page.goto("/deployments/")
    expect(page.locator(".live")).to_have_attribute("data-live", "live")
    expect(page.locator("#part-deployments")).to_contain_text("ready")
    page.get_by_role("link", name="Log").first.click()
    expect(page.locator("#part-replica")).to_contain_text("How it came here")


def test_a_node_is_cordoned_and_opened(page: Page):
    page.goto("/nodes/")
    page.get_by_role("button", name="Cordon").click()
    expect(page.get_by_role("button", name="Uncordon")).to_be_visible()
    page.get_by_role("button", name="Uncordon").click()
    expect(page.get_by_role("button", name="Cordon: place")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_fits_and_can_be_read_in_both_themes(page: Page, pictures, theme, width):
    """No wider than the screen, and every word stands out from its ground (WCAG AA)."""
    faint = FAINT.read_text()
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 844})
    for address in PAGES:
        page.goto(address)
        assert page.locator("html").get_attribute("data-bs-theme") == theme
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{address} is {wide} wide"
        assert page.evaluate(faint) == [], f"{address} in {theme}"
        page.screenshot(path=pictures / f"{theme}-{width}{address.replace('/', '-')}.png")


def test_the_chosen_theme_is_remembered(page: Page):
    page.get_by_role("button", name="Switch between light and dark").click()
    page.goto("/nodes/")
    assert page.locator("html").get_attribute("data-bs-theme") == "dark"
