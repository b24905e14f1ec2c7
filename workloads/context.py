"""The contract of a workload, built in or your own.

A workload is a function that takes a `Context` and returns the trial's metrics:

    from workloads.context import Context

    def run(trial: Context) -> dict[str, float]:
        with trial.phase("load"):
            model = build(trial.settings["units"], seed=trial.seed)
        trial.kernel(asked="plain", ran="plain", evidence="there is only one")
        for index in range(trial.settings["epochs"]):
            with trial.phase("train") as window:
                loss = model.train_epoch()
            trial.epoch(index, window.seconds, loss=loss)
        return {"loss": loss, "samples_per_s": model.samples / trial.seconds["train"]}

A spec names it as `workload: package.module:function`; the package must be importable on every
node. What holds:

* `trial.settings` are the sweep's settings and the block's config, merged. A built-in workload
  gets them validated and complete; your own gets them as they stand in the spec.
* All arms of a block get the same settings and the same `trial.seed`: draw the initial weights
  and the batch order from it, so that the arms differ in nothing but their implementation.
* `trial.implementation` is what the arm asks for. Report what really ran with `trial.kernel`:
  where `ran` differs from `asked`, the trial is kept, marked, and left out of comparisons.
* Seconds of each phase become metrics of their own (`load` -> `load_s`; phases entered several
  times add up) unless the returned mapping holds that name. `peak_rss_mib` is added likewise.
  Names carry their unit: `_s`, `_ms`, `_mib`, `_w`, `_j`.
* On a device that works asynchronously, synchronise before a phase ends.
* `train` is the phase of the timed epochs: energy, clocks, and others' share of the CPU are those
  of its windows alone. Energy needs 10 s of them; windows of less than 1 s will do where there
  is next to nothing between them. Keep validation out of them.
* A metric that is NaN or infinite fails the trial, at once in `trial.epoch`. Raise
  `workloads.failures.NotPossible` or `DataError` for those reasons; any other exception is
  reported as the failure of this trial, and the process takes the next one.
* A trial whose `trial.measure` is `timing` is timed in slices that take turns with other trials.
  Warm up as for a full one (every program compiled, a slice of training run), and then train when
  you are asked to, and only then:

        for steps in trial.slices(suggested_steps):   # of which `trial.slice_s` seconds are made
            with trial.phase("train") as window:      # synchronised at both edges
                train(steps)
            trial.slice(steps, window.seconds)

  `step_ms`, `slices`, `slice_steps` and `timed_s` are then told for you; loss and accuracy are
  not to be. A full trial must take no slices, and a timing trial must take all that it is asked
  for: the loop ends by itself.
* `trial.artifact("sample.txt", text)` keeps a text beside the metrics (an artifact in MLflow): up
  to 16 of them, 256 KiB together.
* Print as you like: standard output goes to the trainer's log and never to the protocol.
* The process is warm: other trials of this backend and device ran in it before and will after.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from workloads.failures import NonFinite
from workloads.implementations import Implementation
from workloads.protocol import (
    Artifact,
    Dataset,
    Device,
    Environment,
    Epoch,
    Event,
    KernelProof,
    PhaseBegan,
    PhaseEnded,
    artifact_refusal_reason,
)
from workloads.slicing import Slicing

Fact = str | int | float | bool | None


@dataclass(slots=True)
class PhaseWindow:
    """A phase that is being timed; `seconds` is 0 until it has ended."""

    phase: str
    began_s: float
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Context:
    """One trial, as its workload sees it: what to run, and where to say what happened."""

    settings: Mapping[str, Any]
    implementation: Implementation
    device: Device
    seed: int
    emit: Callable[[Event], None]
    turns: Slicing | None = field(default=None, repr=False)
    """Where the trial is timed in slices: those that it has taken, and who asks for them."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds spent so far in each phase that has ended."""
    _kept: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    @property
    def measure(self) -> Literal["full", "timing"]:
        """Whether the trial is a whole training, or is timed in slices."""
        return "full" if self.turns is None else "timing"

    @property
    def slice_s(self) -> float:
        """What a slice is to take, about."""
        return self._turns().slice_s

    def slices(self, steps: int) -> Iterator[int]:
        """Say that the trial is warm; then the steps of each slice, when it is asked for.

        Args:
            steps: of which a slice is made that takes about `slice_s`.
        """
        return self._turns().slices(steps, self.emit)

    def slice(self, steps: int, seconds: float) -> None:
        """Tell of a slice: the whole training steps that were taken, and their seconds."""
        self._turns().slice(steps, seconds, self.emit)

    def _turns(self) -> Slicing:
        if self.turns is None:
            raise RuntimeError(
                "slices are of a trial whose trial.measure is 'timing'; this one is 'full': train"
                " it whole, and tell of its epochs"
            )
        return self.turns

    @contextmanager
    def phase(self, name: str) -> Iterator[PhaseWindow]:
        """Time a phase (`load`, `compile`, `train`, `validate`, `evaluate`, `predict`, or yours).

        A phase that ends with an exception is left open in the events: it never completed.
        """
        window = self.begin(name)
        yield window
        self.end(window)

    def begin(self, phase: str) -> PhaseWindow:
        """Begin a phase that does not fit a `with` block, such as one inside callbacks."""
        self.emit(PhaseBegan(phase, time.monotonic()))
        return PhaseWindow(
            phase, time.monotonic()
        )  # read again: writing the event is not the phase's

    def end(self, window: PhaseWindow) -> PhaseWindow:
        """End a phase that `begin` began."""
        now = time.monotonic()
        window.seconds = now - window.began_s
        self.seconds[window.phase] = self.seconds.get(window.phase, 0.0) + window.seconds
        self.emit(PhaseEnded(window.phase, now, window.seconds))
        return window

    def epoch(
        self, index: int, seconds: float, validate_s: float | None = None, **metrics: float
    ) -> None:
        """Report a timed epoch: seconds of training alone, then of its validation.

        Raises:
            NonFinite: a metric is NaN or infinite.
        """
        expect_finite(metrics, f"epoch {index}")
        self.emit(Epoch(index, seconds, validate_s, metrics))

    def kernel(self, asked: str, ran: str, evidence: str) -> None:
        """Report which kernel was asked for, which one ran, and what shows it."""
        self.emit(KernelProof(asked, ran, evidence))

    def dataset(
        self, name: str, *, digest: str, source: str, samples: int, validation_samples: int = 0
    ) -> None:
        """Report the data that was loaded; `digest` is that of its source."""
        self.emit(Dataset(name, digest, source, samples, validation_samples))

    def artifact(self, name: str, text: str) -> None:
        """Keep a text beside the trial's metrics, as a file of that name (no folders).

        The last text of a name counts.

        Raises:
            ValueError: it is no plain file name, or the trial's texts are too many or too large.
        """
        artifact = Artifact(name, text)
        if why := artifact_refusal_reason(artifact, self._kept):
            raise ValueError(f"artifact: {why}")
        self._kept[name] = text
        self.emit(artifact)

    def environment(self, **facts: Fact) -> None:
        """Report versions, devices and settings of the process that may explain a time."""
        self.emit(Environment(facts))


def expect_finite(metrics: Mapping[str, float], place: str) -> None:
    """Raise `NonFinite`, naming every metric that is NaN or infinite."""
    broken = [f"{name} is {value}" for name, value in metrics.items() if not math.isfinite(value)]
    if broken:
        raise NonFinite(f"{place}: expected finite metrics; {', '.join(broken)}")
