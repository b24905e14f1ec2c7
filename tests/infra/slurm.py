"""A real Slurm on one machine: four nodes, one with a device that is declared as a GPU."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
NODES = ("head0", "cpu1", "cpu2", "gpu1")
_PATIENCE_S = 120.0


def missing_programs() -> str | None:
    """Return which programs are missing and how to install them, or None."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    absent = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    if absent:
        return f"{', '.join(absent)}: apt-get install slurmctld slurmd slurm-client munge"
    return None


@dataclass(frozen=True, slots=True)
class Slurm:
    """A running Slurm."""

    folder: Path

    def submit(self, script: Path, *arguments: str, cwd: Path, environ: Mapping[str, str]) -> str:
        """Submit a script and return the job's number."""
        command = ["sbatch", "--parsable", str(script), *arguments]
        done = subprocess.run(
            command, cwd=cwd, env=self._environ(environ), capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def signal(self, job: str) -> None:
        """Send SIGTERM to the batch script, as Slurm does before a job's time limit."""
        self._ask("scancel", "--signal=TERM", "--batch", job)

    def exit_code(self, job: str) -> int:
        """Wait for the end of the job and return the script's exit code."""
        wait_for(lambda: not self._ask("squeue", "--noheader", f"--jobs={job}").strip())
        first = self._ask("scontrol", "show", "job", job).split("\n\n")[0]
        (code,) = re.findall(r" ExitCode=(\d+):0", first)
        return int(code)

    def _ask(self, *command: str) -> str:
        return subprocess.run(
            command, env=self._environ({}), capture_output=True, text=True, check=True
        ).stdout

    def _environ(self, more: Mapping[str, str]) -> dict[str, str]:
        path = f"{os.environ['PATH']}:/usr/sbin"
        return {"PATH": path, "SLURM_CONF": str(self.folder / "slurm.conf"), **more}


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "the condition did not become true in time"
        time.sleep(0.2)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Slurm]:
    """Start Slurm in an empty folder with a short path (for its sockets), and stop it."""
    _configure(folder)
    slurm = Slurm(folder)
    conf = str(folder / "slurm.conf")
    names = ("key", "log", "pid", "seed")
    munge = [f"--{name}-file={folder}/munge.{name}" for name in names]
    with contextlib.ExitStack() as stack:

        def start(*command: str) -> None:
            process = subprocess.Popen(
                command,
                env=slurm._environ({}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)

        start("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *munge)
        wait_for((folder / "munge.socket").exists)
        start("slurmctld", "-D", "-f", conf)
        for node in NODES:
            start("slurmd", "-D", "-f", conf, "-N", node)
        stack.callback(_show_logs, folder)
        wait_for(lambda: _idle(slurm) == len(NODES))
        try:
            yield slurm
        finally:  # the processes of a failed test would outlive the daemons
            slurm._ask("scancel", "--full", "--signal=KILL", "--user=root")
            wait_for(lambda: _idle(slurm) == len(NODES))


def _idle(slurm: Slurm) -> int:
    with contextlib.suppress(subprocess.CalledProcessError):  # the controller does not answer yet
        return slurm._ask("sinfo", "--noheader", "--Node", "--states=idle").count("\n")
    return 0


def _show_logs(folder: Path) -> None:
    """Print the daemons' logs, which pytest shows if a test fails."""
    for log in sorted(folder.glob("*.log")):
        print(f"{log.name}:", log.read_text(errors="replace")[-2000:], sep="\n")


def _configure(folder: Path) -> None:
    for name in ("state", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(1024))
    host = socket.gethostname().partition(".")[0]
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(5)]
        controller, *ports = [listener.getsockname()[1] for listener in sockets]
    nodes = [
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2"
        f" RealMemory=9000{' Gres=gpu:1 Weight=100' if node == 'gpu1' else ''}"
        for node, port in zip(NODES, ports, strict=True)
    ]
    (folder / "gres.conf").write_text("NodeName=gpu1 Name=gpu File=/dev/null\n")
    conf = Template(Path(__file__).with_suffix(".conf").read_text())
    values = {"folder": folder, "host": host, "controller": controller, "nodes": "\n".join(nodes)}
    (folder / "slurm.conf").write_text(conf.substitute(values))
