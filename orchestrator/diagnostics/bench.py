"""A comparison of implementations on this machine without a spec file: `rnnsweep bench`.

Each round builds new models, with another seed, and times a step of every implementation in
slices that take turns, as a sweep with `measure: timing` does. The unit of the statistics is the
round: verdicts use the spread between rounds, as those of a report use the spread between blocks.
Nothing is recorded.
"""

import datetime
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from orchestrator import hardware
from orchestrator.analysis.statistics import estimates
from orchestrator.analysis.statistics.formatting import quartiles, ratio, speed
from orchestrator.analysis.statistics.verdicts import Finding, Judgement, judge, largest_bias
from orchestrator.cluster.connection import this_machine
from orchestrator.core.disturbance import detect_disturbance, disturbance_text
from orchestrator.core.errors import Refusal
from orchestrator.core.text import counted
from orchestrator.execution import telemetry
from orchestrator.execution.interleaved_round import InterleavedRound
from orchestrator.execution.job import Job, Rival, TrialLimits, TrialRun
from orchestrator.execution.trainer_pool import TrainerPool
from orchestrator.execution.workload_check import expect_importable
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.plan import Plan, make_plan
from orchestrator.report.document import Column, Document, Section, make_table
from orchestrator.report.formats.json_format import plain
from orchestrator.spec import SweepSpec, parse, yaml_locations
from workloads.protocol import TrialRequest

FORMAT, VERSION = "rnnsweep-bench", 1
_SLICES = [12, 24]
"""Fewer than in a sweep, since there are several rounds and their spread decides."""


@dataclass(frozen=True, slots=True)
class BenchArm:
    """The measurements of one implementation.

    `round_ms` has the geometric mean of a step of each round (ms), `step_ms` their quartiles.
    `speedup` is the baseline's time over this one's, with its 95 % interval; None for the baseline
    itself and for fewer than two rounds. By `finding`, this one is faster where it is `more`, and
    `provisional` if the machine was busy and the interval is beyond the bias of that. `kernel` is
    what ran, as proven. `failure` is why there is no time, or no proof.
    """

    implementation: str
    round_ms: tuple[float, ...]
    step_ms: estimates.Spread | None
    speedup: estimates.Estimate | None = None
    finding: Finding = "inconclusive"
    provisional: bool = False
    kernel: str | None = None
    failure: str | None = None


@dataclass(slots=True)
class Bench:
    """A comparison, and its rounds so far; the first implementation is the baseline.

    A round has the facts about one trial of each arm, in the order of the plan. The last round may
    be under way.
    """

    data: Mapping[str, Any]
    spec: SweepSpec
    plan: Plan
    rounds: list[Sequence[TrialRun]] = field(default_factory=list)

    def run(self, rounds: int, progress: Callable[[], object]) -> None:
        """Run this many rounds; `progress` is called about once a second."""
        lane, arms = make_lanes(self.plan)[0].lanes[0], self.plan.arms
        limits, timing = self.spec.limits, self.spec.timing
        instruments = telemetry.Instruments()
        with closing(TrainerPool()) as trainers:
            for number in range(rounds):
                trials = [
                    Rival(
                        TrialRequest(
                            self.spec.workload,
                            arm.implementation,
                            self.spec.written_settings(),
                            arm.device,
                            self.spec.seed + number,
                        ),
                        lane.cpus_used(arm),
                    )
                    for arm in arms
                ]
                job = Job(
                    trials[0].request,
                    attempt=1,
                    issued_s=time.time(),
                    limits=TrialLimits(limits.trial_s, limits.idle_s, limits.memory_mib),
                    python_path=(str(Path.cwd()),),
                    cpus=trials[0].cpus,
                    rivals=tuple(trials[1:]),
                    timing=timing,
                )
                timed = InterleavedRound(job, timing, trainers, instruments)
                self.rounds.append(timed.trial_runs)
                progress()
                for _ in timed.run():
                    progress()

    def results(self) -> list[BenchArm]:
        """Return what the rounds have measured so far of each implementation."""
        trials = [[trials[at] for trials in self.rounds] for at in range(len(self.plan.arms))]
        logs = [[_log_ms(trial) for trial in own] for own in trials]
        ratios = [
            [
                theirs - ours
                for ours, theirs in zip(own, logs[0], strict=True)
                if ours is not None and theirs is not None
            ]
            for own in logs
        ]
        arms, causes = self.plan.arms, [cause for one in self.disturbances() for cause in one]
        biases = (
            [largest_bias((arm, arms[0]), causes, alike=True) for arm in arms] if causes else ()
        )
        margin = math.log1p(self.spec.margins.speed)
        judged = [Judgement("same"), *judge(ratios[1:], margin, biases=biases[1:])]
        results = []
        for at, arm in enumerate(self.plan.arms):
            round_ms = tuple(math.exp(log) for log in logs[at] if log is not None)
            kernels = [trial.kernel.ran for trial in trials[at] if trial.kernel]
            failures = [text for trial in trials[at] if (text := _failure(trial))]
            results.append(
                BenchArm(
                    arm.implementation,
                    round_ms,
                    estimates.spread(round_ms),
                    estimates.exponential(estimates.t_interval(ratios[at])) if at else None,
                    judged[at].finding,
                    judged[at].provisional,
                    kernels[-1] if kernels else None,
                    failures[-1] if failures else None,
                )
            )
        return results

    def disturbances(self) -> list[dict[str, float]]:
        """Return the causes that disturbed each of the disturbed rounds."""
        disturbed = []
        for trials in self.rounds:
            causes: dict[str, float] = {}
            for trial in trials:
                if trial.ended:
                    outcome = trial.outcome()
                    observed = outcome.metrics, outcome.telemetry, self.spec.disturbance_limits
                    causes |= detect_disturbance(*observed, expected_canary_ms=None)
            disturbed += [causes] if causes else []
        return disturbed


def make_bench(
    implementations: Sequence[str], workload: str, overrides: Sequence[str], device: str
) -> Bench:
    """Check a comparison; refuse it unless all of the implementations can run here.

    The workload is a built-in one, or `package.module:function`. `overrides` are its settings, as
    `KEY=YAML`. The device is an entry of `arms.hardware`: `cpu`, `gpu` or a GPU's name.
    """
    settings = yaml_locations.read("{}", source="--set", overrides=overrides, example="units=128")
    data = {
        "name": f"bench-{workload.rpartition(':')[2].lower().replace('.', '-')}",
        "workload": workload,
        "settings": settings.data,
        "search": {"configs": [{}]},
        "arms": {"implementations": list(implementations), "hardware": [device]},
        "baseline": implementations[0],
        "measure": {"mode": "timing", "slices": _SLICES},
    }
    spec = parse(yaml.safe_dump(data, sort_keys=False), source="bench", folder=Path.cwd())
    expect_importable(spec, on_cluster=False)
    plan = make_plan(spec, hardware.classify(this_machine()))
    if plan.impossible:
        reasons = [f"\n  {one.arm}: {one.reason}" for one in plan.impossible]
        raise Refusal(f"expected implementations that can run here; cannot run{''.join(reasons)}")
    if len(classes := {str(arm.hardware_class) for arm in plan.arms}) > 1:
        raise Refusal(
            f"--hardware: expected one of {'; '.join(sorted(classes))}; received {device}"
        )
    return Bench(data, spec, plan)


def as_spec(bench: Bench) -> str:
    """Return a spec file that compares the same arms at sizes that are still to be chosen."""
    return yaml.safe_dump(dict(bench.data), sort_keys=False)


def as_document(bench: Bench) -> Document:
    """Return a sentence for each implementation, the table, and what disturbed the rounds."""
    results = bench.results()
    base = results[0]
    disturbed, notes = bench.disturbances(), []
    if disturbed:
        count = f"{len(disturbed)} of {counted(len(bench.rounds), 'round')}"
        first = disturbance_text(disturbed[0])
        notes.append(f"Measured on a busy machine. Disturbed: {count}; in the first, {first}.")
    columns: tuple[Column[BenchArm], ...] = (
        Column("implementation", lambda arm: arm.implementation),
        Column("step", lambda arm: arm.step_ms, "ms", quartiles, numeric=True),
        Column("speed-up", lambda arm: arm.speedup, "95 % CI", ratio, numeric=True),
        Column("rounds", lambda arm: len(arm.round_ms)),
        Column("kernel", lambda arm: arm.kernel),
    )
    sentences = (_sentence(arm, base, is_busy=bool(disturbed)) for arm in results)
    bullets = tuple(filter(None, sentences))
    where = bench.plan.arms[0].hardware
    return Document(
        f"{bench.spec.workload} on {where}",
        (Section("", bullets, (make_table(columns, results),), tuple(notes)),),
    )


def as_json(bench: Bench) -> dict[str, Any]:
    """Return the results as one versioned object."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "measured": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "workload": bench.spec.workload,
        "settings": bench.spec.written_settings(),
        "hardware": str(bench.plan.arms[0].hardware),
        "baseline": bench.plan.arms[0].implementation,
        "rounds": len(bench.rounds),
        "disturbed": bench.disturbances(),
        "arms": plain(bench.results()),
    }


def _log_ms(trial: TrialRun) -> float | None:
    """Return the mean logarithm of the milliseconds per step; None for a trial that failed."""
    if not trial.slices or _failure(trial):
        return None
    return fmean(math.log(one.step_ms) for one in trial.slices)


def _failure(trial: TrialRun) -> str | None:
    kernel = trial.kernel
    if kernel is not None and kernel.ran != kernel.asked:
        return f"ran {kernel.ran}, not {kernel.asked} ({kernel.evidence})"
    return trial.failure.text if trial.failure else None


def _sentence(arm: BenchArm, base: BenchArm, *, is_busy: bool) -> tuple[str, str] | None:
    """Return the kind and the sentence of one implementation against the baseline."""
    if arm.failure:
        return "failed", f"{arm.implementation} FAILED: {arm.failure}"
    if arm.speedup is None:
        return None
    text = f"{arm.implementation} {speed(arm.speedup, base.implementation)}"
    if arm.finding == "inconclusive":
        cure = "measure again on an idle machine" if is_busy else "add rounds (--rounds)"
        return "inconclusive", f"{text}, but that is not certain: {cure}"
    kind = {"more": "faster", "less": "slower"}.get(arm.finding, "same")
    return kind, f"{text}{', provisionally' if arm.provisional else ''}"
