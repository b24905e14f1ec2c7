"""GPUs of a reader from outside the packages, which an installed package names."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.nvml.simulated import SimulatedNvml

ROOT = Path(__file__).parents[4]
HERE = "tests.orchestrator.hardware.gpu_readers"


@pytest.fixture
def known(tmp_path: Path) -> dict[str, Any]:
    """What rnnsweep knows where a package with a reader is installed, and NVML has no GPU."""
    package = tmp_path / "pretend-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: pretend\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "[rnnsweep.gpu_readers]\n"
        "broken = nowhere_at_all:Reader\n"
        "wrong = builtins:dict\n"
        f"pretend = {HERE}.foreign_reader:PretendReader\n"
    )
    (tmp_path / "gpus.txt").write_text("Pretend 9000\nPretend 9000\nPretend 9000")
    environ = os.environ | SimulatedNvml().environment(tmp_path)
    environ |= {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    environ |= {"PRETEND_GPUS": str(tmp_path / "gpus.txt"), "PRETEND_VISIBLE_DEVICES": "2,1"}
    command = [sys.executable, "-m", f"{HERE}.use_foreign_gpus"]
    done = subprocess.run(
        command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_gpus_of_a_foreign_reader_are_listed_and_sampled(known: dict[str, Any]) -> None:
    *_, gpu_class = known["listing"]["classes"]
    assert gpu_class["device"] == "gpu" and gpu_class["id"].startswith("Pretend 9000/")
    (node,) = gpu_class["nodes"]
    assert [gpu["uuid"] for gpu in node["gpus"]] == ["PRETEND-2", "PRETEND-1"], "the visible ones"
    assert (node["gpu_reader"]["id"], node["driver"], node["gpu_faults"]) == ("pretend", "1.0", [])

    assert known["reader"] == "pretend"
    (began_s, began_j), *_, (ended_s, ended_j) = known["energy"]
    assert (ended_j - began_j) / (ended_s - began_s) == pytest.approx(50.0, rel=0.3)
    assert 1 in known["strangers"], "of two processes, one is the trainer itself"
    assert known["memory_share"] == 500 / 8_000
    assert known["cpu_environment"]["PRETEND_VISIBLE_DEVICES"] == "-1"

    broken = node["broken_gpu_readers"]
    assert [re.findall(r"\w+", text)[2] for text in broken] == ["broken", "wrong"]
    assert all(any(text in note for note in known["notes"]) for text in broken)


def test_only_the_rooms_of_hardware_and_telemetry_say_nvml() -> None:
    rooms = ("orchestrator/hardware/", "orchestrator/execution/telemetry/")
    speaking = [
        str(path.relative_to(ROOT))
        for package in ("orchestrator", "rnnsweep", "workloads")
        for path in sorted((ROOT / package).rglob("*"))
        if path.is_file() and path.suffix != ".pyc" and b"nvml" in path.read_bytes().lower()
    ]
    assert speaking, "the search finds something"
    assert [path for path in speaking if not path.startswith(rooms)] == []
