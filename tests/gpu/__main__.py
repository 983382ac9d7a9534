"""`make test-gpu`: what wants a real card; where there is none, it says that it did not run."""

import os
import sys
from pathlib import Path

import pytest

from engines import gpu, installs, runtime
from tests.engines.real import LENT, VERSION

ON_A_CARD = Path(__file__).with_name("on_a_card.py")
FLOW = Path(__file__).parent.parent / "flows" / "test_real_engine.py"


def main() -> int:
    read = gpu.Reader().read(xids=False)
    cards = [one for one in read if one.kind == "gpu" and not one.error]
    if not cards:
        why = "; ".join(one.error for one in read if one.error) or "NVML shows no card here"
        return _say(f"make test-gpu did not run: {why}")
    files = [str(ON_A_CARD)]
    *_, asked = installs.poll(
        lambda: runtime.ensure("vllm", VERSION, "gpu", Path(LENT["WEIR_RUNTIMES"]))
    )
    if asked.state == "done":
        os.environ["WEIR_TEST_DEVICE"] = "gpu"
        files.append(str(FLOW))
    else:
        _say(f"vLLM cannot be had here, so the part of NVML alone: {asked.detail}")
    return pytest.main(["-v", *files])


def _say(line: str) -> int:
    sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
