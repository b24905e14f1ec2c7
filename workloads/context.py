"""The contract of a workload, built in or your own: `docs/own_workloads.md` has all of it.

A workload is a function that takes a `Context` and returns the trial's metrics. To be timed in
slices, it loops `for steps in trial.slices():` and trains these steps in the phase `train`. Where
`trial.timed_work` is `predict`, it predicts so many batches in the phase `predict` instead.
"""

import math
import shutil
import statistics
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from workloads import protocol
from workloads.failures import DataError, NonFinite, NotPossible
from workloads.implementations import Implementation
from workloads.metrics import METRICS

METRICS_LIMIT = 5000
"""The most names of metrics in a trial: each is a column of the trial table."""

VALUES_LIMIT = 100_000
"""The most values in the epochs of a trial, with their times: each is a row of a tracker."""

FACTS_KIB = 64
"""The most text of the facts about the environment of a trial: each trial's record has them."""

_REGISTERED = frozenset(metric.name for metric in METRICS)

Fact = str | int | float | bool | None

_SETTLING_STEPS = 4
"""Untimed steps before a slice that is part of a pass: as many batches are read ahead."""

_DOUBLINGS = 30
"""The most doublings of the steps of a trial run: a loop that ignores its steps must end, too."""


@dataclass(slots=True)
class Slicing:
    """A trial's side of timing in slices; `next_command` waits for the next command."""

    next_command: Callable[[], protocol.RoundCommand]
    slice_s: float
    timed_work: protocol.TimedWork = "train"
    is_work_known: bool = False
    """Whether the workload has asked for `timed_work`."""
    done_slices: list[protocol.SliceDone] = field(default_factory=list)
    is_ready: bool = False
    is_finished: bool = False
    _reported: list[protocol.SliceDone] = field(default_factory=list)

    def slices(
        self,
        steps: int | None,
        emit: Callable[[protocol.Event], None],
        timed_s: Callable[[], float],
    ) -> Iterator[int]:
        """Yield the steps of each slice when it is requested.

        Without `steps`, trial runs find the number that takes `slice_s`. `timed_s` returns the
        seconds of the phase of the timed work so far. Raise `RuntimeError` for a second loop, or a
        slice with no time or with several, `ValueError` for fewer than 1 step, and `NotPossible`
        for a workload that trains where predictions are timed.
        """
        if self.is_ready:
            raise RuntimeError("expected one loop over trial.slices in a trial; received a second")
        if self.timed_work == "predict" and not self.is_work_known:
            raise NotPossible(
                "predictions are to be timed (measure: of: predict), and the workload did not read"
                " trial.timed_work: predict the batches of a slice where it is 'predict', in the"
                " phase 'predict' (docs/own_workloads.md), or time training steps (of: train)"
            )
        if steps is not None and steps < 1:
            raise ValueError(f"trial.slices: expected at least 1 step in a slice; received {steps}")
        self.is_ready = True
        usual = steps or (yield from self._choose_steps(timed_s))
        emit(protocol.Ready(usual))
        while not isinstance(command := self.next_command(), protocol.Finish):
            done = yield from self._run(command.steps or usual, timed_s)
            if command.replaces_last:
                del self.done_slices[-1:]
            self.done_slices.append(done)
            emit(done)
        self.is_finished = True

    def slice(self, steps: int, seconds: float) -> None:
        """Report this iteration's whole steps (1 or more) and seconds, or `ValueError`."""
        if steps < 1 or not (math.isfinite(seconds) and seconds > 0):
            raise ValueError(
                "trial.slice: expected at least 1 step, and more than 0 seconds for them;"
                f" received {steps} steps and {seconds} s"
            )
        self._reported.append(protocol.SliceDone(steps, seconds))

    def _choose_steps(self, timed_s: Callable[[], float]) -> Generator[int, None, int]:
        """Yield the steps of trial runs; return how many steps take about `slice_s`."""
        for doubling in range(_DOUBLINGS):
            yield from self._run(2**doubling, timed_s)  # a program of so many steps may be compiled
            done = yield from self._run(2**doubling, timed_s)
            if done.seconds >= self.slice_s / 4:
                break
        steps = max(1, round(self.slice_s * done.steps / done.seconds))
        yield from self._run(steps, timed_s)
        return steps

    def _run(
        self, steps: int, timed_s: Callable[[], float]
    ) -> Generator[int, None, protocol.SliceDone]:
        """Yield these steps once; return the slice that the iteration reported or timed."""
        self._reported.clear()
        began_s = timed_s()
        yield steps
        if not self._reported and (seconds := timed_s() - began_s) > 0:
            self.slice(steps, seconds)
        if len(self._reported) != 1:
            raise RuntimeError(
                f"expected a phase `{self.timed_work}`, or trial.slice(steps, seconds) once, in"
                " each iteration of the loop over trial.slices; received"
                f" {len(self._reported)} slices"
            )
        return self._reported[0]

    @property
    def step_s(self) -> float:
        """Seconds per step: the geometric mean over the slices."""
        logs = [math.log(done.seconds / done.steps) for done in self.done_slices]
        return math.exp(math.fsum(logs) / len(logs))

    def metrics(self) -> dict[str, float]:
        """Return the slices' metrics; `RuntimeError` if the trial has not run all of them."""
        if not self.is_finished:
            progress = "before it had run all requested slices" if self.is_ready else "without any"
            raise RuntimeError(
                "the trial is timed in slices (measure: timing), and its workload returned"
                f" {progress}: expected a loop over trial.slices(steps) that runs until it ends by"
                " itself. Add one (see workloads/context.py), or measure this arm in full"
            )
        if not self.done_slices:
            raise RuntimeError("expected at least one slice before finish; received none")
        step = "step_ms" if self.timed_work == "train" else "predict_ms"
        return {
            step: 1_000 * self.step_s,
            "slices": float(len(self.done_slices)),
            "slice_steps": statistics.fmean(done.steps for done in self.done_slices),
            "timed_s": math.fsum(done.seconds for done in self.done_slices),
        }


@dataclass(frozen=True, slots=True)
class SliceSize:
    """The passes of one slice: `passes` times `settling_steps` untimed and `steps` timed steps."""

    steps: int
    settling_steps: int
    passes: int


def choose_slice_size(pass_steps: int, step_s: float, slice_s: float) -> SliceSize:
    """Return the size of a slice that takes about `slice_s`.

    A slice is whole passes over the data, of `pass_steps` steps, or a part of one pass. A part that
    would be nearly a whole pass, with its settling steps, becomes a whole pass.
    """
    steps = max(1, round(slice_s / step_s))
    passes = round(steps / pass_steps)
    if passes:
        return SliceSize(pass_steps, 0, passes)
    settling_steps = min(_SETTLING_STEPS, 1 + steps // _SETTLING_STEPS)
    if steps + settling_steps >= pass_steps:
        return SliceSize(pass_steps, 0, 1)
    return SliceSize(steps, settling_steps, 1)


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
    expected_data: str | None = None
    """The digest of the data at the start of the sweep, where it is known only after loading."""
    wants_fingerprint: bool = False
    """The trial is to report the fingerprint of its model, if that is known to start equally."""
    _artifacts: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _values: Counter[str] = field(default_factory=Counter, init=False, repr=False)
    _facts: dict[str, Fact] = field(default_factory=dict, init=False, repr=False)

    @property
    def measure(self) -> Literal["full", "timing"]:
        """`full` for a whole training, `timing` for a trial that is timed in slices."""
        return "full" if self.slicing is None else "timing"

    @property
    def timed_work(self) -> protocol.TimedWork:
        """`train` if slices time training steps, `predict` for predictions of whole batches.

        It is also the name of the phase in which a slice is timed.
        """
        if self.slicing is None:
            return "train"
        self.slicing.is_work_known = True
        return self.slicing.timed_work

    @property
    def slice_s(self) -> float:
        """The approximate duration of a slice, in seconds."""
        return self._expect_slicing().slice_s

    def slices(self, steps: int | None = None) -> Iterator[int]:
        """Report that the trial is warm; then yield the steps of each slice when it is requested.

        `steps` take about `slice_s`. By default iterations that are not recorded find them.
        """
        slicing = self._expect_slicing()
        work = slicing.timed_work
        return slicing.slices(steps, self.emit, lambda: self.seconds.get(work, 0.0))

    def slice(self, steps: int, seconds: float) -> None:
        """Report the slice of this iteration, where the phase of its work is not all of it."""
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
        """Report a timed epoch: seconds of training, of validation; `NonFinite` for NaN.

        Raise `ValueError` if the trial has too many names of metrics, or too many values, or for a
        name that is blank or differs from another one by case only.
        """
        self._values.update((*metrics, "epoch_s"))
        names = self._values.keys() - {"epoch_s"}
        expect_few(names)
        expect_distinct(names)
        if (values := self._values.total()) > VALUES_LIMIT:
            raise ValueError(
                f"metrics: expected at most {VALUES_LIMIT:,} values in the epochs of a trial, with"
                f" the times of the epochs; received {values:,}: report every n-th epoch, or keep"
                " the values in a file"
            )
        expect_finite(metrics, f"epoch {index}")
        self.emit(protocol.Epoch(index, seconds, validate_s, metrics))

    def model_built(self, parameters: int, size_bytes: int) -> None:
        """Report the size of the model, which a failure for want of memory names."""
        self.emit(protocol.ModelBuilt(parameters, size_bytes / 2**20))

    def kernel(self, asked: str, ran: str, evidence: str) -> None:
        """Report which kernel was asked for, which one ran, and the evidence for it."""
        self.emit(protocol.KernelProof(asked, ran, evidence))

    def fingerprint(self, fingerprint: protocol.Fingerprint) -> None:
        """Report outputs and gradients at the initial weights, which are compared between arms."""
        self.emit(fingerprint)

    def dataset(
        self, name: str, *, digest: str, source: str, samples: int, validation_samples: int = 0
    ) -> None:
        """Report the loaded data; `digest` is the digest of its source.

        Raise `DataError` if they are not the data of the start of the sweep.
        """
        if self.expected_data is not None:
            expect_data(name, digest, self.expected_data)
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
        """Report versions, devices and settings of the process that may explain a time.

        Raise `ValueError` for more than some KiB of facts in a trial.
        """
        self._facts.update(facts)
        size = sum(len(name) + len(str(fact)) for name, fact in self._facts.items())
        if size > FACTS_KIB * 1024:
            raise ValueError(
                f"environment: expected at most {FACTS_KIB} KiB of facts in a trial; received"
                f" {size / 1024:,.0f} KiB: keep them as a text (trial.artifact) or in a file"
            )
        self.emit(protocol.EnvironmentFacts(facts))


def expect_data(name: str, digest: str | None, expected: str) -> None:
    """Raise `DataError` if the data of a trial are not the data of the start of the sweep."""
    if digest != expected:
        raise DataError(
            f"data of {name}: expected digest {expected}, as at the start of the sweep; the data on"
            f" this machine has {digest}: give every node the same data, or start a new generation"
            " with --fresh (in Python: fresh=True)"
        )


def expect_few(metric_names: Collection[str]) -> None:
    """Raise `ValueError` for more metrics of a trial than a tracker and a report can take."""
    if len(metric_names) > METRICS_LIMIT:
        raise ValueError(
            f"metrics: expected at most {METRICS_LIMIT:,} names in a trial; received"
            f" {len(metric_names):,}: report sums or means, or keep the values as a text"
            " (trial.artifact) or in a file"
        )


def expect_distinct(metric_names: Iterable[str]) -> None:
    """Raise `ValueError` for a name that is blank, or that differs from another by case only.

    A query has a column for each metric, and SQL's names ignore case.
    """
    spellings = {name.casefold(): name for name in _REGISTERED}
    for name in metric_names:
        if not name.strip():
            raise ValueError(f"metrics: expected a name for each metric; received {name!r}")
        other = spellings.setdefault(name.casefold(), name)
        if other != name:
            raise ValueError(
                f"metrics: expected names that differ by more than case; received {name!r}, and"
                f" there is {other!r}"
            )


def expect_possible(metrics: Mapping[str, float], place: str) -> None:
    """Raise `ValueError` for a time or a rate of the registry that is negative."""
    faults = [
        f"{name} is {value}"
        for name, value in metrics.items()
        if value < 0 and name in _REGISTERED and name.endswith(("_s", "_ms", "_us"))
    ]
    if faults:
        raise ValueError(f"{place}: expected times and rates of at least 0; {', '.join(faults)}")


def expect_finite(metrics: Mapping[str, float], place: str) -> None:
    """Raise `NonFinite` with the name of every metric that is NaN or infinite."""
    faults = [f"{name} is {value}" for name, value in metrics.items() if not math.isfinite(value)]
    if faults:
        raise NonFinite(f"{place}: expected finite metrics; {', '.join(faults)}")
