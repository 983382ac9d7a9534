"""A folder of a bucket: SHA256SUMS, whose own SHA-256 the version names, lists its files."""

import hashlib
import hmac
import time
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit

import httpx

from engines import download
from engines.download import RemoteFile
from engines.installs import InstallFailed
from engines.stores.access import Access

SUMS = "SHA256SUMS"
_NOTHING = hashlib.sha256(b"").hexdigest()


def files(client: httpx.Client, source: dict, access: Access) -> list[RemoteFile]:
    base = f"{access.s3 or f'https://s3.{access.s3_region}.amazonaws.com'}/{source['s3']}"
    sums = _url(base, SUMS)
    told = download.ask(client, sums, f"{SUMS} of {source['s3']}", _headers("GET", sums, access))
    if hashlib.sha256(told).hexdigest() != source["sha256"]:
        raise InstallFailed(f"{SUMS} of {source['s3']} is not the one that the version names")
    return [_file(client, base, line, access) for line in told.decode().splitlines() if line]


def _file(client: httpx.Client, base: str, line: str, access: Access) -> RemoteFile:
    sha256, _, name = line.partition(" ")
    name = name.lstrip(" *").removeprefix("./")
    url = _url(base, name)
    try:
        told = client.head(url, headers=_headers("HEAD", url, access))
    except httpx.TransportError as error:
        raise InstallFailed(f"no network: {base} cannot be reached ({error})") from error
    size = told.headers.get("content-length", "") if told.status_code == 200 else ""
    return RemoteFile(
        name=name,
        url=url,
        size=int(size) if size.isdecimal() else None,
        sha256=sha256,
        headers=lambda: _headers("GET", url, access),
    )


def _url(base: str, name: str) -> str:
    return f"{base}/{quote(name)}"


def _headers(method: str, url: str, access: Access) -> dict[str, str]:
    if not access.s3_key_id:
        return {}  # an open bucket
    # The signature holds for a quarter of an hour from this moment.
    return signed(method, url, access, datetime.fromtimestamp(time.time(), UTC))


def signed(
    method: str, url: str, access: Access, at: datetime, body_sha256: str = _NOTHING
) -> dict[str, str]:
    """AWS Signature, version 4."""
    parts = urlsplit(url)
    moment = at.strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": parts.netloc, "x-amz-content-sha256": body_sha256, "x-amz-date": moment}
    if access.s3_session:
        headers["x-amz-security-token"] = access.s3_session
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    query = query_of(dict(parse_qsl(parts.query, keep_blank_values=True)))
    request = f"{method}\n{parts.path}\n{query}\n{lines}\n{names}\n{body_sha256}"
    scope = f"{moment[:8]}/{access.s3_region}/s3/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{access.s3_secret}".encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}"
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"{access.s3_key_id}/{scope}"
    return {
        **{name: value for name, value in headers.items() if name != "host"},
        "authorization": f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, "
        f"Signature={signature}",
    }


def query_of(values: dict[str, str]) -> str:
    """As it is signed, and best sent so too."""
    told = {quote(name, safe="-_.~"): quote(value, safe="-_.~") for name, value in values.items()}
    return "&".join(f"{name}={told[name]}" for name in sorted(told))
