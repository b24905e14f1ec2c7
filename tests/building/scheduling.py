"""Plans, ledgers and dispatchers, and a source of configs that keeps its calls."""

from collections.abc import Callable, Mapping, Sequence

from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.failure_limit import FailureLimit
from orchestrator.core.stop_decision import StoppingRule
from orchestrator.core.trial import Config, Outcome, Telemetry
from orchestrator.hardware import HardwareClass
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.plan import Plan, PlannedArm
from orchestrator.scheduling.config_source import ConfigSource
from orchestrator.scheduling.dispatcher import Dispatcher
from orchestrator.scheduling.lane_index import LaneIndex
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.ledger import Ledger
from orchestrator.scheduling.suggestions import Suggestions
from orchestrator.spec import Objective
from tests.building.trials import IDENTITY, build_outcome

ACCURACY = {"val_accuracy": Objective(direction="maximize")}


def build_plan(
    hardware: Sequence[HardwareClass], implementations: int = 2, blocks: int = 3, repeats: int = 1
) -> Plan:
    """Return a plan of so many implementations on every hardware class."""
    arms = [
        PlannedArm(Arm(f"tensorflow/kernel{number}", HardwareUse(group.ref)), group)
        for group in hardware
        for number in range(implementations)
    ]
    return Plan(tuple(arms), (), blocks, repeats)


class ConfigLog:
    """A source of configs that keeps every call, for comparison."""

    def __init__(self) -> None:
        self.log: list[tuple[int, object]] = []
        self.reported: dict[int, Sequence[float] | None] = {}

    def suggest(self, index: int) -> Config | None:
        self.log.append((index, "suggested"))
        return {"units": index}

    def replay(self, index: int, config: Config) -> None:
        assert config == self.suggest(index)

    def should_prune(self, index: int, step: int, value: float) -> bool:
        self.log.append((index, (step, value)))
        return value < 0.3

    def report(self, index: int, values: Sequence[float] | None, *, is_bad: bool = False) -> None:
        assert index not in self.reported, "reported twice"
        self.reported[index] = values
        self.log.append((index, "bad" if is_bad else values))


def build_ledger(
    plan: Plan, failures: FailureLimit | None = None, rules: Sequence[StoppingRule] = ()
) -> Ledger:
    return Ledger(IDENTITY, plan, failures or FailureLimit(), rules)


def build_dispatcher(
    plan: Plan,
    source: ConfigSource | None = None,
    objectives: Mapping[str, Objective] = ACCURACY,
    open_limit: int | None = None,
    failures: FailureLimit | None = None,
    rules: Sequence[StoppingRule] = (),
    *,
    lanes: Callable[[Ledger], LaneIndex] = LaneIndex,
) -> Dispatcher:
    ledger = build_ledger(plan, failures, rules)
    suggestions = Suggestions(ledger, source or ConfigLog(), objectives)
    dispatcher = Dispatcher(ledger, suggestions, lanes(ledger))
    dispatcher.set_lanes(make_lanes(plan), open_limit)
    return dispatcher


def build_outcome_of(assignment: Assignment, seconds: int = 0, **metrics: float) -> Outcome:
    """Return how an assignment ended on node `a`, which began 10 s + `seconds` after the epoch."""
    return build_outcome(
        started_s=10.0 + seconds,
        ended_s=20.0,
        attempt=assignment.attempt,
        node="a",
        metrics=metrics,
        telemetry=Telemetry(other_trainers=0),
    )


def finish_all_assignments(
    dispatcher: Dispatcher, outcome: Outcome | None = None
) -> list[Assignment]:
    """Issue and finish assignments, each with this outcome, until the sweep is done."""
    out: list[Assignment] = []
    finished: list[Assignment] = []
    while not dispatcher.done:
        while (assigned := dispatcher.next()) is not None:
            out.append(assigned[0])
        assert out, "nothing is out and nothing can be issued, yet the sweep is not done"
        issue = out.pop(0)
        dispatcher.finish(issue, *(outcome or build_outcome() for _ in issue.trials))
        finished.append(issue)
    return finished
