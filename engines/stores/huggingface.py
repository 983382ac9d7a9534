"""One commit of a Hugging Face repository: its files, with what verifies each."""

import json
from urllib.parse import quote

import httpx

from engines import download
from engines.download import RemoteFile
from engines.installs import InstallFailed
from engines.stores.access import Access


def files(client: httpx.Client, source: dict, access: Access) -> list[RemoteFile]:
    name, revision = source["huggingface"], source["revision"]
    token = access.huggingface_token
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{access.huggingface}/api/models/{quote(name)}/revision/{revision}?blobs=true"
    told = download.ask(client, url, f"{name} at {revision} (a token is HF_TOKEN)", headers)
    try:
        listed = json.loads(told)["siblings"]
        return [
            _file(one, f"{access.huggingface}/{name}/resolve/{revision}", headers) for one in listed
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise InstallFailed(
            f"{access.huggingface} lists {name} in no form that is known"
        ) from error


def _file(listed: dict, base: str, headers: dict[str, str]) -> RemoteFile:
    large = listed.get("lfs") or {}
    return RemoteFile(
        name=listed["rfilename"],
        url=f"{base}/{quote(listed['rfilename'])}",
        size=large.get("size", listed.get("size")),
        sha256=large.get("sha256", ""),
        git_sha1="" if large else listed.get("blobId", ""),
        headers=lambda: dict(headers),
    )
