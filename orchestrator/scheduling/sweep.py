"""The story of a sweep, from its spec to its report, to be read from top to bottom."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orchestrator.cluster import autoscaler, connection
from orchestrator.cluster.membership import Membership
from orchestrator.core.disturbance import CanaryBaseline
from orchestrator.core.stop_signal import Stopped, StopSignal
from orchestrator.core.trial import FinishedTrial, SweepIdentity
from orchestrator.hardware import Node, classify
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.open_blocks import open_limit
from orchestrator.planning.plan import AwaitedArm, Plan, make_plan
from orchestrator.scheduling.blocks import Blocks, PrecisionPolicy
from orchestrator.scheduling.finish import RunResult, conclude
from orchestrator.scheduling.node_wait import arms_worth_waiting_for, requests, wait_for_nodes
from orchestrator.scheduling.nodes import Fleet
from orchestrator.scheduling.preflight import expect_runnable
from orchestrator.scheduling.recovery import Recovery
from orchestrator.scheduling.remaining import (
    RemainingWork,
    begun_index_count,
    first_records,
    opening,
    remaining_work,
    stopping_rule,
)
from orchestrator.scheduling.sampler import Suggester
from orchestrator.scheduling.session import Session, Watcher
from orchestrator.spec import SweepSpec
from orchestrator.storage import resume
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import Journal, SessionEnded, SweepState, read, replay
from orchestrator.storage.tracking.errors import LeaseHeld
from orchestrator.storage.tracking.recorder import Recorder


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a sweep is to be run, as opposed to what it is."""

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
    """Run a sweep, or what is missing of it.

    Args:
        spec: the sweep.
        options: where, and whether to start anew.
        stop: set when the user wants to stop.
        view: makes what shows the progress.
        confirm: called with the plan and the number of missing trials before anything runs;
            raises to decline.

    Raises:
        Refusal, BaselineError: nothing was run, and the message says what to change.
        Stopped: nothing was run, a signal came first.
    """
    folder = SweepFolder(options.home, spec.name)
    with ExitStack() as stack:
        stack.enter_context(folder.lock())
        nodes = connection.this_machine()
        if options.address is not None:
            nodes = _connect(stack, options.address, spec, stop)
        on_cluster = options.address is not None
        plan = make_plan(spec, classify(nodes), "to come" if on_cluster else None)
        expect_runnable(spec, plan)

        recorder = stack.enter_context(
            Recorder(options.tracking_uri, options.home, folder.path / "recorder.log")
        )
        found = recorder.find(spec.name, trials=False)
        number = resume.generation(folder, found, fresh=options.fresh)
        identity = resume.identify(spec, number)
        journal = stack.enter_context(Journal.open(folder.generation(number)))
        records = resume.take_over(journal, found, identity, spec)
        going_on = plan.resumed_from(resume.suggested(records))
        told = opening(spec, going_on, identity, found, options.home)
        stored = recorder.open(told)
        state = resume.agree(journal, records, stored)
        for each in resume.unrecorded(state, stored):
            recorder.put(each)

        left = remaining_work(spec, plan, state, retry_failed=options.retry_failed)
        stopped = None
        if awaited := arms_worth_waiting_for(left.plan, left.past):
            confirm(left.plan, left.missing)
            nodes, plan = _wait(spec, nodes, awaited, stop)
            left = remaining_work(spec, plan, state, retry_failed=options.retry_failed)
            expect_runnable(spec, left.plan)
            recorder.open(told := opening(spec, left.plan, identity, found, options.home))
        if left.missing:
            confirm(left.plan, left.missing)
            if options.address is None:
                stop.check()
                nodes = _connect(stack, None, spec, stop)
                plan = make_plan(spec, classify(nodes))
                left = remaining_work(spec, plan, state, retry_failed=options.retry_failed)
        if added := first_records(left, state):
            begun = opening(spec, left.plan, identity, found, options.home, begun=True)
            if set(begun.running) != set(told.running):
                recorder.open(begun)
        for record in added:
            journal.append(record)
        if left.missing:
            with view(left.plan) as watcher:
                start = _Start(
                    spec, identity, state, left, nodes, journal, recorder, watcher, on_cluster
                )
                stopped = _run_missing(start, stop)
            _end_session(journal, "stopped" if stopped else "complete")
            if stopped is None and left.plan.auto is not None:
                now = replay(read(journal.path.parent))
                plan = left.plan.with_block_count(
                    begun_index_count(now.blocks.values()) if now else 0
                )
                recorder.open(opening(spec, plan, identity, found, options.home, begun=True))
        return conclude(recorder, spec, identity, stopped)


@dataclass(frozen=True, slots=True)
class _Start:
    """What one start of a sweep works with, once Ray is there."""

    spec: SweepSpec
    identity: SweepIdentity
    state: SweepState
    left: RemainingWork
    nodes: tuple[Node, ...]
    journal: Journal
    recorder: Recorder
    watcher: Watcher
    on_cluster: bool


def _connect(
    stack: ExitStack, address: str | None, spec: SweepSpec, stop: StopSignal
) -> tuple[Node, ...]:
    found = connection.connect(address, spec.workload, may_be_empty=spec.may_wait)
    nodes = stack.enter_context(found)
    stop.listen()
    return nodes


def _wait(
    spec: SweepSpec, nodes: tuple[Node, ...], awaited: Sequence[AwaitedArm], stop: StopSignal
) -> tuple[tuple[Node, ...], Plan]:
    """Have the nodes started that the spec waits for; those that are there then, and their plan."""
    membership = Membership(nodes)
    with autoscaler.asked_for(requests(awaited)), membership.watching():
        plan = wait_for_nodes(spec, membership, check=stop.check)
        return membership.nodes, plan


def _run_missing(start: _Start, stop: StopSignal) -> Stopped | None:
    """Run what has no outcome yet; what stopped it."""
    from orchestrator.scheduling.tune_loop import run_trials  # noqa: PLC0415  (imports Ray Tune: seconds)

    plan, state = start.left.plan, start.state
    groups = make_lanes(plan)
    blocks = Blocks(
        start.identity,
        plan,
        groups,
        objectives=start.spec.search.objectives,
        source=Suggester(start.spec.search, start.spec.seed),
        open_limit=open_limit(start.spec, plan, groups),
        precision=PrecisionPolicy(
            stopping_rule(start.spec, plan), start.spec.disturbance_limits, start.spec.baseline
        ),
    )
    blocks.restore(start.left.past, start.left.again, resume.kept(state, start.left.again))
    for each in start.left.past:
        if isinstance(each, FinishedTrial):
            start.watcher.trial_restored(each.trial, each.outcome)
    session = Session(
        start.spec,
        blocks,
        start.journal,
        start.recorder.put,
        start.watcher,
        start.identity.data_digest,
        CanaryBaseline().learn(list(state.finished.values())),
    )

    def check() -> None:
        stop.check()
        if isinstance(start.recorder.trouble, LeaseHeld):
            raise Stopped(str(start.recorder.trouble))

    membership = Membership(start.nodes)
    recovery = Recovery(
        session,
        Fleet(start.spec, plan, start.nodes, start.watcher.warn),
        membership,
        wait_s=start.spec.limits.node_wait_s if start.on_cluster else 0.0,
        ask_for=autoscaler.ask_for,
    )
    try:
        with (
            tempfile.TemporaryDirectory(prefix="rnnsweep-tune-") as scratch,
            membership.watching(),
        ):
            folder, path = Path(scratch), _python_path(on_cluster=start.on_cluster)
            run_trials(session, recovery, folder=folder, python_path=path, check=check)
    except Stopped as stopped:
        return stopped
    finally:
        if recovery.has_asked:
            autoscaler.ask_for_no_more()
    return None


def _end_session(journal: Journal, state: Literal["stopped", "complete"]) -> None:
    """Note the end; where the disk is full, that is why the sweep stopped, and has been told."""
    with contextlib.suppress(OSError) if state == "stopped" else contextlib.nullcontext():
        journal.append(SessionEnded(time.time(), state))


def _python_path(*, on_cluster: bool) -> tuple[str, ...]:
    """Where users' own workloads are found: as in `python -m`, the current folder.

    On a cluster, beside our own code, which has come with them
    (`orchestrator.cluster.code_bundle`).
    """
    return () if on_cluster else (str(Path.cwd()),)
