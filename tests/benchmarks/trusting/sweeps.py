"""Real sweeps for the proof: written as a user would, run by `run_sweep`, read from MLflow.

Each has a name of its own in one home, and so goes on where an interrupted proof left off.
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
"""Slices that are short enough for many sweeps: a pass of ten steps of some 3 ms each."""

ONE_THREAD: Mapping[str, Any] = {"class": "cpu", "threads": 1}
"""Of two CPUs the driver, Ray and MLflow want a tenth: two threads that wait for each other at each
step are as slow as the one that was interrupted, and blocks vary twice as much."""


@dataclass(frozen=True, slots=True)
class Question:
    """A sweep of arms of one machine's CPU. `more` are further keys of its spec."""

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
        """Its spec file."""
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
    """A sweep of the proof was stopped by a signal."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A sweep as its report has it, and how long this start of it took."""

    record: SweepRecord
    comparisons: tuple[Comparison, ...]
    seconds: float

    @property
    def only(self) -> Comparison:
        """The one comparison of a sweep of two arms."""
        (found,) = self.comparisons
        return found

    def trainers_s(self) -> float:
        """Seconds in which trials ran, those of one round at once counted once."""
        spans = sorted((each.started_s, each.ended_s) for each in self.record.trials)
        total, until_s = 0.0, 0.0
        for began_s, ended_s in spans:
            total += max(0.0, ended_s - max(began_s, until_s))
            until_s = max(until_s, ended_s)
        return total

    def slices(self) -> int:
        """Slices of all arms together."""
        return round(sum(each.metrics.get("slices", 0.0) for each in self.record.trials))

    def disturbed(self) -> int:
        """Trials that were disturbed, of those that count."""
        return sum(bool(each.disturbance) for each in self.record.trials)


def ask(question: Question, home: Path, while_running: Callable[[], Any] | None = None) -> Answer:
    """Run a sweep, or what is missing of it, and compare its arms.

    Args:
        question: the sweep.
        home: where all of them are kept.
        while_running: called when the first trials are about to be handed out.

    Raises:
        Interrupted: it was stopped, and can go on.
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
    wrong = [each for each in ended.record.trials if each.status in ("failed", "wrong_kernel")]
    if wrong or not ended.record.trials:
        raise RuntimeError(
            f"{question.name}: {len(wrong)} of {len(ended.record.trials)} trials failed: "
            f"{wrong[0].failure if wrong else 'there is none'}"
        )
    summary = summarise(ended.record)
    return Answer(ended.record, summary.comparisons, time.monotonic() - began_s)


def plain(comparison: Comparison) -> dict[str, Any]:
    """What is kept of a comparison."""
    told = dataclasses.asdict(comparison.speedup) if comparison.speedup else None
    return {
        "arm": str(comparison.arm),
        "verdict": comparison.verdict,
        "pairs": len(comparison.pairs),
        "speedup": told,
        "quiet_only": comparison.quiet_only,
        "disturbed_blocks": len(comparison.disturbed_blocks),
        "reason": comparison.reason,
    }


def covers(comparison: Comparison, truth: float) -> bool:
    """Whether the plain 95 % interval holds the true ratio."""
    found = comparison.speedup
    return found is not None and found.low <= truth <= found.high
