"""What can be served: models and their immutable versions."""

from django.db import models


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


class VersionMeasure(models.Model):
    """What a version's files say about the memory it needs, read where they first arrived."""

    version = models.OneToOneField(Version, models.CASCADE, related_name="measure")
    weights_bytes = models.BigIntegerField()
    kv_cost = models.JSONField(help_text="Bytes of KV cache by kind of layer")
    measured_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.version}: {self.weights_bytes} bytes of weights"
