"""Weights: sources are checked, models verified, and only whole ones are served."""

import json
import struct
from pathlib import Path

import pytest

from engines import model_folder, weights
from engines.model_folder import BadModel
from engines.spec import Install

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


def ensure(source: dict, root: Path, *unsafe: str) -> Install:
    return weights.ensure(weights.Wanted(source, root, NO_RUNTIME, unsafe))


def test_a_wrong_source_fails_by_name(tmp_path):
    found = ensure({"pypi": "a", "release": "1.0"}, tmp_path)
    assert found.state == "failed"
    assert "source is {pypi, release, sha256}" in found.detail


def test_a_folder_is_verified_in_place(folder, tmp_path):
    found = ensure({"path": str(folder)}, tmp_path)
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
    found = ensure({"path": "/nowhere/model"}, tmp_path)
    assert found == Install("failed", 0, "/nowhere/model is no folder on this node")


def test_only_a_folder_with_every_file_of_its_manifest_is_finished(folder):
    assert weights.finished(folder) is None
    (folder / "MODEL_TERMS.html").write_text("<title>Terms of Use &nbsp;| Publisher</title>")
    weights._write_manifest(folder, {"path": str(folder)}, {})
    assert weights.finished(folder) == "licence: Terms of Use, kept as MODEL_TERMS.html"
    (folder / "model.safetensors").write_bytes(b"short")
    assert weights.finished(folder) is None


def test_a_licence_without_a_title_is_named_by_its_first_line(folder):
    (folder / "LICENSE.txt").write_text("\n# Apache License\n\nVersion 2.0")
    assert weights.licence_of(folder) == "licence: Apache License, kept as LICENSE.txt"
    (folder / "LICENSE.txt").unlink()
    assert "none came with the model" in weights.licence_of(folder)


def test_a_pickle_is_taken_only_where_an_owner_allows_it(folder, tmp_path):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"0123")
    found = ensure({"path": str(folder)}, tmp_path)
    assert found.state == "failed"
    assert "pytorch_model.bin is a pickle, which runs code when it is loaded" in found.detail
    assert ensure({"path": str(folder)}, tmp_path, "trust_remote_code").state == "failed"
    assert ensure({"path": str(folder)}, tmp_path, "pickle").state == "done"
