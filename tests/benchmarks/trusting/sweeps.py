"""Real sweeps: described by a spec, run by `run_sweep`, read from MLflow.

Each has its own name in one home, so that an interrupted run can resume.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.cli.progress import PlainLines
from orchestrator.core.records import SweepRecord
from orchestrator.core.stop_signal import StopSignal
from orchestrator.planning.plan import Plan
from orchestrator.report.render import summarise
from orchestrator.scheduling.sweep import RunOptions, run_sweep
from orchestrator.spec import parse
from orchestrator.storage.tracking import tracking_uri

OURS = "tests.benchmarks.trusting.workload:run"
FUSED = "torch/fused"

SMALL: Mapping[str, Any] = {
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

QUICK_SLICES: Mapping[str, Any] = {"mode": "timing", "slices": [12, 16], "slice_s": 0.03}
"""Slices short enough for many sweeps: ten steps of some 3 ms."""

ONE_THREAD: Mapping[str, Any] = {"class": "cpu", "threads": 1}
"""Driver, Ray and MLflow use a tenth of two CPUs. Two threads that wait for each other at each
step are as slow as the one that was interrupted, and blocks vary twice as much."""


@dataclass(frozen=True, slots=True)
class Question:
    """A sweep of arms on one machine's CPU. `more` holds further keys of its spec."""

    name: str
    implementations: Sequence[str]
    blocks: int | None = 6
    settings: Mapping[str, Any] = field(default_factory=lambda: dict(SMALL))
    units: tuple[int, int] = (8, 48)
    seed: int = 0
    workload: str = OURS
    hardware: str | Mapping[str, Any] = "cpu"
    more: Mapping[str, Any] = field(default_factory=dict)

    def spec(self) -> str:
        """Return the text of the spec file."""
        low, high = self.units
        search: dict[str, Any] = {
            "sampler": "random",
            "space": {"units": {"low": low, "high": high, "log": True}},
            "objectives": {"step_ms": "minimize"},
        }
        if self.blocks is not None:
            search["configs"] = self.blocks
        return yaml.safe_dump(
            {
                "name": self.name,
                "workload": self.workload,
                "settings": dict(self.settings),
                "search": search,
                "arms": {
                    "implementations": list(self.implementations),
                    "hardware": [
                        self.hardware if isinstance(self.hardware, str) else dict(self.hardware)
                    ],
                },
                "seed": self.seed,
                **self.more,
            },
            sort_keys=False,
        )


class Interrupted(Exception):
    """A sweep was stopped by a signal."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A sweep's record and comparisons, and the duration of this start."""

    record: SweepRecord
    comparisons: tuple[Comparison, ...]
    seconds: float

    @property
    def only(self) -> Comparison:
        """The one comparison of a sweep of two arms."""
        (comparison,) = self.comparisons
        return comparison

    def trainers_s(self) -> float:
        """Return the seconds in which trials ran; interleaved trials count once."""
        spans = sorted((trial.started_s, trial.ended_s) for trial in self.record.trials)
        total, until_s = 0.0, 0.0
        for began_s, ended_s in spans:
            total += max(0.0, ended_s - max(began_s, until_s))
            until_s = max(until_s, ended_s)
        return total

    def slices(self) -> int:
        """Return the number of slices of all arms."""
        return round(sum(trial.metrics.get("slices", 0.0) for trial in self.record.trials))

    def disturbed(self) -> int:
        """Return the number of disturbed trials."""
        return sum(bool(trial.disturbance) for trial in self.record.trials)


def ask(question: Question, home: Path, while_running: Callable[[], Any] | None = None) -> Answer:
    """Run or resume a sweep and compare its arms.

    Args:
        question: the sweep.
        home: where all of them are kept.
        while_running: called when the first trials are about to be handed out.

    Raises:
        Interrupted: it was stopped and can be resumed.
        RuntimeError: trials of it failed.
    """
    began_s = time.monotonic()
    spec = parse(question.spec(), source=question.name)

    def view(plan: Plan) -> PlainLines:
        if while_running is not None:
            while_running()
        return PlainLines(Console(quiet=True), plan)

    with StopSignal(lambda: None) as stop:
        ended = run_sweep(
            spec,
            RunOptions(home, tracking_uri(home, {})),
            stop=stop,
            view=view,
            confirm=lambda plan, missing: None,
        )
    if ended.stopped is not None:
        raise Interrupted(question.name)
    wrong = [trial for trial in ended.record.trials if trial.status in ("failed", "wrong_kernel")]
    if wrong or not ended.record.trials:
        raise RuntimeError(
            f"{question.name}: {len(wrong)} of {len(ended.record.trials)} trials failed: "
            f"{wrong[0].failure if wrong else 'there is none'}"
        )
    summary = summarise(ended.record)
    return Answer(ended.record, summary.comparisons, time.monotonic() - began_s)


def plain(comparison: Comparison) -> dict[str, Any]:
    """Return the stored fields of a comparison."""
    speedup = dataclasses.asdict(comparison.speedup) if comparison.speedup else None
    return {
        "arm": str(comparison.arm),
        "verdict": comparison.verdict,
        "pairs": len(comparison.pairs),
        "speedup": speedup,
        "quiet_only": comparison.quiet_only,
        "disturbed_blocks": len(comparison.disturbed_blocks),
        "reason": comparison.reason,
    }


def covers(comparison: Comparison, truth: float) -> bool:
    """Return True if the plain 95 % interval covers the true ratio."""
    speedup = comparison.speedup
    return speedup is not None and speedup.low <= truth <= speedup.high
