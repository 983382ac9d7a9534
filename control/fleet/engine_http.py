"""Questions to an engine over HTTP: is it well, whom does it serve, how loaded is it."""

from dataclasses import dataclass
from functools import cache
from time import monotonic

import httpx

from control.models import Replica
from control.models.sealing import opened
from control.telemetry.pages import Pages, Unanswered
from control.telemetry.sample import PAGE_BYTES_MAX, Unread, read_page

PROBE_SECONDS = 2.0
PAGE_SECONDS = 5.0  # of a page that comes bit by bit
SLEEP_SECONDS = 120.0  # weights are moved to the host's RAM, or back
HEALTH_BYTES_MAX = 64 * 1024

_pages = Pages(PROBE_SECONDS)


@cache
def _client_of(scheme: str) -> httpx.Client:
    """One pool for all threads; trust_env=False: no proxy stands between us and an engine.

    Our own engines speak plain HTTP: a node need not hold the certificates of all the world.
    """
    return httpx.Client(trust_env=False, timeout=PROBE_SECONDS, verify=scheme == "https")


def _client(url: str) -> httpx.Client:
    return _client_of(url.partition(":")[0])


@dataclass(frozen=True)
class Address:
    url: str
    served_name: str
    key: str = ""

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}


@dataclass(frozen=True)
class Answer:
    good: bool
    reason: str = ""
    used: tuple[int, int] | None = None  # tokens in and out of a call, as the engine tells
    asked: tuple[int, int] = (0, 0)  # those that it may have used, if it does not
    says_dead: bool = False  # the front answers, and says that nothing is behind it


def address(replica: Replica) -> Address:
    """Of an engine that we launched.

    Its key may be sealed under an earlier WEIR_SECRET: without it no call succeeds, so that the
    engine is found unwell and replaced.
    """
    key = opened(replica.engine_key) or ""
    host = f"[{replica.host}]" if ":" in replica.host else replica.host
    return Address(f"http://{host}:{replica.port}", replica.version.served_name, key)


def health(at: Address) -> Answer:
    """Of an engine that we launched: asked each second, so without the general client."""
    try:
        page = _pages.get(at.url.removeprefix("http://"), "/health", at.headers, HEALTH_BYTES_MAX)
    except Unanswered as error:
        return Answer(False, f"/health: {error}")
    told = f"/health answers {page.status}"
    return Answer(page.status == 200, told, says_dead=page.status >= 500)


def probe(at: Address) -> Answer:
    """Well, and the one we mean: what has the port now must serve our model (T08)."""
    try:
        answer = _client(at.url).get(f"{at.url}/health", headers=at.headers)
        if answer.status_code not in (200, 404):  # 404: it has no such page; models alone count
            return Answer(False, f"/health answers {answer.status_code}")
        return _serves(at, _client(at.url).get(f"{at.url}/v1/models", headers=at.headers))
    except httpx.HTTPError as error:
        return Answer(False, _words(error))


def one_token(at: Address, timeout_seconds: float) -> Answer:
    """A real call, the smallest there is: proves the model, not only the front."""
    for path, own in _SMALLEST:
        body = {"model": at.served_name, "user": "weir"} | own
        found = _post(at, path, body, timeout_seconds, "a call of one token")
        if found.status != 404:
            break  # 404: a model that only reads has other paths
    return Answer(found.good, found.reason, found.used, _ONE_TOKEN_ASKED)


def complete(
    at: Address, ids: list[int], most: int, timeout_seconds: float, logprobs: int | None = None
) -> Answer:
    """So many tokens after these, each with so many log probabilities."""
    body = {
        "model": at.served_name,
        "prompt": ids,
        "max_tokens": most,
        "ignore_eos": True,
        "temperature": 0,
        "user": "weir",
        "logprobs": logprobs,
    }
    found = _post(at, _SMALLEST[0][0], body, timeout_seconds, f"a call of {len(ids)} tokens")
    return Answer(found.good, found.reason, found.used, (len(ids), most))


_ONE_TOKEN_ASKED = (4, 1)
_SMALLEST: tuple[tuple[str, dict], ...] = (
    ("/v1/completions", {"prompt": "1", "max_tokens": 1}),
    ("/v1/embeddings", {"input": "1"}),
    ("/pooling", {"input": "1"}),
)


@dataclass(frozen=True)
class _Found:
    good: bool
    reason: str = ""
    status: int = 0
    used: tuple[int, int] | None = None


def _post(at: Address, path: str, body: dict, timeout_seconds: float, what: str) -> _Found:
    where = f"{at.url}{path}"
    try:
        answer = _client(where).post(where, json=body, headers=at.headers, timeout=timeout_seconds)
    except httpx.HTTPError as error:
        return _Found(False, f"{what}: {_words(error)}")
    status = answer.status_code
    if status == 200:
        return _Found(True, status=status, used=_used(answer))
    used = (0, 0) if status < 500 else None  # it would not take it
    return _Found(False, f"{what}: {status} {answer.text[:300]}", status, used)


def _used(answer: httpx.Response) -> tuple[int, int] | None:
    try:
        usage = answer.json()["usage"]
        return int(usage["prompt_tokens"]), int(usage.get("completion_tokens") or 0)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def context_tokens(at: Address) -> int | None:
    """What it takes at most in one call, if it says so."""
    try:
        answer = _client(at.url).get(f"{at.url}/v1/models", headers=at.headers)
        found = answer.json()["data"][0].get("max_model_len")
    except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None
    return found if isinstance(found, int) and found > 0 else None


def sleep(at: Address, level: int) -> Answer:
    """Its word only: what it really gives back its cards tell."""
    return _told(at, f"/sleep?level={level}&mode=abort", "to sleep")


def wake_up(at: Address) -> Answer:
    return _told(at, "/wake_up", "to wake up")


def is_sleeping(at: Address) -> bool | None:
    """None: it does not say."""
    try:
        answer = _client(at.url).get(f"{at.url}/is_sleeping", headers=at.headers)
        found = answer.json()["is_sleeping"] if answer.status_code == 200 else None
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, bool) else None


def _told(at: Address, path: str, what: str) -> Answer:
    where = f"{at.url}{path}"
    try:
        answer = _client(where).post(where, headers=at.headers, timeout=SLEEP_SECONDS)
    except httpx.HTTPError as error:
        return Answer(False, f"asked {what}: {_words(error)}")
    good = answer.status_code == 200
    return Answer(good, f"asked {what}, it answers {answer.status_code} {answer.text[:300]}")


def metrics(at: Address) -> str | Unread:
    return read_page(_pages, at.url, at.key)


def metrics_of_any(at: Address) -> str | Unread:
    """Of an engine that Weir did not launch: within limits of size and of time."""
    where, body, until = f"{at.url}/metrics", bytearray(), monotonic() + PAGE_SECONDS
    try:
        with _client(where).stream("GET", where, headers=at.headers) as answer:
            if answer.status_code != 200:
                return Unread(f"/metrics answers {answer.status_code}")
            for part in answer.iter_bytes():
                body += part
                if len(body) > PAGE_BYTES_MAX:
                    return Unread(f"/metrics is larger than {PAGE_BYTES_MAX} bytes")
                if monotonic() > until:
                    return Unread(f"/metrics takes longer than {PAGE_SECONDS:g} s")
    except httpx.HTTPError as error:
        return Unread(f"/metrics: {_words(error)}")
    return body.decode(errors="replace")


def _serves(at: Address, answer: httpx.Response) -> Answer:
    if answer.status_code != 200:
        return Answer(False, f"/v1/models answers {answer.status_code}")
    try:
        names = [str(entry["id"]) for entry in answer.json()["data"]]
    except (ValueError, KeyError, TypeError):
        return Answer(False, "/v1/models answers something else than a list of models")
    if at.served_name in names:
        return Answer(True, f"serves {at.served_name}")
    return Answer(False, f"serves {', '.join(names[:5]) or 'nothing'}, not {at.served_name}")


def _words(error: httpx.HTTPError) -> str:
    return f"{type(error).__name__}: {error}"[:300]
