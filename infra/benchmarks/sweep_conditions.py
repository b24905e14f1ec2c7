"""The time of one step alone, and under each condition of a sweep by itself.

Each condition adds one thing, so that the table separates them:

- `alone`: one window of 1 s in the process that has both contenders.
- `beside an idle partner`: a partner has just worked, and waits: its threads, its memory.
- `in slices`: windows of 0.25 s, with a pause of 20 ms before each.
- `in slices, each after a partner's`: a partner works before each: the caches have its data.
- `beside the telemetry`: the sampler of a round's telemetry.
- `beside Ray`: Ray's processes.
- `as a trainer`: `rnnsweep` is a real trainer, with its process, its requests and its events. It
  takes turns with `by_hand`, which stays in this process.
- `as in a sweep`: the same beside the telemetry and beside Ray.

The columns `rnnsweep` and `by_hand` of `alone` differ by the call alone. Each step is timed, so the
first step of a window is apart from the later ones. A trainer times slices, not steps: it is asked
for a slice of one step, then for the others. Processes that a condition does not have are stopped
meanwhile; the trainer waits for its next command.
"""

import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any, TypeVar

from infra.benchmarks.neighbours import SLICE_S, Neighbour
from orchestrator.analysis.statistics.estimates import exponential, t_interval
from orchestrator.execution.trainer_process import TrainerProcess
from workloads import protocol
from workloads.implementations import parse_implementation
from workloads.resources import usable_cpus

E = TypeVar("E", bound=protocol.Event)

WINDOW_S = 1.0
REST_S = 0.02
"""The pause before a slice in a sweep (`orchestrator.execution.interleaved_round`)."""

_LONGEST_S = 120.0
"""How long a trainer may take until it is warm."""

COLUMNS = {
    "rnnsweep": ".2f",
    "by_hand": ".2f",
    "over_by_hand": ".3f",
    "rnnsweep_over_alone": ".3f",
    "by_hand_over_alone": ".3f",
    "low": ".3f",
    "high": ".3f",
    "rnnsweep_first": ".2f",
    "rnnsweep_later": ".2f",
    "by_hand_first": ".2f",
    "by_hand_later": ".2f",
}
"""Milliseconds per step: of all steps, of the first of each window, and of later ones. `low` and
`high` are the 95 % interval of the mean of both ratios to `alone`."""

Slice = list[float]
"""The seconds of each step of a window; a trainer's later steps all have their mean."""

Run = Callable[[int], Slice]
"""Runs so many steps, and returns their seconds."""


@dataclass(slots=True)
class Times:
    """The slices of a contender under one condition, by round."""

    rounds: list[list[Slice]] = field(default_factory=list)

    def step_ms(self) -> list[float]:
        """Return the mean ms of a step of each round."""
        return [1e3 * fmean(second for one in slices for second in one) for slices in self.rounds]

    def first_ms(self) -> float:
        """Return the median ms of the first step of a window."""
        return 1e3 * median(one[0] for slices in self.rounds for one in slices)

    def later_ms(self) -> float | None:
        """Return the median ms of the later steps of a window; None if there are none."""
        later = [fmean(one[1:]) for slices in self.rounds for one in slices if one[1:]]
        return 1e3 * median(later) if later else None


class SlicedTrainer:
    """A trainer that runs `synthetic` on `torch/fused`; it waits between its slices."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        implementation = "torch/fused"
        self._process = TrainerProcess(parse_implementation(implementation), "cpu")
        self.pid = self._process.pid
        request = protocol.TrialRequest(
            "synthetic", implementation, settings, measure="timing", slice_s=SLICE_S
        )
        self._process.request(request)
        self._next(protocol.Ready)

    def run(self, steps: int) -> Slice:
        """Run one step, and then the others."""
        return [second for part in (1, steps - 1) if part for second in self._run(part)]

    def close(self) -> None:
        self._process.close()

    def _run(self, steps: int) -> Slice:
        self._process.send(protocol.Slice(steps))
        done = self._next(protocol.SliceDone)
        return [done.seconds / done.steps] * done.steps

    def _next(self, kind: type[E]) -> E:
        until_s = time.monotonic() + _LONGEST_S
        while time.monotonic() < until_s:
            event = self._process.next_event(1.0)
            if isinstance(event, kind):
                return event
            if isinstance(event, protocol.Result):
                raise RuntimeError(f"the trainer's trial has ended: {event}")
        raise TimeoutError(f"no {kind.event} from the trainer within {_LONGEST_S:.0f} s")


def measure(
    contenders: Mapping[str, Callable[[], Any]], settings: Mapping[str, Any], rounds: int
) -> list[dict[str, Any]]:
    """Return a row for each condition. The contenders are the steps of `rnnsweep` and `by_hand`.

    `settings` are those of the task `synthetic` for the same step.
    """
    runs: dict[str, Run] = {name: _timed(step) for name, step in contenders.items()}
    for run in runs.values():
        run(3)
    step_s = max(median(run(5)) for run in runs.values())
    with ExitStack() as stack:
        trainer = SlicedTrainer(settings)
        stack.callback(trainer.close)
        threads, pids = usable_cpus(), (os.getpid(), trainer.pid)
        beside = {
            kind: stack.enter_context(Neighbour(kind, pids, threads))
            for kind in ("ray", "sampler", "partner")
        }
        conditions = _Conditions(beside, trainer, step_s).by_name(runs)
        times = {name: {contender: Times() for contender in runs} for name in conditions}
        order = random.Random(0)
        for number in range(rounds + 1):
            for name in order.sample(list(conditions), k=len(conditions)):
                for contender, slices in conditions[name](order).items():
                    if number:  # the first round is the warm-up
                        times[name][contender].rounds.append(slices)
            print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
    return [row_of(name, times[name], times["alone"]) for name in conditions]


Condition = Callable[[random.Random], dict[str, list[Slice]]]
"""Returns the slices of each contender of a round."""


class _Conditions:
    def __init__(
        self, beside: Mapping[str, Neighbour], trainer: SlicedTrainer, step_s: float
    ) -> None:
        self._beside, self._trainer = beside, trainer
        self._long, self._short = (max(1, round(s / step_s)) for s in (WINDOW_S, SLICE_S))
        self._count = max(1, round(self._long / self._short))

    def by_name(self, runs: Mapping[str, Run]) -> dict[str, Condition]:
        """Return the conditions. Those without a trainer measure one contender after the other."""

        def one_by_one(measure_one: Callable[[Run], list[Slice]], *kinds: str) -> Condition:
            def condition(order: random.Random) -> dict[str, list[Slice]]:
                measured = {}
                for name in order.sample(list(runs), k=len(runs)):
                    with self._running(*kinds):
                        measured[name] = measure_one(runs[name])
                return measured

            return condition

        def with_trainer(*kinds: str) -> Condition:
            sides: dict[str, Run] = {"rnnsweep": self._trainer.run, "by_hand": runs["by_hand"]}

            def condition(order: random.Random) -> dict[str, list[Slice]]:
                measured: dict[str, list[Slice]] = {name: [] for name in sides}
                with self._running(*kinds):
                    for _ in range(self._count):
                        for name in order.sample(list(sides), k=len(sides)):
                            time.sleep(REST_S)
                            measured[name].append(sides[name](self._short))
                return measured

            return condition

        partner = self._beside["partner"]
        return {
            "alone": one_by_one(self._window),
            "beside an idle partner": one_by_one(self._after(partner.take_turn), "partner"),
            f"in slices of {SLICE_S} s": one_by_one(self._slices()),
            "in slices, each after a partner's": one_by_one(
                self._slices(partner.take_turn), "partner"
            ),
            "beside the telemetry": one_by_one(self._window, "sampler"),
            "beside Ray": one_by_one(self._window, "ray"),
            "as a trainer": with_trainer(),
            "as in a sweep": with_trainer("sampler", "ray"),
        }

    def _window(self, run: Run) -> list[Slice]:
        return [run(self._long)]

    def _after(self, before: Callable[[], object]) -> Callable[[Run], list[Slice]]:
        def measured(run: Run) -> list[Slice]:
            before()
            time.sleep(REST_S)
            return self._window(run)

        return measured

    def _slices(self, before: Callable[[], object] = lambda: None) -> Callable[[Run], list[Slice]]:
        def measured(run: Run) -> list[Slice]:
            slices = []
            for _ in range(self._count):
                before()
                time.sleep(REST_S)
                slices.append(run(self._short))
            return slices

        return measured

    @contextmanager
    def _running(self, *kinds: str) -> Iterator[None]:
        for kind in kinds:
            self._beside[kind].resume()
        if kinds:
            time.sleep(0.1)  # what they had to do meanwhile
        try:
            yield
        finally:
            for kind in kinds:
                self._beside[kind].pause()


def row_of(condition: str, here: Mapping[str, Times], alone: Mapping[str, Times]) -> dict[str, Any]:
    """Return the row of a condition, whose rounds are paired with the rounds of `alone`."""
    ms = {name: times.step_ms() for name, times in here.items()}
    over_alone = {name: _logs(ms[name], alone[name].step_ms()) for name in ms}
    both = exponential(t_interval(list(map(fmean, zip(*over_alone.values(), strict=True)))))
    has_interval = both is not None and math.isfinite(both.high) and condition != "alone"
    return {
        "name": condition,
        **{name: median(values) for name, values in ms.items()},
        "over_by_hand": math.exp(median(_logs(ms["rnnsweep"], ms["by_hand"]))),
        **{f"{name}_over_alone": math.exp(median(logs)) for name, logs in over_alone.items()},
        "low": both.low if both and has_interval else None,
        "high": both.high if both and has_interval else None,
        **{f"{name}_first": times.first_ms() for name, times in here.items()},
        **{f"{name}_later": times.later_ms() for name, times in here.items()},
    }


def _logs(ones: Sequence[float], others: Sequence[float]) -> list[float]:
    return [math.log(one / other) for one, other in zip(ones, others, strict=True)]


def _timed(step: Callable[[], Any]) -> Run:
    def run(steps: int) -> Slice:
        seconds = []
        for _ in range(steps):
            began_s = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - began_s)
        return seconds

    return run
