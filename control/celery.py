"""The Celery application: carries hints to workers, never state."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

app = Celery("weir")
app.config_from_object("django.conf:settings", namespace="CELERY")
