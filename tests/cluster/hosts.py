"""Hosts on one machine, in Linux namespaces that the kernel ends with the test's process."""

import itertools
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from tests.commands import Command, Done, wait_for

ROOT = Path(__file__).resolve().parents[2]
_TOOLS = ("bash", "ip", "nsenter", "setpriv", "taskset", "unshare")
_NETWORK = "10.77.0"
_CODE = ("orchestrator", "workloads", "rnnsweep", "tests")
_CABLES = itertools.count()
NONE: Mapping[str, str] = MappingProxyType({})

# Folders that each host has for itself. Paths below them that Python needs (such as
# /root/.pyenv, or a checkout in /tmp) are mounted into them again.
_OWN = ("/tmp", "/root", "/dev/shm")


def obstacle(*programs: str) -> str | None:
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


class Switch:
    def __init__(self) -> None:
        self._holder = _held(["unshare", "--net", "--fork", "--kill-child", "sleep", "infinity"])
        self.pid = _child(self._holder.pid)
        self.ip("link", "add", "switch", "type", "bridge")
        self.ip("link", "set", "switch", "up")
        self.hosts: dict[str, Host] = {}

    def ip(self, *arguments: str) -> None:
        _run(["nsenter", "--target", str(self.pid), "--net", "ip", *arguments])

    def plug(self, name: str, *, with_code: bool = False, cpus: Iterable[int] = ()) -> "Host":
        self.hosts[name] = Host(self, name, with_code=with_code, cpus=tuple(cpus))
        return self.hosts[name]

    def close(self) -> None:
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
        names = (f"{self.address_of(other)} {other}" for other in self.NAMES)
        own = {
            "NAME": name,
            "NEEDED": " ".join(_needed()),
            "OWN": " ".join(_OWN),
            "HIDDEN": "" if with_code else " ".join(str(ROOT / name) for name in _CODE),
            "HOSTS": "\\n".join(["127.0.0.1 localhost", *names, ""]),
        }
        spaces = ("--net", "--mount", "--uts", "--pid", "--ipc", "--fork", "--mount-proc")
        init = ["bash", str(Path(__file__).with_name("host.sh"))]
        self._holder = _held(["unshare", *spaces, "--kill-child", *init], own)
        assert self._holder.stdout is not None
        first_line = self._holder.stdout.readline()
        assert first_line == b"ready\n", f"host {name} could not be made: {first_line!r}"
        self.pid = _child(self._holder.pid)
        self._cable = f"cable{next(_CABLES)}"  # unique, as a removed host's cable disappears late
        switch.ip(
            "link",
            "add",
            self._cable,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            str(self.pid),
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
        return f"{_NETWORK}.{cls.NAMES.index(name) + 1}"

    def run(self, *arguments: object, timeout_s: float = 300, **options: Any) -> Done:
        return self.start(*arguments, **options).done(timeout_s)

    def start(
        self, *arguments: object, cwd: object = ROOT, environ: Mapping[str, str] = NONE
    ) -> Command:
        return Command(self._command(arguments, cwd), self._environ(environ))

    def write(self, path: str, content: str | bytes) -> None:
        script = f'umask 077; mkdir -p "$(dirname {path})"; cat > {path}'
        command = self._command(["bash", "-c", script])
        data = content.encode() if isinstance(content, str) else content
        subprocess.run(command, env=self._environ({}), input=data, check=True)

    def set_cable(self, state: Literal["up", "down"]) -> None:
        self._switch.ip("link", "set", self._cable, state)

    def remove(self) -> None:
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


def _held(command: Sequence[str], environ: Mapping[str, str] = NONE) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**os.environ, **environ},
        start_new_session=True,  # Ctrl-C is for the test, which prints output before the end
    )


def _child(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return int(wait_for(lambda: children.read_text().split())[0])


def _needed() -> list[str]:
    """Return the paths that Python needs below folders that each host has for itself."""
    paths = {str(ROOT), sys.prefix, str(Path(sys.base_prefix).resolve())}
    return sorted(path for path in paths if path.startswith(tuple(f"{folder}/" for folder in _OWN)))


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"
