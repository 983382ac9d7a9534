"""Nodes are asked for engines and weights before a launch needs them, and say what they have."""

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from control.checks import Refused, Unknown
from control.fleet.disk import actions, facts, files, rules, work
from control.fleet.disk.rules import Asked, NotAsked
from control.models import AuditEntry, NodeRuntime, NodeWeights, Version
from engines import runtime, weights_cache
from engines.requirements import HostFacts
from tests.engines.stores.server import serving
from tests.engines.test_weights import safetensors
from tests.fleet.rows import a_deployment, a_device, a_node, a_replica, a_version

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
WHO = {"by": "anna", "reason": "a test", "at": AT}
HOST = {"machine": "x86_64", "glibc": "2.36", "python": "3.11.2"}
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SOURCE = {"huggingface": "org/name", "revision": COMMIT}
VLLM = {"kind": "vllm", "version": "0.32.0"}
KEY = "org--name-0123456789ab"
HANG_SECONDS = 60


@pytest.fixture
def disk(tmp_path, settings):
    settings.WEIR_RUNTIMES, settings.WEIR_WEIGHTS = tmp_path / "runtimes", tmp_path / "weights"
    return tmp_path


@pytest.fixture
def cpu(db):
    return a_node("cpu1", at=AT, host=HOST)


@pytest.fixture
def gpu(db):
    node = a_node("gpu1", at=AT, host=HOST, driver="580.95.05", cuda="13.0")
    a_device(node, 1 << 34, at=AT, kind="gpu", compute_capability="9.0")
    return node


def test_each_node_is_asked_for_what_it_has():
    old = HostFacts("x86_64", "2.17", "3.11.2", read=True)
    card = HostFacts("x86_64", "2.36", "3.11.2", "580.95", "13.0", ("9.0",), read=True)
    [first, second] = rules.decide("0.32.0", None, {"b": card, "a": old})
    assert first == NotAsked(
        "a", "needs glibc 2.28, this system has 2.17; none of the known releases would do here"
    )
    assert second == Asked("b", "gpu")
    assert rules.decide("0.32.0", "cpu", {"b": card}) == [Asked("b", "cpu")]


def test_every_node_that_can_is_asked_and_the_audit_says_who_did(cpu, gpu):
    a_node("old", at=AT, host=HOST | {"glibc": "2.17"})
    decided = actions.install_runtime("vllm", "0.32.0", **WHO)
    assert [type(one) for one in decided] == [Asked, Asked, NotAsked]
    rows = NodeRuntime.objects.order_by("node__name")
    assert [(row.node.name, row.device_kind, row.state) for row in rows] == [
        ("cpu1", "cpu", "wanted"),
        ("gpu1", "gpu", "wanted"),
    ]
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.subject, entry.by) == ("install runtime", "vllm 0.32.0", "anna")
    assert entry.after == {"nodes": ["cpu1", "gpu1"]}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("vllm", "0.33.0"), "0.33.0 is not supported: .* supported: 0.32.0"),
        (("tgi", "1"), "Weir installs no 'tgi'"),
    ],
)
def test_what_weir_does_not_know_is_refused(cpu, arguments, said):
    with pytest.raises(Refused, match=said):
        actions.install_runtime(*arguments, **WHO)
    assert not NodeRuntime.objects.exists()


def test_where_no_node_can_the_refusal_says_why_of_each(cpu):
    with pytest.raises(Refused, match="cpu1: needs a GPU, and the host shows none"):
        actions.install_runtime("vllm", "0.32.0", device_kind="gpu", **WHO)
    with pytest.raises(Unknown, match="no node 'x'"):
        actions.install_runtime("vllm", "0.32.0", node="x", **WHO)


def test_asked_again_a_failure_is_tried_anew_and_what_is_done_stays(cpu, gpu):
    actions.install_runtime("vllm", "0.32.0", **WHO)
    NodeRuntime.objects.filter(node=cpu).update(state="failed", detail="disk full")
    NodeRuntime.objects.filter(node=gpu).update(state="done", percent=100)
    actions.install_runtime("vllm", "0.32.0", **WHO | {"at": AT + timedelta(minutes=1)})
    states = dict(NodeRuntime.objects.values_list("node__name", "state"))
    assert states == {"cpu1": "wanted", "gpu1": "done"}


def installed(root: Path) -> None:
    folder = root / "vllm-0.32.0-cpu"
    folder.mkdir(parents=True)
    told = {"kind": "vllm", "version": "0.32.0", "device_kind": "cpu", "size_bytes": 7}
    (folder / runtime.MARKER).write_text(json.dumps(told))


def test_a_node_finds_what_is_there_and_forgets_what_is_gone(cpu, disk):
    installed(disk / "runtimes")
    actions.install_runtime("vllm", "0.32.0", **WHO)
    work.look(cpu, AT)
    work.tell(cpu, AT)
    [row] = facts.runtimes("cpu1")
    assert (row.state, row.percent, row.size_bytes) == ("done", 100, 7)
    (disk / "runtimes" / "vllm-0.32.0-cpu" / runtime.MARKER).unlink()
    work.tell(cpu, AT)
    assert facts.runtimes() == []


def test_a_launch_on_a_host_that_cannot_run_it_fails_before_anything_is_fetched(disk, db):
    node = a_node("old", at=AT, host=HOST | {"glibc": "2.17"})
    found = files.ensure_runtime(node, VLLM, "cpu")
    assert found.state == "failed"
    assert found.detail.startswith("vllm 0.32.0: needs glibc 2.28, this system has 2.17")
    assert not (disk / "runtimes").exists()


def test_a_host_that_has_not_said_what_it_is_says_it_then(disk, db):
    node = a_node("new", at=AT)
    files.say_host(node)
    node.refresh_from_db()
    assert facts.host(node).read
    assert facts.host(node).python.startswith("3.")


def serve_model(store) -> None:
    content = {
        "config.json": b"{}",
        "tokenizer.json": b"{}",
        "model.safetensors": safetensors(4096),
        "modeling.py": b"raise SystemExit",
    }
    listing = [{"rfilename": name, "size": len(it)} for name, it in content.items()]
    path = f"/api/models/org/name/revision/{COMMIT}?blobs=true"
    store.files[path] = json.dumps({"siblings": listing}).encode()
    for name, it in content.items():
        store.files[f"/org/name/resolve/{COMMIT}/{name}"] = it


def until_over(node) -> NodeWeights:
    deadline = time.monotonic() + HANG_SECONDS
    while (row := NodeWeights.objects.get()).state in ("wanted", "running"):
        assert time.monotonic() < deadline, row.detail
        work.look(node, AT)
        time.sleep(0.05)
    return row


@pytest.fixture
def version(db) -> Version:
    return a_version("m", engine=VLLM, source=SOURCE)


def test_weights_are_fetched_ahead_verified_and_held_by_who_uses_them(
    cpu, disk, version, monkeypatch
):
    actions.prefetch("m", "v1", **WHO)
    with serving() as store:
        monkeypatch.setenv("HF_ENDPOINT", store.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        serve_model(store)
        row = until_over(cpu)
    assert (row.state, row.key) == ("done", KEY), row.detail
    fetched = sorted(path.name for path in (disk / "weights" / KEY).iterdir())
    assert fetched == ["config.json", "model.safetensors", "tokenizer.json", "weir.json"]
    replica = a_replica(a_deployment(version=version), cpu, at=AT)
    found = files.ensure_weights(SOURCE, None, Path("/nowhere"), holder=replica)
    assert found.path == str(disk / "weights" / KEY)
    work.tell(cpu, AT)
    [told] = facts.weights("cpu1")
    assert (told.held, dict(told.source)) == (True, SOURCE)
    assert told.size_bytes > 4096
    files.let_go(replica.pk)
    assert weights_cache.holders(disk / "weights", KEY) == []


def test_weights_that_cannot_be_had_say_why(cpu, disk, version, monkeypatch):
    actions.prefetch("m", "v1", node="cpu1", **WHO)
    with serving() as store:
        monkeypatch.setenv("HF_ENDPOINT", store.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        row = until_over(cpu)
    assert row.state == "failed"
    assert "refuses org/name at 0123456789abcdef" in row.detail


@pytest.mark.parametrize(
    ("source", "said"),
    [({"path": "/m"}, "nothing to fetch"), ({"pypi": "a", "release": "1"}, "name a new version")],
)
def test_what_cannot_be_fetched_is_refused(cpu, source, said):
    a_version("m", engine=VLLM, source=source)
    with pytest.raises(Refused, match=said):
        actions.prefetch("m", "v1", **WHO)
    with pytest.raises(Unknown, match="there is no version m:v2"):
        actions.prefetch("m", "v2", **WHO)
    with pytest.raises(CommandError, match="'m' names no version: MODEL:VERSION"):
        call_command("prefetch", "m")


def test_a_lower_limit_is_kept_by_what_is_unused(cpu, disk, settings):
    for name in ("a", "b"):
        folder = disk / "weights" / name
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"0" * 1000)
        (folder / "weir.json").write_text(json.dumps({"source": SOURCE, "files": {}}))
    replica = a_replica(a_deployment(), cpu, at=AT)
    weights_cache.hold(disk / "weights", "a", files.holder_name(replica.pk))
    settings.WEIR_WEIGHTS_BYTES_MAX = 1500
    work.tell(cpu, AT)
    assert [row.key for row in facts.weights()] == ["a"]


@pytest.mark.parametrize(
    ("source", "earlier", "retried", "anew"),
    [
        (SOURCE, False, False, True),
        (SOURCE, True, False, False),  # it was fetched anew already
        (SOURCE, True, True, True),  # and a person said retry since
        ({"path": "/models/x"}, False, False, False),
        ({}, False, False, False),
    ],
)
def test_corrupt_weights_are_fetched_anew_once(disk, cpu, source, earlier, retried, anew):
    folder = disk / "weights" / KEY
    folder.mkdir(parents=True)
    (folder / weights_cache.MANIFEST).write_text("{}")
    retry_at = AT + timedelta(minutes=1) if retried else None
    deployment = a_deployment(version=a_version(source=source), retry_at=retry_at)
    failed = {"state": "failed", "cause": files.CORRUPT, "ended_at": AT}
    if earlier:
        a_replica(deployment, cpu, at=AT, **failed)
    replica = a_replica(deployment, cpu, at=AT, generation=2)
    assert bool(files.fetch_anew(replica)) is anew
    assert folder.exists() is not anew
