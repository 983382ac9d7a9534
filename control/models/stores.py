"""What nodes keep on disk: engine runtimes and the weights of models."""

from django.db import models

from control.models.fleet import Node
from control.states import FilesState


class Files(models.Model):
    """On one node: how far they are, and who asked for them."""

    state = models.CharField(max_length=16, default=FilesState.WANTED)
    percent = models.PositiveSmallIntegerField(default=0)
    detail = models.TextField(blank=True, default="", help_text="What is done, or why it failed")
    size_bytes = models.BigIntegerField(null=True, blank=True)
    asked_by = models.CharField(max_length=128, blank=True, default="")
    asked_at = models.DateTimeField(null=True, blank=True)
    state_at = models.DateTimeField()

    class Meta:
        abstract = True


class NodeRuntime(Files):
    """One environment of an engine on one node: asked for ahead, or found there."""

    node = models.ForeignKey(Node, models.CASCADE, related_name="runtimes")
    engine = models.CharField(max_length=32)
    version = models.CharField(max_length=32)
    device_kind = models.CharField(max_length=8, help_text="gpu or cpu: what it was built for")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node", "engine", "version", "device_kind"], name="one_runtime_a_node"
            )
        ]

    def __str__(self) -> str:
        return f"{self.engine} {self.version} for {self.device_kind} on {self.node}"


class NodeWeights(Files):
    """The weights of one source on one node, in its cache or on their way."""

    node = models.ForeignKey(Node, models.CASCADE, related_name="weights")
    key = models.CharField(max_length=200, help_text="Its folder in the cache")
    source = models.JSONField(default=dict)
    unsafe = models.JSONField(null=True, blank=True, help_text="What an owner allowed of them")
    engine = models.JSONField(default=dict, help_text="Whose Python converts them, if need be")
    held = models.BooleanField(default=False, help_text="A live replica uses them: they stay")
    used_at = models.DateTimeField(null=True, blank=True, help_text="The oldest give way first")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "key"], name="one_copy_of_weights_a_node")
        ]

    def __str__(self) -> str:
        return f"{self.key} on {self.node}"
