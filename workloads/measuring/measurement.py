"""One trial of a workload that trains a Keras model: from its settings to its metrics.

A workload provides the functions `load` and `build`; the rest is the same for all workloads:

    def run(trial: Context) -> dict[str, float]:
        settings = ImageRowsSettings(**trial.settings)
        return measure(trial, settings, load=lambda: load(settings), build=...)

Frameworks are imported inside `measure`, in the phase `import` of a process's first trial. A
workload therefore imports Keras inside `build` only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from workloads.context import Context
from workloads.data.samples import Samples
from workloads.failures import DataError, NotPossible
from workloads.frameworks import Framework, load_framework
from workloads.frameworks.feeding import reorder
from workloads.models.flops import training_flops
from workloads.settings.recurrent import RecurrentSettings

if TYPE_CHECKING:
    from workloads.models.model import WitnessedModel
    from workloads.models.run import TrainingRun


class TrainingData(Protocol):
    """The data set of a workload."""

    @property
    def name(self) -> str:
        """Name of the data set."""

    @property
    def digest(self) -> str:
        """SHA-256 of its source."""

    @property
    def source(self) -> str:
        """Origin of the data: a file, an address or a package."""

    @property
    def train(self) -> Samples:
        """Training samples; `measure` shuffles them, unless the model is stateful."""

    @property
    def validation(self) -> Samples:
        """Validation samples, in this order."""


DataType = TypeVar("DataType", bound=TrainingData)


def measure(
    trial: Context,
    settings: RecurrentSettings,
    *,
    load: Callable[[], DataType],
    build: Callable[[DataType], WitnessedModel],
    forward_flops: Callable[[DataType], int] | None = None,
    after: Callable[[WitnessedModel], dict[str, float]] | None = None,
) -> dict[str, float]:
    """Load, build, warm up, time, and prove the kernel; return the metrics.

    A trial that is timed in slices trains on full batches only. It has no validation, no loss and
    no accuracy, and `after` is not called.

    Args:
        trial: the trial.
        settings: the workload's validated settings.
        load: returns the data. The second axis of the inputs counts the steps of a sequence. The
            arrays may be views, or mapped from a file: these are read batch by batch.
        build: returns the model for the data, made by `workloads.models.compile.compile_model`.
            With `stateful` settings its input has a fixed batch size.
        forward_flops: returns the FLOPs of one sample's forward pass (`workloads.models.flops`).
        after: called with the trained model after the timing. It returns more metrics, and may
            store artifacts.

    Raises:
        NotPossible: the device is missing, or Keras refuses the kernel.
        DataError: there is no full batch for a stateful model.
    """

    def run_trial(framework: Framework) -> dict[str, float]:
        with trial.phase("load"):
            data = load()
            record_dataset(trial, data, settings.batch_size if settings.stateful else 1)
            run = _training_run(trial, settings, data, build(data), forward_flops)
        metrics = _train_and_prove(trial, settings, run, after)
        if trial.measure == "timing":
            return metrics
        return {**metrics, **measure_utilization(trial, framework, metrics)}

    with prepare_framework(trial) as framework:
        return run_trial(framework)


@contextmanager
def prepare_framework(trial: Context) -> Iterator[Framework]:
    """Import, configure, seed and report the framework of a trial; release its memory at the end.

    Variables of the block itself are not released: keep the model inside a function that it calls.

    Raises:
        NotPossible: the device is missing, or Keras refuses the kernel inside the block.
    """
    framework = _import_framework(trial)
    framework.release_memory()  # the traceback of a failed trial held its memory until now
    framework.configure(trial.implementation, trial.device)
    framework.expect_device(trial.device)
    framework.seed(trial.seed % 2**32)
    trial.environment(**framework.facts(), precision=trial.implementation.precision)
    try:
        yield framework
    except ValueError as error:
        if "use_cudnn=True was specified" not in str(error):
            raise
        raise NotPossible(f"{trial.implementation}: Keras refuses it here: {error}") from error
    finally:
        framework.release_memory()


def measure_utilization(
    trial: Context, framework: Framework, metrics: Mapping[str, float]
) -> dict[str, float]:
    """Return the share of the device's measured peak that a trial reached, in percent.

    See `workloads.measuring.roofline`.
    """
    from workloads.measuring.roofline import compute_utilization  # noqa: PLC0415 - imports the framework

    return compute_utilization(metrics, trial.implementation.precision, framework.synchronise)


def record_dataset(trial: Context, data: TrainingData, batch_size: int = 1) -> None:
    """Report the data that a trial trains on, and the number of its samples.

    A stateful model is validated on full batches of `batch_size` only. Only those samples are
    counted, as its accuracy is a share of them.
    """
    validation_samples = len(data.validation)
    trial.dataset(
        data.name,
        digest=data.digest,
        source=data.source,
        samples=len(data.train),
        validation_samples=validation_samples - validation_samples % batch_size,
    )


def _import_framework(trial: Context) -> Framework:
    if "keras" in sys.modules:
        return load_framework(trial.implementation.backend)
    with trial.phase("import"):
        return load_framework(trial.implementation.backend)


def _training_run(
    trial: Context,
    settings: RecurrentSettings,
    data: DataType,
    model: WitnessedModel,
    forward_flops: Callable[[DataType], int] | None,
) -> TrainingRun:
    from workloads.models.run import TrainingRun  # noqa: PLC0415 - imports the framework

    train, validation = data.train, data.validation
    if settings.stateful:
        train = _full_batches(train, settings.batch_size, "train")
        validation = _full_batches(validation, settings.batch_size, "validation")
    else:
        order = np.random.default_rng([trial.seed, 1]).permutation(len(train))
        train = reorder(train, order)
        if trial.measure == "timing" and len(train) > settings.batch_size:
            train = _full_batches(train, settings.batch_size, "train")
    return TrainingRun(
        model,
        train,
        validation,
        settings.batch_size,
        settings.epochs,
        device=trial.device,
        target_accuracy=settings.target_accuracy,
        timed_steps=settings.timed_steps,
        stateful=settings.stateful,
        flops_per_sample=training_flops(forward_flops(data)) if forward_flops else None,
    )


def _train_and_prove(
    trial: Context,
    settings: RecurrentSettings,
    run: TrainingRun,
    after: Callable[[WitnessedModel], dict[str, float]] | None,
) -> dict[str, float]:
    from workloads.evidence import Stack, prove  # noqa: PLC0415 - imports the framework
    from workloads.measuring.full_training import run_timed_epochs, time_single_steps, warm_up  # noqa: PLC0415
    from workloads.measuring.sliced_training import run_slices, warm_up_steps  # noqa: PLC0415

    is_full = trial.measure == "full"
    with trial.phase("compile"):
        compile_s = warm_up(run) if is_full else warm_up_steps(run)
    metrics = {**(run_timed_epochs if is_full else run_slices)(run, trial), "compile_s": compile_s}
    stack = Stack(settings.layers, 2 if settings.bidirectional else 1, run.train.inputs.shape[1])
    proof = prove(run, stack)
    trial.kernel(trial.implementation.kernel_text, proof.ran, proof.evidence)
    if not is_full:
        return metrics
    if after is not None:
        metrics |= after(run.model)
    return metrics | time_single_steps(run, trial)


def _full_batches(samples: Samples, batch_size: int, part: str) -> Samples:
    count = len(samples) - len(samples) % batch_size
    if not count:
        raise DataError(
            f"{part}: expected at least one batch of {batch_size} samples for a stateful model;"
            f" received {len(samples)}: use more data, or a smaller batch_size"
        )
    return samples.first(count)
