"""Messages to URLs: what is known of their delivery, and those on incidents of the fleet."""

from django.db import models

from control.states import Delivery


class Letter(models.Model):
    """A message that is sent once, and tried again so often."""

    url = models.CharField(max_length=500, blank=True, default="")
    delivery = models.CharField(max_length=16, default=Delivery.NONE)
    tries = models.PositiveSmallIntegerField(default=0)
    try_at = models.DateTimeField(null=True, blank=True)
    answer = models.CharField(max_length=200, blank=True, default="", help_text="To the last try")

    class Meta:
        abstract = True


class Incident(models.Model):
    """Something of the fleet that somebody should look at, from when it was seen to its end."""

    kind = models.CharField(max_length=16)
    key = models.CharField(max_length=128, help_text="What it is of: one is open of a kind")
    about = models.CharField(max_length=200, help_text="As people read it")
    what = models.TextField()
    is_urgent = models.BooleanField(default=True)
    opened_at = models.DateTimeField()
    gone_at = models.DateTimeField(null=True, blank=True, help_text="Not seen since; may be back")
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "key"],
                condition=models.Q(ended_at=None),
                name="one_open_incident",
            )
        ]
        indexes = [models.Index(fields=["-opened_at"], name="incidents_by_time")]

    def __str__(self) -> str:
        return f"{self.kind}: {self.about}"


class IncidentLetter(Letter):
    """To the operator's URL: that an incident opened, or ended."""

    incident = models.ForeignKey(Incident, models.CASCADE, related_name="letters")
    event = models.CharField(max_length=16)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["incident", "event"], name="one_letter_an_event")
        ]
        indexes = [
            models.Index(
                fields=["try_at"],
                condition=models.Q(delivery__in=[Delivery.WAITING, Delivery.SENDING]),
                name="incidents_to_send",
            )
        ]

    def __str__(self) -> str:
        return f"{self.incident} {self.event}"
