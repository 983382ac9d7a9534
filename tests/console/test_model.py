"""A model's page, its API and `weir fit` say where its versions fit, and what would help."""

import json
from datetime import UTC, datetime
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from control.fleet import launch
from control.models import ColdStart, Point, VersionPeak
from control.placement.memory import GIB
from control.telemetry import cold_starts
from tests.fleet.rows import a_deployment, a_device, a_node, a_replica, a_version
from tests.placement.files import decoder, write_headers
from tests.placement.test_weights import QWEN_14B

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(QWEN_14B))
    write_headers(tmp_path / "model.safetensors", decoder(48, 5120, 13_824, 152_064, 1024))
    return tmp_path


@pytest.fixture
def more(db, folder):
    def version(name):
        made = a_version("qwen", name, engine={"kind": "vllm", "version": "0.32.0"})
        launch.measure(made, folder, at=AT)
        return made

    return version


@pytest.fixture
def known(more):
    node = a_node(at=AT)
    for number in range(4):
        uuid = f"GPU-{number}"
        a_device(node, 22 * GIB, at=AT, kind="gpu", name="My card", uuid=uuid)
    version = more("v1")
    replica = a_replica(a_deployment(version=version), at=AT)
    parts = dict.fromkeys(cold_starts.PARTS, 0.0) | {"load_seconds": 42.0}
    ColdStart.objects.create(replica=replica, version=version, at=AT, **parts)
    VersionPeak.objects.create(
        version=version,
        device_name="My card",
        device_kind="gpu",
        beside_kv_bytes=31 * GIB,
        measured_at=AT,
    )
    values = {"generation_tokens_per_second": 812.5, "running_max": 12, "tpot_seconds": 0.0142}
    values |= {"prompt_tokens_per_second": 4096.4, "ttft_seconds": 0.821}
    Point.objects.create(
        subject=f"replica:{replica.pk}", resolution_seconds=60, at=AT, values=values
    )
    return version


def test_its_page_shows_fit_batch_and_what_launches_took(console, known):
    shown = console.get("/models/qwen/").content.decode()
    for words in (
        "My card",
        "NVIDIA H200",
        "tensor parallel over 2 of them",
        "14.8 billion parameters: INT8, or AWQ",
        "mathematics and code",
        "chunked prefill",
        "no benchmark compares values of it yet",
        "812.5 tokens/s, 12 calls at once",
        "812.5 tokens/s with 12 calls at once, in its best minute",
        "read 4,096 tokens of prompts a second at most; first tokens came after 0.82 s",
        "14.2 ms for each token, in its best minute",
        "a start takes about 42 s",
        "31.0 GiB",
    ):
        assert words in shown
    assert 'href="/models/qwen/"' in console.get("/models/").content.decode()


def test_a_model_of_external_engines_needs_no_device(console, db):
    a_version("out", engine={"kind": "external", "url": "http://h", "served_name": "m"})
    assert b"Nothing that Weir launches" in console.get("/models/out/").content
    assert console.get("/models/none/").status_code == 404


def test_more_versions_ask_no_more_queries(console, known, more):
    console.get("/models/qwen/")
    with CaptureQueriesContext(connection) as few:
        console.get("/models/qwen/")
    for name in ("v2", "v3"):
        more(name)
    with CaptureQueriesContext(connection) as many:
        console.get("/models/qwen/")
    assert len(many) == len(few)


def test_the_api_says_the_same(console, known):
    [listed] = console.get("/api/models/").json()["results"]
    assert [version["name"] for version in listed["versions"]] == ["v1"]
    [fit] = console.get("/api/models/qwen/fit/").json()
    assert fit["cold_start"]["seconds"] == 42
    told = {row["name"]: (row["value"], row["measured"], row["benchmark"]) for row in fit["batch"]}
    value, measured, benchmark = told["max_num_seqs"]
    assert (value, measured[:14]) == (None, "812.5 tokens/s")
    assert "docs/benchmarks/batching.md" in benchmark
    assert told["max_num_batched_tokens"][2] == "no benchmark compares values of it yet"
    own = fit["card"][0]
    assert (own["device"], own["in_fleet"], own["fits"]) == ("My card", 4, False)
    assert any(r["arguments"] == {"tensor_parallel_size": 4} for r in own["remedies"])


def said(*words, **options):
    out = StringIO()
    call_command("fit", *words, stdout=out, **options)
    return out.getvalue()


def test_weir_fit_reads_a_folder_before_anything_is_stored(folder, db):
    text = said(str(folder), context=4096)
    assert "by the headers of its files" in text
    assert "NVIDIA H200 (140 GiB): fits, " in text
    assert "calls of 4,096 tokens at once" in text
    assert "NVIDIA L4 (22 GiB): does not fit: weights and overhead are" in text
    (folder / "model.safetensors").unlink()
    assert "counted from config.json" in said(str(folder))


def test_weir_fit_says_what_it_cannot_read(tmp_path):
    with pytest.raises(CommandError, match=r"config\.json is missing"):
        said(str(tmp_path))
    with pytest.raises(CommandError, match="MODEL:VERSION"):
        said("nowhere")
