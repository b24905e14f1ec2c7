"""The contract of a workload, built in or your own.

A workload is a function that takes a `Context` and returns the trial's metrics:

    from rnnsweep import Context

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
node, and have another name than rnnsweep's own. The rules:

* `trial.settings` are the sweep's settings and the block's config, merged. A built-in workload
  gets them validated and complete. Your own workload gets them as the spec has them.
* All arms of a block get the same settings and the same `trial.seed`. Draw the initial weights
  and the batch order from it, so that the arms differ in their implementation only.
* `trial.implementation` is what the arm asks for. Report what really ran with `trial.kernel`.
  If `ran` differs from `asked`, the trial is kept, marked, and excluded from comparisons.
* The seconds of each phase become a metric (`load` -> `load_s`; phases that are entered several
  times add up), unless the returned mapping has that name. `peak_rss_mib` is added likewise.
  Names end with their unit: `_s`, `_ms`, `_mib`, `_w`, `_j`.
* On a device that works asynchronously, synchronise before a phase ends.
* `train` is the phase of the timed epochs. Energy, clocks and the CPU share of other processes are
  measured in its windows only. Energy needs 10 s of them; windows shorter than 1 s are enough if
  there is almost nothing between them. Keep validation out of them.
* A metric that is NaN or infinite fails the trial, immediately in `trial.epoch`. Raise
  `workloads.failures.NotPossible` or `DataError` for those reasons. Any other exception is
  reported as a failure of this trial, and the process takes the next one.
* A trial whose `trial.measure` is `timing` is timed in slices, which alternate with the slices of
  other trials. Warm up as for a full trial (compile every program, train for one slice). Then
  train only when a slice is requested:

        for steps in trial.slices():
            with trial.phase("train"):   # synchronised at both edges
                train(steps)

  The first few iterations are trial runs: they find how many steps take `trial.slice_s` seconds.
  `trial.slices(steps)` skips them. If a slice did other steps than those, or took another time
  than its phase `train`, report it by `trial.slice(steps, seconds)`. `step_ms`, `slices`,
  `slice_steps` and `timed_s` are reported for you; report no loss and no accuracy. A full trial
  takes no slices. A timing trial takes all slices that are requested: the loop ends by itself.
* A sweep's pruner (`search.pruner`) reads the objective from `trial.epoch`. Ask it before each
  epoch: `if trial.should_prune(): break`. Then return the metrics of the epochs so far: times per
  step, of loading and of compiling, and memory are kept, accuracies are not.
* `trial.artifact("sample.txt", text)` stores a text with the metrics (an artifact in MLflow): up
  to 16 texts, 256 KiB in total.
* `trial.checkpoint("model.pt")` keeps a model, a file or a folder, in MLflow if the trial is the
  best of its arm. Call it after the timed phases.
* You can print: standard output goes to the trainer's log and never to the protocol.
* The process is warm: other trials of this backend and device run in it before and after yours.
"""

import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from workloads.failures import NonFinite
from workloads.implementations import Implementation
from workloads.protocol import (
    CHECKPOINT_MIB,
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
    """A timed phase; `seconds` is 0 until it ends."""

    phase: str
    began_s: float
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Context:
    """One trial as its workload sees it: the settings to run, and the reports of what happened."""

    settings: Mapping[str, Any]
    implementation: Implementation
    device: Device
    seed: int
    emit: Callable[[Event], None]
    slicing: Slicing | None = field(default=None, repr=False)
    """The slices of a trial that is timed in slices; None for a full trial."""
    should_prune: Callable[[], bool] = field(default=lambda: False, repr=False)
    """Returns True if the sweep's pruner ended this config; it waits for nothing."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds by phase, summed over the phases that have ended."""
    model_path: str | None = None
    """The folder that `checkpoint` copies into; None if nobody needs the model."""
    _artifacts: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    @property
    def measure(self) -> Literal["full", "timing"]:
        """`full` for a whole training, `timing` for a trial that is timed in slices."""
        return "full" if self.slicing is None else "timing"

    @property
    def slice_s(self) -> float:
        """The approximate duration of a slice, in seconds."""
        return self._expect_slicing().slice_s

    def slices(self, steps: int | None = None) -> Iterator[int]:
        """Report that the trial is warm; then yield the steps of each slice when it is requested.

        Args:
            steps: training steps of a slice that takes about `slice_s`. By default trial runs
                find them, in iterations of the loop that are not recorded.
        """
        slicing = self._expect_slicing()
        return slicing.slices(steps, self.emit, lambda: self.seconds.get("train", 0.0))

    def slice(self, steps: int, seconds: float) -> None:
        """Report the slice of this iteration, where its phase `train` is not all of it."""
        self._expect_slicing().slice(steps, seconds)

    def _expect_slicing(self) -> Slicing:
        if self.slicing is None:
            raise RuntimeError(
                "slices are for a trial whose trial.measure is 'timing'; this one is 'full': train"
                " it whole, and report its epochs"
            )
        return self.slicing

    @contextmanager
    def phase(self, name: str) -> Iterator[PhaseWindow]:
        """Time a phase (`load`, `compile`, `train`, `validate`, `evaluate`, `predict`, or yours).

        A phase that ends with an exception has no end event: it never completed.
        """
        window = self.begin(name)
        yield window
        self.end(window)

    def begin(self, phase: str) -> PhaseWindow:
        """Begin a phase that does not fit a `with` block, such as one inside callbacks."""
        self.emit(PhaseBegan(phase, time.monotonic()))
        began_s = time.monotonic()  # read again: writing the event is not part of the phase
        return PhaseWindow(phase, began_s)

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
        """Report a timed epoch: seconds of training only, then of its validation.

        Raises:
            NonFinite: a metric is NaN or infinite.
        """
        expect_finite(metrics, f"epoch {index}")
        self.emit(Epoch(index, seconds, validate_s, metrics))

    def kernel(self, asked: str, ran: str, evidence: str) -> None:
        """Report which kernel was asked for, which one ran, and the evidence for it."""
        self.emit(KernelProof(asked, ran, evidence))

    def dataset(
        self, name: str, *, digest: str, source: str, samples: int, validation_samples: int = 0
    ) -> None:
        """Report the loaded data; `digest` is the digest of its source."""
        self.emit(Dataset(name, digest, source, samples, validation_samples))

    def artifact(self, name: str, text: str) -> None:
        """Store a text with the trial's metrics, as a file of that name (no folders).

        A second text of the same name replaces the first one.

        Raises:
            ValueError: not a plain file name, or the trial's texts are too many or too large.
        """
        artifact = Artifact(name, text)
        if reason := artifact_refusal_reason(artifact, self._artifacts):
            raise ValueError(f"artifact: {reason}")
        self._artifacts[name] = text
        self.emit(artifact)

    def checkpoint(self, path: str | Path) -> None:
        """Keep the model in this file or folder if the trial is its arm's best; copied at once.

        The best one has the best accuracy among the objectives, else the best first objective, else
        the best accuracy. A second call replaces the first one.

        Raises:
            ValueError: there is no file, or more than 256 MiB.
        """
        source = Path(path)
        files = [file for file in (source, *source.rglob("*")) if file.is_file()]
        size_mib = sum(file.stat().st_size for file in files) / 2**20
        if not files or size_mib > CHECKPOINT_MIB:
            expected = f"expected a file, or a folder with some, of at most {CHECKPOINT_MIB} MiB"
            raise ValueError(f"checkpoint: {expected}; {source} has {size_mib:.1f} MiB")
        if self.model_path is not None:
            shutil.rmtree(self.model_path, ignore_errors=True)
            if source.is_dir():
                shutil.copytree(source, self.model_path)
            else:
                Path(self.model_path).mkdir()
                shutil.copy2(source, self.model_path)

    def environment(self, **facts: Fact) -> None:
        """Report versions, devices and settings of the process that may explain a time."""
        self.emit(Environment(facts))


def expect_finite(metrics: Mapping[str, float], place: str) -> None:
    """Raise `NonFinite` with the name of every metric that is NaN or infinite."""
    faults = [f"{name} is {value}" for name, value in metrics.items() if not math.isfinite(value)]
    if faults:
        raise NonFinite(f"{place}: expected finite metrics; {', '.join(faults)}")
