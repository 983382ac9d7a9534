"""`weir runtime install`: an engine's environment ahead of its first replica."""

import subprocess
import sys
from argparse import ArgumentParser

from django.conf import settings
from django.core.management.base import BaseCommand

from control.catalog.rules import ENGINE_VERSIONS


class Command(BaseCommand):
    help = "Install an engine runtime now, so that the first replica need not wait for it."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["install"])
        parser.add_argument("--engine", default="vllm")
        parser.add_argument("--release", default=ENGINE_VERSIONS["vllm"][-1], help="of the engine")
        parser.add_argument("--device", default="cpu", choices=["cpu", "gpu"])

    def handle(self, *, action: str, engine: str, release: str, device: str, **options) -> None:
        # In a process of its own: what touches the machine is reached through node tasks only.
        argv = [sys.executable, "-m", "engines.runtime", action]
        argv += ["--kind", engine, "--version", release, "--device", device]
        argv += ["--root", str(settings.WEIR_RUNTIMES), "--python", settings.WEIR_ENGINE_PYTHON]
        sys.exit(subprocess.run(argv, cwd=settings.BASE_DIR, check=False).returncode)
