"""A runtime of vLLM in which, while a test says so, a step asks for more memory than there is."""

from pathlib import Path

from tests.engines.real import install_runtime

# Runs in the engine's own Python. The refusal is the allocator's, the error and the death vLLM's.
HOOK = """
import sys
from importlib.machinery import PathFinder
from pathlib import Path

WORKER = "vllm.v1.worker.cpu_worker"
ASKED = Path(__file__).with_name("short-of-memory")


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name != WORKER:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (execute(module), patch(module))
        return spec


def patch(module):
    step = module.CPUWorker.execute_model

    def short(self, *args, **more):
        if ASKED.exists():
            module.torch.empty(1 << 50, dtype=module.torch.uint8)
        return step(self, *args, **more)

    module.CPUWorker.execute_model = short


sys.meta_path.insert(0, Finder())
"""


class Runtimes:
    """The installed one by links, with a folder of packages of its own before it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        real = install_runtime()
        [packages] = real.glob("lib/python3*/site-packages")
        made = folder / real.name
        self._own = made / packages.relative_to(real)
        self._own.mkdir(parents=True)
        for one in [*real.iterdir(), *(real / "lib").iterdir()]:
            link = made / one.relative_to(real)
            if not link.exists():
                link.symlink_to(one)
        (self._own / "weir_short.py").write_text(HOOK)
        lines = (f"import site; site.addsitedir({str(packages)!r})", "import weir_short")
        (self._own / "weir.pth").write_text("\n".join(lines) + "\n")

    @property
    def asked(self) -> Path:
        """While this file is there, each step is short of memory."""
        return self._own / "short-of-memory"
