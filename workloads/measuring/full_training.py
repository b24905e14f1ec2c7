"""The measurement loop: time the epochs, evaluate, predict, and time single steps.

Every function and batch shape of the timed part has run before it, twice, and it starts from the
same state as the warm-up. Windows are synchronised at both edges. The loop is Keras' own `fit`,
with one callback per epoch and none per batch. A compilation in the timed part fails the trial.
"""

import statistics
import time
from itertools import count

import numpy as np

from workloads.context import Context, expect_finite
from workloads.data.array_trees import arrays_of
from workloads.measuring import keras_clocks
from workloads.measuring.canary import peak_memory, run_with_canary
from workloads.measuring.step_times import step_metrics
from workloads.models.run import TrainingRun

_LATENCY_CALLS = 20


def run_warm_up_pass(run: TrainingRun) -> float:
    """Run every function on every batch shape once, full and partial; return the training loss."""
    model, validation, callbacks = run.model, run.short_validation_feed, run.callbacks
    history = run.fit(run.short_train_feed, **validation.for_validation())
    model.evaluate(**validation.with_targets(), verbose=0, callbacks=callbacks())
    model.predict(**validation.without_targets(), verbose=0, callbacks=callbacks())
    if run.takes_one_sample:
        model.predict_on_batch(run.validation.first(1).inputs)
    return float(history.history["loss"][0])


def run_timed_epochs(run: TrainingRun, trial: Context) -> dict[str, float]:
    """Train, evaluate and predict with timing; return the metrics of the trial.

    A pruned trial is neither evaluated nor asked for predictions. Raise `NonFinite` if a loss or
    metric is NaN or infinite after an epoch, `CompiledWhileTimed` if the warm-up missed something.
    """
    framework = run.model.witness.framework
    clock = keras_clocks.EpochClock(trial, run)
    metrics = run_with_canary(run.device, framework, lambda: _train(run, trial, clock))
    if clock.timed.epochs < run.plan.epochs:
        return metrics | peak_memory()
    with keras_clocks.expect_nothing_compiled(run.model):
        _evaluate_and_predict(run, trial)
        metrics["evaluate_s"] = trial.seconds["evaluate"]
        if run.takes_one_sample:
            metrics["predict_sample_ms"] = _predict_one(run, trial)
    return metrics | peak_memory()


def time_single_steps(run: TrainingRun, trial: Context) -> dict[str, float]:
    """Time single steps on full batches; return `step_metrics`, or raise `CompiledWhileTimed`."""
    if not run.plan.timed_steps:
        return {}
    has_partial = run.steps > 1 and len(run.train) % run.batch_size > 0
    calls, seconds = count(1), list[float]()

    def record(steps: int, step_s: float) -> int:
        if next(calls) % run.steps or not has_partial:
            seconds.append(step_s)
        return int(len(seconds) < run.plan.timed_steps)

    with (
        keras_clocks.expect_nothing_compiled(run.model),
        trial.phase("steps"),
        keras_clocks.StepClock(run.model, record),
    ):
        run.fit(run.train_feed, epochs=keras_clocks.ENDLESS)
    return step_metrics(seconds)


def _train(run: TrainingRun, trial: Context, clock: keras_clocks.EpochClock) -> dict[str, float]:
    with keras_clocks.expect_nothing_compiled(run.model):
        validation = run.validation_feed.for_validation()
        run.fit(run.train_feed, clock, epochs=run.plan.epochs, **validation)
    return clock.timed.training_metrics(run.steps, len(run.train), run.flops_per_sample)


def _evaluate_and_predict(run: TrainingRun, trial: Context) -> None:
    model, feed = run.model, run.validation_feed
    run.synchronise()
    with trial.phase("evaluate"):
        results = model.evaluate(
            **feed.with_targets(), verbose=0, return_dict=True, callbacks=run.callbacks()
        )
        run.synchronise()
    with trial.phase("predict"):
        predictions = model.predict(**feed.without_targets(), verbose=0, callbacks=run.callbacks())
        run.synchronise()
    expect_finite(results, "evaluate")
    total = sum(float(np.sum(array, dtype=np.float64)) for array in arrays_of(predictions))
    expect_finite({"sum of predictions": total}, "predict")


def _predict_one(run: TrainingRun, trial: Context) -> float:
    """Return the ms from one sample on the host to its prediction on the host (median)."""
    sample, seconds = run.validation.first(1).inputs, []
    with trial.phase("latency"):
        for _ in range(_LATENCY_CALLS):
            began_s = time.monotonic()
            run.model.predict_on_batch(sample)
            seconds.append(time.monotonic() - began_s)
    return 1_000 * statistics.median(seconds)
