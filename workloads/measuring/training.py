"""The training of a Keras model in turns, and what follows a whole one: evaluate and predict.

Every function and batch shape of the timed part has run before it, twice, and it starts from the
same state as the warm-up. Windows are synchronised at both edges. The loop is Keras' own `fit`. A
compilation in the timed part fails the trial.
"""

import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from workloads.context import Context, expect_finite
from workloads.data.array_trees import arrays_of
from workloads.measuring import keras_clocks
from workloads.measuring.device_state import warm_clocks
from workloads.measuring.step_times import step_metrics
from workloads.measuring.turn_clock import TurnClock
from workloads.models.epoch_callbacks import EpochCallbacks
from workloads.models.training_run import StartState, TrainingRun

_LATENCY_CALLS = 20
_PREDICTION, _SINGLE_PREDICTION = "predict_s", "predict_sample_ms"


def warm_up_training(run: TrainingRun, trial: Context) -> tuple[float, float]:
    """Run every function on every batch shape; return the seconds of compiling and of a step.

    The model is in its start state again afterwards.
    """
    is_full = trial.measure == "full"

    def work(run: TrainingRun) -> None:
        if is_full:
            run_warm_up_pass(run, trial)
        else:
            run.fit(run.short_train_feed)

    compile_s = keras_clocks.warm_up(run, work)
    start = StartState(run.model)
    step_s = keras_clocks.estimate_step_s(run, trial.slice_s)
    start.restore()
    return compile_s, step_s


def run_warm_up_pass(run: TrainingRun, trial: Context) -> float:
    """Run every function on every batch shape once, full and partial; return the training loss.

    Predictions that fail here are not measured later.
    """
    model, validation, callbacks = run.model, run.short_validation_feed, run.callbacks
    history = run.fit(run.short_train_feed, **validation.for_validation())
    model.evaluate(**validation.with_targets(), verbose=0, callbacks=callbacks())
    with trial.optional(_PREDICTION):
        model.predict(**validation.without_targets(), verbose=0, callbacks=callbacks())
    if run.takes_one_sample:
        with trial.optional(_SINGLE_PREDICTION):
            model.predict_on_batch(run.validation.first(1).inputs)
    return float(history.history["loss"][0])


def train_in_turns(run: TrainingRun, trial: Context, step_s: float) -> dict[str, float]:
    """Train in turns, whole or until the round has enough slices; return the metrics.

    A step takes about `step_s`. What follows a whole training is a turn of its own. The user's
    callbacks are called in a whole training only: slices are parts of endless passes, without
    validation. Raise `NonFinite` if a loss or metric is NaN or infinite after an epoch,
    `CompiledWhileTimed` if the warm-up missed something.
    """
    framework = run.model.witness.framework

    def synchronise(*outputs: Any) -> None:
        framework.synchronise(*outputs) if outputs else run.synchronise()

    clock = TurnClock(
        trial,
        run.plan,
        len(run.train),
        synchronise,
        lambda: warm_clocks(run.device, framework.synchronise),
        run.steps_per_call,
    )
    is_full = trial.measure == "full"
    validation = run.validation_feed.for_validation() if is_full else {}
    callbacks: Sequence[Any] = ()
    if is_full and run.make_callbacks is not None:
        with trial.phase("callbacks"):
            callbacks = run.make_callbacks()
    if not clock.begin(step_s):
        return {}
    framework.reset_peak_memory()
    with (
        keras_clocks.expect_nothing_compiled(run.model) as may_compile,
        keras_clocks.FitInTurns(
            run.model, clock, EpochCallbacks(callbacks, trial, may_compile)
        ) as turns,
    ):
        run.fit(
            run.train_feed,
            turns,
            epochs=run.plan.epochs if is_full else keras_clocks.ENDLESS,
            **validation,
        )
    trial.turns.rest("finish")
    return clock.metrics(run.flops_per_sample)


def evaluate_and_predict(run: TrainingRun, trial: Context) -> dict[str, float]:
    """Evaluate and predict the validation data after a whole training; return the metrics.

    They include the results of the validation data where callbacks may have restored the weights of
    an earlier epoch: the last epoch has other ones then. Raise as `train_in_turns`.
    """
    with keras_clocks.expect_nothing_compiled(run.model):
        results = _evaluate_and_predict(run, trial)
        metrics = {"evaluate_s": trial.seconds["evaluate"]}
        if run.make_callbacks is not None and run.plan.learns:
            metrics |= {f"val_{name}": float(value) for name, value in results.items()}
        if run.takes_one_sample and _SINGLE_PREDICTION not in trial.absent:
            with trial.optional(_SINGLE_PREDICTION):
                metrics[_SINGLE_PREDICTION] = _predict_one(run, trial)
    return metrics


def time_single_steps(run: TrainingRun, trial: Context) -> dict[str, float]:
    """Time single steps on full batches; return `step_metrics`, or raise `CompiledWhileTimed`.

    Where Keras runs several steps in a call, it is the mean of them that is timed.
    """
    if not run.plan.timed_steps:
        return {}
    has_partial = run.steps > run.steps_per_call and len(run.train) % run.batch_size > 0
    done, seconds = 0, list[float]()

    def record(steps: int, window_s: float) -> int:
        nonlocal done
        done += steps
        if done % run.steps or not has_partial:
            seconds.append(window_s / steps)
        return int(len(seconds) < run.plan.timed_steps)

    with (
        keras_clocks.expect_nothing_compiled(run.model),
        trial.phase("steps"),
        keras_clocks.StepClock(run, record),
    ):
        run.fit(run.train_feed, epochs=keras_clocks.ENDLESS)
    return step_metrics(seconds)


def _evaluate_and_predict(run: TrainingRun, trial: Context) -> dict[str, float]:
    """Return the loss and the metrics of the validation data."""
    model, feed = run.model, run.validation_feed
    run.synchronise()
    with trial.phase("evaluate"):
        results: dict[str, float] = model.evaluate(
            **feed.with_targets(), verbose=0, return_dict=True, callbacks=run.callbacks()
        )
        run.synchronise()
    expect_finite(results, "evaluate")
    if _PREDICTION in trial.absent:
        return results
    with trial.optional(_PREDICTION):
        with trial.phase("predict"):
            predictions = model.predict(
                **feed.without_targets(), verbose=0, callbacks=run.callbacks()
            )
            run.synchronise()
        total = sum(float(np.sum(array, dtype=np.float64)) for array in arrays_of(predictions))
        expect_finite({"sum of predictions": total}, "predict")
    return results


def _predict_one(run: TrainingRun, trial: Context) -> float:
    """Return the ms from one sample on the host to its prediction on the host (median)."""
    sample, seconds = run.validation.first(1).inputs, []
    with trial.phase("latency"):
        for _ in range(_LATENCY_CALLS):
            began_s = time.monotonic()
            run.model.predict_on_batch(sample)
            seconds.append(time.monotonic() - began_s)
    return 1_000 * statistics.median(seconds)
