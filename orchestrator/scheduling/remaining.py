"""How large a sweep is: what earlier starts left of it, what is missing, what the store is told.

Where blocks come until there are enough, that follows from the outcomes: a start finds it as the
one before it did.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from orchestrator import __version__
from orchestrator.core.trial import Arm, Block, FinishedTrial, SweepIdentity
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.session import stop_record
from orchestrator.spec import SweepSpec
from orchestrator.storage import resume
from orchestrator.storage.journal import Record, SessionEnded, SessionStarted, SweepState
from orchestrator.storage.tracking.lease import Owner
from orchestrator.storage.tracking.manifest import FoundSweep, SweepOpening

if TYPE_CHECKING:
    from orchestrator.analysis.stopping import StopDecision, StoppingRule


@dataclass(frozen=True, slots=True)
class RemainingWork:
    """What earlier starts leave to a plan.

    `plan` resumes from them. If they found that no more blocks are needed, `stop_decision` is why,
    and the plan has no more. `past` are the blocks and outcomes that count, `again` (by key) the
    trials to run once more, and `missing` the number of trials of the plan without an outcome.
    """

    plan: Plan
    past: Sequence[Block | FinishedTrial]
    again: Mapping[str, int]
    missing: int
    stop_decision: StopDecision | None


def remaining_work(
    spec: SweepSpec, laid: Plan, state: SweepState, *, retry_failed: bool
) -> RemainingWork:
    """What earlier starts leave to a plan that was laid for the nodes that are there."""
    again = resume.planned_reruns(state, laid, spec.disturbance_limits, retry_failed=retry_failed)
    past = list(resume.events(state, retry_failed=retry_failed, reruns=again))
    plan = laid.resumed_from(past)
    stop_decision = _judged(spec, plan, past) or _told(spec, plan, state)
    if stop_decision is not None:
        plan = plan.with_block_count(begun_index_count(past))
    missing = plan.trials - resume.count_finished(state.identity, plan, past)
    return RemainingWork(plan, past, again, missing, stop_decision)


def first_records(left: RemainingWork, state: SweepState) -> list[Record]:
    """What a start adds to the journal before it runs anything: that it began, and what it found.

    Where nothing is missing it has nothing to add, or else to end what was killed before it could:
    before it told why there are blocks enough, or that all was done. Nor has it where what is done
    is that of nodes that are awaited: a session is of the arms that it knows, and it knows not all.
    """
    is_told = left.stop_decision is None or state.stop_decision is not None
    is_over = state.ended is not None and state.ended.state == "complete"
    if not left.missing and (left.plan.awaited or (is_told and is_over)):
        return []
    records: list[Record] = [_session_started(left.plan)]
    if left.stop_decision is not None:
        records.append(stop_record(left.stop_decision))
    if not left.missing:
        records.append(SessionEnded(time.time(), "complete"))
    return records


def stopping_rule(spec: SweepSpec, plan: Plan) -> StoppingRule | None:
    """What decides when there are blocks enough; None where the plan says how many there are."""
    from orchestrator.analysis.stopping import StoppingRule  # noqa: PLC0415  (SciPy)

    if plan.auto is None:
        return None
    return StoppingRule(plan.auto, plan.arms, plan.repeats, spec.baseline)


def begun_index_count(past: Iterable[Block | FinishedTrial]) -> int:
    """One more than the index of the last block that was begun."""
    return 1 + max((event.index for event in past if isinstance(event, Block)), default=-1)


def make_opening(
    spec: SweepSpec,
    plan: Plan,
    identity: SweepIdentity,
    found: FoundSweep | None,
    home: Path,
    *,
    begun: bool = False,
) -> SweepOpening:
    """What the store is told: the sweep's whole extent, of which this start may do a part.

    Where blocks come until there are enough, or did before, it is what is needed now: nobody asked
    for the rest. Those that have begun are counted in reading. Which arms the sweep has now only a
    start changes that has `begun`: one that runs nothing leaves them as they were.
    """
    body = spec.model_dump(mode="json", exclude_unset=True)
    arms, repeats = plan.arms, plan.repeats
    current: tuple[Arm, ...] = ()
    blocks = min(plan.auto.least, plan.index_count) if plan.auto else plan.index_count
    if found is not None and found.identity.generation == identity.generation:
        before = found.manifest
        arms = tuple(dict.fromkeys((*arms, *before.arms)))
        repeats = max(repeats, before.repeats)
        current = before.current or before.arms
        if spec.auto_blocks is None and before.criteria.auto_blocks is None:
            blocks = max(blocks, before.blocks)
    if begun:  # which arms those will be that are awaited the nodes will tell
        current = tuple(dict.fromkeys((*plan.arms, *(current if plan.awaited else ()))))
    texts = {str(arm) for arm in arms}
    return SweepOpening(
        identity=identity,
        spec_yaml=yaml.safe_dump(body, sort_keys=False, allow_unicode=True),
        plan=plan.as_json(),
        objectives={
            name: objective.direction for name, objective in spec.search.objectives.items()
        },
        arms=arms,
        impossible=tuple(arm for arm in plan.impossible if str(arm.arm) not in texts),
        blocks=blocks,
        repeats=repeats,
        owner=Owner.here(),
        home=home,
        criteria=spec.criteria(),
        current=current,
    )


def _judged(
    spec: SweepSpec, plan: Plan, past: Iterable[Block | FinishedTrial]
) -> StopDecision | None:
    """Why there are blocks enough, by the outcomes: not by those of a part of the arms."""
    held = stopping_rule(spec, plan)
    if held is None or plan.awaited:
        return None
    for event in past:
        if isinstance(event, FinishedTrial):
            held.take(event)
    return held.stop_decision


def _told(spec: SweepSpec, plan: Plan, state: SweepState) -> StopDecision | None:
    """Why there are blocks enough, as the latest session told; None where this plan asks for more.

    It may have judged as an earlier version did, or over nodes that are not there now: a sweep that
    was done stays so.
    """
    from orchestrator.analysis.stopping import StopDecision  # noqa: PLC0415  (SciPy)

    told, auto = state.stop_decision, plan.auto
    if told is None or auto is None or not state.sessions:
        return None
    is_of_these = set(plan.arms) <= set(state.sessions[-1].arms)
    if not is_of_these or state.spec.get("baseline") != spec.baseline or told.blocks < auto.least:
        return None
    if told.half_width is None:  # nothing to compare, or not to the end
        bounds = [session.blocks for session in state.sessions if session.least is not None]
        is_known = not plan.awaited and bool(bounds) and told.blocks < bounds[-1]
    else:
        is_known = told.half_width <= auto.interval
    if not is_known and told.blocks < auto.most:
        return None
    return StopDecision(told.blocks, told.half_width, told.why)


def _session_started(plan: Plan) -> SessionStarted:
    return SessionStarted(
        at_s=time.time(),
        pid=os.getpid(),
        host=platform.node(),
        version=__version__,
        blocks=plan.index_count,
        repeats=plan.repeats,
        arms=list(plan.arms),
        least=plan.auto.least if plan.auto else None,
        skipped_blocks=sorted(plan.skipped_blocks),
    )
