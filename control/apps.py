"""The one Django app with models."""

from django.apps import AppConfig


class ControlConfig(AppConfig):
    name = "control"
    default_auto_field = "django.db.models.BigAutoField"
