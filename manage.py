#!/usr/bin/env python
"""`weir`: the one command of the platform."""

import os
import sys

import django
from django.conf import settings
from django.core.management import execute_from_command_line

from control.management import overview


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    if sys.argv[1:] == ["--version"]:  # Django would say its own
        sys.stdout.write(f"weir {settings.VERSION}\n")
    elif sys.argv[1:] in ([], ["help"], ["-h"], ["--help"]):  # it would list its own commands
        django.setup()
        sys.stdout.write(overview.text())
    else:
        execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
