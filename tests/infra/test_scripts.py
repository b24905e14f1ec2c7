"""The Slurm script: good shell, and a job of the parts that it says."""

from __future__ import annotations

import re

from tests.infra.documents import INFRA
from tests.infra.shell import check

SCRIPT = (INFRA / "slurm/sweep.sbatch").read_text()
PARTS = [
    " ".join(re.findall(r"^#SBATCH (.*)$", part, re.MULTILINE))
    for part in SCRIPT.split("#SBATCH hetjob\n")
]


def test_it_is_good_shell() -> None:
    check(SCRIPT)


def test_it_is_a_head_and_whole_nodes_of_two_kinds() -> None:
    head, *nodes = PARTS
    assert "--exclusive" not in head
    assert len(nodes) == 2
    for part in nodes:
        assert {"--exclusive", "--mem=0", "--ntasks-per-node=1"} <= set(part.split())
    assert [("--gpus-per-node" in part) for part in nodes] == [False, True]


def test_slurm_reads_all_of_its_options() -> None:
    body = SCRIPT.index("set -euo pipefail")
    assert not re.search(r"^#SBATCH", SCRIPT[body:], re.MULTILINE), "after a command: ignored"


def test_ray_wants_a_token_there() -> None:
    assert re.search(r"^export .*RAY_AUTH_MODE=token", SCRIPT, re.MULTILINE)
    assert "chmod 600 ~/.ray/auth_token" in SCRIPT
