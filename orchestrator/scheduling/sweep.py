"""One start of a sweep, from its spec to its report.

`run_sweep` plans, asks for confirmation and runs; the details are in the modules next to it.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from orchestrator.cluster import autoscaler, connection
from orchestrator.cluster.membership import Membership
from orchestrator.core.disturbance import CanaryBaseline
from orchestrator.core.stop_signal import Stopped, StopSignal
from orchestrator.core.trial import FinishedTrial
from orchestrator.hardware import Node, classify
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.open_blocks import open_limit
from orchestrator.planning.plan import Plan, make_plan
from orchestrator.scheduling.blocks import Blocks
from orchestrator.scheduling.finish import RunResult, finish_sweep
from orchestrator.scheduling.node_wait import (
    arms_worth_waiting_for,
    requests,
    wait_for_nodes,
)
from orchestrator.scheduling.nodes import Fleet
from orchestrator.scheduling.preflight import expect_runnable
from orchestrator.scheduling.recovery import Recovery
from orchestrator.scheduling.remaining import (
    RemainingWork,
    begun_index_count,
    first_records,
    make_opening,
    remaining_work,
    stopping_rule,
)
from orchestrator.scheduling.sampler import Suggester
from orchestrator.scheduling.session import Session
from orchestrator.scheduling.suggestions import Suggestions
from orchestrator.scheduling.watcher import Watcher
from orchestrator.spec import SweepSpec
from orchestrator.storage import resume
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import Journal, SessionEnded
from orchestrator.storage.tracking.errors import LeaseHeld
from orchestrator.storage.tracking.recorder import Recorder
from orchestrator.storage.tracking.records import SweepOpening


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run a sweep, as opposed to what the sweep is."""

    home: Path
    tracking_uri: str
    address: str | None = None
    fresh: bool = False
    retry_failed: bool = False


def run_sweep(
    spec: SweepSpec,
    options: RunOptions,
    *,
    stop: StopSignal,
    view: Callable[[Plan], Watcher],
    confirm: Callable[[Plan, int], None],
) -> RunResult:
    """Run a sweep, or its missing trials.

    Args:
        spec: the sweep.
        options: where to run it, and whether to begin a new generation.
        stop: set when the user wants to stop.
        view: makes the progress view.
        confirm: called once, with the plan and its number of missing trials, before the start
            waits for hardware or runs anything; raises to decline. The arms of `plan.awaited` are
            not in that number.

    Raises:
        Refusal, BaselineError: nothing was run, and the message names what to change.
        Stopped: a signal came before anything was run.
    """
    with ExitStack() as cleanup:
        start = _Start(spec, options, stop, cleanup)
        if start.work.missing or start.awaited:
            confirm(start.work.plan, start.work.missing)  # before a cloud node is asked for
            start.wait_for_hardware()
        stopped = start.run(view)
        return finish_sweep(start.recorder, spec, start.identity, stopped)


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
        self.nodes = connection.this_machine()
        if self.on_cluster:
            self.nodes = _join(options.address, spec, stop, cleanup)
        plan = make_plan(spec, classify(self.nodes), "to come" if self.on_cluster else None)
        expect_runnable(spec, plan)
        log = folder.path / "recorder.log"
        self.recorder = cleanup.enter_context(Recorder(options.tracking_uri, options.home, log))
        self.before = None if options.fresh else self.recorder.find(spec.name)
        latest = self.recorder.latest_generation(spec.name)
        number = resume.generation(folder, latest, fresh=options.fresh)
        self.identity = resume.identify(spec, number)
        self.journal = cleanup.enter_context(Journal(folder.generation(number)))
        self.state = resume.take_over(self.journal, self.before, self.identity, spec)
        resumed = plan.resumed_from(self.state.blocks.values())
        self.opened = make_opening(spec, resumed, self.identity, self.before)
        stored = self.recorder.open(self.opened)
        resume.merge_stored(self.journal, stored)
        for finished in resume.unrecorded_trials(self.state, stored):
            self.recorder.put(finished)
        self.work = self._remaining(plan)
        self.awaited = arms_worth_waiting_for(self.work.plan, self.work.history)

    def wait_for_hardware(self) -> None:
        """Wait for awaited nodes, or start Ray on this machine; then plan on the nodes."""
        if self.awaited:
            membership = Membership(self.nodes)
            wanted = requests(self.awaited, classify(self.nodes))
            with autoscaler.requested_nodes(wanted), membership.watching():
                self.nodes = wait_for_nodes(
                    self.spec, lambda: membership.nodes, check=self.stop.check
                )
        elif not self.on_cluster:
            self.stop.check()
            self.nodes = _join(None, self.spec, self.stop, self.cleanup)
        else:
            return
        plan = make_plan(self.spec, classify(self.nodes), "over" if self.on_cluster else None)
        self.work = self._remaining(plan)
        expect_runnable(self.spec, self.work.plan)

    def run(self, view: Callable[[Plan], Watcher]) -> Stopped | None:
        """Record that this start begins, run the missing trials, and record how it ended."""
        plan = self.work.plan
        records = first_records(self.work, self.state)
        if records or self.awaited:
            self._declare(plan, begun=bool(records))
        for record in records:
            self.journal.append(record)
        if not self.work.missing:
            return None
        with view(plan) as watcher:
            awaited = {arm.arm for arm in self.awaited}
            for late in plan.impossible:
                if late.arm in awaited:
                    watcher.warn(f"{late.arm}: {late.reason}")
            stopped = self._run_missing(watcher)
        # a full disk is the (reported) reason of a stop
        with contextlib.suppress(OSError) if stopped else contextlib.nullcontext():
            self.journal.append(SessionEnded(time.time(), "stopped" if stopped else "complete"))
        if stopped is None and plan.auto is not None:
            blocks = begun_index_count(self.state.blocks.values())
            self._declare(plan.with_block_count(blocks), begun=True)
        return stopped

    def _remaining(self, plan: Plan) -> RemainingWork:
        retry_failed = self.options.retry_failed
        return remaining_work(self.spec, plan, self.state, retry_failed=retry_failed)

    def _declare(self, plan: Plan, *, begun: bool) -> None:
        """Declare the sweep's arms and blocks to the store, unless it has the same already."""
        opening = make_opening(self.spec, plan, self.identity, self.before, begun=begun)
        if _extent(opening) != _extent(self.opened):
            self.recorder.open(opening)
            self.opened = opening

    def _run_missing(self, watcher: Watcher) -> Stopped | None:
        """Run the trials without an outcome; return what stopped them before the end."""
        from orchestrator.scheduling.tune_loop import run_trials  # noqa: PLC0415  (Ray Tune: seconds)

        spec, plan = self.spec, self.work.plan
        groups = make_lanes(plan)
        suggestions = Suggestions(
            plan,
            Suggester(spec.search, spec.seed),
            spec.search.objectives,
            stopping_rule(spec, plan),
        )
        limit = open_limit(spec, plan, groups)
        blocks = Blocks(self.identity, plan, groups, suggestions, limit, spec.baseline)
        blocks.restore(self.work.history)
        for event in self.work.history:
            if isinstance(event, FinishedTrial):
                watcher.trial_restored(event.trial, event.outcome)
        session = Session(
            spec,
            blocks,
            self.journal,
            self.recorder.put,
            watcher,
            self.identity.data_digest,
            CanaryBaseline().learn(list(self.state.finished.values())),
        )
        membership = Membership(self.nodes)
        recovery = Recovery(
            session,
            Fleet(spec, plan, self.nodes, watcher.warn),
            membership,
            wait_s=spec.limits.node_wait_s if self.on_cluster else 0.0,
            ask_for=autoscaler.request_nodes,
        )
        path = _python_path(on_cluster=self.on_cluster)
        scratch = tempfile.TemporaryDirectory(prefix="rnnsweep-tune-")
        try:
            with scratch as folder, membership.watching():
                run_trials(
                    session, recovery, folder=Path(folder), python_path=path, check=self._check
                )
        except Stopped as stopped:
            return stopped
        finally:
            if recovery.has_asked:
                autoscaler.withdraw_request()
        return None

    def _check(self) -> None:
        self.stop.check()
        if isinstance(self.recorder.trouble, LeaseHeld):
            raise Stopped(str(self.recorder.trouble))


def _join(
    address: str | None, spec: SweepSpec, stop: StopSignal, cleanup: ExitStack
) -> tuple[Node, ...]:
    cluster = connection.connect(address, spec.workload, may_be_empty=spec.may_wait)
    nodes = cleanup.enter_context(cluster)
    stop.listen()  # Ray has taken the signals
    return nodes


def _extent(opening: SweepOpening) -> object:
    manifest = opening.manifest
    return manifest.arms, manifest.impossible, frozenset(manifest.running), manifest.blocks


def _python_path(*, on_cluster: bool) -> tuple[str, ...]:
    """Return where to import users' own workloads from: the current folder, as `python -m` does.

    On a cluster these modules travel with the code bundle (`orchestrator.cluster.code_bundle`).
    """
    return () if on_cluster else (str(Path.cwd()),)
