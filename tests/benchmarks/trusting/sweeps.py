"""Real sweeps: described by a spec, run by `run_sweep`, read from MLflow.

Each has its own name in one home, so that an interrupted run can resume.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from orchestrator.core.records import SweepRecord
from orchestrator.report.render import summarise
from tests.benchmarks import rig
from tests.benchmarks.trusting.findings import Notebook

FUSED = "torch/fused"
SMALL: dict[str, Any] = {
    "dataset": "digits",
    "cell": "lstm",
    "layers": 1,
    "dense_units": 16,
    "batch_size": 64,
    "dropout": 0.0,
    "samples": 640,
    "validation_samples": 64,
    "epochs": 2,
}
QUICK_SLICES = {"mode": "timing", "slices": [12, 16], "slice_s": 0.03}
"""Slices short enough for many sweeps: ten steps of some 3 ms."""

ONE_THREAD: dict[str, Any] = {"class": "cpu", "threads": 1}
"""Driver, Ray and MLflow use a tenth of two CPUs. Two threads that wait for each other at each
step are as slow as the one that was interrupted, and blocks vary twice as much."""


@dataclass(frozen=True, slots=True)
class Question:
    """A sweep of arms on one machine's CPU. `more` holds further keys of its spec."""

    name: str
    implementations: Sequence[str]
    blocks: int | None = 6
    settings: dict[str, Any] = field(default_factory=lambda: SMALL)
    seed: int = 0
    hardware: str | dict[str, Any] = "cpu"
    more: Mapping[str, Any] = field(default_factory=dict)

    def spec(self) -> str:
        """Return the text of the spec file."""
        search: dict[str, Any] = {
            "sampler": "random",
            "space": {"units": {"low": 8, "high": 48, "log": True}},
            "objectives": {"step_ms": "minimize"},
        }
        if self.blocks is not None:
            search["configs"] = self.blocks
        spec = {
            "name": self.name,
            "workload": "tests.benchmarks.trusting.workload:run",
            "settings": self.settings,
            "search": search,
            "arms": {"implementations": list(self.implementations), "hardware": [self.hardware]},
            "seed": self.seed,
            **self.more,
        }
        return yaml.safe_dump(spec, sort_keys=False)


class Interrupted(Exception):
    """A sweep was stopped by a signal."""


def ask(question: Question, home: Path, notebook: Notebook) -> Mapping[str, Any]:
    """Return a sweep's answer, as `answer` makes it, from the notebook if it is there."""
    return notebook.once(question.name, question.spec(), lambda: answer(question, home))


def answer(question: Question, home: Path) -> dict[str, Any]:
    """Run or resume a sweep and compare its arms, the first with each other.

    Returns:
        The fields of the first comparison, and of all `comparisons`; what its trials took:
        `warm_s` (without the first block, in which trainers were started), `trainers_s`, `seconds`
        (this start), `slices`, and whether each trial was `disturbed`, in the order of their ends.

    Raises:
        Interrupted: it was stopped and can be resumed.
        RuntimeError: trials of it failed.
    """
    began_s = time.monotonic()
    ended, _ = rig.run(question.spec(), home)
    if ended.stopped is not None:
        raise Interrupted(question.name)
    record = ended.record
    wrong = [trial for trial in record.trials if trial.status in ("failed", "wrong_kernel")]
    if wrong or not record.trials:
        failure = wrong[0].failure if wrong else "there is none"
        raise RuntimeError(f"{question.name}: {len(wrong)} trials failed: {failure}")
    comparisons = [
        {
            "arm": str(comparison.arm),
            "verdict": comparison.verdict,
            "pairs": len(comparison.pairs),
            "speedup": comparison.speedup and dataclasses.asdict(comparison.speedup),
            "quiet_only": comparison.quiet_only,
            "reason": comparison.reason,
        }
        for comparison in summarise(record).comparisons
    ]
    first = min(record.trials, key=lambda trial: trial.started_s).block
    by_end = sorted(record.trials, key=lambda trial: trial.ended_s)
    return {
        **comparisons[0],
        "comparisons": comparisons,
        "warm_s": round(busy_s(record, first), 2),
        "trainers_s": round(busy_s(record), 2),
        "seconds": round(time.monotonic() - began_s, 1),
        "slices": round(sum(trial.metrics.get("slices", 0.0) for trial in record.trials)),
        "disturbed": [bool(trial.disturbance) for trial in by_end],
    }


def busy_s(record: SweepRecord, without_block: int | None = None) -> float:
    """Return the seconds in which trials ran; interleaved trials count once."""
    total, until_s = 0.0, 0.0
    for trial in sorted(record.trials, key=lambda trial: trial.started_s):
        if trial.block != without_block:
            total += max(0.0, trial.ended_s - max(trial.started_s, until_s))
            until_s = max(until_s, trial.ended_s)
    return total


def covers(answer: Mapping[str, Any], truth: float) -> bool:
    """Return True if the plain 95 % interval covers the true ratio."""
    speedup = answer["speedup"]
    return speedup is not None and speedup["low"] <= truth <= speedup["high"]


def ratio_text(answer: Mapping[str, Any]) -> str:
    """Return a comparison's speed-up with its interval."""
    speedup = answer["speedup"]
    return f"{speedup['value']:.3f} ({speedup['low']:.3f}–{speedup['high']:.3f})"
