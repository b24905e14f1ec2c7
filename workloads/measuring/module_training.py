"""The measurement of a PyTorch module: its training, its slices, its predictions.

It has the phases, windows and metrics of a Keras model's (`training`, `sliced_predictions`), with a
training loop of our own instead of Keras' `fit`.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from workloads.backends.kernel_evidence import report_kernel
from workloads.context import Context, expect_finite
from workloads.failures import CompiledWhileTimed
from workloads.measuring.device_state import peak_memory, warm_clocks
from workloads.measuring.keras_clocks import LEAST_WINDOWS, time_warm_up
from workloads.measuring.sliced_predictions import Predictions, place_batches
from workloads.measuring.step_times import step_metrics
from workloads.measuring.turn_clock import TurnClock
from workloads.model_facts import COMPILED_GRAPHS, GRAPH_BREAKS
from workloads.models.checkpoint import report_not_kept
from workloads.modules import compiling
from workloads.modules.module_evidence import prove_module
from workloads.modules.module_run import ModuleRun

_LATENCY_CALLS = 20
_SINGLE_PREDICTION = "predict_sample_ms"
_STATE_FILE = "state_dict.pt"
_SETTLING_CALLS = 5
"""More untimed calls of a compiled module: its first calls take longer than later ones."""
_STEPS_OF_BOTH_WAYS = 3
"""A training step has two products backward for each one forward."""


def measure_module(run: ModuleRun, trial: Context) -> dict[str, float]:
    """Warm up, time, and prove the kernel; return the metrics.

    Raise `NonFinite` if a loss, a metric or a prediction is NaN or infinite, `CompiledWhileTimed`
    if the warm-up missed something.
    """
    work = _time_predictions if trial.timed_work == "predict" else _train
    metrics = work(run, trial)
    if run.is_compiled:
        with trial.optional(GRAPH_BREAKS):
            found = compiling.count_graphs()
            trial.environment(**{COMPILED_GRAPHS: found.graphs, GRAPH_BREAKS: found.breaks})
    report_kernel(trial, lambda: prove_module(run, trial.timed_work))
    is_whole = "evaluate_s" in metrics  # neither pruned nor timing
    if is_whole:
        if run.plan.keeps_model and trial.model_path is not None:
            _keep(run, trial)
        metrics |= _time_single_steps(run, trial)
    return metrics


def _train(run: ModuleRun, trial: Context) -> dict[str, float]:
    """Train in turns, whole or until the round has enough slices; evaluate after a whole one."""
    is_full, framework = trial.measure == "full", run.framework
    clock = TurnClock(
        trial,
        run.plan,
        len(run.train),
        framework.synchronise,
        lambda: warm_clocks(trial.device, framework.synchronise),
    )

    def warm_up_once() -> None:
        start = run.state()
        for batches in _each_shape(run):
            run.train_on(batches)
        if is_full:
            run.evaluate(islice(run.validation_feed, _full_batches(run)))
            run.evaluate(islice(run.validation_feed, _index_of_last(run.validation_feed), None))
            with trial.optional(_SINGLE_PREDICTION):
                _predict_one(run)
        framework.synchronise()
        run.restore(start)

    with trial.phase("compile"):
        compile_s = _time_warm_up(run, warm_up_once)
        step_s = _estimate_step_s(run, trial.slice_s)
    metrics = {"compile_s": compile_s}
    framework.reset_peak_memory()
    if clock.begin(step_s):
        with _nothing_compiled(run):
            _train_epochs(run, clock, is_full=is_full)
    trial.turns.rest("finish")
    metrics |= clock.metrics(_flops_of_step(run))
    if is_full and not trial.turns.is_pruned:
        metrics |= _evaluate_and_predict(run, trial)
    return metrics | peak_memory(trial, framework)


def _train_epochs(run: ModuleRun, clock: TurnClock, *, is_full: bool) -> None:
    """Train epoch after epoch until the clock says that the training is over."""

    def batches() -> Iterator[Any]:
        for batch in run.train_feed:
            clock.begin_step()
            yield batch
            clock.end_step()
            if clock.is_over:
                return

    is_over = False
    while not is_over:
        clock.begin_pass()
        loss = run.train_on(batches())
        clock.end_pass()
        clock.begin_validation()
        metrics = {"loss": float(loss)}
        if is_full:
            validated = run.evaluate(run.validation_feed)
            metrics |= {f"val_{name}": value for name, value in validated.items()}
        is_over = clock.end_epoch(metrics)


def _evaluate_and_predict(run: ModuleRun, trial: Context) -> dict[str, float]:
    with _nothing_compiled(run):
        with trial.phase("evaluate") as window:
            expect_finite(run.evaluate(run.validation_feed), "evaluate")
        metrics = {"evaluate_s": window.seconds}
        with trial.optional("predict_s"), trial.phase("predict"):
            outputs = run.predict_batches(batch[0] for batch in run.validation_feed)
            run.framework.synchronise(outputs)
        if _SINGLE_PREDICTION not in trial.absent:
            with trial.optional(_SINGLE_PREDICTION), trial.phase("latency"):
                seconds = [_predict_one(run) for _ in range(_LATENCY_CALLS)]
                metrics[_SINGLE_PREDICTION] = 1_000 * statistics.median(seconds)
    return metrics


def _estimate_step_s(run: ModuleRun, slice_s: float) -> float:
    """Return about the seconds of a step, as `keras_clocks.estimate_step_s` does."""
    start, steps, times = run.state(), 1, list[float]()
    while True:
        began_s = time.monotonic()
        run.framework.synchronise(run.train_on(islice(run.endless_batches(), steps)))
        seconds = time.monotonic() - began_s
        times.append(seconds / steps)
        if len(times) >= LEAST_WINDOWS:
            if seconds >= slice_s / 4:
                run.restore(start)
                return min(times)
            steps *= 2


def _time_warm_up(run: ModuleRun, warm_up_once: Callable[[], None]) -> float:
    """Warm up, and let a compiled module settle; return the compile seconds."""
    compile_s = time_warm_up(warm_up_once)
    if run.is_compiled:
        for _ in range(_SETTLING_CALLS):
            warm_up_once()
    return compile_s


def _time_predictions(run: ModuleRun, trial: Context) -> dict[str, float]:
    predictions = Predictions(
        trial,
        run.framework,
        place_batches(run.framework, run.train, run.batch_size),
        run.batch_size,
        run.predict_batches,
        lambda: _nothing_compiled(run),
        run.forward_flops_per_sample,
    )
    with trial.phase("compile"):
        compile_s = predictions.warm_up()
        if run.is_compiled:
            run.predict_batches([run.first_batch()[0]] * _SETTLING_CALLS)
    return {**predictions.time_slices(), "compile_s": compile_s}


def _time_single_steps(run: ModuleRun, trial: Context) -> dict[str, float]:
    """Time single steps on full batches, each synchronised."""
    if not run.plan.timed_steps:
        return {}
    full = (b for b in run.endless_batches() if len(_first_tensor(b)) == run.batch_size)
    seconds = list[float]()
    with _nothing_compiled(run), trial.phase("steps"):
        for batch in islice(full, run.plan.timed_steps):
            run.framework.synchronise()
            began_s = time.monotonic()
            run.framework.synchronise(run.train_on([batch]))
            seconds.append(time.monotonic() - began_s)
    return step_metrics(seconds)


def _predict_one(run: ModuleRun) -> float:
    """Return the seconds from one sample on the host to its prediction on the host."""
    sample = run.validation.first(1).inputs
    began_s = time.monotonic()
    outputs = run.predict_batches([run.framework.place(sample)])
    torch.utils._pytree.tree_map(lambda t: t.cpu() if torch.is_tensor(t) else t, outputs)
    return time.monotonic() - began_s


def _flops_of_step(run: ModuleRun) -> float | None:
    forward = run.forward_flops_per_sample
    return None if forward is None else _STEPS_OF_BOTH_WAYS * forward


def _each_shape(run: ModuleRun) -> Iterator[Any]:
    """Yield full batches, and the partial last one if there is one."""
    yield islice(run.train_feed, _full_batches(run))
    if len(run.train) % run.plan.batch_size and run.steps > 1:
        yield islice(run.train_feed, run.steps - 1, None)


def _full_batches(run: ModuleRun) -> int:
    """Return how many full batches, one after the other, have all that `torch.compile` compiles.

    A module that carries a state begins the second one with a state of its own.
    """
    return 3 if run.carries_state else 1


def _index_of_last(feed: Any) -> int:
    return max(0, len(feed) - 1)


def _first_tensor(batch: Any) -> Any:
    return torch.utils._pytree.tree_leaves(batch[0])[0]


@contextmanager
def _nothing_compiled(run: ModuleRun) -> Iterator[None]:
    """Raise `CompiledWhileTimed` if `torch.compile` compiles something inside the block."""
    before = compiling.compilation_count()
    yield
    if run.is_compiled and (count := compiling.compilation_count() - before):
        raise CompiledWhileTimed(
            f"torch.compile compiled again in the timed part ({count} times), so its times are not"
            " valid: give all batches one shape, or report this as a bug, with the settings of the"
            " trial"
        )


def _keep(run: ModuleRun, trial: Context) -> None:
    """Keep the trained weights as the module's `state_dict`.

    A text and a fact of the trial have the reason if that fails: the measurements count.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / _STATE_FILE
            torch.save(run.module.state_dict(), file)
            trial.checkpoint(file)
    except Exception as error:  # noqa: BLE001 - memory, disk, or a limit
        report_not_kept(trial, error)
