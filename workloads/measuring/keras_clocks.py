"""Clocks for Keras' own `fit`, and the metrics that follow from their times."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self

import keras

from workloads.failures import CompiledWhileTimed
from workloads.measuring.turn_clock import TurnClock
from workloads.models.epoch_callbacks import EpochCallbacks
from workloads.models.model import WitnessedModel
from workloads.models.training_run import StartState, TrainingRun

ENDLESS = 10**9
"""Epochs of a `fit` that a clock ends."""

LEAST_WINDOWS = 3
"""Other processes may hold up one or two of them."""


class FitInTurns(keras.callbacks.Callback):
    """A callback that lets one `fit` take turns: it tells a clock of every step, pass and epoch.

    It calls the callbacks of the user between the windows that the clock times. In its `with` block
    it replaces the model's traced train function.
    """

    def __init__(self, model: WitnessedModel, clock: TurnClock, own: EpochCallbacks) -> None:
        super().__init__()
        self._witnessed, self._train, self._clock = model, model.train_function, clock
        self._own, self._is_stopped = own, False

    def __enter__(self) -> Self:
        # For all of `fit`: on JAX it loses its state if the function changes within an epoch.
        self._witnessed.train_function = self._run_step
        return self

    def __exit__(self, *raised: object) -> None:
        self._witnessed.train_function = self._train

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin the training of the user's callbacks."""
        self._own.begin_training(self._witnessed, self.params, logs)

    def on_train_end(self, logs: Any = None) -> None:
        """End the training of the user's callbacks, which may restore other weights."""
        self._own.call("on_train_end", logs)

    def on_test_begin(self, logs: Any = None) -> None:
        """Begin a validation."""
        self._own.call_in_window("on_test_begin", logs)

    def on_test_end(self, logs: Any = None) -> None:
        """End a validation."""
        self._own.call_in_window("on_test_end", logs)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin a pass."""
        self._own.call("on_epoch_begin", epoch, logs)
        # Keras would train a single batch of an epoch whose beginning stops the training.
        self._is_stopped |= bool(self._witnessed.stop_training)
        self._witnessed.stop_training = False
        self._witnessed.witness.on_steps_done = self._end_pass
        self._clock.begin_pass()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """End the epoch, and the training after the last one."""
        metrics = {name: float(value) for name, value in (logs or {}).items()}

        def stops() -> bool:
            self._own.call("on_epoch_end", epoch, logs)  # which may add to the logs
            return self._is_stopped or bool(self._witnessed.stop_training)

        if self._clock.end_epoch(metrics, stops):
            self._witnessed.stop_training = True

    def _run_step(self, *arguments: Any) -> Any:
        self._clock.begin_step()
        outputs = self._train(*arguments)
        self._clock.end_step(outputs)
        if self._clock.is_over:
            self._witnessed.stop_training = True
        return outputs

    def _end_pass(self) -> None:
        # Keras would call it after the validation, too.
        self._witnessed.witness.on_steps_done = None
        self._clock.end_pass()
        self._clock.begin_validation()


class StepClock:
    """A replacement of a model's traced train function that times windows of steps inside `fit`.

    On PyTorch the function gets its batch, elsewhere it reads one: compare within one backend only.
    `next_steps` gets the steps and seconds of a window, the first one of one step, and returns the
    least steps of the next one, or 0 to end. A window has the steps of whole calls.
    """

    def __init__(self, run: TrainingRun, next_steps: Callable[[int, float], int]) -> None:
        self._run, self._model, self._next_steps = run, run.model, next_steps
        self._train = self._model.train_function
        self._synchronise = self._model.witness.framework.synchronise
        self._steps, self._window_steps, self._began_s = 0, 1, 0.0
        self._steps_in_pass = 0

    def __enter__(self) -> Self:
        self._model.train_function = self._run_timed
        return self

    def __exit__(self, *raised: object) -> None:
        self._model.train_function = self._train

    def _run_timed(self, *arguments: Any) -> Any:
        if not self._steps:
            self._synchronise()
            self._began_s = time.monotonic()
        outputs = self._train(*arguments)
        steps = min(self._run.steps_per_call, self._run.steps - self._steps_in_pass)
        self._steps_in_pass = (self._steps_in_pass + steps) % self._run.steps
        self._steps += steps
        if self._steps >= self._window_steps:
            self._synchronise(outputs)
            seconds = time.monotonic() - self._began_s
            self._window_steps = self._next_steps(self._steps, seconds)
            self._steps, self._model.stop_training = 0, not self._window_steps
        return outputs


def estimate_step_s(run: TrainingRun, slice_s: float) -> float:
    """Return about the seconds of a step: the least over windows in `fit`; it trains the model.

    Windows are of one step, then of twice as many until one takes a quarter of a slice.
    """
    times = list[float]()

    def next_steps(steps: int, seconds: float) -> int:
        times.append(seconds / steps)
        if len(times) < LEAST_WINDOWS:
            return 1
        return 0 if seconds >= slice_s / 4 else 2 * steps

    with StepClock(run, next_steps):
        run.fit(run.train_feed, epochs=ENDLESS)
    return min(times)


def time_warm_up(work: Callable[[], None]) -> float:
    """Do equal work twice; return by how many seconds the first time, which compiles, is longer."""
    seconds = []
    for _ in range(2):
        began_s = time.monotonic()
        work()
        seconds.append(time.monotonic() - began_s)
    return max(0.0, seconds[0] - seconds[1])


def warm_up(run: TrainingRun, work: Callable[[TrainingRun], object]) -> float:
    """Do work that traces and compiles, twice from the same start; return the compile seconds."""
    start = StartState(run.model)

    def from_start() -> None:
        work(run)
        run.synchronise()
        start.restore()

    return time_warm_up(from_start)


@contextmanager
def expect_nothing_compiled(
    model: WitnessedModel,
) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Raise `CompiledWhileTimed`, with the counts, if something is compiled inside the block.

    The block gets a function: what is compiled in the contexts that it returns does not count.
    """
    before, allowed = _compiled_so_far(model), Counter[str]()

    @contextmanager
    def may_compile() -> Iterator[None]:
        began = _compiled_so_far(model)
        yield
        allowed.update(_compiled_so_far(model) - began)

    yield may_compile
    if increases := _compiled_so_far(model) - before - allowed:
        counts = ", ".join(f"{count} {event}" for event, count in increases.items())
        raise CompiledWhileTimed(
            f"{counts} in the timed part, so its times are not valid: please report this as a bug,"
            " with the settings of the trial"
        )


def _compiled_so_far(model: WitnessedModel) -> Counter[str]:
    """Return how often each step of a model was traced, and how much its backend compiled."""
    witness = model.witness
    counts = {f"tracings of the {step} step": count for step, count in witness.tracings.items()}
    return Counter({**counts, "compilations": witness.framework.compilation_count()})
