"""Whether a folder holds a model that an engine can load: config, tokenizer, whole safetensors."""

import json
import struct
from pathlib import Path

HEADER_BYTES_MAX = 100 << 20
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json")
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_INDEX = "model.safetensors.index.json"


class BadModel(Exception):
    """What is missing or damaged."""


def check(folder: Path, *, pickle: bool = False) -> int:
    """Bytes of its weights; BadModel if an engine could not load it, or would run code by it.

    `pickle`: an owner allows weights that run code of whoever made them when they are loaded.
    """
    if not folder.is_dir():
        raise BadModel(f"{folder} is no folder on this node")
    _read_json(folder / "config.json")
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise BadModel(f"{folder} has no tokenizer: none of {', '.join(_TOKENIZERS)}")
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        return _pickles(folder, allowed=pickle)
    if (folder / _INDEX).is_file():
        named = set(_read_json(folder / _INDEX).get("weight_map", {}).values())
        if missing := named - {file.name for file in files}:
            raise BadModel(f"{folder} lacks {', '.join(sorted(missing))}, which its index names")
    return sum(check_safetensors(file) for file in files)


def _pickles(folder: Path, *, allowed: bool) -> int:
    found = [path for pattern in PICKLES for path in sorted(folder.glob(pattern))]
    if not found:
        raise BadModel(f"{folder} has no weights: no *.safetensors")
    if not allowed:
        raise BadModel(
            f"{folder} has no safetensors; {found[0].name} is a pickle, which runs code when it is "
            "loaded: convert it, or have an owner allow it (unsafe: {pickle: why})"
        )
    return sum(path.stat().st_size for path in found)


def config(folder: Path) -> dict:
    """Its config.json; BadModel says what is wrong with it."""
    return _read_json(folder / "config.json")


def tensors(folder: Path) -> list[tuple[str, str, tuple[int, ...], int]] | None:
    """Name, type, shape and bytes of each tensor, from the headers; None without safetensors."""
    files = sorted(folder.glob("*.safetensors"))
    found = []
    for path in files:
        header, _ = _header(path)
        try:
            found += [
                (name, str(entry["dtype"]), tuple(map(int, entry["shape"])), _bytes(entry))
                for name, entry in header.items()
                if name[:2] != "__"
            ]
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise BadModel(f"{path} is damaged: its header cannot be read") from error
    return found if files else None


def check_safetensors(path: Path) -> int:
    """Bytes of the tensors; the header says how long the file must be, so a cut one shows."""
    size = path.stat().st_size
    header, length = _header(path)
    try:
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name[:2] != "__"]
    except (KeyError, TypeError, IndexError) as error:
        raise BadModel(f"{path} is damaged: its header cannot be read") from error
    tensors = max(ends, default=0)
    if size != 8 + length + tensors:
        raise BadModel(f"{path} is damaged: {size} bytes, its header says {8 + length + tensors}")
    return tensors


def _header(path: Path) -> tuple[dict, int]:
    """The header of a safetensors file, and its length."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else HEADER_BYTES_MAX + 1
        if length > min(HEADER_BYTES_MAX, size):
            raise BadModel(f"{path} is damaged: no safetensors header")
        try:
            header = json.loads(file.read(length))
        except ValueError as error:
            raise BadModel(f"{path} is damaged: its header cannot be read") from error
    if not isinstance(header, dict):
        raise BadModel(f"{path} is damaged: its header cannot be read")
    return header, length


def _bytes(entry: dict) -> int:
    begin, end = entry["data_offsets"]
    return int(end) - int(begin)


def _read_json(path: Path) -> dict:
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise BadModel(f"{path} is missing") from error
    except ValueError as error:
        raise BadModel(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadModel(f"{path} holds no object")
    return found
