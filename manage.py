#!/usr/bin/env python
"""`weir`: the one command of the platform."""

import os
import sys

from django.conf import settings
from django.core.management import execute_from_command_line


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    if sys.argv[1:] == ["--version"]:  # Django would say its own
        sys.stdout.write(f"weir {settings.VERSION}\n")
    else:
        execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
