"""Keys and secrets of a service.yaml: from the environment, one key each, never brought back."""

from datetime import timedelta

import pytest

from control.apply.wanted import BadFile
from control.models import (
    Key,
    Version,
)
from control.models.sealing import digest_of, unseal
from control.routes.compiler import compile_part
from control.states import KeyState, Part
from tests.apply.applying import LATER, ONE, SERVICE, TWO, do, refusal, steps

pytestmark = pytest.mark.django_db


def test_the_key_of_an_external_engine_may_change():
    do()
    assert steps(do(UP="another")) == ["change version m:v1"]
    assert unseal(Version.objects.get().upstream_key) == "another"
    assert steps(do(UP="another")) == []


def test_after_another_weir_secret_the_file_sets_keys_anew(settings):
    do()
    settings.WEIR_SECRET = b"another"
    with pytest.raises(BadFile, match="say rotate: true"):
        do()
    assert steps(do(SERVICE.replace("routes: [chat]}", "routes: [chat], rotate: true}"))) == [
        "rotate key acme/ci",
        "change version m:v1",
    ]
    assert unseal(Version.objects.get().upstream_key) == "upstream"


@pytest.mark.parametrize("name", ["ACME_KEY", "UP"])
def test_a_secret_that_the_environment_lacks_is_an_error(name):
    assert f"{name} is not set in the environment of weir apply" in refusal(SERVICE, **{name: ""})


def test_a_secret_is_32_to_256_printable_characters():
    said = refusal(SERVICE, ACME_KEY="short")
    assert (
        said
        == "8: tenants[0].keys[0].secret_env: ACME_KEY has 5 characters; a secret has 32 to 256"
    )


def test_another_secret_is_refused_unless_rotate_says_so():
    do()
    assert "say rotate: true to change it" in refusal(SERVICE, ACME_KEY=TWO)
    rotating = SERVICE.replace("secret_env: ACME_KEY", "secret_env: ACME_KEY, rotate: true")
    assert steps(do(rotating, ACME_KEY=TWO, at=LATER)) == ["rotate key acme/ci"]
    keys = compile_part(Part.IDENTITIES, 1).keys
    assert keys[digest_of(ONE)].expires_at == (LATER + timedelta(hours=24)).timestamp()
    assert keys[digest_of(TWO)].expires_at is None
    assert steps(do(rotating, ACME_KEY=TWO, at=LATER)) == []


def test_one_secret_is_one_key():
    both = SERVICE.replace("routes: [chat]}", "routes: [chat]}, {name: cd, secret_env: ACME_KEY}")
    assert "ACME_KEY holds the secret of another key, acme/ci" in refusal(both)


def test_k01_a_revoked_secret_is_not_brought_back():
    do()
    do(
        SERVICE.replace("secret_env: ACME_KEY, routes: [chat]", "secret_env: NEW").replace(
            "name: ci", "name: cd"
        ),
        NEW=TWO,
        prune=True,
    )
    assert Key.objects.get(name="ci").state == KeyState.REVOKED
    assert "the secret of another key, acme/ci (revoked)" in refusal(SERVICE)


def test_without_secret_env_a_secret_is_made_once():
    text = SERVICE.replace(", secret_env: ACME_KEY", "")
    made = do(text).secrets
    assert digest_of(made["acme/ci"]) == Key.objects.get().digest
    assert made["acme/ci"] not in repr(do(text))
    assert do(text).secrets == {}


def test_a_key_moves_and_is_whole():
    do()
    text = SERVICE.replace("project: web, ", "").replace(", routes: [chat]", "")
    [step] = do(text).plan.changes
    told = {change.field: (change.before, change.after) for change in step.changes}
    assert told == {"project": ("web", "default"), "routes": (["chat"], "every route")}
    key = Key.objects.select_related("project").get()
    assert (key.project.name, key.routes) == ("default", None)
