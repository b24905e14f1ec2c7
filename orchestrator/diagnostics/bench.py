"""A comparison of implementations on this machine without a spec file: `rnnsweep bench`.

Each round builds new models, with another seed, and times a step of every implementation in
slices that take turns, as a sweep with `measure: timing` does. Each round is a block of the
report's comparison, so verdicts use the spread between rounds. Nothing is recorded.
"""

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from orchestrator import hardware
from orchestrator.analysis.comparisons.speed import Comparison, compare
from orchestrator.analysis.measures import by_arm
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.analysis.pairing.pairs import geometric, pick_baseline
from orchestrator.analysis.statistics import estimates
from orchestrator.analysis.statistics.formatting import quartiles, ratio, speed
from orchestrator.cluster.connection import this_machine
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import DisturbanceLimits
from orchestrator.core.disturbance import detect_disturbance, disturbance_text
from orchestrator.core.errors import Refusal
from orchestrator.core.records import SweepRecord
from orchestrator.core.text import counted
from orchestrator.core.trial import FinishedTrial, Trial
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

FORMAT, VERSION = "rnnsweep-bench", 2
_SLICES = [12, 24]
"""Fewer than in a sweep, since there are several rounds and their spread decides."""


@dataclass(frozen=True, slots=True)
class BenchArm:
    """The results of one implementation.

    `round_ms` has the geometric mean of a step of each round (ms), `step_ms` their quartiles.
    `comparison` is the report's, with rounds for blocks; None for the baseline. `kernel` is what
    ran, as proven. `failure` is why there is no time, or no proof.
    """

    implementation: str
    round_ms: tuple[float, ...]
    step_ms: estimates.Spread | None
    comparison: Comparison | None
    kernel: str | None
    failure: str | None


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

    def record(self) -> SweepRecord:
        """Return the rounds as a sweep, of which each round is a block."""
        trials = tuple(
            _finished(trial, arm, number, self.spec.disturbance_limits)
            for number, trials in enumerate(self.rounds)
            for arm, trial in zip(self.plan.arms, trials, strict=True)
            if trial.slices or trial.failure
        )
        return SweepRecord(
            name=self.spec.name,
            generation=1,
            run_id="",
            workload=self.spec.workload,
            objectives={},
            arms=self.plan.arms,
            impossible=(),
            blocks=len(self.rounds),
            repeats=1,
            expected_trials=len(trials),
            trials=trials,
            criteria=self.spec.criteria(),
        )

    def results(self) -> list[BenchArm]:
        """Return what the rounds have measured so far of each implementation."""
        record = self.record()
        baseline = pick_baseline(record, None)
        assert baseline is not None  # a bench has an arm
        matched = match(record, lambda trial: trial.has_times)
        comparisons = {one.arm: one for one in compare(record, matched, baseline)}
        results = []
        for arm, trials in by_arm(record).items():
            complete = [trial for trial in trials if trial.status == "complete"]
            round_ms = tuple(trial.metrics["step_ms"] for trial in complete)
            kernels = [trial.kernel.ran for trial in trials if trial.kernel]
            failures = [text for trial in trials if (text := _failure(trial))]
            results.append(
                BenchArm(
                    arm.implementation,
                    round_ms,
                    estimates.spread(round_ms),
                    comparisons.get(arm),
                    kernels[-1] if kernels else None,
                    failures[-1] if failures else None,
                )
            )
        return results

    def disturbances(self) -> list[dict[str, float]]:
        """Return the causes that disturbed each of the disturbed rounds."""
        causes: dict[int, dict[str, float]] = {}
        for trial in self.record().trials:
            if trial.disturbance:
                causes.setdefault(trial.block, {}).update(trial.disturbance)
        return list(causes.values())


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
        Column("speed-up", _speedup, "95 % CI", ratio, numeric=True),
        Column("rounds", lambda arm: len(arm.round_ms)),
        Column("kernel", lambda arm: arm.kernel),
    )
    sentences = (_sentence(arm, base) for arm in results)
    bullets = tuple(filter(None, sentences))
    where = bench.plan.arms[0].hardware
    return Document(
        f"{bench.spec.workload} on {where}",
        (Section("", bullets, (make_table(columns, results),), tuple(notes)),),
    )


def _speedup(arm: BenchArm) -> estimates.Estimate | None:
    return arm.comparison.speedup if arm.comparison else None


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


def _finished(
    run: TrialRun, arm: Arm, number: int, limits: DisturbanceLimits
) -> FinishedTrial:
    """Return a trial of a round that may still be under way, with its time per step so far."""
    outcome = run.outcome()
    step_ms = {"step_ms": geometric([one.step_ms for one in run.slices])} if run.slices else {}
    causes = detect_disturbance(outcome.metrics, outcome.telemetry, limits, None)
    request = run.job.request
    return FinishedTrial(
        Trial(f"{number} {arm}", number, {}, arm, 0, request.seed),
        replace(
            outcome,
            metrics={**outcome.metrics, **step_ms},
            disturbance=causes,
            round_id=str(number),
        ),
    )


def _failure(trial: FinishedTrial) -> str | None:
    kernel = trial.kernel
    if trial.status == "wrong_kernel" and kernel is not None:
        return f"ran {kernel.ran}, not {kernel.asked} ({kernel.evidence})"
    return trial.failure_text


def _sentence(arm: BenchArm, base: BenchArm) -> tuple[str, str] | None:
    """Return the kind and the sentence of one implementation against the baseline."""
    if arm.failure:
        return "failed", f"{arm.implementation} FAILED: {arm.failure}"
    found = arm.comparison
    if found is None or found.speedup is None:
        return None
    text = f"{arm.implementation} {speed(found.speedup, base.implementation)}"
    if found.verdict == "inconclusive":
        is_busy = found.bias is not None
        cure = "measure again on an idle machine" if is_busy else "add rounds (--rounds)"
        return "inconclusive", f"{text}, but that is not certain: {cure}"
    return found.verdict, f"{text}{', provisionally' if found.provisional else ''}"
