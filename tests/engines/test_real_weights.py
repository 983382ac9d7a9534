"""GGUF becomes safetensors by the engine's own Python, and engines can load what comes."""

import json
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines import model_folder, weights
from tests.engines.real import install_runtime

pytestmark = pytest.mark.engine
TINY_GGUF = Path(__file__).with_name("tiny_gguf.py")


@pytest.fixture(scope="module")
def python() -> Path:
    return install_runtime() / "bin" / "python"


def run(*argv: object) -> str:
    text = [str(one) for one in argv]
    done = subprocess.run(text, check=True, capture_output=True, text=True, timeout=600)
    return done.stdout


@pytest.fixture(scope="module")
def converted(python, tmp_path_factory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("gguf")
    run(python, "-P", TINY_GGUF, "write", folder / "tiny.gguf")
    run(python, "-P", weights.GGUF_TO_HF, folder / "tiny.gguf", folder / "out")
    return folder / "out"


def tensor(folder: Path, name: str) -> tuple[list[int], set[float]]:
    """Its shape and the different values in it."""
    content = (folder / "model.safetensors").read_bytes()
    [length] = struct.unpack("<Q", content[:8])
    entry = json.loads(content[8 : 8 + length])[name]
    begin, end = (8 + length + offset for offset in entry["data_offsets"])
    halves = struct.unpack(f"<{(end - begin) // 2}H", content[begin:end])
    # The upper half of a float's bits is a bfloat16.
    values = {struct.unpack("<f", struct.pack("<I", half << 16))[0] for half in halves}
    return entry["shape"], values


def test_the_folder_is_a_model_that_an_engine_can_load(converted):
    assert model_folder.check(converted) > 0


def test_tensors_keep_their_shape_and_norms_lose_the_one_that_gguf_adds(converted):
    inner = "model.layers.0"
    assert tensor(converted, f"{inner}.self_attn.q_proj.weight") == ([8, 8], {1.25})
    assert tensor(converted, f"{inner}.self_attn.k_proj.weight") == ([4, 8], {1.25})
    assert tensor(converted, f"{inner}.input_layernorm.weight") == ([8], {0.25})
    assert tensor(converted, f"{inner}.self_attn.q_norm.weight") == ([4], {0.25})
    assert tensor(converted, "model.norm.weight") == ([8], {0.5})


def test_the_config_says_what_gguf_leaves_out(converted):
    config = json.loads((converted / "config.json").read_text())
    assert config["layer_types"] == ["sliding_attention"] * 5 + ["full_attention"]
    assert config["rope_parameters"]["sliding_attention"]["rope_theta"] == 10_000.0
    assert config["rope_parameters"]["full_attention"]["rope_theta"] == 1_000_000.0
    assert (config["num_key_value_heads"], config["head_dim"]) == (1, 4)


def test_the_tokenizer_begins_with_bos_and_merges_the_best_pieces(converted, python):
    tokens = json.loads(run(python, "-P", TINY_GGUF, "read", converted))
    assert tokens == ["<bos>", "ab", "▁ab"]
