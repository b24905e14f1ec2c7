"""The measurement loop: warm up, restore the start, time the epochs, evaluate, predict, time steps.

Its times are comparable for these reasons. Every function and batch shape of the timed part has
run before it, twice, which also gives the compile time. The timed part starts from the same state
as the warm-up. Windows are synchronised at both edges. The loop is Keras' own `fit`, with one
callback per epoch and none per batch. A compilation in the timed part fails the trial.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from workloads.context import Context, expect_finite
from workloads.failures import CompiledWhileTimed
from workloads.measuring.canary import run_canary
from workloads.measuring.keras_clocks import EpochClock, StepClock, step_metrics
from workloads.memory import peak_rss_mib
from workloads.models.model import WitnessedModel
from workloads.models.run import TrainingRun
from workloads.models.start_state import StartState

_LATENCY_CALLS = 20


def warm_up(run: TrainingRun) -> float:
    """Trace and compile everything that the timed part uses; return the compile time in seconds.

    A full batch and the partial last one go through fit, evaluate and predict, twice, from the
    same start. The second pass takes as long as the first one without its compilation.
    """
    start = StartState(run.model)
    first_s, second_s = 0.0, 0.0
    for _ in range(2):
        began_s = time.monotonic()
        run_warm_up_pass(run)
        run.synchronise()
        first_s, second_s = second_s, time.monotonic() - began_s
        start.restore()
    return max(0.0, first_s - second_s)


def run_warm_up_pass(run: TrainingRun) -> float:
    """Run every function on every batch shape once; return the training loss."""
    train, validation = run.feeds.short_train, run.feeds.short_validation
    history = run.model.fit(
        **train.with_targets(),
        **validation.for_validation(),
        shuffle=False,
        verbose=0,
        callbacks=run.callbacks(),
    )
    run.model.evaluate(**validation.with_targets(), verbose=0, callbacks=run.callbacks())
    run.model.predict(**validation.without_targets(), verbose=0, callbacks=run.callbacks())
    if run.takes_one_sample:
        run.model.predict_on_batch(run.validation.first(1).inputs)
    return float(history.history["loss"][0])


def run_timed_epochs(run: TrainingRun, trial: Context) -> dict[str, float]:
    """Train, evaluate and predict with timing; return the metrics of the trial.

    Peak memory is read here, before evidence and roofline use memory of their own.

    Raises:
        NonFinite: a loss or metric is NaN or infinite at the end of an epoch.
        CompiledWhileTimed: the warm-up missed something that was then traced or compiled.
    """
    framework = run.model.witness.framework
    before_ms = run_canary(run.device, framework.synchronise)
    framework.reset_peak_memory()
    with expect_nothing_compiled(run.model):
        metrics = _train(run, trial)
    metrics["canary_ms"] = max(before_ms, run_canary(run.device, framework.synchronise))
    with expect_nothing_compiled(run.model):
        _evaluate_and_predict(run, trial)
        metrics |= {"evaluate_s": trial.seconds["evaluate"]}
        if run.takes_one_sample:
            metrics |= _predict_one(run, trial)
    peaks = {"peak_rss_mib": peak_rss_mib(), "peak_gpu_mib": framework.peak_gpu_mib()}
    return metrics | {name: peak for name, peak in peaks.items() if peak is not None}


def time_single_steps(run: TrainingRun, trial: Context) -> dict[str, float]:
    """Time single steps, each synchronised. This comes last, because it continues the training.

    The steps use the first batches, several times if there are too few. A partial batch is left
    out.

    Returns:
        The metrics of `step_metrics`, in ms; empty without `timed_steps`.

    Raises:
        CompiledWhileTimed: something was traced or compiled.
    """
    if not run.timed_steps:
        return {}
    partial = run.steps > 1 and len(run.train) % run.batch_size
    last = run.steps - 1
    clock = StepClock(
        run.model, run.timed_steps, lambda call: bool(partial) and call % run.steps == last
    )
    with expect_nothing_compiled(run.model), trial.phase("steps"), clock:
        run.model.fit(
            **run.feeds.train.with_targets(),
            epochs=run.timed_steps,  # an upper limit: the clock stops the training
            shuffle=False,
            verbose=0,
            callbacks=run.callbacks(),
        )
    return step_metrics(clock.seconds)


def _train(run: TrainingRun, trial: Context) -> dict[str, float]:
    clock = EpochClock(trial, run.synchronise, run.target_accuracy)
    run.model.fit(
        **run.feeds.train.with_targets(),
        **run.feeds.validation.for_validation(),
        epochs=run.epochs,
        shuffle=False,
        verbose=0,
        callbacks=[*run.callbacks(), clock],
    )
    train_s, samples = trial.seconds["train"], len(run.train) * run.epochs
    metrics = {
        **clock.last_metrics,
        "train_s": train_s,
        "step_ms": 1_000 * train_s / (run.steps * run.epochs),
        "sample_us": 1e6 * train_s / samples,
        "samples_per_s": samples / train_s,
        "cpu_over_wall": clock.cpu_s / train_s,
    }
    if clock.target_s is not None:
        metrics["time_to_accuracy_s"] = clock.target_s
    if run.flops_per_sample is not None:
        metrics["model_flops_per_step"] = run.flops_per_sample * len(run.train) / run.steps
        metrics["model_flops_per_s"] = run.flops_per_sample * samples / train_s
    return metrics


def _evaluate_and_predict(run: TrainingRun, trial: Context) -> None:
    feed = run.feeds.validation
    run.synchronise()
    with trial.phase("evaluate"):
        results = run.model.evaluate(
            **feed.with_targets(), verbose=0, return_dict=True, callbacks=run.callbacks()
        )
        run.synchronise()
    with trial.phase("predict"):
        predictions = run.model.predict(
            **feed.without_targets(), verbose=0, callbacks=run.callbacks()
        )
        run.synchronise()
    expect_finite(results, "evaluate")
    total = float(np.sum(predictions, dtype=np.float64))
    expect_finite({"sum of predictions": total}, "predict")


def _predict_one(run: TrainingRun, trial: Context) -> dict[str, float]:
    """Measure the ms from one sample on the host to its prediction on the host (median)."""
    sample, seconds = run.validation.first(1).inputs, []
    with trial.phase("latency"):
        for _ in range(_LATENCY_CALLS):
            began_s = time.monotonic()
            run.model.predict_on_batch(sample)
            seconds.append(time.monotonic() - began_s)
    return {"predict_sample_ms": 1_000 * statistics.median(seconds)}


@contextmanager
def expect_nothing_compiled(model: WitnessedModel) -> Iterator[None]:
    """Fail the trial if something is traced or compiled inside the block.

    Raises:
        CompiledWhileTimed: at the end of the block, with the counts.
    """
    tracings, compilations = (
        dict(model.witness.tracings),
        model.witness.framework.compilation_count(),
    )
    yield
    increases = {
        f"tracings of the {step} step": count - tracings.get(step, 0)
        for step, count in model.witness.tracings.items()
    }
    increases["compilations"] = model.witness.framework.compilation_count() - compilations
    if any(increases.values()):
        counts = ", ".join(f"{count} {event}" for event, count in increases.items() if count)
        raise CompiledWhileTimed(
            f"expected the warm-up to cover every function and shape; {counts} came inside the"
            " timed part, so its times are not valid: report this with the settings of the trial"
        )
