"""The contract of a workload, built in or your own: `docs/own_workloads.md` has all of it.

A workload is a function that takes a `Context` and returns the trial's metrics. To be timed in
slices, it loops `for steps in trial.slices():` and trains these steps in the phase `train`.
"""

import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from workloads import protocol
from workloads.failures import NonFinite
from workloads.implementations import Implementation
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
    device: protocol.Device
    seed: int
    emit: Callable[[protocol.Event], None]
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

        `steps` take about `slice_s`. By default iterations that are not recorded find them.
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
        """Time a phase: `load`, `compile`, `train`, `validate`, `evaluate`, `predict` or yours."""
        window = self.begin(name)
        yield window
        self.end(window)

    def begin(self, phase: str) -> PhaseWindow:
        """Begin a phase that does not fit a `with` block, such as one inside callbacks."""
        self.emit(protocol.PhaseBegan(phase, time.monotonic()))
        began_s = time.monotonic()  # read again: writing the event is not part of the phase
        return PhaseWindow(phase, began_s)

    def end(self, window: PhaseWindow) -> PhaseWindow:
        """End a phase that `begin` began."""
        now = time.monotonic()
        window.seconds = now - window.began_s
        self.seconds[window.phase] = self.seconds.get(window.phase, 0.0) + window.seconds
        self.emit(protocol.PhaseEnded(window.phase, now, window.seconds))
        return window

    def epoch(
        self, index: int, seconds: float, validate_s: float | None = None, **metrics: float
    ) -> None:
        """Report a timed epoch: seconds of training, of validation; `NonFinite` for NaN."""
        expect_finite(metrics, f"epoch {index}")
        self.emit(protocol.Epoch(index, seconds, validate_s, metrics))

    def kernel(self, asked: str, ran: str, evidence: str) -> None:
        """Report which kernel was asked for, which one ran, and the evidence for it."""
        self.emit(protocol.KernelProof(asked, ran, evidence))

    def dataset(
        self, name: str, *, digest: str, source: str, samples: int, validation_samples: int = 0
    ) -> None:
        """Report the loaded data; `digest` is the digest of its source."""
        self.emit(protocol.Dataset(name, digest, source, samples, validation_samples))

    def artifact(self, name: str, text: str) -> None:
        """Store a text with the trial's metrics; a second one of this name replaces it.

        Raise `ValueError` for no plain file name, or if the texts are too many or too large.
        """
        artifact = protocol.Artifact(name, text)
        if reason := protocol.artifact_refusal_reason(artifact, self._artifacts):
            raise ValueError(f"artifact: {reason}")
        self._artifacts[name] = text
        self.emit(artifact)

    def checkpoint(self, path: str | Path) -> None:
        """Keep the model in this file or folder if the trial is its arm's best; copied at once.

        The best one has the best accuracy among the objectives, else the best first objective, else
        the best accuracy. Raise `ValueError` if there is no file, or more than 256 MiB.
        """
        source = Path(path)
        files = [file for file in (source, *source.rglob("*")) if file.is_file()]
        size_mib = sum(file.stat().st_size for file in files) / 2**20
        if not files or size_mib > protocol.CHECKPOINT_MIB:
            expected = (
                f"expected a file, or a folder with some, of at most {protocol.CHECKPOINT_MIB} MiB"
            )
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
        self.emit(protocol.Environment(facts))


def expect_finite(metrics: Mapping[str, float], place: str) -> None:
    """Raise `NonFinite` with the name of every metric that is NaN or infinite."""
    faults = [f"{name} is {value}" for name, value in metrics.items() if not math.isfinite(value)]
    if faults:
        raise NonFinite(f"{place}: expected finite metrics; {', '.join(faults)}")
