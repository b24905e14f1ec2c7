"""How much other work on the machine changes the ratio of two arms' times: its bias.

Five implementations on three backends train while other processes take 10 to 200 % of one core or
of each. Whole trainings and slices that take turns are measured in parts of a minute or two, each
in another random order of the loads. After so many minutes it reports what it has; the same command
resumes, and with more minutes it measures more sizes and repeats. `make bias-curve` turns the
result into the bounds that verdicts on a busy machine must exceed.
"""

import argparse
import itertools
import json
import math
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import pandas as pd
from scipy.special import stdtrit

from infra.benchmarks import rig
from infra.benchmarks.other_work import OtherWork, other_work
from infra.benchmarks.trusting import real
from orchestrator.analysis.statistics.bias import bias_kind
from orchestrator.core.criteria import MeasureMode
from orchestrator.execution.interleaved_round import InterleavedTrial
from orchestrator.execution.job import Job, TrialLimits, TrialRun
from orchestrator.execution.telemetry import OthersMeter
from orchestrator.execution.trainer_pool import TrainerPool, key_of
from orchestrator.execution.watchdog import Watchdog
from orchestrator.storage.home import sweep_home
from workloads import protocol

ARMS = (
    "tensorflow/portable",
    "tensorflow/portable+xla",
    "jax/portable",
    "torch/portable",
    real.FUSED,
)
SIZES = (320, 64)
DOSES = (10, 25, 50, 75, 100)
_EPOCHS = 100_000  # the training is ended by command
_SLICE_S = 0.1
_REST_S = 0.02  # as in an interleaved round
_TURNS = 3  # with each load, at least
_LIMITS = TrialLimits(trial_s=3_600, idle_s=600)


@dataclass(frozen=True, slots=True)
class Load:
    """Other work of `dose` percent on `one core`, or on `each core`."""

    where: str
    dose: int

    @property
    def is_quiet(self) -> bool:
        return not self.dose

    def shares(self) -> dict[int, float]:
        """Return the share of each core, in percent."""
        cores = sorted(os.sched_getaffinity(0))
        return dict.fromkeys(cores[:1] if self.where == "one core" else cores, self.dose)


QUIET = Load("each core", 0)
LOADS = (
    *(Load(where, dose) for where in ("one core", "each core") for dose in DOSES),
    Load("each core", 200),
)


@dataclass(frozen=True, slots=True)
class Part:
    """What is measured without a pause: whole trainings of one arm, or slices of all of them."""

    repeat: int
    units: int
    mode: MeasureMode
    arms: tuple[str, ...]

    def loads(self) -> list[Load]:
        """Return all loads in random order, beginning, halfway and ending with none."""
        draw = random.Random(str(self))
        order = draw.sample(LOADS, len(LOADS))
        half = len(order) // 2
        return [QUIET, *order[:half], QUIET, *order[half:], QUIET]


@dataclass(frozen=True, slots=True)
class Measured:
    """An arm's time per step under a load, and what others took of the CPUs meanwhile."""

    repeat: int
    units: int
    mode: MeasureMode
    arm: str
    where: str
    dose: int
    step_ms: float
    others_pct: float


def parts(sizes: Sequence[int], repeats: int) -> Iterator[Part]:
    """Yield the parts in their order: what is most needed first."""
    for units, repeat in itertools.product(sizes, range(repeats)):
        yield Part(repeat, units, "timing", ARMS)
        for arm in ARMS:
            yield Part(repeat, units, "full", (arm,))


def job(part: Part, arm: str) -> Job:
    settings = {**real.SMALL, "units": part.units, "epochs": _EPOCHS, "timed_steps": 0}
    request = protocol.TrialRequest(
        "image_rows", arm, settings, seed=part.repeat, measure=part.mode, slice_s=_SLICE_S
    )
    return Job(request, attempt=1, issued_s=time.time(), limits=_LIMITS)


def whole_trainings(
    part: Part, seconds: float, trainers: TrainerPool, work: OtherWork
) -> Iterator[Measured]:
    """Train for so many seconds with each load in turn; it changes at the end of an epoch."""
    (arm,) = part.arms
    run = TrialRun(job(part, arm))
    trainer = trainers.trainer_for(run.job, key_of(run.job))
    run.begin(trainer)
    meter, took, loads = OthersMeter([trainer.pid]), list[float](), part.loads()
    for event in Watchdog(trainer, _LIMITS).events():
        run.note_event(event)
        match event:
            case protocol.PhaseBegan("train") if not run.epochs:
                work.set(loads[0].shares())
                meter.start()
            case protocol.Epoch(seconds=epoch_s) if loads:
                took.append(epoch_s)
                if sum(took) < seconds:
                    continue
                step_ms = 1_000 * fmean(took) / (real.SMALL["samples"] / real.SMALL["batch_size"])
                yield _measured(part, arm, loads.pop(0), step_ms, meter)
                took.clear()
                work.set(loads[0].shares() if loads else {})
                meter.start()
                if not loads:
                    run.prune()
    assert run.failure is None, run.failure


def slices(
    part: Part, seconds: float, trainers: TrainerPool, work: OtherWork
) -> Iterator[Measured]:
    """Run turns of a slice of each arm with each load, at least so many seconds of each arm."""
    draw = random.Random(str(part))
    trials = []
    for arm in part.arms:
        run = TrialRun(job(part, arm))
        trial = InterleavedTrial(run, (f"{arm} [timing]", "cpu", None))
        trial.prepare(trainers.trainer_for(run.job, trial.key))
        trials.append(trial)
    pids = [trial.watchdog.trainer.pid for trial in trials if trial.watchdog]
    meter, turns = OthersMeter(pids), itertools.count()
    for load in part.loads():
        work.set(load.shares())
        meter.start()
        until_s, done = time.monotonic() + seconds * len(trials), list[int]()
        while time.monotonic() < until_s or len(done) < _TURNS:
            done.append(next(turns))
            for trial in draw.sample(trials, len(trials)):
                time.sleep(_REST_S)
                trial.run_slice(done[-1])
        for trial in trials:
            step_ms = 1_000 * math.exp(fmean(trial.logs[turn] for turn in done))
            arm = trial.trial_run.job.request.implementation
            yield _measured(part, arm, load, step_ms, meter)
    work.set({})
    for trial in trials:
        trial.finish(None)


def _measured(part: Part, arm: str, load: Load, step_ms: float, meter: OthersMeter) -> Measured:
    taken_s, total_s = meter.taken_s() or (math.nan, math.nan)
    return Measured(
        part.repeat,
        part.units,
        part.mode,
        arm,
        load.where,
        load.dose,
        step_ms,
        round(100 * taken_s / total_s, 2),
    )


@dataclass(frozen=True, slots=True)
class Bias:
    """How far a load moves the ratio of two arms, or the time of one; a factor of at least 1.

    `at_most` is the upper end of its 95 % interval, `others_pct` what others took meanwhile.
    """

    name: str
    mode: MeasureMode
    kind: str
    units: int
    where: str
    dose: int
    others_pct: float
    repeats: int
    bias: float
    at_most: float


def biases(measured: Sequence[Measured]) -> list[Bias]:
    """Return the bias of each pair of arms, and of each arm alone, by each load.

    There are none of a mode that was not repeated: nobody knows their intervals.
    """
    # The interval is from the common deviation between the repeats of one mode.
    logs: dict[tuple[MeasureMode, int, str, Load], dict[int, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    shares = defaultdict[tuple[MeasureMode, int, str, Load], list[float]](list)
    for one in measured:
        key = one.mode, one.units, one.arm, Load(one.where, one.dose)
        logs[key][one.repeat].append(math.log(one.step_ms))
        shares[key].append(one.others_pct)

    moved: dict[tuple[MeasureMode, int, str, str, Load], list[float]] = {}
    for mode, units in sorted({(one.mode, one.units) for one in measured}):
        arms = [arm for arm in ARMS if any(key[:3] == (mode, units, arm) for key in logs)]
        shifts: dict[tuple[str, Load], dict[int, float]] = {}
        for arm, load in itertools.product(arms, LOADS):
            busy, still = logs[mode, units, arm, load], logs[mode, units, arm, QUIET]
            shifts[arm, load] = {
                repeat: fmean(busy[repeat]) - fmean(still[repeat]) for repeat in busy if still
            }
        sides = [("", arm) for arm in arms] + list(itertools.combinations(arms, 2))
        for (first, second), load in itertools.product(sides, LOADS):
            of_first = shifts.get((first, load), {})
            moved[mode, units, first, second, load] = [
                (of_first[repeat] if first else 0.0) - shift
                for repeat, shift in shifts[second, load].items()
                if not first or repeat in of_first
            ]

    found = []
    for (mode, units, first, second, load), values in moved.items():
        alike = [v for key, v in moved.items() if key[0] == mode and bool(key[2]) == bool(first)]
        half_width = _half_width(alike)
        if not values or half_width is None:
            continue
        names = [name for name in (first, second) if name]
        taken = [fmean(shares[mode, units, name, load]) for name in names]
        shift = fmean(values)
        found.append(
            Bias(
                name=" against ".join(names if shift > 0 else names[::-1]),
                mode=mode,
                kind=bias_kind(names, alike=bool(first)),
                units=units,
                where=load.where,
                dose=load.dose,
                others_pct=round(fmean(taken), 1),
                repeats=len(values),
                bias=math.exp(abs(shift)),
                at_most=math.exp(abs(shift) + half_width / math.sqrt(len(values))),
            )
        )
    return sorted(found, key=lambda bias: -bias.at_most)


def _half_width(groups: Sequence[Sequence[float]]) -> float | None:
    """Return the half-width of one value, from the deviation within groups; None if unknown."""
    freedom = sum(len(values) - 1 for values in groups if values)
    if not freedom:
        return None
    squares = math.fsum((value - fmean(own)) ** 2 for own in groups if own for value in own)
    return float(stdtrit(freedom, 0.975)) * math.sqrt(squares / freedom)


def measure(asked: argparse.Namespace, path: Path, show: Callable[[str], None]) -> list[Measured]:
    """Measure the missing parts until the minutes are over; return all that is in the file."""
    until_s = time.monotonic() + 60 * asked.minutes
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [[Measured(**one) for one in json.loads(line)] for line in lines]
    done = {(own[0].repeat, own[0].units, own[0].mode, own[0].arm) for own in kept}
    wanted = list(parts(asked.sizes, asked.repeats))
    trainers = TrainerPool()
    try:
        with other_work(path.parent) as work:
            for number, part in enumerate(wanted, 1):
                if (part.repeat, part.units, part.mode, part.arms[0]) in done:
                    continue
                if time.monotonic() > until_s:
                    show(f"{len(wanted) - number + 1} of {len(wanted)} parts are left")
                    break
                show(f"part {number} of {len(wanted)}: {part}")
                run = whole_trainings if part.mode == "full" else slices
                kept.append(list(run(part, asked.seconds, trainers, work)))
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([asdict(one) for one in kept[-1]]) + "\n")
    finally:
        trainers.close()
    return [one for own in kept for one in own]


def main() -> None:
    parser = rig.arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=18, help="start no part after so long")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="LSTM units")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each arm with each load")
    asked, home = parser.parse_args(), sweep_home()
    home.mkdir(parents=True, exist_ok=True)
    environment = rig.environment("keras", "tensorflow", "jax", "torch")
    measured = measure(asked, home / "benchmark-bias.jsonl", lambda text: print(text, flush=True))
    report(measured, environment, asked.output)


def report(measured: Sequence[Measured], environment: dict[str, str], output: Path | None) -> None:
    found = biases(measured)
    if not found:
        print("No part was repeated yet, so that no interval is known: run the command again")
        return
    frame = pd.DataFrame([asdict(bias) for bias in found])
    table = frame.pivot_table("at_most", ["mode", "kind", "where"], "dose", "max")
    took = frame[frame["kind"].str.startswith("alone")].pivot_table(
        "others_pct", ["mode", "where"], "dose"
    )
    lines = [
        "Bias of a ratio of times by other work: the largest upper ends of 95 % intervals",
        "by the share of a core that other processes ask for, in percent:",
        table.to_string(float_format="%.2f"),
        "what they took of the CPUs beside a trainer, in percent:",
        took.to_string(float_format="%.0f"),
        "the largest:",
        frame.groupby(["mode", "kind"]).head(3).to_string(index=False, float_format="%.2f"),
    ]
    rows = [asdict(bias) for bias in found]
    raw = [asdict(one) for one in measured]
    rig.publish(output, "bias", environment, lines, biases=rows, measured=raw)


if __name__ == "__main__":
    main()
