"""What can be served: models and their immutable versions."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from django.db import models

DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Upstream:
    """Where an external engine answers; `path` is what stands before /v1, usually nothing."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


class CatalogModel(models.Model):
    """A catalogue entry; its name is what an engine answers as `model`."""

    name = models.SlugField(max_length=96, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class Version(models.Model):
    """Artifact + engine + arguments. Content never changes (a trigger refuses it)."""

    model = models.ForeignKey(CatalogModel, models.PROTECT, related_name="versions")
    name = models.SlugField(max_length=63)
    engine = models.JSONField(help_text="kind, version; for external: url, served_name")
    source = models.JSONField(null=True, blank=True)
    arguments = models.JSONField(default=dict, blank=True)
    memory = models.JSONField(null=True, blank=True, help_text="kv_tokens or calls")
    unsafe = models.JSONField(
        null=True, blank=True, help_text="pickle, trust_remote_code → why an owner allowed it"
    )
    upstream_key = models.BinaryField(null=True, blank=True, help_text="Fernet, external engines")
    digest = models.CharField(max_length=64, help_text="SHA-256 of the content above")
    created_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["model", "name"], name="version_name_in_model")
        ]

    def __str__(self) -> str:
        return f"{self.model}:{self.name}"

    @property
    def is_external(self) -> bool:
        return self.engine.get("kind") == "external"

    @property
    def served_name(self) -> str:
        """What the engine calls its model: callers see it as `model` in its answers."""
        return self.engine.get("served_name") or self.model.name

    @property
    def upstream(self) -> Upstream:
        """Of an external engine. A `/v1` at the end of its URL is ours to add."""
        url = urlsplit(self.engine["url"])
        path = url.path.rstrip("/").removesuffix("/v1")
        return Upstream(url.scheme, url.hostname or "", url.port or DEFAULT_PORTS[url.scheme], path)


class VersionMeasure(models.Model):
    """What a version's files say about the memory it needs, read where they first arrived."""

    version = models.OneToOneField(Version, models.CASCADE, related_name="measure")
    weights_bytes = models.BigIntegerField()
    kv_cost = models.JSONField(help_text="Bytes of KV cache by kind of layer")
    facts = models.JSONField(
        null=True, help_text="Of config.json and the headers of its files: sizes and layers"
    )
    measured_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.version}: {self.weights_bytes} bytes of weights"
