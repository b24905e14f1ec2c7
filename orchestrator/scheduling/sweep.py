"""One start of a sweep, from its spec to its report: plan, announce, run, store a report."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import __version__
from orchestrator.cluster import connection
from orchestrator.cluster.busy_nodes import (
    describe_busy,
    observe_nodes,
    start_line,
    wait_until_quiet,
)
from orchestrator.cluster.membership import Membership, requested_nodes, withdraw_request
from orchestrator.cluster.temporary_folders import tune_folder
from orchestrator.core.errors import one_line
from orchestrator.core.records import EndState, SweepRecord
from orchestrator.core.start_command import UNKNOWN_START, StartCommand
from orchestrator.core.stop_signal import Stopped, StopSignal
from orchestrator.core.text import duration
from orchestrator.core.trial import FinishedTrial, digest
from orchestrator.execution.gpu_presence import GpuQuestion, GpuUse, ask_nodes
from orchestrator.hardware import Look, Node, OtherProcesses, classify, observe_other_processes
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.objectives import open_limit
from orchestrator.planning.plan import AwaitedArm, Plan, PlannedArm, UnusableGpu, Waiting, make_plan
from orchestrator.planning.pricing import repriced
from orchestrator.scheduling import remaining
from orchestrator.scheduling.best_models import BestModels, log_models
from orchestrator.scheduling.dispatcher import Dispatcher
from orchestrator.scheduling.gpu_answers import GpuAnswers
from orchestrator.scheduling.node_wait import arms_worth_waiting_for, requests, wait_for_nodes
from orchestrator.scheduling.pulse import Pulse
from orchestrator.scheduling.recovery import Recovery
from orchestrator.scheduling.runnable import (
    expect_runnable,
    refuse_missing_data,
    replaced_baseline,
)
from orchestrator.scheduling.session import Session
from orchestrator.scheduling.study import STUDY_FILE, write_study
from orchestrator.scheduling.sweep_records import Generation, SweepRecords
from orchestrator.scheduling.watcher import Watcher
from orchestrator.spec import SweepSpec
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import Journal, SessionEnded
from orchestrator.storage.tracking.limits import ANSWER_LIMIT
from orchestrator.storage.tracking.recorder import Recorder
from orchestrator.storage.tracking.stored_records import MANIFEST, Answer
from orchestrator.storage.tracking.tracking_errors import LeaseHeld
from workloads.own_code import code_folders

if TYPE_CHECKING:
    from orchestrator.analysis.summary import ReportSummary
    from orchestrator.report.shown import Report


@dataclass(frozen=True, slots=True)
class _EndLimits:
    """How long the end of a start waits for its store: to record, read, report, and take models."""

    drain_s: float
    read_s: float | None
    close_s: float
    models_s: float


_END_LIMITS: Mapping[EndState, _EndLimits] = {
    "complete": _EndLimits(drain_s=300.0, read_s=None, close_s=60.0, models_s=300.0),
    # The next start records what is missing.
    "stopped": _EndLimits(drain_s=10.0, read_s=30.0, close_s=10.0, models_s=10.0),
}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run a sweep, as opposed to what the sweep is; `phase` gets what is done now.

    With `wait_quiet_s` the start waits so long at most until other processes leave the CPUs alone.
    `start` is what the user typed, for texts that say how to go on.
    """

    home: Path
    tracking_uri: str
    address: str | None = None
    fresh: bool = False
    retry_failed: bool = False
    same_code: bool = False
    take_over: bool = False
    wait_quiet_s: float | None = None
    start: StartCommand = UNKNOWN_START
    phase: Callable[[str], None] = logging.getLogger("rnnsweep").info


@dataclass(frozen=True, slots=True, repr=False)
class RunResult:
    """The result of a run; `print` and notebooks show its answer.

    Attributes:
        record: The sweep with all finished trials.
        stopped: Why the run ended early; None if it is complete.
        refused: The trials that MLflow rejected: their keys, with reasons.
        warnings: Models that MLflow did not take, or that the study for `optuna-dashboard` was not
            written; the next run tries again.
        summary: The numbers of the report; None if an earlier run made the same report.
    """

    record: SweepRecord
    stopped: Stopped | None
    refused: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    summary: ReportSummary | None = None

    def __repr__(self) -> str:
        """Return how the start ended."""
        because = ""
        if self.stopped:
            reason = self.stopped.reason
            because = f", stopped because {reason}" if reason else ", stopped by a signal"
        return f"<RunResult {self.record!r}{because}>"

    def __str__(self) -> str:
        """Return the answer of the report."""
        return str(self.report)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    @property
    def report(self) -> Report:
        """The report on the complete trials."""
        from orchestrator.report.render import summarise  # noqa: PLC0415  (SciPy)
        from orchestrator.report.shown import Report  # noqa: PLC0415

        return Report(self.summary or summarise(self.record))


def run_checked_sweep(
    spec: SweepSpec,
    options: RunOptions,
    *,
    stop: StopSignal,
    view: Callable[[Plan], Watcher],
    announce: Callable[[Plan, int], None],
) -> RunResult:
    """Run a sweep, or its missing trials.

    `stop` is set when the user wants to stop, and `view` makes the progress view.
    `announce` is called once, with the plan and its number of missing trials without the trials of
    `plan.awaited`, before the start waits for hardware or runs anything.

    Raise `Refusal` (`StillBusy` after a wait for a quiet machine), `BaselineError` or `Stopped` if
    nothing was run, `NotRecorded` if the store was too slow at the end (nothing is lost),
    `LeaseHeld` if another driver has taken over the sweep, and `TrackingError` if the store cannot
    be used.
    """
    with ExitStack() as cleanup:
        start = _begin(spec, options, stop, cleanup)
        if start.work.missing or start.awaited:
            stop.check()
            if not start.hardware.on_cluster:  # whose nodes have their own copies
                refuse_missing_data(spec)
            start.tell_other_processes()
            announce(start.work.running, start.work.missing)  # before a cloud node is asked for
            start.wait_until_quiet()
            start.wait_for_hardware()
        stopped = start.run(view)
        return _finish(start, stopped)


def _begin(spec: SweepSpec, options: RunOptions, stop: StopSignal, cleanup: ExitStack) -> _Start:
    """Lock the sweep, find its hardware, and open its journal and store; `cleanup` ends all that.

    A cluster is joined now; Ray on this machine starts only when a trial is missing.
    """
    folder = SweepFolder(options.home, spec.name)
    cleanup.enter_context(folder.lock())
    # The look and the recorder's start take seconds, which pass beside the next steps.
    look = Look() if options.address is None else None
    log = folder.path / "recorder.log"
    recorder = cleanup.enter_context(Recorder(options.tracking_uri, options.home, log))
    pulse = cleanup.enter_context(Pulse(folder, recorder, log))
    options = replace(options, phase=pulse.noting(options.phase))
    hardware = _Hardware(spec, options, stop, cleanup, look)
    plan = make_plan(spec, classify(hardware.nodes), "to come" if hardware.on_cluster else None)
    expect_runnable(spec, plan)  # before journal and store have anything of the sweep
    options.phase("Opening MLflow")
    generation = Generation.find(spec, folder, recorder, fresh=options.fresh)
    journal = cleanup.enter_context(Journal(generation.folder))
    pulse.journal = journal  # also the sign of life of a start that is refused has its trials
    records = SweepRecords.open(
        spec,
        plan,
        generation,
        journal,
        recorder,
        options.start,
        same_code=options.same_code,
        take_over=options.take_over,
    )
    return _Start(spec, options, stop, hardware, records, pulse, plan)


class _Hardware:
    """The nodes of a start: those of a cluster, which is joined at once, or this machine."""

    def __init__(
        self,
        spec: SweepSpec,
        options: RunOptions,
        stop: StopSignal,
        cleanup: ExitStack,
        look: Look | None,
    ) -> None:
        """Join the cluster, or describe this machine, whose other processes a `look` observes."""
        self.on_cluster = options.address is not None
        self._spec, self._options, self._stop, self._cleanup = spec, options, stop, cleanup
        self._look = look
        self.nodes = self._connect_to_ray() if self.on_cluster else connection.this_machine()

    def _connect_to_ray(self) -> tuple[Node, ...]:
        """Join the cluster, or start Ray here, until the end of this start; return the nodes."""
        self._options.phase("Joining the Ray cluster" if self.on_cluster else "Starting Ray")
        return self._cleanup.enter_context(
            connection.connect(
                self._options.address,
                self._spec.workload_name,
                may_be_empty=self._spec.may_wait,
                check=self._stop.check,
            )
        )

    def start_ray_here(self) -> None:
        """Start Ray on this machine; its nodes are those that Ray has found."""
        self._stop.check()
        self.nodes = self._connect_to_ray()

    def wait_for_nodes_of(self, awaited: Sequence[AwaitedArm]) -> None:
        """Ask for the nodes of awaited arms, and wait for them as long as the spec allows."""
        self._options.phase(f"Waiting for {', '.join({str(arm.entry) for arm in awaited})}")
        membership = Membership(self.nodes)
        wanted = requests(awaited, classify(self.nodes))
        with requested_nodes(wanted), membership.watching():
            self.nodes = wait_for_nodes(
                self._spec, lambda: membership.nodes, check=self._stop.check
            )

    def observe_other_processes(self, arms: Iterable[PlannedArm]) -> Mapping[str, OtherProcesses]:
        """Return what others take of the machines that run trials of these arms, by host name."""
        if self.on_cluster:
            nodes = {node.id: node for planned in arms for node in planned.hardware.nodes}
            return observe_nodes([*nodes.values()]) if nodes else {}
        look, self._look = self._look, None
        seen = look.result() if look is not None else observe_other_processes()
        return {self.nodes[0].profile.hostname: seen} if seen is not None else {}


class _Start:
    """A start of a sweep, whose journal and store are open, and what it still has to run.

    `failures` says which arms are stopped by their failures so far. `awaited` are the arms whose
    nodes the start waits for, or has waited for. `busy` is what others took of the machines when
    the start looked, None if they were quiet.
    """

    def __init__(
        self,
        spec: SweepSpec,
        options: RunOptions,
        stop: StopSignal,
        hardware: _Hardware,
        records: SweepRecords,
        pulse: Pulse,
        plan: Plan,
    ) -> None:
        self.spec, self.options, self.stop = spec, options, stop
        self.hardware, self.records, self.pulse = hardware, records, pulse
        self.work = self._remaining(plan)
        self.failures = self.work.failures
        self.awaited = arms_worth_waiting_for(self.work.plan, self.work.history)
        self.busy: str | None = None
        self.gpus = GpuAnswers(spec, self._ask_gpus, self._uses_of_gpus)

    def _remaining(self, plan: Plan) -> remaining.RemainingWork:
        """Return what of a plan is still to be run, by the journal's state."""
        return remaining.remaining_work(
            self.spec, plan, self.records.state, retry_failed=self.options.retry_failed
        )

    def tell_other_processes(self) -> None:
        """Look what other processes take of the machines that run trials, and tell it if much."""
        self.busy = describe_busy(self._other_processes(), self._busy_pct)
        if self.busy is not None:
            waits = self.options.wait_quiet_s is not None
            self.options.phase(start_line(self.busy, waits=waits))

    def wait_until_quiet(self) -> None:
        """Wait as long as the options allow; raise `StillBusy`, or `Stopped` at a signal."""
        if self.busy is not None and self.options.wait_quiet_s is not None:
            self.options.phase(
                f"Waiting for a quiet machine, at most {duration(self.options.wait_quiet_s)}"
            )
            with self.stop.at_once():
                wait_until_quiet(self._other_processes, self._busy_pct, self.options.wait_quiet_s)
            self.options.phase("The machine is quiet")
            self.busy = None

    @property
    def _busy_pct(self) -> float:
        return self.spec.disturbance_limits.others_cpu_pct

    def _other_processes(self) -> Mapping[str, OtherProcesses]:
        return self.hardware.observe_other_processes(self.work.running.possible)

    def wait_for_hardware(self) -> None:
        """Wait for awaited nodes, or start Ray on this machine; then plan on the nodes.

        Each node is asked whether the frameworks of its arms can use its GPUs.
        """
        if self.awaited:
            self.hardware.wait_for_nodes_of(self.awaited)
        elif not self.hardware.on_cluster:
            self.hardware.start_ray_here()
        found = classify(self.hardware.nodes)
        questions = self.gpus.questions(make_plan(self.spec, found, "over"))
        if questions:
            names = ", ".join(dict.fromkeys(question.backend for question in questions))
            self.options.phase(f"Asking {names} for the GPU")
        self.gpus.wait_for(questions)
        waiting: Waiting | None = None
        if self.hardware.on_cluster:
            waiting = "over" if self.awaited else "to come"
        self.work = self._remaining(make_plan(self.spec, found, waiting, self.gpus.unusable))
        expect_runnable(self.spec, self.work.plan)

    def _ask_gpus(self, questions: list[GpuQuestion]) -> list[UnusableGpu]:
        """Ask nodes whether the frameworks of their GPU arms can use the GPUs."""
        return ask_nodes(questions, on_cluster=self.hardware.on_cluster, check=self.stop.check)

    def _uses_of_gpus(self) -> set[GpuUse]:
        """Return where implementations have had trials of this sweep."""
        return {
            GpuUse(
                finished.trial.arm.implementation,
                finished.trial.arm.hardware_class.id,
                finished.outcome.node,
            )
            for finished in self.records.state.finished.values()
            if finished.outcome.status == "complete"
        }

    def run(self, view: Callable[[Plan], Watcher]) -> Stopped | None:
        """Record that this start begins, run the missing trials, and record how it ended."""
        plan, records = self.work.plan, self.records
        first_records = remaining.first_records(self.work, records.state)
        if first_records or self.awaited:
            records.declare(plan, self.failures.stopped, begun=bool(first_records))
        for record in first_records:
            records.journal.append(record)
        if not self.work.missing:
            return None
        with view(self.work.running) as watcher:
            self._tell(watcher)
            stopped = self._run_missing(watcher)
        # a full disk is the (reported) reason of a stop
        with contextlib.suppress(OSError) if stopped else contextlib.nullcontext():
            records.journal.append(SessionEnded(time.time(), "stopped" if stopped else "complete"))
        if stopped is None:
            if plan.ending == "open":
                begun = remaining.begun_index_count(records.state.blocks.values())
                plan = plan.with_index_count(begun)
            records.declare(plan, self.failures.stopped, begun=True)
        return stopped

    def _tell(self, watcher: Watcher) -> None:
        """Tell the view what is known before the first trial: what is unusual, and what counts."""
        watcher.busy = self.busy
        watcher.objectives, watcher.criteria = self.spec.directions(), self.spec.criteria()
        if changes := self.records.code_changes:
            watcher.warn(f"the workload's code has changed ({', '.join(changes)})")
        awaited = {arm.arm for arm in self.awaited}
        blind = {gpu.reason for gpu in self.gpus.unusable}
        late_arms = dict[str, list[str]]()
        for late in self.work.plan.impossible:
            if late.arm in awaited or late.reason in blind:
                late_arms.setdefault(late.reason, []).append(str(late.arm))
        for reason, names in late_arms.items():
            watcher.warn(f"{', '.join(names)}: {reason}")
        for node in self.hardware.nodes:  # other nodes run what one of them cannot
            if text := self.gpus.describe(node, late_arms):
                watcher.warn(f"node {node.profile.hostname}: {text}")
        for replaced in replaced_baseline(self.spec, self.work.plan):
            watcher.warn(replaced)

    def _run_missing(self, watcher: Watcher) -> Stopped | None:
        """Run the missing trials; return why that was stopped, if it was."""
        try:
            self._run_trials(watcher)
        except Stopped as stopped:
            return stopped
        return None

    def _run_trials(self, watcher: Watcher) -> None:
        """Run the missing trials; raise `Stopped` before all have ended, if that cannot be done."""
        self.options.phase("Loading Ray Tune")
        from orchestrator.scheduling.suggester import Suggester  # noqa: PLC0415
        from orchestrator.scheduling.tune_loop import run_trials  # noqa: PLC0415  (Ray Tune: seconds)

        spec, plan, records = self.spec, self.work.plan, self.records
        ledger, groups = self.work.new_ledger(), make_lanes(plan)
        self.failures = ledger.failures
        dispatcher = Dispatcher.begin(
            ledger,
            Suggester(spec.search, spec.seed),
            spec.search.objectives,
            groups,
            open_limit=open_limit(spec, plan, groups),
            baseline=spec.baseline,
        )
        dispatcher.restore(self.work.history)
        for event in self.work.history:
            if isinstance(event, FinishedTrial):
                watcher.count_trial(event.trial, event.outcome)
        aims = {name: objective.direction for name, objective in spec.search.objectives.items()}
        models = BestModels(records.models, aims, records.state.finished.values())
        session = Session(
            spec, dispatcher, records.journal, records.recorder.queue_trial, watcher, models
        )
        membership = Membership(self.hardware.nodes)
        on_cluster = self.hardware.on_cluster
        wait_s = spec.limits.node_wait_s if on_cluster else 0.0
        recovery = Recovery(session, membership, wait_s, self.gpus, is_shared=on_cluster)
        # on a cluster users' own workloads travel with the code bundle
        python_path = () if on_cluster else code_folders()
        try:
            with tune_folder() as folder, membership.watching():
                self.pulse.waits_for("Running trials")
                run_trials(recovery, folder, python_path, self._stop_if_asked)
        finally:
            if recovery.requested:
                withdraw_request()

    def _stop_if_asked(self) -> None:
        """Raise `Stopped` if the user stopped the sweep, or another driver has taken it over."""
        self.stop.check()
        if isinstance(trouble := self.records.recorder.trouble, LeaseHeld):
            raise Stopped(str(trouble))


def _finish(start: _Start, stopped: Stopped | None) -> RunResult:
    """Wait until everything is recorded, read it back, and store the report with it."""
    records, recorder = start.records, start.records.recorder
    state: EndState = "stopped" if stopped else "complete"
    limits = _END_LIMITS[state]
    start.options.phase("Recording the last trials in MLflow")
    warnings = _write_study(start)  # while the recorder's process records
    recorder.drain(
        limits.drain_s,
        patient=not stopped,
        on_trouble=lambda trouble: start.options.phase(f"Waiting for the store: {trouble}"),
    )
    record = replace(recorder.read(records.state.finished, timeout_s=limits.read_s), state=state)
    record = record.with_trials(repriced(record.trials, record.criteria.prices))
    report = _make_report(start, record)
    start.options.phase("Closing MLflow")
    if report is not None:
        recorder.close(state, report.texts, report.answer, timeout_s=limits.close_s)
    else:
        recorder.close(state, {}, None, timeout_s=limits.close_s)
    best = BestModels(records.models, record.objectives, record.trials).best_trials
    warnings += log_models(records.models, best, recorder.log_model, limits.models_s)
    summary = report.summary if report is not None else None
    return RunResult(record, stopped, recorder.refused, tuple(warnings), summary)


def _write_study(start: _Start) -> list[str]:
    """Write the study of the sweep for `optuna-dashboard`; return a warning if that failed."""
    records, folder = start.records, start.records.generation.folder
    if not records.journal.has_changed and (folder / STUDY_FILE).exists():
        return []  # Optuna's import would take a start that runs nothing another second
    arms = [arm for arm in start.work.plan.arms if arm not in start.failures.stopped]
    try:
        write_study(folder, start.spec, records.state, arms)
    except Exception as error:  # noqa: BLE001  (nothing else needs the study)
        with contextlib.suppress(OSError):
            (folder / STUDY_FILE).unlink(missing_ok=True)  # it lacks what this start ran
        return [
            f"{folder / STUDY_FILE}: not written: {one_line(error)}. The next start tries again"
        ]
    return []


@dataclass(frozen=True, slots=True)
class _MadeReport:
    """A report for the store: its `texts` by file name, and what MLflow shows of it."""

    summary: ReportSummary
    texts: Mapping[str, str]
    answer: Answer


def _make_report(start: _Start, record: SweepRecord) -> _MadeReport | None:
    """Return the report of a sweep; None if the store has one that was made from the same."""
    from orchestrator.report.formats import SUFFIXES  # noqa: PLC0415
    from orchestrator.report.formats.tracker_values import to_metrics, to_params  # noqa: PLC0415
    from orchestrator.report.render import render, summarise, to_short_markdown  # noqa: PLC0415

    spec, manifest = start.spec, start.records.declared.manifest
    space = spec.search.model_dump(mode="json", include={"space"}, exclude_defaults=True)
    trials = [(trial.key, trial.ended_s, trial.run_id) for trial in record.trials]
    declared = MANIFEST.dump(replace(manifest, current=manifest.running))
    source = digest([__version__, record.state, declared, space, spec.baseline, trials])
    if source == record.answered:
        return None
    summary = summarise(record)
    texts = {
        f"report{suffix}": render(summary, form, full=True) for form, suffix in SUFFIXES.items()
    }
    short = to_short_markdown(summary, ANSWER_LIMIT, "the artifacts report.html and report.md")
    params = to_params(summary, space.get("space", {}))
    return _MadeReport(summary, texts, Answer(short, to_metrics(summary), params, source))
