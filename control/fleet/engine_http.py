"""Questions to an engine over HTTP: is it well, whom does it serve, how loaded is it."""

from dataclasses import dataclass

import httpx

from control.models import Replica
from control.models.sealing import opened
from control.telemetry.sample import Unread, read_page

PROBE_SECONDS = 2.0

# One pool for all threads; trust_env=False: no proxy stands between us and an engine.
_client = httpx.Client(trust_env=False, timeout=PROBE_SECONDS)


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


def address(replica: Replica) -> Address:
    """Of an engine that we launched.

    Its key may be sealed under an earlier WEIR_SECRET: without it no call succeeds, so that the
    engine is found unwell and replaced.
    """
    key = opened(replica.engine_key) or ""
    host = f"[{replica.host}]" if ":" in replica.host else replica.host
    return Address(f"http://{host}:{replica.port}", replica.version.served_name, key)


def health(at: Address) -> Answer:
    try:
        answer = _client.get(f"{at.url}/health", headers=at.headers)
    except httpx.HTTPError as error:
        return Answer(False, f"/health: {_words(error)}")
    return Answer(answer.status_code == 200, f"/health answers {answer.status_code}")


def probe(at: Address) -> Answer:
    """Well, and the one we mean: whoever has the port now must serve our model (T08)."""
    try:
        answer = _client.get(f"{at.url}/health", headers=at.headers)
        if answer.status_code not in (200, 404):  # 404: it has no such page; models alone count
            return Answer(False, f"/health answers {answer.status_code}")
        return _serves(at, _client.get(f"{at.url}/v1/models", headers=at.headers))
    except httpx.HTTPError as error:
        return Answer(False, _words(error))


def one_token(at: Address, timeout_seconds: float) -> Answer:
    """A real call, the smallest there is: proves the model, not only the front."""
    body = {"model": at.served_name, "prompt": "1", "max_tokens": 1, "user": "weir"}
    try:
        answer = _client.post(
            f"{at.url}/v1/completions", json=body, headers=at.headers, timeout=timeout_seconds
        )
    except httpx.HTTPError as error:
        return Answer(False, f"a call of one token: {_words(error)}")
    if answer.status_code == 200:
        return Answer(True)
    return Answer(False, f"a call of one token: {answer.status_code} {answer.text[:300]}")


def metrics(at: Address) -> str | Unread:
    return read_page(_client, at.url, at.key)


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
