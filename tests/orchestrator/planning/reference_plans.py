"""Arms of the reference sweeps on simulated GPUs; `python -m` this module renews the golden."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator import hardware
from orchestrator.hardware import Node, classify
from orchestrator.planning.plan import make_plan
from orchestrator.spec import load_spec
from tests.nvml.simulated import SimulatedGpu, SimulatedNvml

GOLDEN = Path(__file__).with_suffix(".yaml")
SWEEPS = Path(__file__).resolve().parents[3] / "sweeps"
CARDS = {"NVIDIA H200": (9, 0), "NVIDIA A100-SXM4-40GB": (8, 0), "NVIDIA T4": (7, 5)}


def reference_plans(patch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    """Return, by sweep and card, the arms that run on the GPU, and why others cannot."""
    patch.setattr("workloads.eligibility.is_installed", lambda package: True)
    plans: dict[str, Any] = {}
    for path in sorted(SWEEPS.glob("*.yaml")):
        if path.stem == "prices":
            continue
        spec = load_spec(path)
        for card, capability in CARDS.items():
            gpu = SimulatedGpu(name=card, compute_capability=capability)
            SimulatedNvml([gpu]).in_this_process(patch, folder)
            plan = make_plan(spec, classify([Node("", hardware.probe(), 8)]))
            others = [
                impossible for impossible in plan.impossible if impossible.arm.hardware != "cpu"
            ]
            runs = [arm.short_name for arm in plan.arms if arm.device == "gpu"]
            cannot = {impossible.arm.short_name: impossible.reason for impossible in others}
            if runs or cannot:  # of a sweep for CPUs alone there are none
                plans.setdefault(path.stem, {})[card] = {"runs": runs, "cannot": cannot}
    return plans


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as monkeypatch:
        plans = reference_plans(monkeypatch, Path(scratch))
    GOLDEN.write_text(yaml.safe_dump(plans, sort_keys=False, width=110))
