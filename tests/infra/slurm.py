"""A real Slurm on one machine: four nodes, one with a device that passes for a GPU."""

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

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
NODES = ("head0", "cpu1", "cpu2", "gpu1")
_PATIENCE_S = 120.0


def missing() -> str | None:
    """What is not installed here, and what installs it; None where all is."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    absent = [each for each in PROGRAMS if shutil.which(each, path=path) is None]
    if absent:
        return f"{', '.join(absent)}: apt-get install slurmctld slurmd slurm-client munge"
    return None


@dataclass(frozen=True, slots=True)
class Slurm:
    """A running one."""

    folder: Path

    def submit(self, script: Path, *arguments: str, cwd: Path, environ: Mapping[str, str]) -> str:
        """Submit a script; the job's number."""
        command = ["sbatch", "--parsable", str(script), *arguments]
        done = subprocess.run(
            command, cwd=cwd, env=self._environ(environ), capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def signal(self, job: str) -> None:
        """SIGTERM to the batch script, as before a job's time is up."""
        self._ask("scancel", "--signal=TERM", "--batch", job)

    def exit_code(self, job: str) -> int:
        """The script's own, once the job is over."""
        wait_for(lambda: not self._ask("squeue", "--noheader", f"--jobs={job}").strip())
        first = self._ask("scontrol", "show", "job", job).split("\n\n")[0]
        (code,) = re.findall(r" ExitCode=(\d+):0", first)
        return int(code)

    def _ask(self, *command: str) -> str:
        return subprocess.run(
            command, env=self._environ({}), capture_output=True, text=True, check=True
        ).stdout

    def _environ(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = {"PATH": f"{os.environ['PATH']}:/usr/sbin"}
        return {**kept, "SLURM_CONF": str(self.folder / "slurm.conf"), **more}


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it has not come about"
        time.sleep(0.2)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Slurm]:
    """Start one in an empty folder with a short path (sockets lie in it), and end it."""
    _configure(folder)
    slurm = Slurm(folder)
    conf = str(folder / "slurm.conf")
    munge = [
        f"--{name}={folder / file}"
        for name, file in (
            ("socket", "munge.socket"),
            ("key-file", "munge.key"),
            ("log-file", "munge.log"),
            ("pid-file", "munge.pid"),
            ("seed-file", "munge.seed"),
        )
    ]
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

        start("munged", "--foreground", "--force", *munge)
        wait_for((folder / "munge.socket").exists)
        start("slurmctld", "-D", "-f", conf)
        for node in NODES:
            start("slurmd", "-D", "-f", conf, "-N", node)
        stack.callback(_show_logs, folder)
        wait_for(lambda: _idle(slurm) == len(NODES))
        try:
            yield slurm
        finally:  # what a failed test has left behind would outlive the daemons
            slurm._ask("scancel", "--full", "--signal=KILL", "--user=root")
            wait_for(lambda: _idle(slurm) == len(NODES))


def _idle(slurm: Slurm) -> int:
    with contextlib.suppress(subprocess.CalledProcessError):  # the controller is not there yet
        return slurm._ask("sinfo", "--noheader", "--Node", "--states=idle").count("\n")
    return 0


def _show_logs(folder: Path) -> None:
    """What the daemons said, where pytest shows the output of what failed."""
    for log in sorted(folder.glob("*.log")):
        print(f"{log.name}:", log.read_text(errors="replace")[-2000:], sep="\n")


def _configure(folder: Path) -> None:
    for each in ("state", *(f"spool-{node}" for node in NODES)):
        (folder / each).mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(1024))
    host = socket.gethostname().partition(".")[0]
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(5)]
        controller, *ports = [each.getsockname()[1] for each in taken]
    nodes = [
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2"
        f" RealMemory=9000{' Gres=gpu:1 Weight=100' if node == 'gpu1' else ''}"
        for node, port in zip(NODES, ports, strict=True)
    ]
    (folder / "gres.conf").write_text("NodeName=gpu1 Name=gpu File=/dev/null\n")
    (folder / "slurm.conf").write_text(
        "\n".join(
            [
                "ClusterName=test",
                f"SlurmctldHost={host}(127.0.0.1)",
                f"SlurmctldPort={controller}",
                "SlurmUser=root",
                "AuthType=auth/munge",
                f"AuthInfo=socket={folder}/munge.socket",
                f"StateSaveLocation={folder}/state",
                f"SlurmdSpoolDir={folder}/spool-%n",
                f"SlurmctldPidFile={folder}/slurmctld.pid",
                f"SlurmdPidFile={folder}/slurmd-%n.pid",
                f"SlurmctldLogFile={folder}/slurmctld.log",
                f"SlurmdLogFile={folder}/slurmd-%n.log",
                "ProctrackType=proctrack/linuxproc",
                "TaskPlugin=task/none",
                "SelectType=select/cons_tres",
                "SelectTypeParameters=CR_Core_Memory",
                "SlurmdParameters=config_overrides",
                "SchedulerParameters=bf_interval=1,sched_interval=1",
                "GresTypes=gpu",
                "MpiDefault=none",
                *nodes,
                "PartitionName=all Nodes=ALL Default=YES State=UP",
                "",
            ]
        )
    )
