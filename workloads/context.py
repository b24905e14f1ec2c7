"""The interface of a workload, built in or your own; see `docs/own_loop.md`.

A workload is a function that takes a `Context` and returns the trial's metrics. To support
`measure: timing`, it loops over `trial.slices()` and, for each number of steps, trains that many
steps in the phase `train`; if `trial.timed_work` is `predict`, it predicts that many batches in the
phase `predict` instead.
"""

import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from workloads import protocol
from workloads.failures import DataError, NonFinite, TrialError
from workloads.implementations import Implementation
from workloads.metrics import METRICS
from workloads.number_format import OwnNumberFormat
from workloads.own_code import describe_error
from workloads.turns import Turns

METRICS_LIMIT = 5000
"""The most names of metrics in a trial: each is a column of the trial table."""

VALUES_LIMIT = 100_000
"""The most values in the epochs of a trial, with their times: each is a row of a tracker."""

NOT_MEASURED = "not_measured.txt"
"""The text of a trial that says what could not be measured beside its training, and why."""

FACTS_KIB = 64
"""The most text of the facts about the environment of a trial: each trial's record has them."""

_REGISTERED = frozenset(metric.name for metric in METRICS)

RecordedFact = str | int | float | bool | None


@dataclass(slots=True)
class PhaseWindow:
    """A timed phase; `seconds` is 0 until it ends."""

    phase: str
    began_s: float
    seconds: float = 0.0
    rested_s: float = 0.0
    """Seconds that the trial had rested before the phase began; rests inside it do not count."""


@dataclass(frozen=True, slots=True)
class Context:
    """One trial: what to run, and the methods that report what happened.

    `settings` are the fixed settings of the spec with the config and the variant of the trial.
    Arms of a block have the same `seed`, for initial weights and the order of the batches.
    """

    settings: Mapping[str, Any]
    implementation: Implementation
    device: protocol.Device
    seed: int
    emit: Callable[[protocol.Event], None]
    turns: Turns = None  # type: ignore[assignment]  # made in __post_init__
    """The turns of the trial with the others of its round."""
    should_prune: Callable[[], bool] = field(default=lambda: False, repr=False)
    """Returns True if the sweep's pruner has ended this config; returns at once."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds by phase, summed over the phases that have ended."""
    model_path: str | None = None
    """The folder that `checkpoint` copies into; None if the model is not kept."""
    expected_data: str | None = None
    """The digest of the data at the start of the sweep, if it is known only after loading."""
    wants_fingerprint: bool = False
    """Whether to report the fingerprint of the model, if rnnsweep sets its initial weights."""
    number_format: OwnNumberFormat | None = None
    """The number format that the file of an own model sets for all layers, if any."""
    absent: dict[str, str] = field(default_factory=dict, init=False)
    """What `optional` could not measure, with the reasons."""
    _open: list[PhaseWindow] = field(default_factory=list, init=False, repr=False)
    _artifacts: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _values: Counter[str] = field(default_factory=Counter, init=False, repr=False)
    _facts: dict[str, RecordedFact] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.turns is None:
            object.__setattr__(self, "turns", Turns(self.emit))

    @property
    def measure(self) -> Literal["full", "timing"]:
        """`full` for a whole training, `timing` for slices until the times are precise."""
        return self.turns.measure

    @property
    def timed_work(self) -> protocol.TimedWork:
        """What slices time, and the name of their phase: `train` or `predict` (whole batches)."""
        self.turns.is_work_known = True
        return self.turns.timed_work

    @property
    def slice_s(self) -> float:
        """The approximate duration of a slice, in seconds."""
        return self.turns.slice_s

    def slices(self, steps: int | None = None) -> Iterator[int]:
        """Report that the trial is warm; then yield the number of steps of each requested slice.

        Without `steps`, a few unrecorded iterations find how many steps take about `slice_s`.
        """
        self._expect_timing()
        work = self.turns.timed_work
        return self.turns.slices(steps, lambda: self.seconds.get(work, 0.0))

    def slice(self, steps: int, seconds: float) -> None:
        """Report the slice of this iteration, if not all of its phase is to be timed."""
        self._expect_timing()
        self.turns.report_slice(steps, seconds)

    def _expect_timing(self) -> None:
        if self.measure == "full":
            raise RuntimeError(
                "trial.slices is for trials with trial.measure 'timing'; this one is 'full': train"
                " to the end, and report epochs"
            )

    @contextmanager
    def phase(self, name: str) -> Iterator[PhaseWindow]:
        """Time a phase: `load`, `compile`, `train`, `validate`, `evaluate`, `predict` or your own.

        Its seconds become a metric: `load` gives `load_s`.
        """
        window = self.begin(name)
        yield window
        self.end(window)

    def begin(self, phase: str) -> PhaseWindow:
        """Begin a phase that does not fit a `with` block, such as one in callbacks.

        The first phase `train` of a whole training waits for its turn.
        """
        if phase == "train" and self.measure == "full":
            self.turns.begin_training()
        self.emit(protocol.PhaseBegan(phase, time.monotonic()))
        began_s = time.monotonic()  # read again: writing the event is not part of the phase
        window = PhaseWindow(phase, began_s, rested_s=self.turns.rested_s)
        self._open.append(window)
        return window

    def end(self, window: PhaseWindow) -> PhaseWindow:
        """End a phase that `begin` began."""
        self._end(window)
        self.seconds[window.phase] = self.seconds.get(window.phase, 0.0) + window.seconds
        return window

    def _end(self, window: PhaseWindow) -> None:
        now = time.monotonic()
        window.seconds = now - window.began_s - (self.turns.rested_s - window.rested_s)
        with suppress(ValueError):  # a workload may end a phase twice
            self._open.remove(window)
        self.emit(protocol.PhaseEnded(window.phase, now, window.seconds))

    @contextmanager
    def optional(self, name: str) -> Iterator[None]:
        """Measure something optional in this block: an error does not fail the trial.

        After an error the trial continues without it. `absent` and the artifact `not_measured.txt`
        have the reason, and phases that began in the block do not count. A `TrialError`, such as
        `NonFinite`, still fails the trial.
        """
        open_before = len(self._open)
        try:
            yield
        except TrialError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the training counts
            for window in self._open[open_before:]:
                self._end(window)
            self.absent[name] = describe_error(error, None).splitlines()[0]
            lines = (f"{absent}: {reason}\n" for absent, reason in self.absent.items())
            with suppress(ValueError):  # the workload's own texts leave no room
                self.artifact(NOT_MEASURED, "".join(lines))

    def epoch(
        self, index: int, seconds: float, validate_s: float | None = None, **metrics: float
    ) -> None:
        """Report a timed epoch, and wait for the trial's next turn.

        `seconds` is the time of training, `validate_s` of validation. Raise `NonFinite` for a NaN
        or infinite metric, and `ValueError` for more than 5,000 metrics or 100,000 values in the
        trial, a blank name, or two names that differ only in case.
        """
        self.report_epoch(index, seconds, validate_s, **metrics)
        self.turns.end_epoch(seconds)

    def report_epoch(
        self, index: int, seconds: float, validate_s: float | None = None, **metrics: float
    ) -> None:
        """Report a timed epoch as `epoch` does, without waiting."""
        self._values.update((*metrics, "epoch_s"))
        names = self._values.keys() - {"epoch_s"}
        expect_few(names)
        expect_distinct(names)
        if (values := self._values.total()) > VALUES_LIMIT:
            raise ValueError(
                f"metrics: {values:,} values in the epochs, and a trial can have {VALUES_LIMIT:,}:"
                " report every n-th epoch, or write the values to a file"
            )
        expect_finite(metrics, f"epoch {index}")
        self.emit(protocol.Epoch(index, seconds, validate_s, metrics))

    def model_built(self, parameters: int, size_bytes: int) -> None:
        """Report the size of the model, which the message of an out-of-memory failure shows."""
        self.emit(protocol.ModelBuilt(parameters, size_bytes / 2**20))

    def kernel(self, asked: str, ran: str, evidence: str) -> None:
        """Report the requested kernel, the kernel that ran, and the evidence for it."""
        self.emit(protocol.KernelProof(asked, ran, evidence))

    def fingerprint(self, fingerprint: protocol.Fingerprint) -> None:
        """Report outputs and gradients at the initial weights, to compare them between arms."""
        self.emit(fingerprint)

    def dataset(
        self, name: str, *, digest: str, source: str, samples: int, validation_samples: int = 0
    ) -> None:
        """Report the loaded data; `digest` identifies their source.

        Raise `DataError` if the data differ from the data at the start of the sweep.
        """
        if self.expected_data is not None:
            expect_data(name, digest, self.expected_data)
        self.emit(protocol.Dataset(name, digest, source, samples, validation_samples))

    def artifact(self, name: str, text: str) -> None:
        """Store a text with the trial; a second text of the same name replaces it.

        Raise `ValueError` if `name` is not a plain file name, or for more than 16 texts or 256 KiB
        in the trial.
        """
        artifact = protocol.Artifact(name, text)
        if reason := protocol.artifact_refusal_reason(artifact, self._artifacts):
            raise ValueError(f"artifact: {reason}")
        self._artifacts[name] = text
        self.emit(artifact)

    def checkpoint(self, path: str | Path) -> None:
        """Copy the model in this file or folder, which is kept if the trial is its arm's best.

        The best trial is chosen by the first accuracy among the objectives, else by the first
        objective, else by accuracy. Raise `ValueError` if there is no file, or more than 256 MiB.
        """
        source = Path(path)
        files = [file for file in (source, *source.rglob("*")) if file.is_file()]
        size_mib = sum(file.stat().st_size for file in files) / 2**20
        if not files or size_mib > protocol.CHECKPOINT_MIB:
            limit = f"a model can have {protocol.CHECKPOINT_MIB} MiB"
            size = f"has {size_mib:.1f} MiB, and {limit}" if files else "has no file"
            raise ValueError(f"checkpoint: {source} {size}")
        if self.model_path is not None:
            shutil.rmtree(self.model_path, ignore_errors=True)
            if source.is_dir():
                shutil.copytree(source, self.model_path)
            else:
                Path(self.model_path).mkdir()
                shutil.copy2(source, self.model_path)

    def environment(self, **facts: RecordedFact) -> None:
        """Report versions, devices and settings that may explain a time.

        Raise `ValueError` for more than 64 KiB of facts in a trial.
        """
        self._facts.update(facts)
        size = sum(len(name) + len(str(fact)) for name, fact in self._facts.items())
        if size > FACTS_KIB * 1024:
            raise ValueError(
                f"environment: {size / 1024:,.0f} KiB of facts, and a trial can have {FACTS_KIB}:"
                " store them as a text (trial.artifact) or in a file"
            )
        self.emit(protocol.EnvironmentFacts(facts))


def expect_data(name: str, digest: str | None, expected: str) -> None:
    """Raise `DataError` if the data of a trial differ from the data at the start of the sweep."""
    if digest != expected:
        raise DataError(
            f"data of {name}: they differ here (digest {digest}) from the start of the sweep"
            f" ({expected}): give every node the same data, or start a new generation with --fresh"
            " (in Python: fresh=True)"
        )


def expect_few(metric_names: Collection[str]) -> None:
    """Raise `ValueError` for more metrics of a trial than a tracker and a report can take."""
    if len(metric_names) > METRICS_LIMIT:
        raise ValueError(
            f"metrics: {len(metric_names):,} names, and a trial can have {METRICS_LIMIT:,}: report"
            " sums or means, or store the values as a text (trial.artifact) or in a file"
        )


def expect_distinct(metric_names: Iterable[str]) -> None:
    """Raise `ValueError` for a name that is blank, or that differs from another only in case.

    A query has a column for each metric, and SQL's names ignore case.
    """
    spellings = {name.casefold(): name for name in _REGISTERED}
    for name in metric_names:
        if not name.strip():
            raise ValueError(f"metrics: a name is blank ({name!r})")
        other = spellings.setdefault(name.casefold(), name)
        if other != name:
            raise ValueError(f"metrics: {name!r} and {other!r} differ only in case: rename one")


def expect_possible(metrics: Mapping[str, float], source: str) -> None:
    """Raise `ValueError` for a time or a rate of the registry that is negative."""
    faults = [
        f"{name} is {value}"
        for name, value in metrics.items()
        if value < 0 and name in _REGISTERED and name.endswith(("_s", "_ms", "_us"))
    ]
    if faults:
        raise ValueError(f"{source}: times and rates cannot be negative: {', '.join(faults)}")


def expect_finite(metrics: Mapping[str, float], source: str) -> None:
    """Raise `NonFinite` with the name of every metric that is NaN or infinite."""
    faults = [f"{name} is {value}" for name, value in metrics.items() if not math.isfinite(value)]
    if faults:
        raise NonFinite(f"{source}: {', '.join(faults)}")
