"""Hosts on one machine: each has its own network, processes, name, home and temporary folders.

A host is a tree of processes in namespaces of its own, tied to a switch (a bridge in a network
namespace, which nothing else is connected to). Nothing of it has a name outside, so that nothing
can be left behind: when the test's process ends, however it ends, the kernel ends every host, and
with the last process go the networks and the folders.
"""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[2]
_TOOLS = ("ip", "nsenter", "setpriv", "taskset", "unshare")
_NETWORK = "10.77.0"
_CODE = ("orchestrator", "workloads", "tests")
_CABLES = itertools.count()
_START_S = 20.0

# The folders that a host has for itself. What Python needs and lies below one of them (as in
# /root/.pyenv, or a checkout in /tmp) is put back into it.
_OWN = ("/tmp", "/root", "/dev/shm")
_INIT = """
set -e
hostname {name}
mount -t tmpfs none /mnt
i=0
for each in {needed}; do
    i=$((i + 1)); mkdir /mnt/$i; mount --rbind "$each" /mnt/$i
done
for each in {own}; do mount -t tmpfs none "$each"; done
i=0
for each in {needed}; do
    i=$((i + 1)); mkdir -p "$each"; mount --rbind /mnt/$i "$each"
done
umount -R -l /mnt
for each in {hidden}; do mount -t tmpfs none "$each"; done
printf '%b' {hosts} > /root/hosts
mount --bind /root/hosts /etc/hosts
ip link set lo up
echo ready
while :; do sleep 3600 & wait $!; done
"""


def why_not() -> str | None:
    """Why there can be no hosts here; None where there can."""
    if sys.platform != "linux":
        return "hosts are made of Linux namespaces"
    if os.geteuid() != 0:
        return "namespaces need root"
    lacking = [tool for tool in (*_TOOLS, "bash") if shutil.which(tool) is None]
    if lacking:
        return f"{', '.join(lacking)} not installed (Debian: iproute2, util-linux)"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "--pid", "--ipc", "--fork", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"no namespaces here: {tried.stderr.strip()}" if tried.returncode else None


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended; `out` holds what it wrote, `err` what it said."""

    code: int
    out: str
    err: str

    def expect(self, code: int = 0) -> Done:
        """Itself, if it ended with this exit code."""
        assert self.code == code, f"exit code {self.code}\n{self.out[-4000:]}\n{self.err[-4000:]}"
        return self


class Running:
    """A command that runs beside the test, with its output in a file."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._output = tempfile.TemporaryFile("w+b")  # noqa: SIM115  (as long as this)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=dict(environ),
            start_new_session=True,
        )

    @property
    def code(self) -> int | None:
        """Its exit code, once it has ended."""
        return self.process.poll()

    @property
    def output(self) -> str:
        """All that it has written so far."""
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), size, 0).decode(errors="replace")

    def wait(self, timeout_s: float) -> int:
        """Its exit code, when it ends."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            text = self.output[-6000:]
            raise AssertionError(f"still running after {timeout_s} s:\n{text}") from None

    def until(self, words: str, timeout_s: float) -> str:
        """Its output, as soon as it holds these words."""
        deadline_s = time.monotonic() + timeout_s
        while words not in (text := self.output):
            assert self.code is None, f"ended with {self.code}, without {words!r}:\n{text[-6000:]}"
            assert time.monotonic() < deadline_s, f"no {words!r} in\n{text[-6000:]}"
            time.sleep(0.1)
        return text


class Switch:
    """What hosts are plugged into."""

    def __init__(self) -> None:
        self._holder = _held(["unshare", "--net", "--fork", "--kill-child", "sleep", "infinity"])
        self.pid = _child(self._holder.pid)
        self.ip("link", "add", "switch", "type", "bridge")
        self.ip("link", "set", "switch", "up")
        self.hosts: dict[str, Host] = {}

    def ip(self, *arguments: str) -> None:
        """Run `ip` in the switch's network."""
        _run(["nsenter", "--target", str(self.pid), "--net", "ip", *arguments])

    def plug(self, name: str, *, with_code: bool = False, cpus: Iterable[int] = ()) -> Host:
        """A new host. Without the code, it has what Python packages there are, and not ours."""
        self.hosts[name] = Host(self, name, with_code=with_code, cpus=tuple(cpus))
        return self.hosts[name]

    def close(self) -> None:
        """End everything."""
        for host in list(self.hosts.values()):
            host.remove()
        self._holder.kill()
        self._holder.wait()


class Host:
    """One host. Its name and address are known to all hosts that are named before they start."""

    NAMES = ("head", "steady", "gpu", "mlflow", "laptop", "late")

    def __init__(
        self, switch: Switch, name: str, *, with_code: bool, cpus: tuple[int, ...]
    ) -> None:
        self.name, self._switch, self._cpus = name, switch, cpus
        self.address = self.address_of(name)
        script = _INIT.format(
            name=name,
            needed=" ".join(map(shlex.quote, _needed())),
            own=" ".join(_OWN),
            hidden="" if with_code else " ".join(shlex.quote(str(ROOT / each)) for each in _CODE),
            hosts=shlex.quote(_hosts_file()),
        )
        spaces = ("--net", "--mount", "--uts", "--pid", "--ipc", "--fork", "--mount-proc")
        self._holder = _held(["unshare", *spaces, "--kill-child", "bash", "-c", script])
        assert self._holder.stdout is not None
        said = self._holder.stdout.readline()
        assert said == b"ready\n", f"host {name} could not be made: {said!r}"
        self.pid = _child(self._holder.pid)
        self._cable = f"cable{next(_CABLES)}"  # a removed host's stays for a moment
        switch.ip(
            *("link", "add", self._cable, "type", "veth"),
            *("peer", "name", "eth0", "netns", str(self.pid)),
        )
        switch.ip("link", "set", self._cable, "master", "switch", "up")
        for words in (
            f"addr add {self.address}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {_NETWORK}.254",  # nobody: but Ray asks for the way out
        ):
            _run(["nsenter", "--target", str(self.pid), "--net", "ip", *words.split()])

    @classmethod
    def address_of(cls, name: str) -> str:
        """The address that a host of this name has, or will have."""
        return f"{_NETWORK}.{cls.NAMES.index(name) + 1}"

    def run(
        self,
        *arguments: object,
        timeout_s: float = 120,
        cwd: object = ROOT,
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> Done:
        """Run a command on the host to its end."""
        done = subprocess.run(
            self._command(arguments, cwd),
            env=self._environ(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(
        self,
        *arguments: object,
        cwd: object = ROOT,
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> Running:
        """Start a command on the host."""
        return Running(self._command(arguments, cwd), self._environ(environ))

    def write(self, path: str, content: str | bytes) -> None:
        """Write a file of the host, private to its user."""
        script = f'umask 077; mkdir -p "$(dirname {path})"; cat > {path}'
        command = self._command(["bash", "-c", script])
        data = content.encode() if isinstance(content, str) else content
        subprocess.run(command, env=self._environ({}), input=data, check=True)

    def pull_the_cable(self) -> None:
        """Cut the host from the network: nothing that is on its way arrives."""
        self._switch.ip("link", "set", self._cable, "down")

    def plug_the_cable(self) -> None:
        """Undo that."""
        self._switch.ip("link", "set", self._cable, "up")

    def interrupt(self, words: str) -> None:
        """Ctrl-C for the command on the host that holds these words."""
        self.run("pkill", "-INT", "-f", words).expect()

    def remove(self) -> None:
        """End the host at once, with everything that runs on it."""
        self._holder.kill()
        self._holder.wait()
        with suppress(KeyError):
            del self._switch.hosts[self.name]

    def _command(self, arguments: Iterable[object], cwd: object = ROOT) -> list[str]:
        enter = ["nsenter", "--target", str(self.pid), "--all"]
        enter += ["env", f"--chdir={cwd}", "--default-signal=INT"]  # ours may be ignored
        cpus = ["taskset", "--cpu-list", ",".join(map(str, self._cpus))] if self._cpus else []
        return [*enter, *cpus, *map(str, arguments)]

    def _environ(self, changes: Mapping[str, str]) -> dict[str, str]:
        tools = f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
        kept = {key: os.environ[key] for key in ("LANG", "LC_ALL") if key in os.environ}
        own = {"PATH": f"{tools}:/sbin:/bin", "HOME": "/root", "COLUMNS": "120"}
        own |= {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
        own["RAY_worker_niceness"] = (
            "0"  # by default workers give way to all others of this machine
        )
        own["OMP_WAIT_POLICY"] = "PASSIVE"  # as in all tests: hosts share this machine's CPUs
        return {**kept, **own, **changes}


def _held(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """A process that the kernel ends with this one; with it goes its namespace."""
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is the test's: it has something to say before they end
    )


def _child(pid: int) -> int:
    """The only child of a process, once it is there."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    deadline_s = time.monotonic() + _START_S
    while not (children := path.read_text().split()):
        assert time.monotonic() < deadline_s, f"process {pid} has no child"
        time.sleep(0.01)
    return int(children[0])


def _needed() -> list[str]:
    """What Python needs that lies in a folder which a host has for itself."""
    paths = {str(ROOT), sys.prefix, str(Path(sys.base_prefix).resolve())}
    return sorted(path for path in paths if path.startswith(tuple(f"{each}/" for each in _OWN)))


def _hosts_file() -> str:
    named = [f"{Host.address_of(name)} {name}" for name in Host.NAMES]
    return "\\n".join(["127.0.0.1 localhost", *named, ""])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"
