"""What a newcomer needs next, on one screen."""

import json
from dataclasses import dataclass
from pathlib import Path

from control.management.local.first import Secret

QUESTION = "What is the capital of France?"
TOKENS = 48


@dataclass(frozen=True)
class Card:
    console_url: str
    gateway_url: str
    home: Path
    login: Secret
    tenant: str
    key: Secret
    route: str
    route_is_ready: bool
    python: Path
    weir: str  # the command, as it is typed for this home
    terms: tuple[str, ...] = ()


def lines(card: Card) -> list[str]:
    password = f"password {card.login.text}" if card.login.text else "password"
    text = [
        "",
        f"Console   {card.console_url}",
        f"Login     operator, {password} ({card.login.note})",
        f"Gateway   {card.gateway_url}/v1  (base URL for OpenAI clients)",
    ]
    if card.tenant:
        text.append(f"Key       {card.key.text or 'none to show'}  of tenant {card.tenant}")
        text.append(f"          ({card.key.note})")
    text += [f"Terms     {terms}" for terms in card.terms]
    if card.route:
        text += ["", *_calls(card)]
    text += ["", f"Stop      Ctrl-C, or {card.weir} down; logs in {card.home}/logs", ""]
    return text


def _calls(card: Card) -> list[str]:
    key = card.key.text or "YOUR-KEY"
    address = f"{card.gateway_url}/v1/chat/completions"
    body = {
        "model": card.route,
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": TOKENS,
    }
    streamed = json.dumps({**body, "stream": True})
    ask = (
        f"import httpx; print(httpx.post({address!r}, timeout=60, "
        f'headers={{"Authorization": "Bearer {key}"}}, json={json.dumps(body)}).json())'
    ).replace("'", '"')
    waiting = [] if card.route_is_ready else [f"Once {card.route} is ready:"]
    return [
        *waiting,
        f"curl -N {address} -H 'Authorization: Bearer {key}' "
        f"-H 'Content-Type: application/json' -d '{streamed}'",
        "",
        f"{card.python} -c '{ask}'",
    ]
