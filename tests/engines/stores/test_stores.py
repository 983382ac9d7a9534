"""Each store lists a model's files with what verifies them; none fetches code by itself."""

import hashlib
import json
from datetime import UTC, datetime

import pytest

from engines.installs import InstallFailed
from engines.stores import choice, huggingface, modelscope, s3
from engines.stores.access import Access

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHA = "ab" * 32


def test_a_commit_at_hugging_face(store, client):
    listing = {
        "siblings": [
            {"rfilename": "config.json", "size": 2, "blobId": "c0ffee"},
            {"rfilename": "m.safetensors", "size": 9, "lfs": {"sha256": SHA, "size": 9}},
        ]
    }
    path = f"/api/models/org/name/revision/{COMMIT}?blobs=true"
    store.files[path] = json.dumps(listing).encode()
    source = {"huggingface": "org/name", "revision": COMMIT}
    access = Access(huggingface=store.url, huggingface_token="hf_x")
    small, large = huggingface.files(client, source, access)
    assert (small.name, small.size, small.git_sha1, small.sha256) == (
        "config.json",
        2,
        "c0ffee",
        "",
    )
    assert (large.size, large.git_sha1, large.sha256) == (9, "", SHA)
    assert large.url == f"{store.url}/org/name/resolve/{COMMIT}/m.safetensors"
    assert store.headers[0]["authorization"] == "Bearer hf_x"
    assert large.headers() == {"Authorization": "Bearer hf_x"}
    assert "hf_x" not in repr(access)


def test_a_commit_at_modelscope(store, client):
    listing = {
        "Data": {
            "Files": [
                {"Path": "sub", "Type": "tree"},
                {"Path": "m.safetensors", "Type": "blob", "Size": 9, "Sha256": SHA},
            ]
        }
    }
    path = f"/api/v1/models/org/name/repo/files?Revision={COMMIT}&Recursive=false"
    store.files[path] = json.dumps(listing).encode()
    source = {"modelscope": "org/name", "revision": COMMIT}
    [file] = modelscope.files(client, source, Access(modelscope=store.url))
    assert (file.name, file.size, file.sha256) == ("m.safetensors", 9, SHA)
    assert file.url.endswith(f"/repo?Revision={COMMIT}&FilePath=m.safetensors")


@pytest.mark.parametrize("listing", [b"{}", b"<html>", b'{"siblings": [{}]}'])
def test_a_listing_that_is_none_is_said(store, client, listing):
    store.files[f"/api/models/org/name/revision/{COMMIT}?blobs=true"] = listing
    source = {"huggingface": "org/name", "revision": COMMIT}
    with pytest.raises(InstallFailed, match="lists org/name in no form that is known"):
        huggingface.files(client, source, Access(huggingface=store.url))


def test_a_folder_of_a_bucket_is_what_its_sums_say(store, client):
    sums = f"{SHA}  model.safetensors\n{'cd' * 32} *./config.json\n".encode()
    store.files["/models/org/name/SHA256SUMS"] = sums
    store.files["/models/org/name/model.safetensors"] = b"123456789"
    store.files["/models/org/name/config.json"] = b"{}"
    source = {"s3": "models/org/name", "sha256": hashlib.sha256(sums).hexdigest()}
    access = Access(s3=store.url, s3_key_id="AKID", s3_secret="secret")
    large, small = s3.files(client, source, access)
    assert (large.name, large.size, large.sha256) == ("model.safetensors", 9, SHA)
    assert (small.name, small.size) == ("config.json", 2)
    assert all("Credential=AKID/" in headers["authorization"] for headers in store.headers)
    with pytest.raises(InstallFailed, match="is not the one that the version names"):
        s3.files(client, source | {"sha256": SHA}, access)


def test_requests_are_signed_as_amazon_documents_it():
    """Of "Signature calculations: examples", without the range header that we do not sign."""
    access = Access(
        s3_key_id="AKIAIOSFODNN7EXAMPLE", s3_secret="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    )
    at = datetime(2013, 5, 24, tzinfo=UTC)
    url = "https://examplebucket.s3.amazonaws.com/test.txt"
    headers = s3.signed("GET", url, access, at)
    assert headers["x-amz-date"] == "20130524T000000Z"
    scope = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"
    assert f"Credential={scope}," in headers["authorization"]
    assert headers == s3.signed("GET", url, access, at)
    assert headers != s3.signed("HEAD", url, access, at)


@pytest.mark.parametrize(
    ("query", "signature"),
    [
        ("lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        ("prefix=J&max-keys=2", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)
def test_queries_are_signed_as_amazons_examples_are(query, signature):
    access = Access(
        s3_key_id="AKIAIOSFODNN7EXAMPLE", s3_secret="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    )
    url = f"https://examplebucket.s3.amazonaws.com/?{query}"
    headers = s3.signed("GET", url, access, datetime(2013, 5, 24, tzinfo=UTC))
    assert headers["authorization"].endswith(f"Signature={signature}")


WHOLE = ["config.json", "model.safetensors", "tokenizer.json", "LICENSE"]


@pytest.mark.parametrize(
    ("names", "unsafe", "taken"),
    [
        (WHOLE, (), WHOLE),
        ([*WHOLE, "pytorch_model.bin", "modeling.py", "x/y.json"], (), WHOLE),
        ([*WHOLE, "pytorch_model.bin"], ("pickle",), WHOLE),
        ([*WHOLE, "modeling.py"], ("trust_remote_code",), [*WHOLE, "modeling.py"]),
        (["config.json", "a.bin"], ("pickle",), ["config.json", "a.bin"]),
        (["config.json", "a.bin"], (), ["config.json"]),
        (["config.json", "a.gguf"], (), ["config.json", "a.gguf"]),
        (["config.json", "a.gguf", "b.gguf"], (), ["config.json"]),
        ([*WHOLE, "a.gguf", "consolidated.safetensors"], (), WHOLE),
    ],
)
def test_a_models_files_are_chosen(names, unsafe, taken):
    assert choice.chosen(names, unsafe) == taken


def test_a_repository_without_safetensors_is_refused_with_what_to_do():
    assert "a.bin), which run code" in choice.refusal(["config.json", "a.bin"])
    assert "several GGUF files" in choice.refusal(["a.gguf", "b.gguf"])
    assert "no weights" in choice.refusal(["config.json"])
