"""The Slurm script: valid shell, and a job of the documented parts."""

from __future__ import annotations

import re

from tests.infra.documents import INFRA
from tests.infra.shell import check

SCRIPT = (INFRA / "slurm/sweep.sbatch").read_text()
PARTS = [
    " ".join(re.findall(r"^#SBATCH (.*)$", part, re.MULTILINE))
    for part in SCRIPT.split("#SBATCH hetjob\n")
]


def test_it_passes_shellcheck() -> None:
    check(SCRIPT)


def test_its_parts_are_a_head_and_whole_nodes_of_two_kinds() -> None:
    head, *nodes = PARTS
    assert "--exclusive" not in head
    assert len(nodes) == 2
    for part in nodes:
        assert {"--exclusive", "--mem=0", "--ntasks-per-node=1"} <= set(part.split())
    assert [("--gpus-per-node" in part) for part in nodes] == [False, True]


def test_slurm_reads_all_of_its_options() -> None:
    body = SCRIPT.index("set -euo pipefail")
    assert not re.search(r"^#SBATCH", SCRIPT[body:], re.MULTILINE), (
        "Slurm ignores options after the first command"
    )
