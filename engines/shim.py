"""Becomes the engine: notes its process on disk, then executes the command in its own place.

Run by supervisor.launch as `python -I -S shim.py FOLDER RECORD ARGV...`. The pid and the start
time stay the same over exec, so there is no moment in which an engine runs unrecorded.
"""

import json
import os
import sys


def main() -> None:
    folder, record, argv = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
    with open("/proc/self/stat") as file:
        text = file.read()
    record["pid"] = os.getpid()
    record["start_ticks"] = int(text[text.rindex(")") + 2 :].split()[19])
    write(os.path.join(folder, "engine.json"), json.dumps(record))
    os.chdir(folder)  # what it leaves where it runs goes with its folder
    try:
        os.execv(argv[0], argv)
    except OSError as error:
        sys.exit(f"cannot execute {argv[0]}: {error.strerror}")


def write(path: str, text: str) -> None:
    """All or nothing, also through a power cut."""
    with open(path + ".tmp", "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".tmp", path)
    handle = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


if __name__ == "__main__":
    main()
