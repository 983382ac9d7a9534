"""One commit of a ModelScope repository: its files, with what verifies each."""

import json
from urllib.parse import quote, urlencode

import httpx

from engines import download
from engines.download import RemoteFile
from engines.installs import InstallFailed
from engines.stores.access import Access


def files(client: httpx.Client, source: dict, access: Access) -> list[RemoteFile]:
    name, revision = source["modelscope"], source["revision"]
    token = access.modelscope_token
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    base = f"{access.modelscope}/api/v1/models/{quote(name)}/repo"
    asked = urlencode({"Revision": revision, "Recursive": "false"})
    what = f"{name} at {revision} (a token is MODELSCOPE_API_TOKEN)"
    told = download.ask(client, f"{base}/files?{asked}", what, headers)
    try:
        listed = json.loads(told)["Data"]["Files"]
        return [_file(one, base, revision, headers) for one in listed if one["Type"] == "blob"]
    except (ValueError, KeyError, TypeError) as error:
        raise InstallFailed(f"{access.modelscope} lists {name} in no form that is known") from error


def _file(listed: dict, base: str, revision: str, headers: dict[str, str]) -> RemoteFile:
    asked = urlencode({"Revision": revision, "FilePath": listed["Path"]})
    return RemoteFile(
        name=listed["Path"],
        url=f"{base}?{asked}",
        size=listed.get("Size"),
        sha256=listed.get("Sha256") or "",
        headers=lambda: dict(headers),
    )
