"""Every limit of the watchdog, just within and just beyond it, on a clock that waits for nobody."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from orchestrator.execution import watchdog
from orchestrator.execution.job import TrialLimits
from orchestrator.execution.telemetry import TelemetrySampler
from orchestrator.execution.trainer_process import TrainerProcess
from orchestrator.execution.watchdog import TrialFailed, Watchdog
from workloads.protocol import Epoch, Event, Result

STEP_S = 0.1
"""How much later it is after each wait of the watchdog for an event."""


@dataclass
class PretendedTrainer:
    """A trainer that ends its trial after `lasts_s`, and is silent before, apart from `events`."""

    lasts_s: float = 30.0
    memory: float = 100.0
    family_memory: float = 100.0
    cpu_share: float = 1.0
    event_every_s: float | None = None
    now_s: float = 1_000.0
    ends_s: float = 0.0
    families_s: list[float] = field(default_factory=list)
    outputs_s: list[float] = field(default_factory=list)

    def next_event(self, timeout_s: float) -> Event | None:
        self.now_s += self.event_every_s or min(timeout_s, STEP_S)
        if self.now_s >= self.ends_s:
            return Result({"step_ms": 1.0})
        return Epoch(0, 0.0) if self.event_every_s else None

    def memory_mib(self) -> float:
        return self.memory

    def family(self) -> tuple[float, float]:
        self.families_s.append(self.now_s)
        return self.cpu_share * self.now_s, self.family_memory

    def limit_output(self) -> None:
        self.outputs_s.append(self.now_s)


Watch = Callable[..., tuple[PretendedTrainer, TrialFailed | None]]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Return a function that watches a trial up to its end, or up to its failure."""

    def watched(
        trainer: PretendedTrainer, sampler: Any = None, *, memory_share: float = 0.5, **limits: Any
    ) -> tuple[PretendedTrainer, TrialFailed | None]:
        monkeypatch.setattr(watchdog, "time", SimpleNamespace(monotonic=lambda: trainer.now_s))
        monkeypatch.setattr(watchdog, "memory_share", lambda: memory_share)
        trainer.ends_s = trainer.now_s + trainer.lasts_s
        allowed = TrialLimits(**{"trial_s": 1e6, "idle_s": 1e6, **limits})
        as_trainer = cast(TrainerProcess, trainer)
        try:
            list(Watchdog(as_trainer, allowed, cast(TelemetrySampler, sampler)).events())
        except TrialFailed as failure:
            return trainer, failure
        return trainer, None

    return watched


@dataclass(frozen=True)
class Case:
    """A trial at a limit; it fails for `reason`, if that is not None."""

    reason: str | None
    limits: dict[str, float] = field(default_factory=dict)
    trainer: dict[str, float] = field(default_factory=dict)
    memory_share: float = 0.5


CASES = {
    "memory at its limit": Case(None, {"memory_mib": 1_000}, {"memory": 1_000.0}),
    "memory beyond it": Case("out_of_memory", {"memory_mib": 1_000}, {"memory": 1_001.0}),
    "memory of descendants beyond it": Case(
        "out_of_memory", {"memory_mib": 1_000}, {"family_memory": 1_001.0}
    ),
    "the node's memory at its limit": Case(None, memory_share=0.93),
    "the node's memory beyond it": Case("out_of_memory", memory_share=0.931),
    "as long as it may take": Case(None, {"trial_s": 20.0}, {"lasts_s": 20.0}),
    "longer than it may take": Case("time_limit", {"trial_s": 20.0}, {"lasts_s": 20.5}),
    "silent as long as it may be": Case(None, {"idle_s": 20.0}, {"lasts_s": 20, "cpu_share": 0}),
    "silent for longer": Case("hung", {"idle_s": 20.0}, {"lasts_s": 20.5, "cpu_share": 0.0}),
    "silent, but at work": Case(None, {"idle_s": 20.0}, {"cpu_share": 0.05, "lasts_s": 100.0}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_limit_is_enforced_exactly(watch: Watch, case: Case) -> None:
    trainer = replace(PretendedTrainer(), **cast(Any, case.trainer))
    _, failure = watch(trainer, memory_share=case.memory_share, **case.limits)
    assert (None if failure is None else failure.reason) == case.reason


def test_a_lost_gpu_ends_the_trial(watch: Watch) -> None:
    sampler = SimpleNamespace(lost_gpu="GPU-a fell off the bus")
    _, failure = watch(PretendedTrainer(), sampler)
    assert failure is not None and (failure.reason, str(failure)) == ("lost", sampler.lost_gpu)


def test_only_the_time_awake_counts_and_slices_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = PretendedTrainer(cpu_share=0.0)
    monkeypatch.setattr(watchdog, "time", SimpleNamespace(monotonic=lambda: trainer.now_s))
    monkeypatch.setattr(watchdog, "memory_share", lambda: 0.5)
    watched = Watchdog(cast(TrainerProcess, trainer), TrialLimits(trial_s=5.0, idle_s=3.0))
    for _ in range(2):
        trainer.now_s += 1_000.0  # at rest
        watched.wake()
        trainer.ends_s = trainer.now_s + 2.0
        list(watched.events())
        watched.rest()
    trainer.now_s += 1_000.0
    watched.wake()
    began_s, trainer.ends_s = trainer.now_s, trainer.now_s + 2.0
    with pytest.raises(TrialFailed) as failed:
        list(watched.events())
    assert failed.value.reason == "time_limit"
    assert trainer.now_s - began_s == pytest.approx(1.0, abs=2 * STEP_S)


def test_looking_is_rare(watch: Watch) -> None:
    """Descendants are searched for every 10 s; the rest is looked at 10 times a second."""
    silent, failure = watch(PretendedTrainer(lasts_s=100.0))
    assert failure is None
    assert 9 <= len(silent.families_s) - 1 <= 10, "the first is of the beginning"
    loud, failure = watch(PretendedTrainer(lasts_s=10.0, event_every_s=0.001))
    assert failure is None
    assert 90 <= len(loud.outputs_s) <= 101
