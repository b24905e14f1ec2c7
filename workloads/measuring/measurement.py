"""One trial of a workload that trains a Keras model: from its settings to its metrics.

A workload says what to load and what to build; all else is the same for all of them:

    def run(trial: Context) -> dict[str, float]:
        settings = ImageRowsSettings(**trial.settings)
        return measure(trial, settings, load=lambda: load(settings), build=...)

Frameworks are imported inside `measure`, in the phase `import` of a process's first trial: a
workload imports Keras inside `build` only.
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
    """What a workload trains on. `digest` is that of its source."""

    @property
    def name(self) -> str:
        """Of the data set."""

    @property
    def digest(self) -> str:
        """Of its source."""

    @property
    def source(self) -> str:
        """Where it is from."""

    @property
    def train(self) -> Samples:
        """What is trained on; `measure` shuffles it, unless the model is stateful."""

    @property
    def validation(self) -> Samples:
        """What is validated on, in this order."""


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
    """Load, build, warm up, time, prove the kernel; returns the metrics.

    A trial that is timed in slices trains on full batches, and is neither validated nor kept on
    training after them: it has no loss and no accuracy, and `after` is not called.

    Args:
        trial: the trial.
        settings: the workload's, validated.
        load: the data; the inputs' second axis counts the steps of a sequence. It may be a view,
            or mapped from a file: such samples are gathered batch by batch.
        build: the model of that data, made by `workloads.models.compile.compile_model`. That of
        `stateful`
            settings has an input of fixed batch size.
        forward_flops: FLOPs of one sample's forward pass (`workloads.models.flops`).
        after: called with the trained model when the times are taken; returns more metrics, and
            may tell the trial of artifacts.

    Raises:
        NotPossible: there is no such device, or Keras refuses the kernel.
        DataError: there is no full batch for a stateful model.
    """

    def whole(framework: Framework) -> dict[str, float]:
        with trial.phase("load"):
            data = load()
            record_dataset(trial, data, settings.batch_size if settings.stateful else 1)
            plan = _plan(trial, settings, data, build(data), forward_flops)
        metrics = _measured(trial, settings, plan, after)
        if trial.measure == "timing":
            return metrics
        return {**metrics, **measure_utilization(trial, framework, metrics)}

    with prepare_framework(trial) as framework:
        return whole(framework)


@contextmanager
def prepare_framework(trial: Context) -> Iterator[Framework]:
    """A trial's framework: imported, configured, seeded, told of; and cleared away at the end.

    What the block itself holds is not cleared away: leave the model to a function that it calls.

    Raises:
        NotPossible: there is no such device, or Keras refuses the kernel inside of the block.
    """
    framework = _imported(trial)
    framework.forget()  # a trial that failed was held by its traceback until now
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
        framework.forget()


def measure_utilization(
    trial: Context, framework: Framework, metrics: Mapping[str, float]
) -> dict[str, float]:
    """What share of its device's measured peak a trial reached; see
    `workloads.measuring.roofline`.
    """
    from workloads.measuring.roofline import compute_utilization  # noqa: PLC0415 - imports the framework

    return compute_utilization(metrics, trial.implementation.precision, framework.synchronise)


def record_dataset(trial: Context, data: TrainingData, batch_size: int = 1) -> None:
    """Which data a trial trains on, and how many samples of it.

    A stateful model is validated on full batches of `batch_size` alone: that many are told, as its
    accuracy is a share of them.
    """
    validated = len(data.validation)
    trial.dataset(
        data.name,
        digest=data.digest,
        source=data.source,
        samples=len(data.train),
        validation_samples=validated - validated % batch_size,
    )


def _imported(trial: Context) -> Framework:
    if "keras" in sys.modules:
        return load_framework(trial.implementation.backend)
    with trial.phase("import"):
        return load_framework(trial.implementation.backend)


def _plan(
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


def _measured(
    trial: Context,
    settings: RecurrentSettings,
    plan: TrainingRun,
    after: Callable[[WitnessedModel], dict[str, float]] | None,
) -> dict[str, float]:
    from workloads.evidence import Stack, prove  # noqa: PLC0415 - imports the framework
    from workloads.measuring.full_training import run_timed_epochs, time_single_steps, warm_up  # noqa: PLC0415
    from workloads.measuring.sliced_training import run_slices, warm_up_steps  # noqa: PLC0415

    whole = trial.measure == "full"
    with trial.phase("compile"):
        compile_s = warm_up(plan) if whole else warm_up_steps(plan)
    metrics = {**(run_timed_epochs if whole else run_slices)(plan, trial), "compile_s": compile_s}
    stack = Stack(settings.layers, 2 if settings.bidirectional else 1, plan.train.inputs.shape[1])
    proof = prove(plan, stack)
    trial.kernel(trial.implementation.kernel_text, proof.ran, proof.evidence)
    if not whole:
        return metrics
    if after is not None:
        metrics |= after(plan.model)
    return metrics | time_single_steps(plan, trial)


def _full_batches(samples: Samples, batch_size: int, part: str) -> Samples:
    full = len(samples) - len(samples) % batch_size
    if not full:
        raise DataError(
            f"{part}: expected at least one batch of {batch_size} samples for a stateful model;"
            f" received {len(samples)}: use more data, or a smaller batch_size"
        )
    return samples.first(full)
