"""The size of a sweep: what earlier starts did, what is missing, what the store shows of it."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import yaml

from orchestrator.core.arms import Arm
from orchestrator.core.failure_limit import FailureLimit
from orchestrator.core.formats import this_rnnsweep
from orchestrator.core.start_command import UNKNOWN_START, StartCommand
from orchestrator.core.stop_decision import StopDecision
from orchestrator.core.trial import Block, FinishedTrial, SweepIdentity
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.ledger import Ledger
from orchestrator.scheduling.stopping_rules import decision_that_holds, stopping_rules
from orchestrator.spec import SweepSpec
from orchestrator.storage import resume
from orchestrator.storage.journal import (
    JournalState,
    Record,
    SessionEnded,
    SessionStarted,
    StopDecided,
)
from orchestrator.storage.lock import Owner
from orchestrator.storage.tracking.stored_records import Manifest, SweepOpening


@dataclass(frozen=True, slots=True)
class RemainingWork:
    """The part of a plan that earlier starts leave to this one.

    `plan` resumes from them; a `stop_decision` of theirs stays. `history` are the blocks and
    outcomes that count. `missing` trials have no outcome, or run once more. `failures` has taken
    outcomes that are not in `history` too.
    """

    spec: SweepSpec
    identity: SweepIdentity
    plan: Plan
    history: Sequence[Block | FinishedTrial]
    missing: int
    stop_decision: StopDecision | None
    failures: FailureLimit

    @property
    def running(self) -> Plan:
        """The plan without the stopped arms."""
        return self.plan.without(self.failures.stopped)

    def new_ledger(self) -> Ledger:
        """Return an empty ledger of the plan, for the history and for what runs from now on."""
        has_decision = self.stop_decision is not None
        rules = () if has_decision else stopping_rules(self.spec, self.plan)
        return Ledger(self.identity, self.plan, self.failures.replay(), rules)


def remaining_work(
    spec: SweepSpec,
    full_plan: Plan,
    state: JournalState,
    *,
    retry_failed: bool,
) -> RemainingWork:
    """Return what earlier starts leave of the plan for the present nodes.

    What they did is replayed into a ledger, as the running sweep fills one: so both come to the
    same stopped arms, and to the same decision that there are enough blocks.
    """
    failures = FailureLimit(spec.limits.failures, state.identity.code_facts.get("code"))
    for finished in state.outcomes(retry_failed=retry_failed):
        failures.add_outcome(finished)
    running = full_plan.without(failures.stopped)
    retimed = resume.trials_to_retime(state, running, retry_failed=retry_failed)
    history = list(resume.events(state, retry_failed=retry_failed, retimed=retimed))
    plan = full_plan.resumed_from(history)
    ledger = Ledger(state.identity, plan, failures.replay(), stopping_rules(spec, plan))
    ledger.replay(history)
    decision = ledger.stop_decision or decision_that_holds(ledger.stopping_rules, state)
    if decision is not None:
        plan = plan.with_index_count(begun_index_count(history))
    elif ledger.stopping_rules:
        plan = replace(plan, ending="open")
    ledger.plan = plan
    missing = ledger.count_missing()
    return RemainingWork(spec, state.identity, plan, history, missing, decision, failures)


def first_records(work: RemainingWork, state: JournalState) -> list[Record]:
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
        version=this_rnnsweep().version,
        commit=this_rnnsweep().commit,
        blocks=plan.index_count,
        repeats=plan.repeats,
        arms=list(plan.arms),
        may_stop_early=plan.ending == "open",
        skipped_blocks=sorted(plan.skipped_blocks),
        failures=work.failures.most,
        code=dict(state.identity.code),
    )
    records: list[Record] = [started]
    if work.stop_decision is not None:
        records.append(StopDecided(time.time(), work.stop_decision))
    if not work.missing:
        records.append(SessionEnded(time.time(), "complete"))
    return records


def begun_index_count(history: Iterable[Block | FinishedTrial]) -> int:
    """Return one more than the index of the last block that was begun."""
    return 1 + max((event.index for event in history if isinstance(event, Block)), default=-1)


def make_opening(
    spec: SweepSpec,
    plan: Plan,
    identity: SweepIdentity,
    before: Manifest | None,
    *,
    start: StartCommand = UNKNOWN_START,
    sweep_id: str = "",
    begun: bool = False,
) -> SweepOpening:
    """Return what the store shows: the whole sweep, of which this start may do a part.

    With `search.configs: auto` it has the minimum number of blocks; readers count the blocks that
    have begun. Only a start that has `begun` changes the current arms, the blocks and the repeats.
    """
    body = spec.model_dump(mode="json", exclude_unset=True)
    arms, repeats = plan.arms, plan.repeats
    current: tuple[Arm, ...] = ()
    blocks = min(plan.auto.least, plan.index_count) if plan.auto else plan.index_count
    skipped = tuple(sorted(plan.skipped_blocks))
    if before is not None and before.identity.generation == identity.generation:
        arms = tuple(dict.fromkeys((*arms, *before.arms)))
        current = before.current or before.arms
        if not begun:
            blocks, skipped, repeats = before.blocks, before.skipped_blocks, before.repeats
    if begun:  # the arms of awaited nodes are not known yet: keep the arms of the last start
        current = tuple(dict.fromkeys((*plan.arms, *(current if plan.awaited else ()))))
    texts = {str(arm) for arm in arms}
    manifest = Manifest(
        identity=identity,
        objectives={
            name: objective.direction for name, objective in spec.search.objectives.items()
        },
        arms=arms,
        impossible=tuple(arm for arm in plan.impossible if str(arm.arm) not in texts),
        blocks=blocks,
        repeats=repeats,
        criteria=spec.criteria(),
        current=current,
        start=start,
        skipped_blocks=skipped,
    )
    spec_yaml = yaml.safe_dump(body, sort_keys=False, allow_unicode=True)
    return SweepOpening(manifest, spec_yaml, plan.as_json(), Owner.here(), sweep_id)
