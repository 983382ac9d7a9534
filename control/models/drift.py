"""What engines counted against what is known of their work: attempts, counters, the difference."""

from django.db import models

from control.models.replica import Replica


class Attempt(models.Model):
    """One request to an engine that is not told whole by a usage event. Never charged.

    Retries, continuations, warm-ups and probes are the platform's; the last attempt of a call
    has a row (purpose `call`) where its engine did other work than the tenant's event says.
    Pruned by age and number, hence without ties.
    """

    call_id = models.CharField(max_length=40)
    number = models.PositiveSmallIntegerField(help_text="From 1, in the order they were begun")
    replica_id = models.BigIntegerField()
    purpose = models.CharField(max_length=16)
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    tokens_source = models.CharField(max_length=16)
    cut = models.BooleanField(default=False, help_text="The engine may have gone on unseen")
    outcome = models.CharField(max_length=64, help_text="Or the code of why it was given up")
    started_at = models.DateTimeField()
    first_token_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["call_id", "number"], name="one_row_an_attempt")
        ]
        indexes = [
            models.Index(fields=["replica_id", "started_at"], name="attempts_of_a_replica"),
            models.Index(fields=["started_at"], name="attempts_by_start"),
        ]

    def __str__(self) -> str:
        return f"{self.call_id}/{self.number}"


class EngineCount(models.Model):
    """The last reading of an engine's counters in one hour; another start is another row."""

    replica = models.ForeignKey(Replica, models.PROTECT, related_name="counts")
    hour = models.DateTimeField()
    counted_from = models.DateTimeField(help_text="When they stood at zero")
    read_at = models.DateTimeField()
    prompt_tokens = models.PositiveBigIntegerField()
    generation_tokens = models.PositiveBigIntegerField()
    token_seconds_sum = models.FloatField(default=0, help_text="Between tokens of one call")
    token_gaps = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["replica", "counted_from", "hour"], name="one_count_an_hour"
            )
        ]
        indexes = [models.Index(fields=["hour"], name="counts_by_hour")]

    def __str__(self) -> str:
        return f"{self.replica} {self.hour:%Y-%m-%d %H}h"


class EngineReading(models.Model):
    """Of an engine that Weir did not launch: when its counters were read last, or why not."""

    replica = models.OneToOneField(
        Replica, models.CASCADE, primary_key=True, related_name="reading"
    )
    read_at = models.DateTimeField(null=True, blank=True)
    tried_at = models.DateTimeField()
    why_not = models.CharField(max_length=300, blank=True, default="", db_default="")

    def __str__(self) -> str:
        return f"{self.replica}: {self.why_not or self.read_at}"


class Drift(models.Model):
    """One replica-hour: the engine's counters beside the attempts, and what nothing explains."""

    replica = models.ForeignKey(Replica, models.PROTECT, related_name="drifts")
    hour = models.DateTimeField()
    begin_at = models.DateTimeField()
    end_at = models.DateTimeField()
    engine_input_tokens = models.PositiveBigIntegerField()
    engine_output_tokens = models.PositiveBigIntegerField()
    input_tokens = models.PositiveBigIntegerField(help_text="Of the attempts, as they are told")
    output_tokens = models.PositiveBigIntegerField()
    input_tokens_min = models.PositiveBigIntegerField(help_text="That the attempts can explain")
    input_tokens_max = models.PositiveBigIntegerField()
    output_tokens_min = models.PositiveBigIntegerField()
    output_tokens_max = models.PositiveBigIntegerField()
    unexplained_input_tokens = models.BigIntegerField(help_text="Engine's less the attempts'")
    unexplained_output_tokens = models.BigIntegerField()
    attempts = models.PositiveBigIntegerField(default=0)
    cut_attempts = models.PositiveBigIntegerField(default=0)
    is_incident = models.BooleanField(default=False)
    calls = models.JSONField(default=list, help_text="Of an incident: where to look first")
    judged_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)
    closed_by = models.CharField(max_length=128, blank=True, default="")
    closed_reason = models.TextField(blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["replica", "begin_at"], name="one_drift_an_hour")
        ]
        indexes = [
            models.Index(fields=["hour"], name="drift_by_hour"),
            models.Index(
                fields=["hour"],
                condition=models.Q(is_incident=True, closed_at=None),
                name="open_drift_incidents",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.replica} {self.hour:%Y-%m-%d %H}h"
