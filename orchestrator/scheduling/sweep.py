"""One start of a sweep, from its spec to its report: plan, confirm, run, store a report."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orchestrator import __version__
from orchestrator.cluster import connection
from orchestrator.cluster.membership import Membership, requested_nodes, withdraw_request
from orchestrator.core.records import SweepRecord
from orchestrator.core.stop_signal import Stopped, StopSignal
from orchestrator.core.trial import FinishedTrial, digest
from orchestrator.hardware import Node, classify
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.objectives import open_limit
from orchestrator.planning.plan import Plan, make_plan
from orchestrator.scheduling import remaining
from orchestrator.scheduling.best_models import BestModels, log_models
from orchestrator.scheduling.dispatcher import Dispatcher
from orchestrator.scheduling.node_wait import arms_worth_waiting_for, requests, wait_for_nodes
from orchestrator.scheduling.recovery import Recovery
from orchestrator.scheduling.runnable import expect_runnable
from orchestrator.scheduling.session import Session
from orchestrator.scheduling.watcher import Watcher
from orchestrator.spec import SweepSpec
from orchestrator.storage import resume
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import Journal, SessionEnded
from orchestrator.storage.tracking.errors import LeaseHeld
from orchestrator.storage.tracking.recorder import Recorder
from orchestrator.storage.tracking.records import ANSWER_LIMIT, MANIFEST, Answer, SweepOpening

if TYPE_CHECKING:
    from orchestrator.analysis.summary import ReportSummary

_DRAIN_S, _CLOSE_S = 300.0, 60.0
"""How long a complete sweep waits for its tracking store, also with models; and with its report."""

_STOPPED_DRAIN_S, _STOPPED_READ_S = 10.0, 30.0
"""How long a stopped sweep waits: the next start records what is missing."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run a sweep, as opposed to what the sweep is; `phase` gets what is done now."""

    home: Path
    tracking_uri: str
    address: str | None = None
    fresh: bool = False
    retry_failed: bool = False
    same_code: bool = False
    take_over: bool = False
    phase: Callable[[str], None] = logging.getLogger("rnnsweep").info


@dataclass(frozen=True, slots=True)
class RunResult:
    """The end of a start of a sweep.

    `record` is what the store has now; `refused` are the reasons, by trial key, why it never takes
    some trials. `warnings` name the models that it has not taken; the next start tries again.
    `summary` is what the report says, if this start made a report: an earlier start may have made
    the same report.
    """

    record: SweepRecord
    stopped: Stopped | None
    refused: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    summary: ReportSummary | None = None


def run_checked_sweep(
    spec: SweepSpec,
    options: RunOptions,
    *,
    stop: StopSignal,
    view: Callable[[Plan], Watcher],
    confirm: Callable[[Plan, int], None],
) -> RunResult:
    """Run a sweep, or its missing trials.

    `stop` is set when the user wants to stop, and `view` makes the progress view. `confirm` is
    called once, with the plan and its number of missing trials without the trials of
    `plan.awaited`, before the start waits for hardware or runs anything; it raises to decline.

    Raise `Refusal`, `BaselineError` or `Stopped` if nothing was run, `NotRecorded` if the store was
    too slow at the end (nothing is lost), `LeaseHeld` if another driver has taken over the sweep,
    and `TrackingError` if the store cannot be used.
    """
    with ExitStack() as cleanup:
        start = _Start(spec, options, stop, cleanup)
        if start.work.missing or start.awaited:
            confirm(start.work.running, start.work.missing)  # before a cloud node is asked for
            start.wait_for_hardware()
        stopped = start.run(view)
        return _finish(start, stopped)


class _Start:
    """A start of a sweep: its hardware, and what earlier starts left.

    `state` is the journal's, and follows it. `before` and `opened` are the tracking store's: what
    it had of the sweep, and what this start last declared to it. `awaited` are the arms whose nodes
    the start waits for, or has waited for.
    """

    def __init__(
        self, spec: SweepSpec, options: RunOptions, stop: StopSignal, cleanup: ExitStack
    ) -> None:
        """Lock the sweep, find its hardware, open journal and store, and bring them to agree.

        A cluster is joined now; Ray on this machine starts only when a trial is missing. `cleanup`
        leaves the cluster, closes the files and releases the lock.
        """
        self.spec, self.options, self.stop, self.cleanup = spec, options, stop, cleanup
        self.on_cluster = options.address is not None
        folder = SweepFolder(options.home, spec.name)
        cleanup.enter_context(folder.lock())
        log = folder.path / "recorder.log"
        recorder = Recorder(options.tracking_uri, options.home, log)  # its start takes seconds
        self.recorder = cleanup.enter_context(recorder)
        self.nodes = self._connect_to_ray() if self.on_cluster else connection.this_machine()
        plan = make_plan(spec, classify(self.nodes), "to come" if self.on_cluster else None)
        expect_runnable(spec, plan)
        options.phase("Opening MLflow")
        latest, self.before, stored_id = self.recorder.find(spec.name, fresh=options.fresh)
        number = resume.generation(folder, latest, fresh=options.fresh)
        self.identity = resume.identify(spec, number)
        self.journal = cleanup.enter_context(Journal(folder.generation(number)))
        self.models = folder.generation(number) / "models"
        before = self.journal.state.identity if self.journal.state else self.identity
        self.code_changes = before.code_changes(self.identity)
        self.state = resume.take_over(
            self.journal,
            self.before,
            self.identity,
            spec,
            same_code=options.same_code,
            sweep_id=stored_id if number == latest else "",
        )
        resumed = plan.resumed_from(self.state.blocks.values())
        self.opened = self._opening(resumed, begun=False)
        had = {key: finished.ended_s for key, finished in self.state.finished.items()}
        opening = replace(self.opened, takes_over=options.take_over)
        stored, lacking = self.recorder.open(opening, had)
        resume.merge_stored(self.journal, stored)
        for key in lacking:
            self.recorder.queue_trial(self.state.finished[key])
        self.work = self._remaining(plan)
        self.failures = self.work.failures
        self.awaited = arms_worth_waiting_for(self.work.plan, self.work.history)

    def wait_for_hardware(self) -> None:
        """Wait for awaited nodes, or start Ray on this machine; then plan on the nodes."""
        if self.awaited:
            membership = Membership(self.nodes)
            wanted = requests(self.awaited, classify(self.nodes))
            self.options.phase(f"Waiting for {', '.join({str(arm.entry) for arm in self.awaited})}")
            with requested_nodes(wanted), membership.watching():
                self.nodes = wait_for_nodes(
                    self.spec, lambda: membership.nodes, check=self.stop.check
                )
        elif not self.on_cluster:
            self.stop.check()
            self.nodes = self._connect_to_ray()
        else:
            return
        plan = make_plan(self.spec, classify(self.nodes), "over" if self.on_cluster else None)
        self.work = self._remaining(plan)
        expect_runnable(self.spec, self.work.plan)

    def run(self, view: Callable[[Plan], Watcher]) -> Stopped | None:
        """Record that this start begins, run the missing trials, and record how it ended."""
        plan = self.work.plan
        records = remaining.first_records(self.work, self.state)
        if records or self.awaited:
            self._update_opening(plan, begun=bool(records))
        for record in records:
            self.journal.append(record)
        if not self.work.missing:
            return None
        with view(self.work.running) as watcher:
            if self.code_changes:
                watcher.warn(f"the workload's code has changed ({', '.join(self.code_changes)})")
            awaited = {arm.arm for arm in self.awaited}
            for late in plan.impossible:
                if late.arm in awaited:
                    watcher.warn(f"{late.arm}: {late.reason}")
            stopped = self._run_missing(watcher)
        # a full disk is the (reported) reason of a stop
        with contextlib.suppress(OSError) if stopped else contextlib.nullcontext():
            self.journal.append(SessionEnded(time.time(), "stopped" if stopped else "complete"))
        if stopped is None:
            if plan.ending == "open":
                begun = remaining.begun_index_count(self.state.blocks.values())
                plan = plan.with_index_count(begun)
            self._update_opening(plan, begun=True)
        return stopped

    def _connect_to_ray(self) -> tuple[Node, ...]:
        """Join the cluster, or start Ray here, until the end of this start; return the nodes."""
        self.options.phase("Joining the Ray cluster" if self.on_cluster else "Starting Ray")
        nodes = self.cleanup.enter_context(
            connection.connect(
                self.options.address, self.spec.workload_name, may_be_empty=self.spec.may_wait
            )
        )
        self.stop.listen()  # Ray has taken the signals
        return nodes

    def _remaining(self, plan: Plan) -> remaining.RemainingWork:
        """Return what of a plan is still to be run, by the journal's state."""
        retry_failed = self.options.retry_failed
        return remaining.remaining_work(self.spec, plan, self.state, retry_failed=retry_failed)

    def _opening(self, plan: Plan, *, begun: bool) -> SweepOpening:
        """Return what the store is told of the sweep; `begun` if this start runs trials."""
        return remaining.make_opening(
            self.spec, plan, self.identity, self.before, sweep_id=self.state.sweep_id, begun=begun
        )

    def _update_opening(self, plan: Plan, *, begun: bool) -> None:
        """Tell the store the arms and the number of blocks again, if they have changed."""
        # Stopped arms are not current: comparisons of the others do not wait for their rounds.
        opening = self._opening(plan, begun=begun)
        current = (arm for arm in opening.manifest.current if arm not in self.failures.stopped)
        opening = replace(opening, manifest=replace(opening.manifest, current=tuple(current)))
        if _extent(opening) != _extent(self.opened):
            self.recorder.open(opening)
            self.opened = opening

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

        spec, plan = self.spec, self.work.plan
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
        models = BestModels(self.models, aims, self.state.finished.values())
        session = Session(
            spec, dispatcher, self.journal, self.recorder.queue_trial, watcher, models
        )
        membership = Membership(self.nodes)
        wait_s = spec.limits.node_wait_s if self.on_cluster else 0.0
        recovery = Recovery(session, membership, wait_s)
        # on a cluster users' own workloads travel with the code bundle
        python_path = () if self.on_cluster else (str(Path.cwd()),)
        scratch = tempfile.TemporaryDirectory(prefix="rnnsweep-tune-")
        try:
            with scratch as folder, membership.watching():
                connection.mark(Path(folder))
                run_trials(recovery, Path(folder), python_path, self._check)
        finally:
            if recovery.requested:
                withdraw_request()

    def _check(self) -> None:
        """Raise `Stopped` if the user has stopped the sweep, or another start records it now."""
        self.stop.check()
        if isinstance(self.recorder.trouble, LeaseHeld):
            raise Stopped(str(self.recorder.trouble))


def _extent(opening: SweepOpening) -> object:
    """Return what of an opening the store is to have again when it changes."""
    manifest = opening.manifest
    return manifest.arms, manifest.impossible, frozenset(manifest.running), manifest.blocks


def _finish(start: _Start, stopped: Stopped | None) -> RunResult:
    """Wait until everything is recorded, read it back, and store the report with it."""
    from orchestrator.report.formats.mlflow_values import to_metrics, to_params  # noqa: PLC0415
    from orchestrator.report.render import render, summarise, to_short_markdown  # noqa: PLC0415

    recorder, spec = start.recorder, start.spec
    start.options.phase("Recording the last trials in MLflow")
    recorder.drain(_STOPPED_DRAIN_S if stopped else _DRAIN_S, patient=not stopped)
    state: Literal["stopped", "complete"] = "stopped" if stopped else "complete"
    limit_s = _STOPPED_READ_S if stopped else None
    record = replace(recorder.read(start.state.finished, timeout_s=limit_s), state=state)
    space = spec.search.model_dump(mode="json", include={"space"}, exclude_defaults=True)
    trials = [(trial.key, trial.ended_s, trial.run_id) for trial in record.trials]
    manifest = start.opened.manifest
    declared = MANIFEST.dump(replace(manifest, current=manifest.running))
    source = digest([__version__, state, declared, space, spec.baseline, trials])
    summary, reports, answer = None, dict[str, str](), None
    if source != record.answered:
        summary = summarise(record, spec.baseline)
        short = to_short_markdown(summary, ANSWER_LIMIT, "the artifacts report.html and report.md")
        reports = {
            "report.md": render(summary, "markdown"),
            "report.txt": render(summary, "text", full=True),
            "report.json": render(summary, "json"),
            "report.html": render(summary, "html"),
        }
        answer = Answer(
            short.partition("\n\n")[2],  # without the title, which is the run's name
            to_metrics(summary),
            to_params(summary, space.get("space", {})),
            source,
        )
    start.options.phase("Closing MLflow")
    timeout_s = _STOPPED_DRAIN_S if stopped else _CLOSE_S
    recorder.close(state, reports, answer, timeout_s=timeout_s)
    models_s = _STOPPED_DRAIN_S if stopped else _DRAIN_S
    warnings = log_models(start.models, record.trials, recorder.log_model, models_s)
    return RunResult(record, stopped, recorder.refused, tuple(warnings), summary)
