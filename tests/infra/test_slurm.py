"""The Slurm script, as written and on a real Slurm: four nodes, one with a device that is declared
as a GPU.
"""

import contextlib
import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template

import pytest

from tests.commands import Command, wait_for
from tests.infra.files import INFRA, check_shell
from tests.integration.sweeping import free_port
from tests.lacking import skip_here

SCRIPT = INFRA / "slurm/sweep.sbatch"

SUBSTITUTES = Path(__file__).with_name("substitutes")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
NODES = ("head0", "cpu1", "cpu2", "gpu1")
PATH = f"{os.environ['PATH']}:/usr/sbin"


@dataclass(frozen=True, slots=True)
class Slurm:
    folder: Path

    def exit_code(self, job: str) -> int:
        ended = lambda: not self.ask("squeue", "--noheader", f"--jobs={job}").strip()  # noqa: E731
        wait_for(ended, 300, every_s=0.2)
        first = self.ask("scontrol", "show", "job", job).split("\n\n")[0]
        (code,) = re.findall(r" ExitCode=(\d+):0", first)
        return int(code)

    def ask(self, *command: str, cwd: Path | None = None, **environ: str) -> str:
        return Command(command, self.environ | environ, cwd).done().expect().out

    @property
    def environ(self) -> dict[str, str]:
        return {"PATH": PATH, "SLURM_CONF": str(self.folder / "slurm.conf")}


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Slurm]:
    _configure(folder)
    slurm = Slurm(folder)
    conf = str(folder / "slurm.conf")
    names = ("key", "log", "pid", "seed")
    munge = [f"--{name}-file={folder}/munge.{name}" for name in names]
    with contextlib.ExitStack() as stack:

        def start(*command: str) -> None:
            process = Command(command, slurm.environ)
            stack.callback(process.wait)
            stack.callback(process.terminate)

        start("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *munge)
        wait_for((folder / "munge.socket").exists)
        start("slurmctld", "-D", "-f", conf)
        for node in NODES:
            start("slurmd", "-D", "-f", conf, "-N", node)
        stack.callback(_show_logs, folder)
        wait_for(lambda: _idle(slurm) == len(NODES), every_s=0.2)
        try:
            yield slurm
        finally:  # the processes of a failed test would outlive the daemons
            slurm.ask("scancel", "--full", "--signal=KILL", "--user=root")
            wait_for(lambda: _idle(slurm) == len(NODES), every_s=0.2)


def _idle(slurm: Slurm) -> int:
    command = ("sinfo", "--noheader", "--Node", "--states=idle")
    return Command(command, slurm.environ).done().out.count("\n")


def _show_logs(folder: Path) -> None:
    for log in sorted(folder.glob("*.log")):
        print(f"{log.name}:", log.read_text(errors="replace")[-2000:], sep="\n")


def _configure(folder: Path) -> None:
    for name in ("state", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(1024))
    host = socket.gethostname().partition(".")[0]
    controller, *ports = (free_port() for _ in range(1 + len(NODES)))
    nodes = [
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2"
        f" RealMemory=9000{' Gres=gpu:1 Weight=100' if node == 'gpu1' else ''}"
        for node, port in zip(NODES, ports, strict=True)
    ]
    (folder / "gres.conf").write_text("NodeName=gpu1 Name=gpu File=/dev/null\n")
    conf = Template(Path(__file__).with_name("slurm.conf").read_text())
    values = {"folder": folder, "host": host, "controller": controller, "nodes": "\n".join(nodes)}
    (folder / "slurm.conf").write_text(conf.substitute(values))


def test_the_script_passes_shellcheck_and_slurm_reads_all_of_its_options() -> None:
    text = SCRIPT.read_text()
    check_shell(text)
    assert "\n#SBATCH" not in text[text.index("set -euo pipefail") :], "after the first command"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons need root")
    absent = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    if absent:
        skip_here(f"{', '.join(absent)}: apt-get install slurmctld slurmd slurm-client munge")
    with (
        tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as folder,
        running(Path(folder)) as started,
    ):
        yield started


@dataclass(frozen=True, slots=True)
class Home:
    path: Path

    def submit(self, cluster: Slurm, **more: str) -> str:
        environ = {
            "HOME": str(self.path),
            "RNNSWEEP_VENV": str(self.path / "venv"),
            "MLFLOW_TRACKING_URI": "http://mlflow.example.org:5000",
            "CALLS": str(self.path / "calls"),
            "SWEEP_S": "1",
            **more,
        }
        command = ("sbatch", "--parsable", str(SCRIPT), "sweep.yaml")
        return cluster.ask(*command, cwd=self.path, **environ).strip()

    def calls(self) -> list[str]:
        file = self.path / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def has_call(self, text: str) -> bool:
        return any(text in call for call in self.calls())


def make_home(folder: Path) -> Home:
    """Return a home with a virtual environment whose programs note their calls."""
    programs = folder / "venv/bin"
    programs.mkdir(parents=True)
    (folder / "infra").symlink_to(INFRA)
    for script in SUBSTITUTES.iterdir():
        shutil.copy(script, programs / script.stem)
        (programs / script.stem).chmod(0o755)
    (programs / "activate").write_text(f'PATH="{programs}:$PATH"\n')
    return Home(folder)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path)


@dataclass(frozen=True, slots=True)
class EndedSweep:
    home: Home
    exit_code: int
    calls: list[str]

    def call(self, text: str) -> str:
        """Return the one call with this text."""
        (call,) = (call for call in self.calls if text in call)
        return call

    def calls_by_node(self, text: str) -> dict[str, str]:
        return {call.partition(":")[0]: call for call in self.calls if text in call}

    @property
    def port(self) -> str:
        """The port of Ray's head."""
        (port,) = re.findall(r"--port=(\d+)", self.call("--head"))
        return str(port)


@pytest.fixture(scope="module")
def ended(cluster: Slurm, tmp_path_factory: pytest.TempPathFactory) -> EndedSweep:
    """A sweep that ran to its end, with exit code 1, as its trials failed."""
    home = make_home(tmp_path_factory.mktemp("ended"))
    exit_code = cluster.exit_code(home.submit(cluster))
    return EndedSweep(home, exit_code, home.calls())


@pytest.mark.full
def test_the_job_has_the_exit_code_of_the_sweep(ended: EndedSweep) -> None:
    assert ended.exit_code == 1


@pytest.mark.full
def test_the_head_runs_no_trials(ended: EndedSweep) -> None:
    head = ended.call("--head")
    assert head.startswith("head0: ")
    assert "--num-cpus=0 " in head


@pytest.mark.full
def test_every_other_node_joins_before_the_sweep_begins(ended: EndedSweep) -> None:
    joined = ended.calls_by_node("ray start --address")
    assert set(joined) == {"cpu1", "cpu2", "gpu1"}
    for node, call in joined.items():
        assert f":{ended.port} --num-cpus=2 " in call
        assert f"(GPU {0 if node == 'gpu1' else 'none'}, auth token, TLS OK)" in call
    began = ended.calls.index(ended.call("rnnsweep run"))
    assert max(ended.calls.index(call) for call in joined.values()) < began


@pytest.mark.full
def test_the_sweep_runs_on_the_head_with_its_address(ended: EndedSweep) -> None:
    sweep = ended.call("rnnsweep run")
    assert sweep.startswith("head0: rnnsweep run sweep.yaml --address ")
    assert sweep.endswith(f":{ended.port}")


@pytest.mark.full
def test_all_nodes_are_stopped_and_secrets_removed(ended: EndedSweep) -> None:
    assert set(ended.calls_by_node("ray stop")) == {"cpu1", "cpu2", "gpu1"}
    assert ended.calls[-1] == "head0: the head ends"
    assert not list(ended.home.path.glob(".rnnsweep-*"))
    assert (ended.home.path / ".ray/auth_token").stat().st_mode & 0o777 == 0o600


@pytest.mark.full
def test_before_the_time_limit_the_sweep_records_and_ends_with_3(
    cluster: Slurm, home: Home
) -> None:
    job = home.submit(cluster, SWEEP_S="300")
    wait_for(lambda: home.has_call("rnnsweep run"), 300)
    cluster.ask("scancel", "--signal=TERM", "--batch", job)  # as before a time limit
    assert cluster.exit_code(job) == 3
    assert home.has_call("the sweep stops")
    assert home.has_call("gpu1: ray stop")
    assert home.calls()[-1] == "head0: the head ends"


@pytest.mark.full
def test_it_does_not_wait_for_a_head_that_has_ended(cluster: Slurm, home: Home) -> None:
    # the substitute's `health-check` succeeds; the script checks the head only after a failed one
    ray = home.path / "venv/bin/ray"
    text = ray.read_text()
    ray.write_text(text.replace('case "$*" in', 'case "$*" in\n    health-check*) exit 1 ;;'))
    job = home.submit(cluster, NO_HEAD="yes")
    assert cluster.exit_code(job) == 1
    assert not home.has_call("ray start --address")
    assert not home.has_call("rnnsweep run")
