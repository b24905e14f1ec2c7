"""The clock of a training in turns: windows of training and validation, slices, and epochs.

A training loop tells the clock where its passes, steps and epochs begin and end. The clock times
them, rests between two turns, and says when the training is over.
"""

import time
from collections.abc import Callable, Mapping

from workloads import protocol
from workloads.context import Context, PhaseWindow, expect_finite
from workloads.measuring.step_times import rates
from workloads.settings import TrainingPlan

_SHORT_REST_S = 0.02
"""A device that rested no longer has not lowered its clocks."""

_MOST_SLICES = 400
"""The most slices of a whole training, about: each is stored. Those of a long one are longer."""

_WHOLE_PASS = 0.75
"""A slice of at least this share of a pass over the data becomes a whole pass."""


class TurnClock:
    """The turns of one training: of all epochs of its plan, or of endless passes until it is told.

    A slice is a part of a pass over the `samples`, or several whole passes. Parts of a pass have
    full batches only: the step on a smaller last batch is trained, and is in none. Keras runs
    `steps_per_call` steps at once (`steps_per_execution`), the last ones of a pass may be fewer.
    `synchronise` waits until the outputs that it gets, or else all steps so far, are computed;
    `warm_up` raises the clocks of a device that has rested.
    """

    def __init__(
        self,
        trial: Context,
        plan: TrainingPlan,
        samples: int,
        synchronise: Callable[..., object],
        warm_up: Callable[[], object],
        steps_per_call: int = 1,
    ) -> None:
        self._trial, self._plan, self._turns = trial, plan, trial.turns
        self._synchronise, self._warm_up = synchronise, warm_up
        self._samples, self._batch_size = samples, min(samples, plan.batch_size)
        self._pass_steps = -(-samples // self._batch_size)
        self._call_steps = steps_per_call
        # The steps of calls that have full batches only.
        self._full_steps = self._pass_steps
        if samples % self._batch_size:
            self._full_steps = (self._pass_steps - 1) // steps_per_call * steps_per_call
        self._is_full = trial.measure == "full"
        self._slice_ends, self._passes_per_slice = frozenset[int](), 1
        self._window: PhaseWindow | None = None
        self._cpu_began_s = self._cpu_s = 0.0
        self._slice_steps, self._slice_s, self._epoch_s = 0, 0.0, 0.0
        self._steps_in_pass = self._passes_in_slice = 0
        self._head_s, self._heads_s = 0.0, list[float]()
        self._is_slice_over = False
        self.goal_s: float | None = None
        """Training seconds until the plan's goal; None if it was not reached."""
        self.epochs = 0
        """The epochs that have ended."""
        self.is_over = False
        """Whether no further step is wanted."""
        self.last_metrics: Mapping[str, float] = {}
        """Loss and metrics of the last epoch."""

    def begin(self, step_s: float) -> bool:
        """Rest until the first turn; a step takes about `step_s`. Return False if there is none."""
        usual_steps = max(1, round(self._turns.slice_s / step_s))
        passes = self._plan.epochs if self._is_full else None
        self._turns.become_ready(usual_steps, self._pass_steps, passes)
        steps = self._turns.rest()
        if not steps:
            return False
        self._warm_up()
        self._plan_slices(steps)
        return True

    def _plan_slices(self, steps: int) -> None:
        """Let a slice be several passes, or an equal part of one, of about this many steps."""
        if self._is_full:
            steps = max(steps, self._plan.epochs * self._pass_steps // _MOST_SLICES)
        self._passes_per_slice = max(1, round(steps / self._pass_steps))
        parts = 1 if steps >= _WHOLE_PASS * self._full_steps else round(self._full_steps / steps)
        calls = self._full_steps / self._call_steps
        ends = {self._call_steps * max(1, round(calls * part / parts)) for part in range(1, parts)}
        ends = {end for end in ends if end < self._full_steps}
        if ends and self._full_steps < self._pass_steps:
            ends.add(self._full_steps)  # else the last part ends with the pass
        self._slice_ends = frozenset(ends)

    def begin_pass(self) -> None:
        """Open the training window of a pass."""
        self._steps_in_pass, self._epoch_s = 0, 0.0
        self._synchronise()
        self._open()

    def begin_step(self) -> None:
        """Note when the first step of a pass begins: what comes before it is the pass's fixed cost.

        Keras makes the data pipeline of a pass there, which takes 30 ms on TensorFlow.
        """
        if not self._steps_in_pass and self._window is not None:
            self._head_s = time.monotonic() - self._window.began_s
            self._heads_s.append(self._head_s)

    def end_step(self, outputs: object = None) -> None:
        """Count the steps of a call; end the slice after its last one in the pass, and rest."""
        steps = min(self._call_steps, self._pass_steps - self._steps_in_pass)
        self._steps_in_pass += steps
        self._slice_steps += steps
        if self._steps_in_pass in self._slice_ends:
            self._close(outputs)
            self._end_slice()
            if self._steps_in_pass < self._full_steps:
                self._rest("train")
            if not self.is_over or self._is_full:
                self._open()

    def end_pass(self) -> None:
        """Close the training window of a pass."""
        if self._window is not None:
            self._close()
        self._passes_in_slice += 1
        is_last = self._is_full and self.epochs + 1 == self._plan.epochs
        self._is_slice_over = is_last or self._passes_in_slice == self._passes_per_slice
        if self._slice_ends and self._full_steps < self._pass_steps:
            self._slice_steps, self._slice_s = 0, 0.0  # the step on the smaller batch
        if self._is_slice_over and self._slice_steps:
            self._end_slice()

    def begin_validation(self) -> None:
        """Open the validation window after a pass of a whole training."""
        if self._is_full:
            if self._is_slice_over:
                self._rest("validate")
            self._window = self._trial.begin("validate")

    def end_epoch(
        self, metrics: Mapping[str, float], stops: Callable[[], bool] = lambda: False
    ) -> bool:
        """Close the validation window, and report the epoch; return True if the training is over.

        `stops` is called between two windows, and returns whether the epoch is the last one. Raise
        `NonFinite` if a metric is NaN or infinite.
        """
        if self._is_full:
            self._report_epoch(metrics)
        else:
            expect_finite(metrics, f"pass {self.epochs}")
        is_stopped = stops()
        self.epochs += 1
        is_last = self._is_full and (is_stopped or self.epochs == self._plan.epochs)
        if self._is_slice_over:
            self._passes_in_slice = 0
            if not is_last and (steps := self._rest("train")):
                self._plan_slices(steps)
        if is_last or self._trial.should_prune():
            self.is_over = True
        if self.is_over and self._slice_steps:
            self._end_slice()
        return self.is_over

    def metrics(self, flops_per_sample: float | None) -> dict[str, float]:
        """Return the metrics of the training."""
        if not self._turns.done_slices:
            return {}
        train_s = self._trial.seconds["train"]
        step_s = self._turns.step_s
        mean_batch = self._samples / self._pass_steps
        metrics = {
            **rates(step_s, self._batch_size if self._slice_ends else mean_batch, flops_per_sample),
            "cpu_over_wall": self._cpu_s / train_s,
        }
        if self._is_full:
            metrics |= {
                **self.last_metrics,
                "train_s": train_s,
                "train_epochs": float(self.epochs),
                "train_samples": float(self.epochs * self._samples),
                "step_ms": 1_000 * step_s,
            }
        if self._plan.goal is not None and self.goal_s is not None:
            metrics[self._plan.goal.reported_as] = self.goal_s
        return metrics

    def _open(self) -> None:
        self._cpu_began_s = time.process_time()
        self._window = self._trial.begin("train")

    def _close(self, outputs: object = None) -> None:
        self._synchronise() if outputs is None else self._synchronise(outputs)
        assert self._window is not None
        seconds = self._trial.end(self._window).seconds
        self._cpu_s += time.process_time() - self._cpu_began_s
        self._window = None
        self._slice_s += seconds
        self._epoch_s += seconds

    def _end_slice(self) -> None:
        seconds = self._slice_s
        if self._slice_ends:  # a part of a pass has its share of the pass's fixed cost
            share = self._slice_steps / self._pass_steps
            seconds += share * min(self._heads_s, default=0.0) - self._head_s
        self._turns.end_slice(self._slice_steps, max(seconds, self._slice_s / 2))
        self._slice_steps, self._slice_s, self._head_s = 0, 0.0, 0.0

    def _rest(self, before: protocol.NextWork) -> int:
        """Rest until the next turn; return the steps of a slice, or 0 if the training is to end.

        A whole training ends after its epoch.
        """
        began_s = self._turns.rested_s
        steps = self._turns.rest(before)
        if steps and self._turns.rested_s - began_s > _SHORT_REST_S:
            self._warm_up()
        elif not steps:
            self.is_over = not self._is_full
        return steps

    def _report_epoch(self, metrics: Mapping[str, float]) -> None:
        self._synchronise()
        assert self._window is not None
        validate_s = self._trial.end(self._window).seconds
        self._window = None
        self.last_metrics = metrics if self._plan.learns else {}
        self._trial.report_epoch(self.epochs, self._epoch_s, validate_s, **self.last_metrics)
        goal = self._plan.goal
        if goal and self.goal_s is None and self.last_metrics[goal.metric] >= goal.at_least:
            self.goal_s = self._trial.seconds["train"]
