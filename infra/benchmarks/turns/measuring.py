"""Turns of several arms on a quiet machine and beside other work, as raw times.

A group is one size in fresh trainer processes, and has a cell for each load. In a round of a cell
each arm runs short slices one right after the other, in random order over arms. Neighbouring slices
of an arm make turns of several lengths.
"""

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from infra.benchmarks.other_work import BURSTS_S, other_work
from orchestrator.execution.telemetry import OthersMeter
from orchestrator.execution.trainer_process import TrainerProcess
from workloads.implementations import parse_implementation
from workloads.protocol import Failure, Finish, Ready, Result, Slice, SliceDone, TrialRequest

BASE = "tensorflow/portable"
ROUND_S = 0.25
"""How long an arm works in a round on the quiet machine."""

SLICE_S = 0.0125
"""How long a slice takes on the quiet machine; it is at least one pass over the data."""

_MOST_ROUND_S = 0.5
"""When an arm's part of a round ends early: PyTorch can be a hundred times slower beside others."""

_BATCH_SIZE = 64
_SETTINGS = {
    "dataset": "digits",
    "validation_samples": 64,
    "batch_size": _BATCH_SIZE,
    "cell": "lstm",
    "layers": 1,
    "dense_units": 16,
    "dropout": 0.0,
}
_REST_S = 0.02  # before each turn, as in the product: threads of the last one may still spin
_LEAST_ROUNDS, _OVERTIME = 8, 3.0
"""Fewer rounds than the least end a cell only after so many times its share of the time."""

_PATIENCE_S = 300.0
_WHOLE_PASSES_S = 2.0
"""The asked duration of a slice: so long that the trainer makes slices of whole passes, some of
which are then asked for."""

_PASSES = 10


@dataclass(frozen=True, slots=True)
class Load:
    """Other work of `share_pct` of one core or of each, busy for `busy_s` at a stretch."""

    name: str
    share_pct: int = 0
    on_each_core: bool = True
    busy_s: tuple[float, float] = BURSTS_S

    def shares(self) -> dict[int, float]:
        """Return the share of each core, in percent."""
        cores = sorted(os.sched_getaffinity(0))
        return dict.fromkeys(cores if self.on_each_core else cores[:1], self.share_pct)

    def description(self) -> str:
        """Return it in words."""
        if not self.share_pct:
            return "no other processes"
        where = "each core" if self.on_each_core else "one core"
        stretches = ""
        if self.share_pct < 100:
            shortest, longest = self.busy_s
            stretches = f", busy for {1000 * shortest:g} to {1000 * longest:g} ms at a time"
        return f"a process that takes {self.share_pct} % of {where}{stretches}"


QUIET = Load("quiet")
LOADS = (
    Load("one 50 %", 50, on_each_core=False),
    Load("one 100 %", 100, on_each_core=False),
    Load("each 50 %, 2 ms", 50, busy_s=(0.001, 0.004)),
    Load("each 50 %, 20 ms", 50),
    Load("each 50 %, 1 s", 50, busy_s=(0.5, 4.0)),
    Load("each 100 %", 100),
)
_QUIET_WEIGHT = 1.5
"""A quiet cell's part of the time: all errors are against the quiet cells."""


@dataclass(frozen=True, slots=True)
class Round:
    """The slices of each arm, as steps and seconds, and CPU seconds of others and of all."""

    slices: Mapping[str, Sequence[tuple[int, float]]]
    taken_s: float | None
    total_s: float | None


@dataclass(frozen=True, slots=True)
class Cell:
    """Rounds without a pause beside one load, by its name."""

    load: str
    rounds: Sequence[Round]


@dataclass(frozen=True, slots=True)
class Group:
    """All cells of one size, measured by the same processes."""

    repeat: int
    units: int
    arms: tuple[str, ...]
    slice_s: Mapping[str, float]
    """About how long a slice of an arm takes on the quiet machine."""
    cells: Sequence[Cell]

    @property
    def key(self) -> tuple[int, int, tuple[str, ...]]:
        """What was asked for."""
        return self.repeat, self.units, self.arms


def read_groups(path: Path) -> list[Group]:
    """Return the groups in the file; none if there is no file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [_group(json.loads(line)) for line in lines]


def _write_groups(path: Path, groups: Sequence[Group]) -> None:
    lines = "".join(json.dumps(asdict(group)) + "\n" for group in groups)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(lines, encoding="utf-8")
    unfinished.replace(path)  # at once: the program may be ended at any time


def _group(stored: Mapping[str, Any]) -> Group:
    cells = [
        Cell(cell["load"], [Round(**measured) for measured in cell["rounds"]])
        for cell in stored["cells"]
    ]
    return Group(stored["repeat"], stored["units"], tuple(stored["arms"]), stored["slice_s"], cells)


def measure(
    wanted: Sequence[tuple[int, int, tuple[str, ...]]],
    minutes: float,
    path: Path,
    show: Callable[[str], None],
) -> list[Group]:
    """Measure the groups that the file lacks, in so many minutes; return all that it has.

    The time left is divided evenly among the groups left; no group begins after it.
    """
    until_s = time.monotonic() + 60 * minutes
    groups = read_groups(path)
    done = {group.key for group in groups}
    left = [key for key in wanted if key not in done]
    for number, key in enumerate(left):
        began_s = time.monotonic()
        if began_s >= until_s:
            show(f"{len(left) - number} of {len(wanted)} groups are left: run the command again")
            break
        ends_s = began_s + (until_s - began_s) / (len(left) - number)
        groups.append(_measure_group(*key, ends_s, path.parent))
        _write_groups(path, groups)
        rounds = ", ".join(str(len(cell.rounds)) for cell in groups[-1].cells)
        show(
            f"group {number + 1} of {len(left)}: {key[1]} units, repeat {key[0]}:"
            f" {rounds} rounds in {time.monotonic() - began_s:.0f} s"
        )
    return groups


def _measure_group(
    repeat: int, units: int, arms: tuple[str, ...], ends_s: float, folder: Path
) -> Group:
    draw = random.Random(f"{repeat} {units}")
    loads = [QUIET, *draw.sample(LOADS, len(LOADS)), QUIET]
    cells = list[Cell]()
    with ExitStack() as stack:
        trainers = {
            arm: stack.enter_context(TrainerProcess(parse_implementation(arm), "cpu"))
            for arm in arms
        }
        steps = _pass_steps(units)
        settings = {**_SETTINGS, "samples": steps * _BATCH_SIZE, "units": units}
        for arm, trainer in trainers.items():
            trainer.request(
                TrialRequest(
                    "image_rows",
                    arm,
                    settings,
                    seed=repeat,
                    measure="timing",
                    slice_s=_WHOLE_PASSES_S,
                )
            )
        for trainer in trainers.values():
            _await(trainer, Ready)
        slices = {arm: _choose_slice(trainer, steps) for arm, trainer in trainers.items()}
        meter = OthersMeter([trainer.pid for trainer in trainers.values()])

        def measure_round() -> Round:
            return _measure_round(trainers, slices, meter, draw)

        measure_round()  # the warm-up
        for place, load in enumerate(loads):
            began_s = time.monotonic()
            weights = [_weight(later) for later in loads[place:]]
            cell_ends_s = began_s + (ends_s - began_s) * weights[0] / sum(weights)
            with ExitStack() as beside:
                if load is not QUIET:
                    work = beside.enter_context(other_work(folder, load.busy_s))
                    work.set(load.shares())
                    time.sleep(0.3)
                rounds = list(_rounds(measure_round, cell_ends_s))
            cells.append(Cell(load.name, rounds))
        for trainer in trainers.values():
            trainer.send(Finish())
            _await(trainer, Result)
    return Group(repeat, units, arms, {arm: quiet_s for arm, (_, quiet_s) in slices.items()}, cells)


def _pass_steps(units: int) -> int:
    """Return the steps of a pass over the data: few, because a turn is whole passes."""
    return 8 if units < 100 else 4


def _choose_slice(trainer: TrainerProcess, steps: int) -> tuple[int, float]:
    """Return the steps of a slice, and how long they take on the quiet machine.

    The fastest of some passes counts: the machine may be busy just now.
    """
    pass_s = min(_run_slice(trainer, steps).seconds for _ in range(_PASSES))
    passes = max(1, round(SLICE_S / pass_s))
    return passes * steps, passes * pass_s


def _run_slice(trainer: TrainerProcess, steps: int) -> SliceDone:
    trainer.send(Slice(steps))
    done: SliceDone = _await(trainer, SliceDone)
    return done


def _weight(load: Load) -> float:
    return _QUIET_WEIGHT if load is QUIET else 1.0


def _rounds(measure_round: Callable[[], Round], ends_s: float) -> Iterator[Round]:
    began_s, number = time.monotonic(), 0
    latest_s = began_s + _OVERTIME * max(ends_s - began_s, 1.0)
    while (now := time.monotonic()) < ends_s or (number < _LEAST_ROUNDS and now < latest_s):
        yield measure_round()
        number += 1


def _measure_round(
    trainers: Mapping[str, TrainerProcess],
    slices: Mapping[str, tuple[int, float]],
    meter: OthersMeter,
    draw: random.Random,
) -> Round:
    done: dict[str, list[tuple[int, float]]] = {}
    meter.start()
    for arm in draw.sample(list(trainers), len(trainers)):
        time.sleep(_REST_S)
        steps, quiet_s = slices[arm]
        began_s, done[arm] = time.monotonic(), []
        for _ in range(max(1, round(ROUND_S / quiet_s))):
            one = _run_slice(trainers[arm], steps)
            done[arm].append((one.steps, one.seconds))
            if time.monotonic() - began_s > _MOST_ROUND_S:
                break
    taken = meter.taken()
    if taken is None:
        return Round(done, None, None)
    return Round(done, taken.others_s + taken.steal_s, taken.total_s)


def _await(trainer: TrainerProcess, kind: type[Any]) -> Any:
    """Return the next event of a kind; `RuntimeError` if the trial fails or says nothing."""
    while True:
        event = trainer.next_event(_PATIENCE_S)
        if event is None or isinstance(event, Failure):
            raise RuntimeError(f"expected {kind.__name__} within {_PATIENCE_S:.0f} s: {event}")
        if isinstance(event, kind):
            return event
