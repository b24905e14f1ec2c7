"""What the nodes of a plan are asked about their GPUs, and what follows from the answers."""

from collections.abc import Container
from typing import Any, Self

import pytest

from orchestrator.execution import gpu_presence
from orchestrator.execution.gpu_presence import GpuQuestion, GpuUse, ask_nodes, gpu_questions
from orchestrator.execution.trainer_answers import TrainerAnswer
from orchestrator.hardware import classify
from orchestrator.planning.plan import UnusableGpu, make_plan
from tests.building.hardware import build_node
from tests.building.specs import build_spec
from workloads.model_facts import ArmFact, ModelFacts
from workloads.protocol import TrialRequest

ARMS = ["tensorflow/portable", "tensorflow/cudnn", "torch/fused"]


@pytest.fixture(autouse=True)
def everything_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda _: True)


HOSTS = [build_node(name, cpus=4, gpus=2) for name in ("n0", "n1")]


def questions(succeeded: Container[GpuUse] = (), **changes: Any) -> list[GpuQuestion]:
    spec = build_spec(**{"implementations": ARMS, "hardware": ["cpu", "gpu"], **changes})
    return gpu_questions(spec, make_plan(spec, classify(HOSTS)), succeeded)


def test_each_node_is_asked_once_for_each_backend_of_its_gpu_arms() -> None:
    assert questions() == [
        GpuQuestion(node, backend) for backend in ("tensorflow", "torch") for node in ("n0", "n1")
    ]
    assert questions(hardware=["cpu"]) == []
    ran = GpuUse("torch/fused", HOSTS[0].gpu_class("NVIDIA T4").id, "n0")
    rest = [question.node_id for question in questions({ran}) if question.backend == "torch"]
    assert rest == ["n1"], "it has run on n0"
    on_cpu = ran._replace(class_id=HOSTS[0].cpu_class.id)
    assert questions({on_cpu}) == questions(), "a trial on the CPU shows nothing"
    own = "tests.integration.mixed:by_kernel"
    assert questions(workload=own, implementations=["python/a"]) == [], "names of its own"


@pytest.mark.parametrize(
    ("settings", "masked"),
    [
        ({}, ["tensorflow/cudnn", "tensorflow/auto", "torch/fused"]),
        ({"masked": False}, []),
    ],
)
def test_masks_are_checked_on_the_kernels_that_run_masked_layers(
    settings: dict[str, Any], masked: list[str]
) -> None:
    asked = questions(
        workload="sentiment",
        settings=settings,
        space={"units": [8, 16, 24]},
        implementations=[*ARMS, "tensorflow/portable+xla", "tensorflow/auto", "torch/auto"],
    )
    found = {name for question in asked for name in question.masked}
    # Keras' cuDNN path on PyTorch takes no mask; the fused layer does.
    assert found == set(masked)


def test_masks_of_an_own_model_are_checked_where_its_layers_have_them() -> None:
    arms = ["tensorflow/auto", "tensorflow/fused", "torch/fused"]
    own: dict[str, Any] = {"workload": None, "model": "mine:build", "data": "mine:load"}
    spec = build_spec(implementations=arms, hardware=["gpu"], **own)
    facts = {
        "tensorflow": ModelFacts(
            ("loss",),
            None,
            (
                ArmFact(0, "tensorflow/auto", "gpu", None),
                ArmFact(0, "tensorflow/fused", "gpu", None),
                ArmFact(1, "tensorflow/fused", "gpu", None, is_masked=True),
            ),
        ),
        "torch": ModelFacts(("loss",), None, (ArmFact(0, "torch/fused", "gpu", None),)),
    }
    checked = spec.with_inspections(facts)
    asked = gpu_questions(checked, make_plan(checked, classify(HOSTS[:1])), ())
    assert asked == [
        GpuQuestion("n0", "tensorflow", ("tensorflow/fused",)),
        GpuQuestion("n0", "torch"),
    ]


class Scripted:
    """A trainer process whose answers are scripted."""

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("answers", "unusable"),
    [
        ({}, []),
        ({gpu_presence.PRESENCE_WORKLOAD: "not_possible"}, ["torch"]),
        ({gpu_presence.MASKED_BATCHES_WORKLOAD: "not_possible"}, ["torch/fused"]),
        ({gpu_presence.PRESENCE_WORKLOAD: "error"}, []),  # the trials will show it
    ],
)
def test_only_a_gpu_that_cannot_be_used_is_excluded(
    answers: dict[str, str], unusable: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def ask(_: object, request: TrialRequest) -> TrainerAnswer:
        asked.append(request.workload)
        failure = answers.get(request.workload)
        return TrainerAnswer(f"because of {request.workload}" if failure else None, failure)

    monkeypatch.setattr(gpu_presence, "TrainerProcess", Scripted)
    monkeypatch.setattr(gpu_presence, "ask_trainer", ask)
    checks = list[None]()
    question = GpuQuestion("n0", "torch", ("torch/fused",))
    found = ask_nodes([question], on_cluster=False, check=lambda: checks.append(None))
    assert [gpu.name for gpu in found] == unusable
    assert all(isinstance(gpu, UnusableGpu) and gpu.node_id == "n0" for gpu in found)
    assert all("because of" in gpu.reason for gpu in found)
    assert checks, "a user may stop it"
    if gpu_presence.PRESENCE_WORKLOAD in answers:
        assert asked == [gpu_presence.PRESENCE_WORKLOAD]
