"""Addresses and credentials of the stores: from the environment, so that none stands in argv."""

import os
from dataclasses import dataclass, field

HUGGINGFACE = "https://huggingface.co"
MODELSCOPE = "https://www.modelscope.cn"


@dataclass(frozen=True)
class Access:
    huggingface: str = HUGGINGFACE
    huggingface_token: str = field(default="", repr=False)
    modelscope: str = MODELSCOPE
    modelscope_token: str = field(default="", repr=False)
    s3: str = ""  # another than Amazon's
    s3_region: str = "us-east-1"
    s3_key_id: str = ""
    s3_secret: str = field(default="", repr=False)
    s3_session: str = field(default="", repr=False)


def from_environment() -> Access:
    """Under the names that each store's own tools use."""
    said = os.environ.get
    return Access(
        huggingface=(said("HF_ENDPOINT") or HUGGINGFACE).rstrip("/"),
        huggingface_token=said("HF_TOKEN", ""),
        modelscope=(said("MODELSCOPE_ENDPOINT") or MODELSCOPE).rstrip("/"),
        modelscope_token=said("MODELSCOPE_API_TOKEN", ""),
        s3=(said("AWS_ENDPOINT_URL_S3") or said("AWS_ENDPOINT_URL") or "").rstrip("/"),
        s3_region=said("AWS_REGION") or said("AWS_DEFAULT_REGION") or "us-east-1",
        s3_key_id=said("AWS_ACCESS_KEY_ID", ""),
        s3_secret=said("AWS_SECRET_ACCESS_KEY", ""),
        s3_session=said("AWS_SESSION_TOKEN", ""),
    )
