"""One revision of a Hugging Face model into a folder: `fetch_hf.py ORG/NAME SHA FOLDER`.

Run by the engine's own Python, which has huggingface_hub. Writes lines "PERCENT WHAT"; what went
wrong goes to stderr, in a sentence.
"""

import fnmatch
import hashlib
import sys
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

# Not *.bin and *.pth: they are pickles, and run code when they are loaded.
WANTED = (
    "*.json",
    "*.safetensors",
    "*.model",
    "*.jinja",
    "*.txt",
    "LICENSE*",
    "NOTICE*",
    "README*",
)
NO_NETWORK = {"TransportError", "ConnectionError", "OfflineModeIsEnabled"}
REFUSED = ("consolidated*",)


def main() -> None:
    repository, revision, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    try:
        fetch(repository, revision, folder)
    except RepositoryNotFoundError:
        sys.exit(f"no model {repository} at Hugging Face, or it wants a token (HF_TOKEN)")
    except HfHubHTTPError as error:
        sys.exit(f"Hugging Face refuses {repository} at {revision}: {error}".splitlines()[0])
    except Exception as error:
        # Which HTTP library raises it depends on the version of huggingface_hub.
        if not NO_NETWORK & {base.__name__ for base in type(error).__mro__}:
            raise
        sys.exit(
            f"no network: Hugging Face cannot be reached ({error}); connect this host, set "
            "HF_ENDPOINT to a mirror, or name a folder on the node: source {path: …}"
        )


def fetch(repository: str, revision: str, folder: Path) -> None:
    listing = HfApi().model_info(repository, revision=revision, files_metadata=True)
    files = [file for file in listing.siblings or [] if wanted(file.rfilename)]
    total = sum(file.size or 0 for file in files) or 1
    done = 0
    for file in files:
        say(100 * done // total, f"downloads {file.rfilename} ({(file.size or 0) / 2**20:.0f} MiB)")
        hf_hub_download(repository, file.rfilename, revision=revision, local_dir=folder)
        check(folder / file.rfilename, file.size, file.lfs.sha256 if file.lfs else None)
        done += file.size or 0
    say(100, f"{len(files)} files")


def wanted(name: str) -> bool:
    """Files of the top folder only: a name with a slash could lead anywhere."""
    if "/" in name or any(fnmatch.fnmatch(name, pattern) for pattern in REFUSED):
        return False
    return any(fnmatch.fnmatch(name, pattern) for pattern in WANTED)


def check(path: Path, size: int | None, sha256: str | None) -> None:
    if size is not None and path.stat().st_size != size:
        sys.exit(f"{path.name} came with {path.stat().st_size} bytes, not {size}")
    if sha256 and digest(path) != sha256:
        sys.exit(f"{path.name} came damaged: its SHA-256 is not the one that was announced")


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def say(percent: int, what: str) -> None:
    sys.stdout.write(f"{percent} {what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
