"""The measurement loop: warm up, restore the start, time the epochs, evaluate, predict, time steps.

What makes its times comparable: every function and batch shape of the timed part has run before
it (twice, which also tells what compiling cost); the timed part then starts from the very state
that the warm-up started from; windows are synchronised at both edges; the loop is Keras' own
`fit`, watched once an epoch and never once a batch; and a compilation in it fails the trial.
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
    """Trace and compile everything that the timed part will use; return what that cost, in s.

    A full batch and the partial last one go through fit, evaluate and predict, twice, from the
    same start: the second pass costs what the first one did without its compilation.
    """
    start = StartState(run.model)
    first, second = 0.0, 0.0
    for _ in range(2):
        began = time.monotonic()
        run_warm_up_pass(run)
        run.synchronise()
        first, second = second, time.monotonic() - began
        start.restore()
    return max(0.0, first - second)


def run_warm_up_pass(run: TrainingRun) -> float:
    """One pass over every function and batch shape; returns its training loss."""
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
    """Train, evaluate and predict against the clock; returns the metrics of the trial.

    Memory is read here, before evidence and roofline take theirs.

    Raises:
        NonFinite: a loss or metric is NaN or infinite, at the end of the epoch that shows it.
        CompiledWhileTimed: something was traced or compiled that the warm-up had not covered.
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
    """Single steps, each synchronised; they come last, because they go on training.

    They are those of the first batches, begun anew where there are not as many; a partial batch
    is left out.

    Raises:
        CompiledWhileTimed: something was traced.
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
            epochs=run.timed_steps,  # as many as it takes: the clock stops the training
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
        **clock.last,
        "train_s": train_s,
        "step_ms": 1_000 * train_s / (run.steps * run.epochs),
        "sample_us": 1e6 * train_s / samples,
        "samples_per_s": samples / train_s,
        "cpu_over_wall": clock.cpu_s / train_s,
    }
    if clock.reached_s is not None:
        metrics["time_to_accuracy_s"] = clock.reached_s
    if run.flops_per_sample is not None:
        metrics["model_flops_per_step"] = run.flops_per_sample * len(run.train) / run.steps
        metrics["model_flops_per_s"] = run.flops_per_sample * samples / train_s
    return metrics


def _evaluate_and_predict(run: TrainingRun, trial: Context) -> None:
    feed = run.feeds.validation
    run.synchronise()
    with trial.phase("evaluate"):
        evaluated = run.model.evaluate(
            **feed.with_targets(), verbose=0, return_dict=True, callbacks=run.callbacks()
        )
        run.synchronise()
    with trial.phase("predict"):
        predictions = run.model.predict(
            **feed.without_targets(), verbose=0, callbacks=run.callbacks()
        )
        run.synchronise()
    expect_finite(evaluated, "evaluate")
    total = float(np.sum(predictions, dtype=np.float64))
    expect_finite({"sum of predictions": total}, "predict")


def _predict_one(run: TrainingRun, trial: Context) -> dict[str, float]:
    """Milliseconds from one sample on the host to its prediction on the host."""
    sample, seconds = run.validation.first(1).inputs, []
    with trial.phase("latency"):
        for _ in range(_LATENCY_CALLS):
            began_s = time.monotonic()
            run.model.predict_on_batch(sample)
            seconds.append(time.monotonic() - began_s)
    return {"predict_sample_ms": 1_000 * statistics.median(seconds)}


@contextmanager
def expect_nothing_compiled(model: WitnessedModel) -> Iterator[None]:
    """A part of the trial in which everything is expected to have been compiled before."""
    tracings, compilations = dict(model.witness.tracings), model.witness.framework.compilations()
    yield
    new = {
        f"tracings of the {step} step": count - tracings.get(step, 0)
        for step, count in model.witness.tracings.items()
    }
    new["compilations"] = model.witness.framework.compilations() - compilations
    if any(new.values()):
        told = ", ".join(f"{count} {what}" for what, count in new.items() if count)
        raise CompiledWhileTimed(
            f"expected the warm-up to cover every function and shape; {told} came inside the timed"
            " part, so its times are not valid: report this with the settings of the trial"
        )
