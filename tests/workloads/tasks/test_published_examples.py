"""Keras' published examples run as they are written, and compute the same on every arm."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from orchestrator.analysis.arms.mathematics import fingerprint_difference
from tests.workloads.probes import INSPECTION_ADAPTER
from tests.workloads.shared_trainer import Trainer, result, single_event
from workloads.model_facts import Inspection, ModelFacts
from workloads.protocol import Artifact, Event, Fingerprint, KernelProof
from workloads.registry import own_model_name

pytestmark = pytest.mark.full

MODULE = "tests.workloads.examples.published"
AS_WRITTEN = ["tensorflow/auto", "jax/auto", "torch/auto"]
SETTINGS = {"batch_size": 8, "epochs": 1, "timed_steps": 2}


@dataclass(frozen=True)
class Example:
    name: str
    fused: bool = True
    """A library has equals of some of its layers."""

    draws: bool = False
    """It has dropout, whose masks each backend draws by itself."""

    @property
    def workload(self) -> str:
        return own_model_name(f"{MODULE}:build_{self.name}", f"{MODULE}:load_{self.name}")


OCR = Example("ocr", fused=False, draws=True)
CONV_LSTM = Example("conv_lstm")
EXAMPLES = [
    Example("sequence_to_sequence"),
    OCR,
    Example("video", draws=True),
    CONV_LSTM,
]


def train(trainer: Trainer, workload: str, implementation: str) -> list[Event]:
    return trainer.ask(workload, implementation, settings=SETTINGS, seed=5, fingerprint=True)


def inspect(trainer: Trainer, workload: str, *implementations: str) -> Inspection:
    asked = {"workload": workload, "units": [4], "searched": []}
    events = trainer.ask(
        "tests.workloads.probes:inspect_model",
        implementations[0],
        settings={**asked, "implementations": implementations},
    )
    result(events)
    return INSPECTION_ADAPTER.validate_json(single_event(events, Artifact).text)


def reasons(inspection: Inspection) -> Iterator[tuple[str, str | None]]:
    """Yield why each implementation cannot run the model where there is a GPU."""
    assert isinstance(inspection, ModelFacts), inspection
    return ((arm.implementation, arm.reason) for arm in inspection.arms if arm.device == "gpu")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_computes_the_same_on_every_arm(
    trainer_for: Callable[[str], Trainer], example: Example
) -> None:
    expected: Any = None
    for arm in [*AS_WRITTEN, *["torch/fused"] * example.fused]:
        events = train(trainer_for(arm), example.workload, arm)
        metrics, fingerprint = result(events), single_event(events, Fingerprint)
        assert single_event(events, KernelProof).asked == arm.partition("/")[2]
        losses = [metrics["loss"], metrics["val_loss"]]
        expected = expected or (fingerprint, losses)
        difference = fingerprint_difference(fingerprint, expected[0])
        assert difference.outputs_share < 1e-4, arm
        assert difference.gradients is not None and difference.gradients < 1e-3, arm
        if not example.draws:
            assert losses == pytest.approx(expected[1], rel=1e-3), arm


def test_what_no_library_has_is_named(torch_trainer: Trainer) -> None:
    arms = ["torch/auto", "torch/portable", "torch/cudnn", "torch/fused"]
    ocr = dict(reasons(inspect(torch_trainer, OCR.workload, *arms)))
    assert [ocr[arm] for arm in arms[:3]] == [None, None, None]
    assert "dropout on its inputs" in str(ocr["torch/fused"])
    facts = inspect(torch_trainer, CONV_LSTM.workload, *arms)
    conv = dict(reasons(facts))
    assert [conv[arm] for arm in ("torch/auto", "torch/portable", "torch/fused")] == [None] * 3
    assert "layer conv: Keras has no cuDNN path for ConvLSTM1D" in str(conv["torch/cudnn"])
