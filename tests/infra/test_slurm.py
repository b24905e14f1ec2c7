"""The Slurm script, as written and on a real Slurm.

There substitutes for Ray and the sweep log their calls.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.infra import slurm
from tests.infra.files import INFRA, check_shell
from tests.infra.slurm import Slurm
from tests.lacking import skip_here

SCRIPT = INFRA / "slurm/sweep.sbatch"

RAY = """#!/usr/bin/env bash
echo "$SLURMD_NODENAME: ray $* (GPU ${CUDA_VISIBLE_DEVICES:-none}, auth $RAY_AUTH_MODE)" >> "$CALLS"
case "$*" in
    *--head*)
        [[ -n ${NO_HEAD:-} ]] && exit 1
        trap 'echo "$SLURMD_NODENAME: the head ends" >> "$CALLS"; exit' TERM
        sleep infinity & wait ;;
    get-auth-token*) mkdir -p ~/.ray && echo secret > ~/.ray/auth_token ;;
esac
"""
RNNSWEEP = """#!/usr/bin/env bash
echo "$SLURMD_NODENAME: rnnsweep $*" >> "$CALLS"
trap 'echo "$SLURMD_NODENAME: the sweep stops" >> "$CALLS"; exit 3' TERM
sleep "$SWEEP_S" & wait
exit 1
"""


def test_the_script_passes_shellcheck_and_slurm_reads_all_of_its_options() -> None:
    text = SCRIPT.read_text()
    check_shell(text)
    assert "\n#SBATCH" not in text[text.index("set -euo pipefail") :], "after the first command"


def test_the_parts_are_a_head_and_whole_nodes_of_two_kinds() -> None:
    parts = SCRIPT.read_text().split("#SBATCH hetjob\n")
    head, *nodes = (" ".join(re.findall(r"^#SBATCH (.*)$", p, re.MULTILINE)) for p in parts)
    assert "--exclusive" not in head
    for part in nodes:
        assert {"--exclusive", "--mem=0", "--ntasks-per-node=1"} <= set(part.split())
    assert [("--gpus-per-node" in part) for part in nodes] == [False, True]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons need root")
    if reason := slurm.missing_programs():
        skip_here(reason)
    with (
        tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as folder,
        slurm.running(Path(folder)) as started,
    ):
        yield started


@dataclass(frozen=True, slots=True)
class Home:
    """A user's home, with a virtual environment of substitutes."""

    path: Path

    def submit(self, cluster: Slurm, **more: str) -> str:
        """Submit the script and return the job's number."""
        environ = {
            "HOME": str(self.path),
            "RNNSWEEP_VENV": str(self.path / "venv"),
            "MLFLOW_TRACKING_URI": "http://mlflow.example.org:5000",
            "CALLS": str(self.path / "calls"),
            "SWEEP_S": "1",
        }
        return cluster.submit(SCRIPT, "sweep.yaml", cwd=self.path, environ={**environ, **more})

    def calls(self) -> list[str]:
        """Return the log of the substitutes, with lines `NODE: call`."""
        file = self.path / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def has_call(self, text: str) -> bool:
        return any(text in call for call in self.calls())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    programs = tmp_path / "venv/bin"
    programs.mkdir(parents=True)
    for name, text in (("ray", RAY), ("rnnsweep", RNNSWEEP)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (programs / "activate").write_text(f'PATH="{programs}:$PATH"\n')
    return Home(tmp_path)


@pytest.mark.full
def test_a_sweep_has_a_head_and_every_node_and_cleans_up(cluster: Slurm, home: Home) -> None:
    job = home.submit(cluster)
    assert cluster.exit_code(job) == 1, "the exit code of the sweep"
    calls = home.calls()
    (head,) = (call for call in calls if "--head" in call)
    (port,) = re.findall(r"--port=(\d+)", head)
    assert head.startswith("head0: ")
    assert "--num-cpus=0 " in head

    joined = {call.partition(":")[0]: call for call in calls if "ray start --address" in call}
    assert set(joined) == {"cpu1", "cpu2", "gpu1"}
    for node, call in joined.items():
        assert f":{port} --num-cpus=2 " in call
        assert f"(GPU {0 if node == 'gpu1' else 'none'}, auth token)" in call
    (sweep,) = (call for call in calls if "rnnsweep run" in call)
    assert sweep.startswith("head0: rnnsweep run sweep.yaml --address ")
    assert sweep.endswith(f":{port} --yes")
    assert max(calls.index(call) for call in joined.values()) < calls.index(sweep)

    stopped = {call.partition(":")[0] for call in calls if "ray stop" in call}
    assert stopped == set(joined)
    assert calls[-1] == "head0: the head ends"
    assert not list(home.path.glob(".rnnsweep-*"))
    assert (home.path / ".ray/auth_token").stat().st_mode & 0o777 == 0o600


@pytest.mark.full
def test_before_the_time_limit_the_sweep_records_and_ends_with_3(
    cluster: Slurm, home: Home
) -> None:
    job = home.submit(cluster, SWEEP_S="300")
    slurm.wait_for(lambda: home.has_call("rnnsweep run"))
    cluster.signal(job)
    assert cluster.exit_code(job) == 3
    assert home.has_call("the sweep stops")
    assert home.has_call("gpu1: ray stop")
    assert home.calls()[-1] == "head0: the head ends"


@pytest.mark.full
def test_it_does_not_wait_for_a_head_that_has_ended(cluster: Slurm, home: Home) -> None:
    # the substitute's `health-check` succeeds; the script checks the head only after a failed one
    ray = home.path / "venv/bin/ray"
    ray.write_text(RAY.replace('case "$*" in', 'case "$*" in\n    health-check*) exit 1 ;;'))
    job = home.submit(cluster, NO_HEAD="yes")
    assert cluster.exit_code(job) == 1
    assert not home.has_call("ray start --address")
    assert not home.has_call("rnnsweep run")
