"""Simulated hosts on one machine, each with its own network, processes, name, home and /tmp.

A host is a tree of processes in namespaces of its own, connected to a switch (a bridge in a
separate network namespace). No part of it has a name outside, so that nothing
can remain: when the test's process ends, for whatever cause, the kernel ends every host.
Networks and folders vanish with the last process.
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
_TOOLS = ("bash", "ip", "nsenter", "setpriv", "taskset", "unshare")
_NETWORK = "10.77.0"
_CODE = ("orchestrator", "workloads", "rnnsweep", "tests")
_CABLES = itertools.count()
_START_S = 20.0

# Folders that each host has for itself. Paths below them that Python needs (such as
# /root/.pyenv, or a checkout in /tmp) are mounted into them again.
_OWN = ("/tmp", "/root", "/dev/shm")
_INIT = """
set -e
hostname {name}
mount -t tmpfs none /mnt
i=0
for folder in {needed}; do
    i=$((i + 1)); mkdir /mnt/$i; mount --rbind "$folder" /mnt/$i
done
for folder in {own}; do mount -t tmpfs none "$folder"; done
i=0
for folder in {needed}; do
    i=$((i + 1)); mkdir -p "$folder"; mount --rbind /mnt/$i "$folder"
done
umount -R -l /mnt
for folder in {hidden}; do mount -t tmpfs none "$folder"; done
printf '%b' {hosts} > /root/hosts
mount --bind /root/hosts /etc/hosts
ip link set lo up
echo ready
while :; do sleep 3600 & wait $!; done
"""


def obstacle(*programs: str) -> str | None:
    """Return the reason why this machine can run no hosts with these programs, or None."""
    if sys.platform != "linux":
        return "hosts are made of Linux namespaces"
    if os.geteuid() != 0:
        return "namespaces need root"
    path = f"{os.environ['PATH']}:/usr/sbin"
    missing = [tool for tool in (*_TOOLS, *programs) if shutil.which(tool, path=path) is None]
    if missing:
        packages = "iproute2, util-linux, openssh-server, rsync"
        return f"{', '.join(missing)} not installed (Debian: {packages})"
    trial = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "--pid", "--ipc", "--fork", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"no namespaces here: {trial.stderr.strip()}" if trial.returncode else None


@dataclass(frozen=True, slots=True)
class Done:
    """An ended command with its exit code, stdout and stderr."""

    code: int
    out: str
    err: str

    def expect(self, code: int = 0) -> Done:
        """Check the exit code and return self."""
        assert self.code == code, f"exit code {self.code}\n{self.out[-4000:]}\n{self.err[-4000:]}"
        return self


class Running:
    """A command that runs in the background, with its output in a file."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._output = tempfile.TemporaryFile("w+b")  # noqa: SIM115  (lives as long as this object)
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
        """The exit code, or None while the command runs."""
        return self.process.poll()

    @property
    def output(self) -> str:
        """The command's output so far."""
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), size, 0).decode(errors="replace")

    def wait(self, timeout_s: float) -> int:
        """Wait for the end of the command and return its exit code."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            text = self.output[-6000:]
            raise AssertionError(f"still running after {timeout_s} s:\n{text}") from None

    def until(self, words: str, timeout_s: float) -> str:
        """Wait until the output contains these words, and return it."""
        deadline_s = time.monotonic() + timeout_s
        while words not in (text := self.output):
            assert self.code is None, f"ended with {self.code}, without {words!r}:\n{text[-6000:]}"
            assert time.monotonic() < deadline_s, f"no {words!r} in\n{text[-6000:]}"
            time.sleep(0.1)
        return text


class Switch:
    """The network switch to which hosts are connected."""

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
        """Return a new host. Without code, it has the installed packages only."""
        self.hosts[name] = Host(self, name, with_code=with_code, cpus=tuple(cpus))
        return self.hosts[name]

    def close(self) -> None:
        """End all hosts and the switch."""
        for host in list(self.hosts.values()):
            host.remove()
        self._holder.kill()
        self._holder.wait()


class Host:
    """One host. Every host can resolve the names of `NAMES`."""

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
            hidden="" if with_code else " ".join(shlex.quote(str(ROOT / name)) for name in _CODE),
            hosts=shlex.quote(_hosts_file()),
        )
        spaces = ("--net", "--mount", "--uts", "--pid", "--ipc", "--fork", "--mount-proc")
        self._holder = _held(["unshare", *spaces, "--kill-child", "bash", "-c", script])
        assert self._holder.stdout is not None
        first_line = self._holder.stdout.readline()
        assert first_line == b"ready\n", f"host {name} could not be made: {first_line!r}"
        self.pid = _child(self._holder.pid)
        self._cable = f"cable{next(_CABLES)}"  # unique, as a removed host's cable disappears late
        switch.ip(
            *("link", "add", self._cable, "type", "veth"),
            *("peer", "name", "eth0", "netns", str(self.pid)),
        )
        switch.ip("link", "set", self._cable, "master", "switch", "up")
        for words in (
            f"addr add {self.address}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {_NETWORK}.254",  # no host, but Ray needs a default route
        ):
            _run(["nsenter", "--target", str(self.pid), "--net", "ip", *words.split()])

    @classmethod
    def address_of(cls, name: str) -> str:
        """Return the address of a host of this name."""
        return f"{_NETWORK}.{cls.NAMES.index(name) + 1}"

    def run(
        self,
        *arguments: object,
        timeout_s: float = 120,
        cwd: object = ROOT,
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> Done:
        """Run a command on the host and wait for its end."""
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
        """Disconnect the host from the network; packets in flight are lost."""
        self._switch.ip("link", "set", self._cable, "down")

    def plug_the_cable(self) -> None:
        """Connect the host to the network again."""
        self._switch.ip("link", "set", self._cable, "up")

    def interrupt(self, words: str) -> None:
        """Send SIGINT to the command on the host that contains these words."""
        self.run("pkill", "-INT", "-f", words).expect()

    def remove(self) -> None:
        """Kill the host with all of its processes."""
        self._holder.kill()
        self._holder.wait()
        with suppress(KeyError):
            del self._switch.hosts[self.name]

    def _command(self, arguments: Iterable[object], cwd: object = ROOT) -> list[str]:
        enter = ["nsenter", "--target", str(self.pid), "--all"]
        enter += ["env", f"--chdir={cwd}", "--default-signal=INT"]  # the test's own may be ignored
        cpus = ["taskset", "--cpu-list", ",".join(map(str, self._cpus))] if self._cpus else []
        return [*enter, *cpus, *map(str, arguments)]

    def _environ(self, changes: Mapping[str, str]) -> dict[str, str]:
        tools = f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
        locale = {key: os.environ[key] for key in ("LANG", "LC_ALL") if key in os.environ}
        own = {"PATH": f"{tools}:/sbin:/bin", "HOME": "/root", "COLUMNS": "120"}
        own |= {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
        own["RAY_worker_niceness"] = "0"  # by default Ray lowers the priority of workers
        own["OMP_WAIT_POLICY"] = "PASSIVE"  # as in all tests, since hosts share this machine's CPUs
        return {**locale, **own, **changes}


def _held(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a process that the kernel kills when this process ends."""
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the test, which prints output before the end
    )


def _child(pid: int) -> int:
    """Wait for the only child of a process and return its id."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    deadline_s = time.monotonic() + _START_S
    while not (children := path.read_text().split()):
        assert time.monotonic() < deadline_s, f"process {pid} has no child"
        time.sleep(0.01)
    return int(children[0])


def _needed() -> list[str]:
    """Return the paths that Python needs below folders that each host has for itself."""
    paths = {str(ROOT), sys.prefix, str(Path(sys.base_prefix).resolve())}
    return sorted(path for path in paths if path.startswith(tuple(f"{folder}/" for folder in _OWN)))


def _hosts_file() -> str:
    lines = [f"{Host.address_of(name)} {name}" for name in Host.NAMES]
    return "\\n".join(["127.0.0.1 localhost", *lines, ""])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"
