"""Sample plans on invented nodes, and their blocks, for tests of the order of assignments."""

from collections.abc import Mapping, Sequence

from orchestrator.analysis.stopping import StoppingRule
from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.failures import FailureLimit
from orchestrator.core.trial import Config, FailureRecord, Outcome, SweepIdentity
from orchestrator.hardware import Gpu, HardwareClass, Node, NodeProfile
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.plan import Plan, PlannedArm
from orchestrator.scheduling.blocks import Blocks
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.sampler import Suggestions
from orchestrator.scheduling.suggester import Suggester
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


class ConfigLog(Suggester):
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


def blocks_of(
    plan: Plan,
    source: Suggester | None = None,
    objectives: Mapping[str, Objective] = ACCURACY,
    open_limit: int | None = None,
    rule: StoppingRule | None = None,
    baseline: str | None = None,
    failures: FailureLimit | None = None,
    *,
    kind: type[Blocks] = Blocks,
) -> Blocks:
    stops = failures or FailureLimit()
    suggestions = Suggestions(plan, source or ConfigLog(), objectives, rule, stops)
    return kind(identity(), plan, make_lanes(plan), suggestions, open_limit, baseline)


def complete(accuracy: float = 0.5) -> Outcome:
    return Outcome("complete", 0.0, 1.0, metrics={"val_accuracy": accuracy})


def failed() -> Outcome:
    return Outcome("failed", 0.0, 1.0, failure=FailureRecord("error", "odd"))


def drain(blocks: Blocks, outcome: Outcome | None = None) -> list[Assignment]:
    out: list[Assignment] = []
    finished: list[Assignment] = []
    while not blocks.done:
        while (assigned := blocks.next()) is not None:
            out.append(assigned[0])
        assert out, "nothing is out and nothing can be issued, yet the sweep is not done"
        issue = out.pop(0)
        blocks.finish(issue, outcome or complete())
        finished.append(issue)
    return finished
