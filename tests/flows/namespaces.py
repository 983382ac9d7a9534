"""Hosts with networks of their own: a namespace, a cable to ours, and a firewall before it."""

import asyncio
import functools
import os
import re
import shutil
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from control.management.local.death import dies_with_us
from tests.flows.weir import until
from tests.servers import ROOT

TOOL_SECONDS = 30
FIREWALL = ROOT / "deploy" / "firewall" / "engines.nft"


class NotHere(Exception):
    """This machine does not let us: the message says what is missing."""


@functools.cache
def why_not() -> str:
    """Empty where namespaces can be made and joined by a cable; else what is in the way."""
    return why_not_with(os.geteuid(), shutil.which)


def why_not_with(account: int, which) -> str:
    if account != 0:
        return "network namespaces want root"
    missing = [name for name in ("ip", "unshare", "nsenter") if not which(name)]
    if missing:
        return f"network namespaces want {', '.join(missing)} (iproute2, util-linux)"
    try:
        Network().close()
    except NotHere as refusal:
        return str(refusal)
    return ""


def why_no_firewall() -> str:
    return why_not() or ("" if shutil.which("nft") else "a firewall wants nft (nftables)")


@dataclass(frozen=True)
class Addresses:
    gateway: str  # ours on the cable, as the host sees gateways and control
    other: str  # ours too, and nobody of whom the firewall knows
    host: str


def addresses_of(pid: int) -> Addresses:
    """No two live networks have the same: their holders are processes."""
    first = (pid << 3) & 0x1FFFFF
    told = [f"10.{192 + (n >> 16)}.{n >> 8 & 255}.{n & 255}" for n in range(first + 1, first + 4)]
    return Addresses(*told)


class Network:
    """Held by a process that sleeps in it: when that ends, all of it is gone."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sleep", "infinity"],
            stderr=subprocess.PIPE,
            preexec_fn=dies_with_us(signal.SIGKILL),
        )
        self.addresses = addresses_of(self._holder.pid)
        self.name = f"weir{self._holder.pid}"
        self.relays: list[Relay] = []
        try:
            self._wait_for_holder()
            self._plug()
        except NotHere:
            self.close()
            raise

    def inside(self, *argv: str) -> list[str]:
        """The command as it runs there."""
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", "--", *argv]

    def run(self, *argv: str, said: str = "") -> str:
        return _run(*self.inside(*argv), said=said)

    def cut(self) -> None:
        """The cable is pulled: nobody is told, packets are gone."""
        self.run("ip", "link", "set", "eth0", "down")

    def mend(self) -> None:
        self.run("ip", "link", "set", "eth0", "up")

    def guard(self) -> None:
        """The example of deploy/, with our address as that of gateways and control."""
        self.run("nft", "-f", "-", said=firewall_for(self.addresses.gateway))

    def relay(self, port: int) -> None:
        """What listens on our loopback is there for the host too, over the cable."""
        self.relays.append(Relay(self.addresses.gateway, port))

    def close(self) -> None:
        for relay in self.relays:
            relay.close()
        self._holder.kill()
        self._holder.wait()
        self._holder.stderr.close()
        # It goes with its other end, but not at once.
        with suppress(NotHere):
            _run("ip", "link", "del", self.name)

    def _wait_for_holder(self) -> None:
        """`unshare` has become `sleep`, in a namespace that is not ours."""
        ours = os.readlink("/proc/self/ns/net")
        holder = Path(f"/proc/{self._holder.pid}")

        def is_there() -> bool:
            if self._holder.poll() is not None:
                said = self._holder.stderr.read().decode().strip()
                raise NotHere(f"network namespaces are not let: {said}")
            return os.readlink(holder / "ns/net") != ours and _command(holder) == b"sleep"

        until(is_there, "a namespace")

    def _plug(self) -> None:
        peer = ("peer", "name", "eth0", "netns", str(self._holder.pid))
        _run("ip", "link", "add", self.name, "type", "veth", *peer)
        for address in (self.addresses.gateway, self.addresses.other):
            _run("ip", "addr", "add", f"{address}/29", "dev", self.name)
        _run("ip", "link", "set", self.name, "up")
        self.run("ip", "addr", "add", f"{self.addresses.host}/29", "dev", "eth0")
        for name in ("lo", "eth0"):
            self.run("ip", "link", "set", name, "up")


class Relay:
    """Bytes between an address of ours and the same port of our loopback."""

    def __init__(self, address: str, port: int) -> None:
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        serving = asyncio.start_server(self._serve, address, port)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result(TOOL_SECONDS)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TOOL_SECONDS)
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._server.close()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while some := await reader.read(65536):
            writer.write(some)
            await writer.drain()
    writer.close()


def firewall_for(gateway: str) -> str:
    """As an operator edits it: the addresses, and nothing else."""
    text = FIREWALL.read_text()
    for name in ("gateways", "control"):
        text, found = re.subn(rf"define {name} = .*", f"define {name} = {{ {gateway} }}", text)
        assert found == 1, name
    return text


def _command(process: Path) -> bytes:
    return (process / "cmdline").read_bytes().partition(b"\0")[0]


def _run(*argv: str, said: str = "") -> str:
    done = subprocess.run(
        argv, input=said, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False
    )
    if done.returncode:
        raise NotHere(f"{argv[0]} {argv[-1]}: {done.stderr.strip()}")
    return done.stdout
