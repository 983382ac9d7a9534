"""Versions: what they may be, that they never change, and how they are put aside."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction

from control.catalog import actions, rules
from control.catalog.rules import EngineWanted, VersionWanted
from control.checks import Refused, Unknown
from control.fleet.actions import drain_deployment, save_deployment
from control.fleet.rules import DeploymentWanted
from control.models import AuditEntry, CatalogModel, SnapshotPart, Version
from control.models.sealing import unseal
from control.states import Part

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
WHO = {"by": "anna", "reason": "a test", "at": AT}
STUB = VersionWanted(EngineWanted("stub"))
OUTSIDE = EngineWanted("external", url="http://127.0.0.1:9000/v1", served_name="m")
VLLM = EngineWanted("vllm", "0.32.0")
PATH = {"path": "/models/x"}


TRUSTED = {"trust_remote_code": True}
REMOTE_CODE = "arguments.trust_remote_code"


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        (VersionWanted(VLLM, PATH, {"max_model_len": 2048}, {"calls": 4}), []),
        (VersionWanted(VLLM, {"huggingface": "org/name", "revision": "a" * 40}), []),
        (VersionWanted(VLLM, {"pypi": "a-b", "release": "1.0.0", "sha256": "0" * 64}), []),
        (VersionWanted(OUTSIDE, upstream_key="secret"), []),
        (STUB, []),
        (VersionWanted(VLLM), ["source"]),
        (VersionWanted(VLLM, {"pypi": "a-b", "release": "1.0.0"}), ["source"]),
        (
            VersionWanted(VLLM, {"pypi": "../x", "release": "x", "sha256": "x"}),
            ["source.pypi", "source.release", "source.sha256"],
        ),
        (VersionWanted(VLLM, PATH, TRUSTED, unsafe={"trust_remote_code": "ours"}), []),
        (VersionWanted(VLLM, PATH, TRUSTED, unsafe={"pickle": "ours"}), [REMOTE_CODE]),
        (VersionWanted(VLLM, PATH, unsafe={"pickle": " "}), ["unsafe.pickle"]),
        (VersionWanted(VLLM, PATH, unsafe={}), ["unsafe"]),
        (VersionWanted(OUTSIDE, unsafe={"pickle": "ours"}), ["unsafe"]),
        (VersionWanted(VLLM, PATH | {"release": "1"}), ["source"]),
        (VersionWanted(EngineWanted("vllm", "0.33.0"), PATH), ["engine.version"]),
        (VersionWanted(EngineWanted("vllm", "0.32.0", url="http://h"), PATH), ["engine.url"]),
        (VersionWanted(EngineWanted("tgi"), PATH), ["engine.kind"]),
        (VersionWanted(EngineWanted("stub", shared=True)), ["engine.shared"]),
        (VersionWanted(OUTSIDE, PATH), ["source"]),
        (VersionWanted(OUTSIDE, memory={"calls": 1}), []),
        (VersionWanted(OUTSIDE, memory={"kv_tokens": 1}), ["memory"]),
        (VersionWanted(EngineWanted("external")), ["engine.url", "engine.served_name"]),
        (VersionWanted(VLLM, PATH, {"api_key": "x"}), ["arguments.api_key"]),
        (VersionWanted(VLLM, PATH, {"trust_remote_code": True}), ["arguments.trust_remote_code"]),
        (VersionWanted(VLLM, PATH, {"max_model_len": True}), ["arguments.max_model_len"]),
        (VersionWanted(VLLM, PATH, {"Seed": 1}), ["arguments.Seed"]),
        (
            VersionWanted(VLLM, PATH, {"seed": "x", "dtype": 1}),
            ["arguments.seed", "arguments.dtype"],
        ),
        (VersionWanted(VLLM, PATH, {"max_num_seqs": 4}), []),
        (VersionWanted(VLLM, PATH, {"spec_model": "x"}), ["arguments.spec_model"]),
        (VersionWanted(VLLM, PATH, {"max_model_len": 2**40}), ["arguments.max_model_len"]),
        (VersionWanted(OUTSIDE, arguments={"seed": 1}), ["arguments.seed"]),
        (VersionWanted(VLLM, PATH, memory={"calls": 0}), ["memory.calls"]),
        (VersionWanted(VLLM, PATH, upstream_key="x"), ["engine.api_key_env"]),
    ],
)
def test_a_version(content, fields):
    problems = rules.version_problems("m", "v1", content, stub_allowed=True)
    assert [problem.field for problem in problems] == fields


@pytest.mark.parametrize(
    "url",
    ["http://u:p@h", "http://h?key=x", "http://h#x", "ftp://h", "http://", "h:80", "http://h:0",
     "http://h:99999", "http://h\r\nx: y", "http://h a"],
)  # fmt: skip
def test_k03_an_address_holds_no_secret_and_splits_no_header(url):
    content = VersionWanted(EngineWanted("external", url=url, served_name="m"))
    problems = rules.version_problems("m", "v1", content, stub_allowed=True)
    assert [problem.field for problem in problems] == ["engine.url"]


@pytest.mark.parametrize(
    ("given", "base", "port", "path"),
    [
        ("http://h", "http://h:80", 80, ""),
        ("https://h/v1", "https://h:443", 443, ""),
        ("http://h:9000/a/v1/", "http://h:9000/a", 9000, "/a"),
        ("http://[::1]:9000", "http://[::1]:9000", 9000, ""),
    ],
)
def test_an_upstream_is_read_from_its_url(given, base, port, path):
    upstream = Version(engine={"kind": "external", "url": given}).upstream
    assert (upstream.url, upstream.port, upstream.path) == (base, port, path)


def test_a_digest_does_not_depend_on_order_or_on_the_upstream_key():
    one = VersionWanted(OUTSIDE, arguments={"a": 1, "b": 2}, upstream_key="x")
    two = VersionWanted(OUTSIDE, arguments={"b": 2, "a": 1}, upstream_key="y")
    assert one.digest == two.digest
    assert one.digest != VersionWanted(OUTSIDE, arguments={"a": True, "b": 2}).digest
    assert "x" not in repr(one).replace("external", "")


@pytest.mark.django_db
def test_a_version_is_found_again_and_other_content_is_refused():
    first = actions.save_version("m", "v1", STUB, **WHO)
    assert actions.save_version("m", "v1", STUB, **WHO).pk == first.pk
    other = VersionWanted(EngineWanted("stub"), arguments={"tokens": 1})
    with pytest.raises(Refused, match="versions are immutable: name a new one"):
        actions.save_version("m", "v1", other, **WHO)
    with pytest.raises(IntegrityError, match="versions are immutable"), transaction.atomic():
        Version.objects.update(arguments={"seed": 1})


@pytest.mark.django_db
def test_the_stub_is_refused_where_it_is_not_allowed(settings):
    settings.WEIR_ALLOW_STUB = False
    with pytest.raises(Refused, match="WEIR_ALLOW_STUB=1"):
        actions.save_version("m", "v1", STUB, **WHO)


@pytest.mark.django_db
def test_an_upstream_key_is_sealed_and_a_new_one_reaches_the_gateways():
    actions.save_version("m", "v1", VersionWanted(OUTSIDE, upstream_key="first"), **WHO)
    before = SnapshotPart.objects.get(pk=Part.REPLICAS).version
    version = actions.save_version("m", "v1", VersionWanted(OUTSIDE, upstream_key="next"), **WHO)
    version.refresh_from_db()
    assert b"next" not in bytes(version.upstream_key)
    assert unseal(version.upstream_key) == "next"
    assert SnapshotPart.objects.get(pk=Part.REPLICAS).version == before + 1


@pytest.mark.django_db
def test_a_model_is_put_aside_when_nothing_wants_it_and_comes_back():
    actions.save_version("m", "v1", STUB, **WHO)
    save_deployment(DeploymentWanted("d", "m", "v1"), **WHO)
    for archive in (("m",), ("m", "v1")):
        act = actions.archive_model if len(archive) == 1 else actions.archive_version
        with pytest.raises(Refused, match="is wanted by d: drain it first"):
            act(*archive, **WHO)
    drain_deployment("d", **WHO)
    actions.archive_model("m", **WHO)
    with pytest.raises(Unknown):
        actions.archive_model("m", **WHO)
    actions.save_version("m", "v1", STUB, **WHO)
    assert CatalogModel.objects.get().archived_at is None


PICKLED = VersionWanted(VLLM, PATH, unsafe={"pickle": "we made them ourselves"})


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("by", "account", "allowed"),
    [
        ("shell:root", None, True),
        ("anna", {"is_superuser": True}, True),
        ("anna", {"is_superuser": True, "is_active": False}, False),
        ("anna", {"is_staff": True}, False),
        ("anna", None, False),
    ],
)
def test_only_an_owner_lets_code_in_and_the_audit_keeps_why(by, account, allowed):
    if account:
        get_user_model().objects.create(username="anna", **account)
    who = WHO | {"by": by}
    if not allowed:
        with pytest.raises(Refused, match="only an owner may allow pickle"):
            actions.save_version("m", "v1", PICKLED, **who)
        assert not Version.objects.exists()
        return
    actions.save_version("m", "v1", PICKLED, **who)
    entry = AuditEntry.objects.get(action="allow pickle")
    assert (entry.by, entry.subject, entry.reason) == (by, "m:v1", "we made them ourselves")
    with pytest.raises(IntegrityError, match="versions are immutable"), transaction.atomic():
        Version.objects.update(unsafe=None)


def test_what_is_allowed_is_content_and_its_absence_changes_no_digest():
    plain = VersionWanted(VLLM, PATH)
    assert PICKLED.digest != plain.digest
    assert "unsafe" not in plain.content


def test_an_external_engine_may_say_that_others_ask_it_too():
    told = replace(OUTSIDE, shared=True)
    assert rules.version_problems("m", "v1", VersionWanted(told), stub_allowed=False) == []
    assert told.stored == OUTSIDE.stored | {"shared": True}
    assert EngineWanted(**told.stored) == told
    assert "shared" not in OUTSIDE.stored  # so that digests stay what they were
