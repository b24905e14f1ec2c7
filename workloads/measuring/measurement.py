"""One trial of a workload that trains a Keras model: from its settings to its metrics.

Frameworks are imported inside `measure`, in the phase `import` of a process's first trial. A
workload therefore imports Keras inside `build` only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from workloads.backends.feeding import reorder
from workloads.backends.loading import load_framework
from workloads.context import Context
from workloads.data.samples import DataSet, Samples
from workloads.failures import DataError, NotPossible, OutOfMemory
from workloads.settings import RecurrentSettings

if TYPE_CHECKING:
    from workloads.backends.framework import Framework
    from workloads.models.model import WitnessedModel
    from workloads.models.run import TrainingRun

_GPU_IS_FULL = re.compile("RESOURCE_EXHAUSTED|ALLOC_FAILED|out of memory|OOM when", re.IGNORECASE)
"""In the errors of XLA, cuDNN, CUDA (and PyTorch), and TensorFlow."""

SettingsType = TypeVar("SettingsType", bound=RecurrentSettings)


def measure(
    trial: Context,
    settings: SettingsType,
    load: Callable[[SettingsType], DataSet],
    build: Callable[[SettingsType, Context, DataSet], WitnessedModel],
    after: Callable[[WitnessedModel, DataSet], None] | None = None,
) -> dict[str, float]:
    """Load, build, warm up, time, and prove the kernel; return the metrics.

    `load` returns the data; the second axis of the inputs counts the steps of a sequence. `build`
    returns the model for it, made by `workloads.models.built_in.compile_model`. `after` gets the
    trained model and its data, and may store artifacts; it is not called for a pruned trial, nor
    for one in slices, which trains on full batches only and has no validation, loss or accuracy.

    Raise `NotPossible` if the device is missing, or Keras refuses the kernel; `DataError` if there
    is no full batch for a stateful model.
    """

    def run_trial(framework: Framework) -> dict[str, float]:  # frees the model at its end
        from workloads.measuring import full_training  # noqa: PLC0415 - imports the framework
        from workloads.measuring.keras_clocks import warm_up  # noqa: PLC0415
        from workloads.measuring.sliced_training import run_slices  # noqa: PLC0415
        from workloads.models.checkpoint import keep_model, read_checkpoint  # noqa: PLC0415

        with trial.phase("load"):
            data = load(settings)
            run = make_run(trial, settings, data, build(settings, trial, data))
        is_full = trial.measure == "full"
        with trial.phase("compile"):
            if is_full:
                compile_s = warm_up(run, full_training.run_warm_up_pass)
            else:
                compile_s = warm_up(run, lambda run: run.fit(run.short_train_feed))
        metrics = (full_training.run_timed_epochs if is_full else run_slices)(run, trial)
        metrics["compile_s"] = compile_s
        prove_kernel(trial, run)
        if "evaluate_s" not in metrics:
            return metrics
        if after is not None:
            after(run.model, data)
        is_kept = settings.keep and trial.model_path is not None
        trained = read_checkpoint(run.model, settings) if is_kept else None
        metrics |= full_training.time_single_steps(run, trial)
        metrics |= measure_utilization(trial, framework, metrics)
        if trained is not None:
            keep_model(trained, settings, trial, lambda portable: build(settings, portable, data))
        return metrics

    with prepare_framework(trial) as framework:
        return run_trial(framework)


@contextmanager
def prepare_framework(trial: Context) -> Iterator[Framework]:
    """Import, configure, seed and report the framework of a trial; release its memory at the end.

    Variables of the block itself are not released. Raise `NotPossible` if the device is missing, or
    Keras refuses the kernel inside the block; `OutOfMemory` if the GPU is full.
    """
    with nullcontext() if "keras" in sys.modules else trial.phase("import"):
        framework = load_framework(trial.implementation.backend)
    framework.release_memory()  # the traceback of a failed trial held its memory until now
    framework.configure(trial.implementation, trial.device)
    framework.expect_device(trial.device)
    framework.seed(trial.seed % 2**32)
    trial.environment(**framework.facts(), precision=trial.implementation.precision)
    try:
        yield framework
    except Exception as error:
        if "use_cudnn=True was specified" in str(error):
            why = f"{error}{framework.cudnn_failure()}"
            raise NotPossible(f"{trial.implementation}: Keras refuses it here: {why}") from error
        full = [line for line in str(error).splitlines() if _GPU_IS_FULL.search(line)]
        if trial.device == "cpu" or not full:
            raise
        note = "" if trial.implementation.kernel == "portable" else framework.backend.memory_note
        advice = "set a smaller batch_size, or fewer units, layers or steps of a sequence"
        raise OutOfMemory(f"the GPU is full: {full[0].strip()[:200]}{note}: {advice}") from error
    finally:
        framework.release_memory()


def make_run(
    trial: Context, settings: RecurrentSettings, data: DataSet, model: WitnessedModel
) -> TrainingRun:
    """Report the data of a trial, and return its run, in the batch order of the trial's seed."""
    # A stateful model has full batches only, in the order of the data; only their samples count.
    from workloads.models.layers import training_flops  # noqa: PLC0415 - framework
    from workloads.models.run import TrainingRun  # noqa: PLC0415

    train, validation, batch_size = data.train, data.validation, settings.batch_size
    if settings.stateful:
        train = _full_batches(train, batch_size, "train")
        validation = _full_batches(validation, batch_size, "validation")
    else:
        train = reorder(train, np.random.default_rng([trial.seed, 1]).permutation(len(train)))
        if trial.measure == "timing" and len(train) > batch_size:
            train = _full_batches(train, batch_size, "train")
    trial.dataset(
        data.name,
        digest=data.digest,
        source=data.source,
        samples=len(data.train),
        validation_samples=len(validation),
    )
    flops = training_flops(model, train.inputs.shape[1])
    return TrainingRun(model, settings, train, validation, trial.device, flops)


def prove_kernel(trial: Context, run: TrainingRun) -> None:
    """Report the kernel of a run's train steps, some of which have run."""
    from workloads.backends.kernel_evidence import Stack  # noqa: PLC0415 - framework
    from workloads.evidence import prove  # noqa: PLC0415

    layers, directions = run.settings.layers, run.settings.directions
    proof = prove(run, Stack(layers, directions, run.train.inputs.shape[1]))
    trial.kernel(trial.implementation.kernel_text, proof.ran, proof.evidence)


def measure_utilization(
    trial: Context, framework: Framework, metrics: Mapping[str, float]
) -> dict[str, float]:
    """Return the device's measured peak, and the share of it that a trial reached, in percent."""
    from workloads.measuring.roofline import measure_product_rate  # noqa: PLC0415 - framework

    peak = measure_product_rate(trial.implementation.precision, framework.synchronise).median
    share = metrics["model_flops_per_s"] / peak
    return {"peak_flops_per_s": peak, "model_flops_utilization_pct": 100 * share}


def _full_batches(samples: Samples, batch_size: int, part: str) -> Samples:
    count = len(samples) - len(samples) % batch_size
    if not count:
        raise DataError(
            f"{part}: expected at least one batch of {batch_size} samples for a stateful model;"
            f" received {len(samples)}: use more data, or a smaller batch_size"
        )
    return samples.first(count)
