"""A comparison of implementations on this machine without a spec file: `rnnsweep bench`.

Each round builds new models, with another seed, and times a step (or a prediction) of every
implementation in slices that take turns, as a sweep with `measure: timing` does. Rounds follow each
other until the time is over. They are the blocks of a sweep that is summarised like any other, and
recorded nowhere.
"""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import yaml

from orchestrator import hardware
from orchestrator.cluster.connection import this_machine
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import DisturbanceLimits, Timing
from orchestrator.core.disturbance import detect_disturbance
from orchestrator.core.errors import Refusal
from orchestrator.core.records import SweepRecord
from orchestrator.core.text import counted
from orchestrator.core.trial import FinishedTrial, ImpossibleArm, Trial
from orchestrator.diagnostics.bench_schedule import Budget, Schedule
from orchestrator.execution import telemetry
from orchestrator.execution.job import Job, RoundTrial, TrialLimits, TrialRun
from orchestrator.execution.round import RunningRound
from orchestrator.execution.trainer_pool import TrainerPool
from orchestrator.execution.workload_check import check_user_code
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.plan import Plan, make_plan
from orchestrator.spec import SweepSpec, parse_spec, yaml_locations
from orchestrator.spec.reading import refuse_object
from orchestrator.spec.spec_errors import ProblemAtPath, SpecError, key_text
from workloads.own_code import code_folders, entry_of_file
from workloads.protocol import TimedWork, TrialRequest
from workloads.turns import step_seconds

DEFAULT_WORKLOAD = "image_rows"
"""At its own sizes it compiles in a second or two, and takes some 10 ms a step on two cores."""


@dataclass(slots=True)
class Bench:
    """A comparison, and its rounds so far; the first implementation is the baseline.

    `left_out` are the arms that were asked for and cannot run here.

    A round has one trial of each arm, in the order of the plan. The last one may be under way.
    """

    spec: SweepSpec
    plan: Plan
    schedule: Schedule
    left_out: tuple[ImpossibleArm, ...] = ()
    rounds: list[RunningRound] = field(default_factory=list)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def describe(self) -> str:
        """Return what is going to be done, and for how long."""
        number = len(self.plan.arms)
        doing = "is timed" if number == 1 else "take turns"
        left_out = (f"\n  cannot run {arm.arm.short_name}: {arm.reason}" for arm in self.left_out)
        return (
            f"{counted(number, 'implementation')} {doing} for {self.schedule.budget}. Ctrl-C keeps"
            f" the complete rounds{''.join(left_out)}"
        )

    def run(self, progress: Callable[[str], object]) -> None:
        """Run rounds until the budget is used up; `progress` is called about once a second.

        It gets what begins before the first slice, such as `loading and compiling torch/fused (1 of
        2)`, else an empty text.
        """
        instruments = telemetry.Instruments()
        with closing(TrainerPool()) as trainers:
            while self.schedule.has_another_round():
                self._run_round(trainers, instruments, progress)
                if not self.schedule.turns[-1]:
                    return  # every implementation failed, and would again

    def _run_round(
        self,
        trainers: TrainerPool,
        instruments: telemetry.Instruments,
        progress: Callable[[str], object],
    ) -> None:
        schedule, turns = self.schedule, self.schedule.begin_round()
        timing = replace(self.spec.timing, least=turns, most=turns)
        timed = RunningRound(self._job(timing), trainers, instruments)
        self.rounds.append(timed)
        progress("")
        for seen in timed.run():
            if seen.done == 0:
                schedule.note_loading()
            else:
                schedule.note_turns(seen.done)
                if schedule.has_used_its_time():
                    timed.end_after_turn()
            progress(seen.doing)
        schedule.end_round(
            max(len(trial.slices) for trial in timed.trial_runs),
            _first_round_s([trial.metrics for trial in timed.trial_runs]),
        )

    def _job(self, timing: Timing) -> Job:
        lane, limits, number = make_lanes(self.plan)[0].lanes[0], self.spec.limits, len(self.rounds)
        trials = (
            RoundTrial(self._request(arm, number), lane.cpus_used(arm)) for arm in self.plan.arms
        )
        return Job(
            tuple(trials),
            attempt=1,
            issued_s=time.time(),
            limits=TrialLimits(limits.trial_s, limits.idle_s, limits.memory_mib),
            timing=timing,
            python_path=code_folders(),
        )

    def _request(self, arm: Arm, number: int) -> TrialRequest:
        settings, seed = self.spec.written_settings(), self.spec.seed + number
        return TrialRequest(
            self.spec.workload_name,
            arm.implementation,
            settings,
            arm.device,
            seed,
            measure="timing",
            fingerprint=number == 0,
        )

    def record(self) -> SweepRecord:
        """Return the rounds as a sweep, of which each round is a block."""
        trials = tuple(
            _finished(trial, arm, number, self.spec.disturbance_limits)
            for number, timed in enumerate(self.rounds)
            for arm, trial in zip(self.plan.arms, timed.trial_runs, strict=True)
            if trial.slices or trial.failure
        )
        environment = trials[-1].outcome.environment if trials else {}
        return SweepRecord(
            self.spec.name,
            run_id=self.id,
            workload=self.spec.workload_name,
            arms=self.plan.arms,
            impossible=self.left_out,
            blocks=len(self.rounds),
            expected_trials=len(self.rounds) * len(self.plan.arms),
            trials=trials,
            environment={name: str(fact) for name, fact in environment.items()},
            settings=self.spec.written_settings(),
            criteria=self.spec.criteria(),
        )


def make_bench(
    implementations: Sequence[str],
    timed: Mapping[str, str],
    overrides: Sequence[str],
    device: str,
    budget: Budget,
    timed_work: TimedWork = "train",
    tell: Callable[[str], None] | None = None,
) -> Bench:
    """Check a comparison, and leave out the implementations that cannot run here.

    Raise `Refusal` if none can. What never runs here is left out before a model is built.

    `timed` has the keys of a spec for what is timed: `workload`, or `model` and perhaps `data`.
    `overrides` are its settings, as `settings.KEY=YAML`. The device is an entry of
    `arms.hardware`: `cpu`, `gpu` or a GPU's name. `tell` gets lines as `check_user_code` has them.
    """
    typed = yaml_locations.parse_yaml(
        "{}", source="bench", overrides=overrides, example="settings.units=128"
    )
    if others := [key for key in typed.data if key != "settings"]:
        raise typed.refusal(
            ProblemAtPath(
                (key,),
                "a setting (settings.KEY=VALUE)",
                repr(key),
                f"did you mean settings.{key}=…?",
            )
            for key in others
        )
    usual = {"model": "build", "data": "load", "workload": ""}
    timed = {key: entry_of_file(text, usual[key]) or text for key, text in timed.items()}
    name = timed.get("workload") or timed["model"].replace(":", "-")
    data = {
        "name": f"bench-{name.rpartition(':')[2].lower().replace('.', '-')}",
        **timed,
        "settings": typed.data.get("settings", {}),
        "search": {"configs": [{}]},
        "arms": {"implementations": list(implementations), "hardware": [device]},
        "baseline": implementations[0],
        "measure": {"mode": "timing", "of": timed_work},
    }
    machine = hardware.classify(this_machine())
    try:
        spec = parse_spec(yaml.safe_dump(data, sort_keys=False), source="bench", folder=Path.cwd())
        refuse = partial(refuse_object, "bench", spec)
        spec = check_user_code(spec, on_cluster=False, refuse=refuse, tell=tell, hardware=machine)
    except SpecError as error:  # its lines and keys are of a spec that nobody wrote
        words = {
            **{f"arms.implementations[{i}]": name for i, name in enumerate(implementations)},
            "arms.hardware[0]": f"--hardware {device}",
            **{key: f"--{key} {value}" for key, value in timed.items()},
            **{key_text(path): location.text for path, location in typed.locations.items()},
        }
        problems = [
            replace(problem, location=words.get(problem.key, problem.key), key="")
            for problem in error.problems
        ]
        raise SpecError(error.source, problems) from None
    spec, left_out = _only_possible(spec, machine)
    plan = make_plan(spec, machine)
    if len(classes := {str(arm.hardware_class) for arm in plan.arms}) > 1:
        raise Refusal(
            f"--hardware: expected one of {'; '.join(sorted(classes))}; received {device}"
        )
    return Bench(spec, plan, Schedule(budget), left_out)


def _only_possible(
    spec: SweepSpec, machine: Sequence[hardware.HardwareClass]
) -> tuple[SweepSpec, tuple[ImpossibleArm, ...]]:
    """Return the spec with the implementations that can run here, and the arms that cannot.

    The first one that can is the baseline. Raise `Refusal` if none can, or one of several, which
    leaves nothing to compare.
    """
    plan = make_plan(spec, machine)
    if not plan.impossible:
        return spec, ()
    possible = {arm.arm.implementation for arm in plan.possible}
    kept = tuple(name for name in spec.arms.implementations if name in possible)
    if len(kept) < 2:
        reasons = [f"\n  {impossible.arm}: {impossible.reason}" for impossible in plan.impossible]
        alone = f"only {kept[0]} can run here, which leaves nothing to compare" if kept else ""
        raise Refusal(f"{alone or 'none of these implementations can run here'}:{''.join(reasons)}")
    arms = spec.arms.model_copy(update={"implementations": kept})
    return spec.model_copy(update={"arms": arms, "baseline": kept[0]}), plan.impossible


def _first_round_s(trials: Sequence[Mapping[str, float]]) -> float:
    """Return the seconds of trials, by their metrics, that later rounds with warm trainers save.

    The trainers import their frameworks at the same time, and check their mathematics in turn.
    """
    imports_s = max(metrics.get("import_s", 0.0) for metrics in trials)
    return imports_s + sum(metrics.get("check_s", 0.0) for metrics in trials)


def _finished(run: TrialRun, arm: Arm, number: int, limits: DisturbanceLimits) -> FinishedTrial:
    """Return a trial of a round that may still be under way, with its time per step so far."""
    outcome = run.outcome()
    times = dict[str, float]()
    if run.slices and not run.has_result:
        metric = "step_ms" if run.trial.request.timed_work == "train" else "predict_ms"
        times[metric] = 1_000 * step_seconds(run.slices)
    causes = detect_disturbance(outcome.metrics, outcome.telemetry, limits)
    request = run.trial.request
    return FinishedTrial(
        Trial(f"{number} {arm}", number, {}, arm, 0, request.seed),
        replace(
            outcome,
            metrics={**outcome.metrics, **times},
            disturbance=causes,
            round_id=str(number),
        ),
    )
