"""One start of a sweep, from its spec to its report.

`run_sweep` is a chain of phases. Each phase takes the state of the start and returns the next one.
The driver plans, asks for confirmation and runs here; the details are in the modules next to it.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from orchestrator.cluster import autoscaler, connection
from orchestrator.cluster.membership import Membership
from orchestrator.core.disturbance import CanaryBaseline
from orchestrator.core.stop_signal import Stopped, StopSignal
from orchestrator.core.trial import FinishedTrial, ImpossibleArm, SweepIdentity
from orchestrator.hardware import Node, classify
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.open_blocks import open_limit
from orchestrator.planning.plan import AwaitedArm, Plan, make_plan
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
from orchestrator.storage.journal import Journal, SessionEnded, SweepState
from orchestrator.storage.tracking.errors import LeaseHeld
from orchestrator.storage.tracking.recorder import Recorder
from orchestrator.storage.tracking.records import Manifest, SweepOpening


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run a sweep, as opposed to what the sweep is."""

    home: Path
    tracking_uri: str
    address: str | None = None
    fresh: bool = False
    retry_failed: bool = False


@dataclass(frozen=True, slots=True)
class _Connected:
    """A start whose hardware is known. Nothing of the sweep has been read or written yet.

    `cleanup` leaves the cluster, closes the files and releases the lock at the end of the start.
    """

    spec: SweepSpec
    options: RunOptions
    stop: StopSignal
    cleanup: ExitStack
    folder: SweepFolder
    nodes: tuple[Node, ...]
    plan: Plan

    @property
    def on_cluster(self) -> bool:
        """Return whether the start joins a cluster, instead of starting Ray on this machine."""
        return self.options.address is not None


@dataclass(frozen=True, slots=True)
class _Resumed:
    """A start that has read what earlier starts of the sweep left.

    `state` is the journal's, and follows it. `before` and `opened` are the tracking store's: what
    it had of the sweep, and what this start last declared to it. `awaited` are the arms whose nodes
    the start waits for, or has waited for.
    """

    start: _Connected
    recorder: Recorder
    journal: Journal
    identity: SweepIdentity
    before: Manifest | None
    state: SweepState
    opened: SweepOpening
    work: RemainingWork
    awaited: tuple[AwaitedArm, ...]
    stopped: Stopped | None = None

    @property
    def late(self) -> tuple[ImpossibleArm, ...]:
        """Return the awaited arms whose node did not come in time."""
        awaited = {arm.arm for arm in self.awaited}
        return tuple(arm for arm in self.work.plan.impossible if arm.arm in awaited)


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
        sweep = _resume(_connect(spec, options, stop, cleanup))
        if sweep.work.missing or sweep.awaited:
            confirm(sweep.work.plan, sweep.work.missing)  # before a cloud node is asked for
            sweep = _wait_for_hardware(sweep)
        sweep = _run(sweep, view)
        return finish_sweep(sweep.recorder, spec, sweep.identity, sweep.stopped)


def _connect(
    spec: SweepSpec, options: RunOptions, stop: StopSignal, cleanup: ExitStack
) -> _Connected:
    """Lock the sweep, list the nodes, and refuse a spec that cannot run on them.

    A cluster is joined now; Ray on this machine starts only when a trial is missing.
    """
    folder = SweepFolder(options.home, spec.name)
    cleanup.enter_context(folder.lock())
    nodes = connection.this_machine()
    if options.address is not None:
        nodes = _join(options.address, spec, stop, cleanup)
    plan = make_plan(spec, classify(nodes), "to come" if options.address is not None else None)
    expect_runnable(spec, plan)
    return _Connected(spec, options, stop, cleanup, folder, nodes, plan)


def _join(
    address: str | None, spec: SweepSpec, stop: StopSignal, cleanup: ExitStack
) -> tuple[Node, ...]:
    cluster = connection.connect(address, spec.workload, may_be_empty=spec.may_wait)
    nodes = cleanup.enter_context(cluster)
    stop.listen()  # Ray has taken the signals
    return nodes


def _resume(start: _Connected) -> _Resumed:
    """Open the journal and the store, bring them to agree, and find the remaining work."""
    spec, options = start.spec, start.options
    log = start.folder.path / "recorder.log"
    recorder = start.cleanup.enter_context(Recorder(options.tracking_uri, options.home, log))
    before = None if options.fresh else recorder.find(spec.name)
    latest = recorder.latest_generation(spec.name)
    number = resume.generation(start.folder, latest, fresh=options.fresh)
    identity = resume.identify(spec, number)
    journal = start.cleanup.enter_context(Journal(start.folder.generation(number)))
    state = resume.take_over(journal, before, identity, spec)
    plan = start.plan.resumed_from(state.blocks.values())
    opened = make_opening(spec, plan, identity, before)
    stored = recorder.open(opened)
    resume.merge_stored(journal, stored)
    for finished in resume.unrecorded_trials(state, stored):
        recorder.put(finished)
    work = remaining_work(spec, start.plan, state, retry_failed=options.retry_failed)
    awaited = arms_worth_waiting_for(work.plan, work.history)
    return _Resumed(start, recorder, journal, identity, before, state, opened, work, awaited)


def _wait_for_hardware(sweep: _Resumed) -> _Resumed:
    """Wait for awaited nodes, or start Ray on this machine; then plan on the nodes there are."""
    start = sweep.start
    if sweep.awaited:
        nodes = _await_nodes(start, sweep.awaited)
    elif not start.on_cluster:
        start.stop.check()
        nodes = _join(None, start.spec, start.stop, start.cleanup)
    else:
        return sweep
    plan = make_plan(start.spec, classify(nodes), "over" if start.on_cluster else None)
    retry_failed = start.options.retry_failed
    work = remaining_work(start.spec, plan, sweep.state, retry_failed=retry_failed)
    expect_runnable(start.spec, work.plan)
    return replace(sweep, start=replace(start, nodes=nodes, plan=plan), work=work)


def _await_nodes(start: _Connected, awaited: tuple[AwaitedArm, ...]) -> tuple[Node, ...]:
    membership = Membership(start.nodes)
    wanted = requests(awaited, classify(start.nodes))
    with autoscaler.requested_nodes(wanted), membership.watching():
        return wait_for_nodes(start.spec, lambda: membership.nodes, check=start.stop.check)


def _run(sweep: _Resumed, view: Callable[[Plan], Watcher]) -> _Resumed:
    """Record that this start begins, run the missing trials, and record how it ended."""
    records = first_records(sweep.work, sweep.state)
    if records or sweep.awaited:
        sweep = _declare(sweep, sweep.work.plan, begun=bool(records))
    for record in records:
        sweep.journal.append(record)
    if not sweep.work.missing:
        return sweep
    with view(sweep.work.plan) as watcher:
        for late in sweep.late:
            watcher.warn(f"{late.arm}: {late.reason}")
        stopped = _run_missing(sweep, watcher)
    _end_session(sweep.journal, "stopped" if stopped else "complete")
    if stopped is None and sweep.work.plan.auto is not None:
        blocks = begun_index_count(sweep.state.blocks.values())
        sweep = _declare(sweep, sweep.work.plan.with_block_count(blocks), begun=True)
    return replace(sweep, stopped=stopped)


def _declare(sweep: _Resumed, plan: Plan, *, begun: bool) -> _Resumed:
    """Declare the sweep's arms and blocks to the store, unless it has the same already."""
    start = sweep.start
    opening = make_opening(start.spec, plan, sweep.identity, sweep.before, begun=begun)
    if _extent(opening) == _extent(sweep.opened):
        return sweep
    sweep.recorder.open(opening)
    return replace(sweep, opened=opening)


def _extent(opening: SweepOpening) -> object:
    manifest = opening.manifest
    return manifest.arms, manifest.impossible, frozenset(manifest.running), manifest.blocks


def _run_missing(sweep: _Resumed, watcher: Watcher) -> Stopped | None:
    """Run the trials without an outcome; return what stopped them before the end, if anything."""
    from orchestrator.scheduling.tune_loop import run_trials  # noqa: PLC0415  (imports Ray Tune: seconds)

    start, spec, work = sweep.start, sweep.start.spec, sweep.work
    groups = make_lanes(work.plan)
    suggestions = Suggestions(
        work.plan,
        Suggester(spec.search, spec.seed),
        spec.search.objectives,
        stopping_rule(spec, work.plan),
    )
    limit = open_limit(spec, work.plan, groups)
    blocks = Blocks(sweep.identity, work.plan, groups, suggestions, limit, spec.baseline)
    blocks.restore(work.history)
    for event in work.history:
        if isinstance(event, FinishedTrial):
            watcher.trial_restored(event.trial, event.outcome)
    session = Session(
        spec,
        blocks,
        sweep.journal,
        sweep.recorder.put,
        watcher,
        sweep.identity.data_digest,
        CanaryBaseline().learn(list(sweep.state.finished.values())),
    )

    def check() -> None:
        start.stop.check()
        if isinstance(sweep.recorder.trouble, LeaseHeld):
            raise Stopped(str(sweep.recorder.trouble))

    membership = Membership(start.nodes)
    recovery = Recovery(
        session,
        Fleet(spec, work.plan, start.nodes, watcher.warn),
        membership,
        wait_s=spec.limits.node_wait_s if start.on_cluster else 0.0,
        ask_for=autoscaler.request_nodes,
    )
    try:
        with (
            tempfile.TemporaryDirectory(prefix="rnnsweep-tune-") as scratch,
            membership.watching(),
        ):
            path = _python_path(on_cluster=start.on_cluster)
            run_trials(session, recovery, folder=Path(scratch), python_path=path, check=check)
    except Stopped as stopped:
        return stopped
    finally:
        if recovery.has_asked:
            autoscaler.withdraw_request()
    return None


def _end_session(journal: Journal, state: Literal["stopped", "complete"]) -> None:
    """Write the end of the session, unless a full disk is the (reported) reason of the stop."""
    with contextlib.suppress(OSError) if state == "stopped" else contextlib.nullcontext():
        journal.append(SessionEnded(time.time(), state))


def _python_path(*, on_cluster: bool) -> tuple[str, ...]:
    """Return where to import users' own workloads from: the current folder, as `python -m` does.

    On a cluster these modules travel with the code bundle (`orchestrator.cluster.code_bundle`).
    """
    return () if on_cluster else (str(Path.cwd()),)
