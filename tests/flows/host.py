"""Another "host" of a running platform: a home, a queue, a name and cards of its own."""

import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from urllib.parse import urlsplit

import psutil

from control.management.local.home import Home
from tests.engines.fake_nvml import card, write_state
from tests.flows.namespaces import Network, why_no_firewall
from tests.flows.weir import HANG_SECONDS, Weir, is_alive, until
from tests.servers import ROOT

GIB = 1 << 30


class Host:
    """One node worker beside those of `weir up`; it shares nothing with them but the servers.

    `library` is the folder of the fake NVML: with it the host has two cards, else its RAM. With a
    `network` its engines listen on an address of its own, behind the firewall of deploy/.
    """

    def __init__(
        self,
        weir: Weir,
        name: str,
        library: Path | None = None,
        network: Network | None = None,
    ) -> None:
        self.weir, self.name, self.network = weir, name, network
        self.folder = Path(tempfile.mkdtemp(prefix=f"weir-{name}-"))
        self.home = Home(self.folder / "home")
        self.state = self.folder / "nvml"
        self.notice = self.folder / "notice"
        servers = weir.connections()
        self.environment = weir.environment | {
            "WEIR_HOME": str(self.home.path),
            "WEIR_NODE_NAME": name,
            "WEIR_DATABASE_URL": servers["database_url"],
            "WEIR_REDIS_URL": servers["redis_url"],
            "WEIR_SECRET": (weir.home.path / "secret").read_text(),
            "WEIR_LEAVING_NOTICE": str(self.notice),
        }
        if library:
            empty = {"memory_used": 500_000_000}  # a card of its own is given away whole
            pair = [card(n, uuid=f"GPU-{name}-{n}", **empty) for n in (0, 1)]
            self.cards(**pair[0], **pair[1], count=2, **{"nvlink.0.1": 1})
            more = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_STATE": str(self.state)}
            self.environment |= more
        if network:
            self._join(network)
        self.output = self.folder / "output"
        self.process: subprocess.Popen | None = None

    def cards(self, **lines: object) -> None:
        write_state(self.state, **lines)

    def start(self) -> "Host":
        argv = [*self.weir.command, "node"]
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                self.network.inside(*argv) if self.network else argv,
                env=self.environment,
                stdout=output,
                stderr=output,
                cwd=ROOT,
            )
        until(self._is_heard, f"a heartbeat of {self.name}, which said:\n{self.said()}")
        return self

    def weir_node(self, *words: str) -> str:
        done = subprocess.run(
            [*self.weir.command, "node", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kill_worker(self) -> None:
        """kill -9: nobody looks after its engines; they run on."""
        self.process.kill()
        self.process.wait(HANG_SECONDS)

    def freeze(self) -> None:
        """As if its network were cut: it lives, and reaches nobody."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def die(self) -> None:
        """The host is gone, with all that ran on it."""
        self.kill_worker()
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        until(lambda: not self.processes(), "processes that end")

    def engines(self) -> dict[int, dict]:
        """Live engine processes of this host: replica id → record."""
        return {one["replica_id"]: one for one in self._records() if is_alive(one["pid"])}

    def processes(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.environ().get("WEIR_HOME") == str(self.home.path):
                    found.append(process)
        return found

    def said(self) -> str:
        return self.output.read_text(errors="replace")[-4000:] if self.output.exists() else ""

    def clean_up(self) -> None:
        with suppress(ProcessLookupError, AttributeError):
            self.thaw()
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if self.process:
            self.process.wait(HANG_SECONDS)
        if self.network:
            self.network.close()
        rmtree(self.folder, ignore_errors=True)

    def _join(self, network: Network) -> None:
        """The servers are reached over the cable: who cuts it cuts these too."""
        for name in ("WEIR_DATABASE_URL", "WEIR_REDIS_URL"):
            url = self.environment[name]
            port = urlsplit(url).port
            network.relay(port)
            here, there = f"127.0.0.1:{port}", f"{network.addresses.gateway}:{port}"
            self.environment[name] = url.replace(here, there)
        self.environment["WEIR_NODE_ADDRESS"] = network.addresses.host
        if not why_no_firewall():
            network.guard()

    def _is_heard(self) -> bool:
        assert self.process.poll() is None, f"`weir node` ended:\n{self.said()}"
        rows = self.weir.rows(
            "SELECT count(*) FROM control_device d JOIN control_node n ON n.id = d.node_id"
            " WHERE n.name = %s AND n.state = 'ready' AND d.error = ''",
            self.name,
        )
        return rows[0][0] > 0

    def _records(self) -> list[dict]:
        return list(Weir.engines_recorded(self).values())
