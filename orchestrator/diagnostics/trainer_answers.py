"""One request to a trainer process, and everything that it reports until it has answered."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from orchestrator.execution.trainer_process import Trainer, TrainerGone
from workloads import protocol
from workloads.protocol import TrialRequest

_LOOK_S = 1.0
_IDLE_S = 120.0
"""Neither an event nor CPU time for so long is a hang."""


@dataclass(slots=True)
class Answer:
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

    def take(self, event: protocol.Event) -> bool:
        """Note an event; return whether it was the last one."""
        match event:
            case protocol.KernelProof(asked, ran, evidence):
                self.proof = event
                self.reason = None if ran == asked else f"ran {ran}, not {asked} ({evidence})"
            case protocol.Environment(facts):
                self.facts |= {k: str(v) for k, v in facts.items() if v is not None}
            case protocol.Dataset():
                self.dataset = event
            case protocol.Artifact(name, text):
                self.texts[name] = text
            case protocol.Result(metrics):
                self.metrics = metrics
            case protocol.Failure(kind, message):
                self.reason, self.failure = message, kind
        return isinstance(event, protocol.Result | protocol.Failure)


def ask(
    trainer: Trainer,
    request: TrialRequest,
    listen: Callable[[protocol.Event], object] = lambda event: None,
) -> Answer:
    """Send a request and return the answer. The end of the process, or a hang, is its reason."""
    answer, began_s = Answer(), time.monotonic()
    try:
        trainer.request(request)
        _listen(trainer, answer, listen)
    except (TrainerGone, TimeoutError, protocol.ProtocolError, OSError) as error:
        tail = trainer.output_tail().splitlines()
        last = f"; its last output: {tail[-1]}" if tail else ""
        answer.reason, answer.is_usable = f"{error}{last}", False
    answer.seconds = time.monotonic() - began_s
    return answer


def _listen(trainer: Trainer, answer: Answer, listen: Callable[[protocol.Event], object]) -> None:
    active_s, cpu_s = time.monotonic(), trainer.family()[0]
    while True:
        event = trainer.next_event(_LOOK_S)
        if event is not None:
            listen(event)
            if answer.take(event):
                return
        used_s = trainer.family()[0]
        if event is not None or used_s > cpu_s + 0.01:
            active_s, cpu_s = time.monotonic(), used_s
        elif time.monotonic() - active_s > _IDLE_S:
            raise TimeoutError(f"neither an event nor CPU time for {_IDLE_S:.0f} s")
