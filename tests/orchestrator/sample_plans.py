"""Sample plans on invented nodes, and their blocks, for tests of the order of assignments."""

from collections.abc import Callable, Mapping, Sequence

from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.failures import FailureLimit
from orchestrator.core.stopping import StoppingRule
from orchestrator.core.trial import Config, FailureRecord, Outcome, SweepIdentity
from orchestrator.hardware import Gpu, HardwareClass, Node, NodeProfile
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.plan import Plan, PlannedArm
from orchestrator.scheduling.config_source import ConfigSource
from orchestrator.scheduling.dispatcher import Dispatcher
from orchestrator.scheduling.lane_index import LaneIndex
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.ledger import Ledger
from orchestrator.scheduling.suggestions import Suggestions
from orchestrator.spec import Objective

ACCURACY = {"val_accuracy": Objective(direction="maximize")}


def identity(seed: int = 0) -> SweepIdentity:
    return SweepIdentity("sweep", 1, "image_rows", {"epochs": 1}, {"sampler": "random"}, seed, "d")


def node(
    name: str, cpus: int = 2, gpus: int = 0, cpu_model: str = "CPU A", gpu: str = "NVIDIA T4"
) -> Node:
    devices = tuple(Gpu(index, gpu, f"GPU-{name}-{index}", 16_000) for index in range(gpus))
    return Node(
        name, NodeProfile(name, cpu_model, cpus, 8_000, devices, None, "Linux", "3.11"), cpus
    )


def plan(
    hardware: Sequence[HardwareClass], implementations: int = 2, blocks: int = 3, repeats: int = 1
) -> Plan:
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

    def report(
        self, index: int, values: Sequence[float] | None, *, is_pruned: bool = False
    ) -> None:
        assert index not in self.reported, "reported twice"
        self.reported[index] = values
        self.log.append((index, "pruned" if is_pruned else values))


def ledger_of(
    plan: Plan, failures: FailureLimit | None = None, rules: Sequence[StoppingRule] = ()
) -> Ledger:
    return Ledger(identity(), plan, failures or FailureLimit(), rules)


def dispatcher_of(
    plan: Plan,
    source: ConfigSource | None = None,
    objectives: Mapping[str, Objective] = ACCURACY,
    open_limit: int | None = None,
    failures: FailureLimit | None = None,
    rules: Sequence[StoppingRule] = (),
    *,
    lanes: Callable[[Ledger], LaneIndex] = LaneIndex,
) -> Dispatcher:
    ledger = ledger_of(plan, failures, rules)
    suggestions = Suggestions(ledger, source or ConfigLog(), objectives)
    dispatcher = Dispatcher(ledger, suggestions, lanes(ledger))
    dispatcher.set_lanes(make_lanes(plan), open_limit)
    return dispatcher


def complete(accuracy: float = 0.5) -> Outcome:
    return Outcome("complete", 0.0, 1.0, metrics={"val_accuracy": accuracy})


def failed() -> Outcome:
    return Outcome("failed", 0.0, 1.0, failure=FailureRecord("error", "odd"))


def drain(dispatcher: Dispatcher, outcome: Outcome | None = None) -> list[Assignment]:
    out: list[Assignment] = []
    finished: list[Assignment] = []
    while not dispatcher.done:
        while (assigned := dispatcher.next()) is not None:
            out.append(assigned[0])
        assert out, "nothing is out and nothing can be issued, yet the sweep is not done"
        issue = out.pop(0)
        dispatcher.finish(issue, outcome or complete())
        finished.append(issue)
    return finished
