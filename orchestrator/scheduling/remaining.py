"""The size of a sweep: what earlier starts did, what is missing, what the store shows of it."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from orchestrator import __version__
from orchestrator.core.arms import Arm
from orchestrator.core.failures import FailureLimit
from orchestrator.core.trial import Block, FinishedTrial, SweepIdentity
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.session import stop_record
from orchestrator.spec import SweepSpec
from orchestrator.storage import resume
from orchestrator.storage.journal import Record, SessionEnded, SessionStarted, SweepState
from orchestrator.storage.lock import Owner
from orchestrator.storage.tracking.records import Manifest, SweepOpening

if TYPE_CHECKING:
    from orchestrator.analysis.stopping import StopDecision, StoppingRule


@dataclass(frozen=True, slots=True)
class RemainingWork:
    """The part of a plan that earlier starts leave to this one.

    `plan` resumes from them; a `stop_decision` of theirs stays. `history` are the blocks and
    outcomes that count. `missing` trials have no outcome, or run once more. To restore `history`,
    use the `replay` of `failures`: it has taken outcomes that are not there too.
    """

    plan: Plan
    history: Sequence[Block | FinishedTrial]
    missing: int
    stop_decision: StopDecision | None
    failures: FailureLimit

    @property
    def running(self) -> Plan:
        """The plan without the stopped arms."""
        return self.plan.without(self.failures.stopped)


def remaining_work(
    spec: SweepSpec, full_plan: Plan, state: SweepState, *, retry_failed: bool
) -> RemainingWork:
    """Return what earlier starts leave of the plan for the present nodes."""
    failures = FailureLimit(spec.limits.failures, state.identity.code_facts.get("code"))
    for finished in state.outcomes(retry_failed=retry_failed):
        failures.take(finished)
    running = full_plan.without(failures.stopped)
    retimed = resume.trials_to_retime(state, running, retry_failed=retry_failed)
    history = list(resume.events(state, retry_failed=retry_failed, retimed=retimed))
    plan = full_plan.resumed_from(history)
    stop_decision = _decide(spec, plan, history, failures.replay())
    stop_decision = stop_decision or _last_decision(spec, plan, state)
    if stop_decision is not None:
        plan = plan.with_index_count(begun_index_count(history))
    running = plan.without(failures.stopped)
    missing = running.count_missing(one for one in history if isinstance(one, FinishedTrial))
    return RemainingWork(plan, history, missing, stop_decision, failures)


def first_records(work: RemainingWork, state: SweepState) -> list[Record]:
    """Return what a start adds to the journal before it runs anything.

    If nothing is missing it adds nothing, except to complete the records of a killed session.
    While arms are awaited it adds nothing either: a session is of the arms that it knows.
    """
    is_decided = work.stop_decision is None or state.stop_decision is not None
    is_over = state.ended is not None and state.ended.state == "complete"
    if not work.missing and (work.plan.awaited or (is_decided and is_over)):
        return []
    plan = work.plan
    started = SessionStarted(
        at_s=time.time(),
        pid=os.getpid(),
        host=platform.node(),
        version=__version__,
        blocks=plan.index_count,
        repeats=plan.repeats,
        arms=list(plan.arms),
        least=plan.auto.least if plan.auto else None,
        skipped_blocks=sorted(plan.skipped_blocks),
        failures=work.failures.most,
        code=dict(state.identity.code),
    )
    records: list[Record] = [started]
    if work.stop_decision is not None:
        records.append(stop_record(work.stop_decision))
    if not work.missing:
        records.append(SessionEnded(time.time(), "complete"))
    return records


def stopping_rule(spec: SweepSpec, plan: Plan) -> StoppingRule | None:
    """Return what decides the number of blocks; None if the plan has a fixed number."""
    from orchestrator.analysis.stopping import StoppingRule  # noqa: PLC0415  (SciPy)

    if plan.auto is None:
        return None
    accepts = spec.disturbed.accept_provisional
    return StoppingRule(plan.auto, plan.arms, plan.repeats, spec.baseline, accepts)


def begun_index_count(history: Iterable[Block | FinishedTrial]) -> int:
    """Return one more than the index of the last block that was begun."""
    return 1 + max((event.index for event in history if isinstance(event, Block)), default=-1)


def make_opening(
    spec: SweepSpec,
    plan: Plan,
    identity: SweepIdentity,
    before: Manifest | None,
    *,
    sweep_id: str = "",
    begun: bool = False,
) -> SweepOpening:
    """Return what the store shows: the whole sweep, of which this start may do a part.

    With `blocks: auto`, now or before, it has the minimum number of blocks; readers count the
    blocks that have begun. Only a start that has `begun` changes the current arms.
    """
    body = spec.model_dump(mode="json", exclude_unset=True)
    arms, repeats = plan.arms, plan.repeats
    current: tuple[Arm, ...] = ()
    blocks = min(plan.auto.least, plan.index_count) if plan.auto else plan.index_count
    if before is not None and before.identity.generation == identity.generation:
        arms = tuple(dict.fromkeys((*arms, *before.arms)))
        repeats = max(repeats, before.repeats)
        current = before.current or before.arms
        if spec.auto_blocks is None and before.criteria.auto_blocks is None:
            blocks = max(blocks, before.blocks)
    if begun:  # the arms of awaited nodes are not known yet: keep those of the last start
        current = tuple(dict.fromkeys((*plan.arms, *(current if plan.awaited else ()))))
    texts = {str(arm) for arm in arms}
    manifest = Manifest(
        identity=identity,
        objectives={name: one.direction for name, one in spec.search.objectives.items()},
        arms=arms,
        impossible=tuple(arm for arm in plan.impossible if str(arm.arm) not in texts),
        blocks=blocks,
        repeats=repeats,
        criteria=spec.criteria(),
        current=current,
    )
    spec_yaml = yaml.safe_dump(body, sort_keys=False, allow_unicode=True)
    return SweepOpening(manifest, spec_yaml, plan.as_json(), Owner.here(), sweep_id)


def _decide(
    spec: SweepSpec,
    plan: Plan,
    history: Iterable[Block | FinishedTrial],
    failures: FailureLimit,
) -> StopDecision | None:
    """Decide by the outcomes that no more blocks are needed; never by a part of the arms."""
    rule = stopping_rule(spec, plan)
    if rule is None or plan.awaited:
        return None
    for event in history:
        if isinstance(event, FinishedTrial):
            rule.take(event)
            if failures.take(event):
                rule.stop_arm(event.arm)
    return rule.stop_decision


def _last_decision(spec: SweepSpec, plan: Plan, state: SweepState) -> StopDecision | None:
    """Return the stop decision of the latest session; None if this plan needs more blocks."""
    # That session may have had nodes that are not there now: a complete sweep stays complete.
    from orchestrator.analysis.stopping import StopDecision  # noqa: PLC0415  (SciPy)

    last, auto = state.stop_decision, plan.auto
    if last is None or auto is None or not state.sessions:
        return None
    has_other_arms = not set(plan.arms) <= set(state.sessions[-1].arms)
    has_other_baseline = state.spec.get("baseline") != spec.baseline
    if has_other_arms or has_other_baseline or last.blocks < auto.least:
        return None
    if last.half_width is None:  # nothing to compare, or not to the end
        bounds = [session.blocks for session in state.sessions if session.least is not None]
        is_enough = not plan.awaited and bool(bounds) and last.blocks < bounds[-1]
    else:
        is_enough = last.half_width <= auto.interval
    if not is_enough and last.blocks < auto.most:
        return None
    return StopDecision(last.blocks, last.half_width, last.why)
