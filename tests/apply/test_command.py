"""`weir apply` and `weir key` as a person at a shell meets them."""

import io
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from control.models import AuditEntry, Deployment, Key, Tenant
from control.models.sealing import digest_of
from control.states import KeyState

pytestmark = pytest.mark.django_db

EXAMPLES = Path(__file__).parents[2] / "examples"
SECRET = "acme-secret-" + "s" * 32


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("ACME_KEY", SECRET)
    monkeypatch.setenv("UPSTREAM_KEY", "upstream-secret")


def weir(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command(*arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


@pytest.mark.parametrize("name", ["quickstart", "external", "stub", "service"])
def test_an_example_is_applied_and_then_changes_nothing(name):
    file = str(EXAMPLES / f"{name}.yaml")
    first, _ = weir("apply", "-f", file, "--yes")
    assert "+ create tenant acme" in first
    audited = AuditEntry.objects.count()
    second, _ = weir("apply", "-f", file, "--yes")
    assert second.rstrip().endswith("Nothing to change.")
    assert AuditEntry.objects.count() == audited


def test_without_yes_nothing_changes():
    out, _ = weir("apply", "-f", str(EXAMPLES / "quickstart.yaml"))
    assert "run again with --yes" in out
    assert not Tenant.objects.exists()


def test_a_made_secret_is_printed_once(tmp_path):
    file = str(tmp_path / "service.yaml")
    Path(file).write_text("{apiVersion: weir/v1, tenants: [{name: acme, keys: [{name: ci}]}]}")
    first, _ = weir("apply", "-f", file, "--yes")
    secret = first.rstrip().rpartition(" ")[2]
    assert Key.objects.get().digest == digest_of(secret)
    second, _ = weir("apply", "-f", file, "--yes")
    assert "secret of key" not in second


def test_k03_a_given_secret_is_never_printed():
    out, err = weir("apply", "-f", str(EXAMPLES / "external.yaml"), "--yes")
    audit = str(list(AuditEntry.objects.values()))
    for secret in (SECRET, "upstream-secret"):
        assert secret not in out + err + audit


def test_a_bad_file_is_refused_with_file_line_and_field(tmp_path):
    file = tmp_path / "service.yaml"
    file.write_text("apiVersion: weir/v1\ntenants:\n  - name: acme\n    colour: red\n")
    err = io.StringIO()
    with pytest.raises(SystemExit) as end:
        call_command("apply", "-f", str(file), "--yes", stderr=err)
    assert end.value.code == 1
    assert err.getvalue().startswith(f"{file}:4: tenants[0].colour: is not understood")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"apiVersion: weir/v1\nx: \xc3\x28\n", ":2: is not UTF-8"),
        (b"#" * (2**20 + 1), "is larger than 1048576 bytes"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, content, said):
    file = tmp_path / "service.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CommandError, match=said):
        weir("apply", "-f", str(file))


def test_key_create_prints_the_secret_alone_on_stdout():
    weir("apply", "-f", str(EXAMPLES / "stub.yaml"), "--yes")
    out, err = weir("key", "create", "--tenant", "acme", "--name", "laptop")
    secret = out.rstrip("\n")
    assert Key.objects.get(name="laptop").digest == digest_of(secret)
    assert secret not in err


def test_key_revoke_and_list():
    weir("apply", "-f", str(EXAMPLES / "stub.yaml"), "--yes")
    weir("key", "revoke", "--tenant", "acme", "--name", "ci")
    assert Key.objects.get().state == KeyState.REVOKED
    out, _ = weir("key", "list")
    assert out == "acme/ci  default  acm…ssss  revoked\n"


def test_key_rotate_prints_the_new_secret_alone_and_keeps_the_old_for_a_day():
    weir("apply", "-f", str(EXAMPLES / "stub.yaml"), "--yes")
    out, err = weir("key", "rotate", "--tenant", "acme", "--name", "ci")
    key = Key.objects.get()
    assert (key.digest, key.previous_digest) == (digest_of(out.rstrip("\n")), digest_of(SECRET))
    assert out.rstrip("\n") not in err


def test_key_of_an_unknown_tenant_is_refused():
    with pytest.raises(CommandError, match="no tenant 'nobody'"):
        weir("key", "create", "--tenant", "nobody", "--name", "x")


def test_prune_archives_what_the_file_does_not_name(tmp_path):
    weir("apply", "-f", str(EXAMPLES / "stub.yaml"), "--yes")
    file = str(EXAMPLES / "quickstart.yaml")
    weir("apply", "-f", file, "--yes", "--prune")
    states = dict(Deployment.objects.values_list("name", "state"))
    assert states == {"stub": "archived", "gemma": "active"}
    again, _ = weir("apply", "-f", file, "--yes", "--prune")
    assert again.rstrip().endswith("Nothing to change.")
