"""The rules that stop a sweep before its last block: the one list of them, made from the spec."""

from collections.abc import Sequence

from orchestrator.core.stop_decision import EarlierDecision, StopDecision, StoppingRule
from orchestrator.planning.plan import Plan
from orchestrator.spec import SweepSpec
from orchestrator.storage.journal import JournalState


def stopping_rules(spec: SweepSpec, plan: Plan) -> list[StoppingRule]:
    """Return the rules that the spec asks for; none if the number of blocks is fixed.

    This is the place for another rule (see docs/adding.md). The running sweep and the
    resumed one get their rules here, and their ledgers give both the same outcomes.
    """
    rules: list[StoppingRule] = []
    if plan.auto is not None:
        from orchestrator.analysis.stopping import PrecisionReached  # noqa: PLC0415  (SciPy)

        rules.append(
            PrecisionReached(
                plan.auto,
                plan.arms,
                plan.repeats,
                spec.baseline,
                awaits_arms=bool(plan.awaited),
            )
        )
    return rules


def decision_that_holds(rules: Sequence[StoppingRule], state: JournalState) -> StopDecision | None:
    """Return the decision that the latest session recorded, if its rule says that it still holds.

    A rule that the spec no longer asks for decides nothing.
    """
    if state.stop_decision is None or not state.sessions:
        return None
    earlier = EarlierDecision(
        state.stop_decision, state.sessions[-1].arms, state.spec.get("baseline")
    )
    holds = any(rule.name == earlier.decision.rule and rule.still_holds(earlier) for rule in rules)
    return earlier.decision if holds else None
