"""The Celery application: carries hints to workers, never state."""

import os
import warnings

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
# They load every page of the console, 15 MiB in each worker; `weir web` has them checked.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")
# Only JSON is accepted, so that root runs no more than others would; and tasks may run twice.
warnings.filterwarnings("ignore", message="You're running the worker with superuser")
warnings.filterwarnings("ignore", message=r"\nIn Celery 5\.1 we introduced")

app = Celery("weir")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.set_default()  # of all threads: tasks that are shared find it
