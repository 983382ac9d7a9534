"""A real `weir up` on the stub engine, and Chromium in front of it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Playwright, StorageState, sync_playwright

from tests.flows.weir import Weir

# Playwright's loop runs in this thread, which Django would take for an asynchronous caller.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "1")

HANG_MS = 60_000  # ten times what a step takes on two cores
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
]


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    assert found, "no chromium: deploy/test-needs.sh installs it"
    return found


@pytest.fixture(scope="session")
def weir() -> Iterator[Weir]:
    made = Weir().with_schema()
    try:
        yield made.start()
    finally:
        made.clean_up()


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
    yield browser
    browser.close()


class Watched:
    """What no page may do, kept while one is open."""

    def __init__(self, page: Page, home: str):
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self._host = urlsplit(home).netloc
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._said)
        page.on("request", lambda request: self._asked(request.url))
        page.on("websocket", lambda socket: self._asked(socket.url))

    def _said(self, message) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def _asked(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"data", "blob", "about"} and parts.netloc != self._host:
            self.elsewhere.append(url)


@contextmanager
def opened(browser: Browser, weir: Weir, kept: StorageState | None = None) -> Iterator[Page]:
    """A page in a browser of its own; it fails the test if it errs or looks elsewhere."""
    context = browser.new_context(
        base_url=weir.console_url,
        storage_state=kept,
        viewport={"width": 1280, "height": 900},
        color_scheme="light",
        reduced_motion="reduce",  # what is read is not what is on its way to another colour
        permissions=["clipboard-read", "clipboard-write"],
    )
    page = context.new_page()
    page.set_default_timeout(HANG_MS)
    watched = Watched(page, weir.console_url)
    yield page
    context.close()
    assert watched.errors == []
    assert watched.elsewhere == []


@pytest.fixture(scope="session")
def signed_in(browser: Browser, weir: Weir) -> StorageState:
    """What a browser keeps of an operator who has signed in."""
    with opened(browser, weir) as page:
        sign_in(page, "operator", weir.home.read("operator").strip())
        page.wait_for_url(f"{weir.console_url}/")
        return page.context.storage_state()


@pytest.fixture
def page(browser: Browser, weir: Weir, signed_in: StorageState) -> Iterator[Page]:
    """Of that operator."""
    with opened(browser, weir, signed_in) as page:
        page.goto("/")
        yield page


def sign_in(page: Page, name: str, password: str) -> None:
    page.goto("/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


@pytest.fixture
def pictures(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("pictures")
