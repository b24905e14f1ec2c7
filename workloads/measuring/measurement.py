"""One trial of a task: from its settings to its metrics.

Frameworks are imported inside `measure`, in the phase `import` of a process's first trial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from workloads.backends.feeding import reorder, with_float_type
from workloads.backends.full_memory import memory_complaint
from workloads.backends.kernel_evidence import report_kernel
from workloads.backends.loading import import_framework, load_framework
from workloads.context import Context
from workloads.data.array_trees import arrays_of
from workloads.data.class_weights import with_class_weights
from workloads.data.samples import DataSet, Samples, full_batches
from workloads.eligibility import module_ineligibility_reason
from workloads.failures import LESS_MEMORY, NotPossible, OutOfMemory
from workloads.implementations import PRECISION_OF_TYPE
from workloads.modules.own_module import OwnModule
from workloads.own_code import without_colours
from workloads.protocol import MODEL_KIND, MODULE_KIND, RECURRENT_LAYERS
from workloads.settings import SettingsType, TrainingPlan
from workloads.tasks.task import DataType, Task, Trained

if TYPE_CHECKING:
    from workloads.backends.framework import Framework
    from workloads.models.model import WitnessedModel
    from workloads.models.training_run import TrainingRun
    from workloads.modules.module_run import ModuleRun


def measure(
    task: Task[SettingsType, DataType], settings: SettingsType, trial: Context
) -> dict[str, float]:
    """Load, build, warm up, time, and prove the kernel; return the metrics.

    `workloads.tasks.task` has the steps. A timing trial trains on full batches only, or predicts
    them, and has no validation, loss or accuracy.

    Raise `NotPossible` if the device is missing, or Keras refuses the kernel; `DataError` if there
    is no full batch for a stateful model; `OutOfMemory` if the memory of the device is full.
    """
    with prepare_framework(trial) as framework:
        if task.timed == "passes":
            return _time_passes(task, settings, trial, framework)
        if trial.timed_work == "predict":
            return _predict(task, settings, trial, framework)
        return _train(task, settings, trial, framework)


def _train(
    task: Task[SettingsType, DataType],
    settings: SettingsType,
    trial: Context,
    framework: Framework,
) -> dict[str, float]:  # a function of its own: the model is freed at its end
    from workloads.measuring import training  # noqa: PLC0415 - imports the framework
    from workloads.measuring.device_state import peak_memory  # noqa: PLC0415
    from workloads.models.checkpoint import keep_model, read_checkpoint  # noqa: PLC0415
    from workloads.models.fingerprint import report_fingerprint  # noqa: PLC0415
    from workloads.models.training_run import TrainingRun  # noqa: PLC0415

    with trial.phase("load"):
        data, run = load_and_build(task, settings, trial)
    if not isinstance(run, TrainingRun):
        return _measure_module(run, trial, framework)
    if trial.wants_fingerprint and run.plan.weights == "equal":
        with trial.phase("check"), trial.optional("fingerprint"):
            report_fingerprint(run, trial)
    with trial.phase("compile"):
        compile_s, step_s = training.warm_up_training(run, trial)
    metrics = {**training.train_in_turns(run, trial, step_s), "compile_s": compile_s}
    is_whole = trial.measure == "full" and not trial.turns.is_pruned
    if is_whole:
        metrics |= training.evaluate_and_predict(run, trial)
    metrics |= peak_memory(trial, framework)
    prove_kernel(trial, run)
    if not is_whole:
        return metrics
    if task.finish is not None:
        metrics |= task.finish(settings, trial, Trained(run.model, data, dict(metrics)))
    is_kept = run.plan.keeps_model and trial.model_path is not None
    trained = read_checkpoint(run.model) if is_kept else None
    metrics |= training.time_single_steps(run, trial)
    metrics |= measure_utilization(trial, framework, metrics)
    if trained is not None:
        samples = run.validation.first(run.batch_size)
        keep_model(trained, trial, lambda: task.build(settings, trial, data), samples)
    return metrics


def _predict(
    task: Task[SettingsType, DataType],
    settings: SettingsType,
    trial: Context,
    framework: Framework,
) -> dict[str, float]:
    from workloads.measuring.sliced_predictions import predictions_of  # noqa: PLC0415 - framework
    from workloads.models.fingerprint import report_fingerprint  # noqa: PLC0415
    from workloads.models.training_run import TrainingRun  # noqa: PLC0415

    with trial.phase("load"):
        _, run = load_and_build(task, settings, trial)
        if isinstance(run, TrainingRun):
            predictions = predictions_of(run, trial)
    if not isinstance(run, TrainingRun):
        return _measure_module(run, trial, framework)
    if trial.wants_fingerprint and run.plan.weights == "equal":
        with trial.phase("check"), trial.optional("fingerprint"):
            report_fingerprint(run, trial)
    with trial.phase("compile"):
        compile_s = predictions.warm_up()
    metrics = predictions.time_slices()
    prove_kernel(trial, run)
    return {**metrics, "compile_s": compile_s}


def _measure_module(run: ModuleRun, trial: Context, framework: Framework) -> dict[str, float]:
    from workloads.measuring.module_training import measure_module  # noqa: PLC0415 - PyTorch
    from workloads.modules.module_fingerprint import fingerprint_of  # noqa: PLC0415

    if run.is_compiled:
        with trial.phase("compile"):
            run.expect_compiler()
    if trial.wants_fingerprint:
        with trial.phase("check"), trial.optional("fingerprint"):
            trial.fingerprint(fingerprint_of(run))
    metrics = measure_module(run, trial)
    if "evaluate_s" in metrics:  # a whole training
        metrics |= measure_utilization(trial, framework, metrics)
    return metrics


def _time_passes(
    task: Task[SettingsType, DataType],
    settings: SettingsType,
    trial: Context,
    framework: Framework,
) -> dict[str, float]:
    from workloads.measuring.device_state import peak_memory  # noqa: PLC0415
    from workloads.measuring.keras_clocks import time_warm_up  # noqa: PLC0415
    from workloads.measuring.passes_timing import PassesTiming  # noqa: PLC0415
    from workloads.models.fingerprint import report_fingerprint_of_passes  # noqa: PLC0415
    from workloads.models.layers import flops_of_step  # noqa: PLC0415
    from workloads.models.recurrent_parts import (  # noqa: PLC0415
        mark_recurrent_layers,
        recurrent_parts,
    )
    from workloads.models.rewriting import rewrite  # noqa: PLC0415

    with trial.phase("load"):
        data = task.load(settings, trial.seed)
        author_model = build_with_weights(task, settings, trial, data)
        rewritten = rewrite(author_model, trial.implementation, framework)
        model = rewritten.model
        mark_recurrent_layers(model, framework)
        passes = framework.make_passes(model, trial.implementation)
        batch = passes.place(data.train.inputs)
        framework.synchronise()
    if trial.wants_fingerprint:
        with trial.phase("check"), trial.optional("fingerprint"):
            report_fingerprint_of_passes(
                framework, rewritten, trial, Samples(data.train.inputs, data.train.inputs)
            )
    flops = None
    with trial.optional("model_flops_per_step"):
        flops = flops_of_step(model, _sequence_length(data.train), trial.timed_work)
    timing = PassesTiming(trial, task.plan(settings), framework, passes, batch, flops)
    with trial.phase("compile"):
        compile_s = time_warm_up(timing.run_each_once)
    is_full = trial.measure == "full"
    framework.reset_peak_memory()
    metrics = timing.time_whole() if is_full else timing.time_slices()
    metrics |= {**peak_memory(trial, framework), "compile_s": compile_s}
    report_kernel(
        trial,
        lambda: framework.prove_passes(
            passes, batch, recurrent_parts(model), trial.implementation, trial.timed_work
        ),
    )
    return metrics | (measure_utilization(trial, framework, metrics) if is_full else {})


def load_and_build(
    task: Task[SettingsType, DataType], settings: SettingsType, trial: Context
) -> tuple[DataType, TrainingRun | ModuleRun]:
    """Load the data of a trial, build its model or module, and return the run that trains it."""
    from workloads.models.prepared import prepare_model  # noqa: PLC0415 - imports the framework

    data = task.load(settings, trial.seed)
    built = build_with_weights(task, settings, trial, data)
    if isinstance(built, OwnModule):
        return data, make_module_run(trial, task.plan(settings), data, built)
    callbacks = partial(task.callbacks, settings) if task.callbacks else None
    prepared = prepare_model(built, trial)
    return data, make_run(trial, task.plan(settings), data, prepared, callbacks)


def make_module_run(
    trial: Context, plan: TrainingPlan, data: DataSet, module: OwnModule
) -> ModuleRun:
    """Report the data of a trial, and return the run of a PyTorch module.

    Raise `NotPossible` if the implementation cannot run one.
    """
    from workloads.modules.module_run import ModuleRun, float_type_of  # noqa: PLC0415 - imports PyTorch

    float_type = float_type_of(module.module)
    reason = module_ineligibility_reason(trial.implementation, trial.device, float_type)
    if reason is not None:
        raise NotPossible(f"{trial.implementation} on {trial.device}: {reason}")
    run = ModuleRun(module, plan, data, trial, load_framework(trial.implementation.backend))
    trial.environment(**{MODEL_KIND: MODULE_KIND})
    if float_type != "float32":
        trial.environment(precision=PRECISION_OF_TYPE.get(float_type, float_type))
    trial.dataset(
        data.name,
        digest=data.digest,
        source=data.source,
        samples=len(data.train),
        validation_samples=len(data.validation),
    )
    return run


def build_with_weights(
    task: Task[SettingsType, DataType], settings: SettingsType, trial: Context, data: DataType
) -> Any:
    """Return the model of a task as its author wrote it, with the trial's initial weights.

    Report its size.
    """
    from keras.src.utils.dtype_utils import dtype_size  # noqa: PLC0415 - of every type of Keras

    from workloads.models.initial_weights import build_with_initial_weights  # noqa: PLC0415
    from workloads.models.recurrent_parts import recurrent_classes  # noqa: PLC0415

    plan = task.plan(settings)
    model = build_with_initial_weights(
        lambda: task.build(settings, trial, data),
        trial.seed,
        samples=data.train.first(plan.batch_size),
        weights=plan.weights,
    )
    if isinstance(model, OwnModule):
        parameters = [(p.numel(), p.element_size()) for p in model.module.parameters()]
    else:
        parameters = [(math.prod(v.shape), dtype_size(v.dtype) // 8) for v in model.weights]
        trial.environment(**{RECURRENT_LAYERS: ", ".join(recurrent_classes(model))})
    trial.model_built(sum(n for n, _ in parameters), sum(n * size for n, size in parameters))
    return model


@contextmanager
def prepare_framework(trial: Context) -> Iterator[Framework]:
    """Import, configure, seed and report the framework of a trial; release its memory at the end.

    Variables of the block itself are not released. Raise `NotPossible` if the device is missing, or
    Keras refuses the kernel inside the block; `OutOfMemory` if the memory of the device is full.
    """
    framework = import_framework(trial)
    framework.expect_backend()
    framework.release_memory()  # the traceback of a failed trial held its memory until now
    framework.configure(trial.implementation, trial.device, trial.number_format)
    framework.expect_device(trial.device)
    framework.seed(trial.seed % 2**32)
    precision = framework.precision_in_use(trial.implementation)
    trial.environment(**framework.facts(), precision=precision)
    try:
        yield framework
    except Exception as error:
        lines = without_colours(str(error)).splitlines()
        if refusals := [line for line in lines if "use_cudnn=True was specified" in line]:
            why = f"{refusals[0].strip()}{framework.cudnn_failure()}"
            raise NotPossible(f"{trial.implementation}: Keras refuses cuDNN: {why}") from error
        full = memory_complaint(error)
        if full is None:
            raise
        note = "" if trial.implementation.kernel == "portable" else framework.backend.memory_note
        where = "the GPU" if trial.device == "gpu" else "the memory of the node"
        raise OutOfMemory(f"{where} is full: {full}{note}: {LESS_MEMORY}") from error
    finally:
        framework.release_memory()


def make_run(
    trial: Context,
    plan: TrainingPlan,
    data: DataSet,
    model: WitnessedModel,
    make_callbacks: Callable[[], Sequence[Any]] | None = None,
) -> TrainingRun:
    """Report the data of a trial, and return its run, in the batch order of the trial's seed.

    A stateful model has full batches only, by default in the order of the data; only their samples
    count.
    """
    import keras  # noqa: PLC0415 - the framework of this process

    from workloads.models.layers import flops_of_step, is_stateful  # noqa: PLC0415
    from workloads.models.training_run import TrainingRun  # noqa: PLC0415

    train, validation, batch_size = data.train, data.validation, plan.batch_size
    if plan.class_weight is not None:
        train = with_class_weights(train, plan.class_weight)
    number_format = keras.config.floatx()
    train, validation = (with_float_type(part, number_format) for part in (train, validation))
    carries_state = is_stateful(model)
    if plan.shuffle if plan.shuffle is not None else not carries_state:
        train = reorder(train, np.random.default_rng([trial.seed, 1]).permutation(len(train)))
    if carries_state:
        train = full_batches(train, batch_size, "train")
        validation = full_batches(validation, batch_size, "validation")
    elif trial.measure == "timing" and len(train) > batch_size:
        train = full_batches(train, batch_size, "train")
    trial.dataset(
        data.name,
        digest=data.digest,
        source=data.source,
        samples=len(data.train),
        validation_samples=len(validation),
    )
    flops = None
    with trial.optional("model_flops_per_step"):
        flops = flops_of_step(model, _sequence_length(train), trial.timed_work)
    return TrainingRun(model, plan, train, validation, trial.device, flops, make_callbacks)


def prove_kernel(trial: Context, run: TrainingRun) -> None:
    """Report the kernel of a run's timed steps, some of which have run."""
    from workloads.evidence import prove  # noqa: PLC0415 - imports the framework

    report_kernel(trial, lambda: prove(run))


def measure_utilization(
    trial: Context, framework: Framework, metrics: Mapping[str, float]
) -> dict[str, float]:
    """Return a GPU's measured peak, and the share of it that a trial reached.

    Nothing on a CPU, or if the operations could not be counted.
    """
    if trial.device != "gpu" or "model_flops_per_s" not in metrics:
        return {}
    from workloads.measuring.roofline import measure_product_rate  # noqa: PLC0415 - framework

    with trial.optional("model_flops_utilization_pct"):
        peak = measure_product_rate(trial.implementation.precision, framework.synchronise)
        share = metrics["model_flops_per_s"] / peak
        return {"peak_flops_per_s": peak, "model_flops_utilization_pct": 100 * share}
    return {}


def _sequence_length(samples: Samples) -> int:
    """Return the length of the first input that has features at each step, else a second axis.

    1 if no input has steps.
    """
    shapes = [array.shape for array in arrays_of(samples.inputs)]
    lengths = [shape[1] for axes in (3, 2) for shape in shapes if len(shape) >= axes]
    return int(lengths[0]) if lengths else 1
