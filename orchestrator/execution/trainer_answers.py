"""One request to a trainer process, and everything that it reports until it has answered."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from orchestrator.execution.job import TrialLimits
from orchestrator.execution.trainer_process import TrainerProcess
from orchestrator.execution.watchdog import FAILURES, Watchdog
from workloads import protocol
from workloads.implementations import is_kernel_as_asked
from workloads.protocol import TrialRequest

LIMITS = TrialLimits(trial_s=math.inf, idle_s=120.0)


@dataclass(slots=True)
class TrainerAnswer:
    """Everything that a trainer reported; `reason` is None if it succeeded.

    `failure` is the kind of a failure that the trainer reported. `is_usable` is False where the
    trainer cannot take another request.
    """

    reason: str | None = None
    failure: str | None = None
    is_usable: bool = True
    metrics: Mapping[str, float] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    dataset: protocol.Dataset | None = None
    proof: protocol.KernelProof | None = None
    texts: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def note_event(self, event: protocol.Event) -> None:
        """Note an event."""
        match event:
            case protocol.KernelProof(asked, ran, evidence):
                self.proof = event
                if not is_kernel_as_asked(asked, ran):
                    self.reason = f"ran {ran}, not {asked} ({evidence})"
            case protocol.EnvironmentFacts(facts):
                self.facts |= {k: str(v) for k, v in facts.items() if v is not None}
            case protocol.Dataset():
                self.dataset = event
            case protocol.Artifact(name, text):
                self.texts[name] = text
            case protocol.Result(metrics):
                self.metrics = metrics
            case protocol.Failure(kind, message):
                self.reason, self.failure = message, kind


def ask_trainer(
    trainer: TrainerProcess,
    request: TrialRequest,
    listen: Callable[[protocol.Event], object] = lambda event: None,
    limits: TrialLimits = LIMITS,
) -> TrainerAnswer:
    """Send a request and return the answer. The end of the process, or a hang, is its reason."""
    answer, began_s = TrainerAnswer(), time.monotonic()
    try:
        trainer.request(request)
        for event in Watchdog(trainer, limits).events():
            if event is not None:
                listen(event)
                answer.note_event(event)
    except FAILURES as error:
        tail = trainer.output_tail().splitlines()
        last = f"; its last output: {tail[-1]}" if tail else ""
        reason = str(error).removesuffix(" (limits.idle_s)")  # there is no spec to set them in
        answer.reason, answer.is_usable = f"{reason}{last}", False
    answer.seconds = time.monotonic() - began_s
    return answer
