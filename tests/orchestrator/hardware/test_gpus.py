"""GPUs as NVML reports them, or refuses to: one call in turn, by a stand-in for its library."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from orchestrator import hardware
from orchestrator.hardware import Gpu, Node, NodeProfile, classify, describe_hardware
from tests.nvml.simulated import (
    DRIVER_NOT_LOADED,
    GPU_CALLS,
    GPU_IS_LOST,
    LIB_RM_VERSION_MISMATCH,
    NO_PERMISSION,
    NODE_CALLS,
    NOT_SUPPORTED,
    UNKNOWN,
    SimulatedGpu,
    SimulatedNvml,
)

Probe: TypeAlias = Callable[[SimulatedNvml], NodeProfile]

H200 = SimulatedGpu(
    name="NVIDIA H200",
    uuid="GPU-aaaa",
    memory_mib=143_771,
    power_limit_w=700,
    max_sm_clock_mhz=1_980,
    max_memory_clock_mhz=3_201,
    compute_capability=(9, 0),
    pcie_generation=5,
    mig=False,
)
ASKED = (  # what a probe asks of a GPU, and the field that has it
    ("nvmlDeviceGetCudaComputeCapability", "compute_capability"),
    ("nvmlDeviceGetEnforcedPowerLimit", "power_limit_w"),
    ("nvmlDeviceGetMaxClockInfo", "max_sm_clock_mhz"),
    ("nvmlDeviceGetMaxClockInfo", "max_memory_clock_mhz"),
    ("nvmlDeviceGetEccMode", "ecc"),
    ("nvmlDeviceGetMigMode", "mig"),
    ("nvmlDeviceGetMaxPcieLinkGeneration", "pcie_generation"),
    ("nvmlDeviceGetMaxPcieLinkWidth", "pcie_lanes"),
    ("nvmlDeviceGetCurrPcieLinkWidth", "pcie_lanes_now"),
)


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Probe:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def of(simulated: SimulatedNvml) -> NodeProfile:
        simulated.in_this_process(monkeypatch, tmp_path)
        return hardware.probe()

    return of


def failing(gpu: SimulatedGpu, errors: Mapping[str, int]) -> SimulatedGpu:
    return dataclasses.replace(gpu, errors=errors)


def test_all_facts_of_a_gpu_are_read(probe: Probe) -> None:
    answers = probe(SimulatedNvml([H200], driver="580.95.05", cuda=13_000))
    assert answers.gpus == (
        Gpu(
            index=0,
            name="NVIDIA H200",
            uuid="GPU-aaaa",
            memory_mib=143_771,
            compute_capability="9.0",
            power_limit_w=700.0,
            max_sm_clock_mhz=1_980.0,
            max_memory_clock_mhz=3_201.0,
            ecc=True,
            mig=False,
            pcie_generation=5,
            pcie_lanes=16,
            pcie_lanes_now=16,
        ),
    )
    assert (answers.driver, answers.cuda) == ("580.95.05", "13.0")
    assert (answers.gpu_faults, answers.no_nvml) == ((), None)


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, UNKNOWN])
@pytest.mark.parametrize(("call", "field"), ASKED)
def test_a_missing_fact_is_none(probe: Probe, call: str, field: str, code: int) -> None:
    (gpu,) = probe(SimulatedNvml([failing(H200, {call: code})])).gpus
    assert getattr(gpu, field) is None
    missing = {name for asked, name in ASKED if asked == call}
    whole = dataclasses.asdict(probe(SimulatedNvml([H200])).gpus[0])
    rest = {name: value for name, value in dataclasses.asdict(gpu).items() if name not in missing}
    assert rest.items() <= whole.items()  # and the rest is reported all the same


def test_unreported_memory_is_none(probe: Probe) -> None:
    errors = {"nvmlDeviceGetMemoryInfo": NOT_SUPPORTED, "nvmlDeviceGetMemoryInfo_v2": NOT_SUPPORTED}
    answers = probe(SimulatedNvml([failing(H200, errors)]))
    assert answers.gpus[0].memory_mib is None
    text = describe_hardware(classify([Node("", answers, 2)]))
    assert "NVIDIA H200, compute capability 9.0" in text
    assert "None" not in text


@pytest.mark.parametrize("code", [GPU_IS_LOST, NOT_SUPPORTED, NO_PERMISSION, UNKNOWN])
@pytest.mark.parametrize(
    "call", ["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetName", "nvmlDeviceGetUUID", "*"]
)
def test_a_gpu_without_a_name_is_a_fault(probe: Probe, call: str, code: int) -> None:
    t4 = SimulatedGpu(uuid="GPU-bbbb")
    answers = probe(SimulatedNvml([failing(H200, {call: code}), t4]))
    assert [(gpu.index, gpu.name) for gpu in answers.gpus] == [(1, "NVIDIA T4")]
    (fault,) = answers.gpu_faults
    assert fault.startswith("GPU 0 does not answer: ")


@pytest.mark.parametrize("call", [one for one in GPU_CALLS if "ByUUID" not in one])
@pytest.mark.parametrize("code", [GPU_IS_LOST, NO_PERMISSION, UNKNOWN])
def test_no_call_of_a_gpu_ends_a_probe(probe: Probe, call: str, code: int) -> None:
    answers = probe(SimulatedNvml([failing(H200, {call: code}), SimulatedGpu(uuid="GPU-bbbb")]))
    assert answers.gpus[-1].name == "NVIDIA T4"


@pytest.mark.parametrize("call", ["*", *NODE_CALLS])
@pytest.mark.parametrize("code", [DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH, UNKNOWN])
def test_no_call_of_a_node_ends_a_probe(probe: Probe, call: str, code: int) -> None:
    answers = probe(SimulatedNvml([H200], errors={call: code}))
    assert bool(answers.gpus) != bool(answers.gpu_faults)
    assert "! GPU" in describe_hardware(classify([Node("", answers, 2)])) or answers.gpus


def test_a_lost_gpu_is_reported_with_the_reason(probe: Probe) -> None:
    lost = failing(H200, {"nvmlDeviceGetEnforcedPowerLimit": GPU_IS_LOST})
    answers = probe(SimulatedNvml([SimulatedGpu(uuid="GPU-bbbb"), lost]))
    assert answers.gpu_faults == ("GPU 1 does not answer: GPU is lost",)
    (cpu, gpu) = classify([Node("", answers, 2)])
    assert gpu.name.startswith("NVIDIA T4 (")
    assert "GPU 1 does not answer: GPU is lost" in describe_hardware([cpu, gpu])


def test_a_driver_of_another_version_is_reported(probe: Probe) -> None:
    answers = probe(SimulatedNvml([H200], errors={"nvmlInitWithFlags": LIB_RM_VERSION_MISMATCH}))
    assert answers.gpu_faults == (
        "NVML does not answer: RM has detected an NVML/RM version mismatch.",
    )
    text = describe_hardware(classify([Node("", answers, 2)]))
    assert "version mismatch" in text
    assert "no GPU:" not in text  # there is one, for all that is known


def test_a_driver_without_gpus(probe: Probe) -> None:
    text = describe_hardware(classify([Node("", probe(SimulatedNvml()), 2)]))
    assert "no GPU: NVML shows none to this process" in text


def test_a_gpu_in_parts_forms_no_class(probe: Probe) -> None:
    cut = dataclasses.replace(H200, mig=True)
    (cpu,) = classify([Node("", probe(SimulatedNvml([cut])), 2)])
    assert cpu.device == "cpu"
    text = " ".join(describe_hardware([cpu]).split())
    assert "is in MIG mode, and a trial could be given a part of it" in text
    assert "nvidia-smi -i 0 -mig 0" in text
    assert "MIG on" in text


def test_ray_may_not_hand_out_a_gpu_that_is_lost(probe: Probe) -> None:
    lost = failing(H200, {"*": GPU_IS_LOST})
    answers = probe(SimulatedNvml([H200, lost, dataclasses.replace(H200, uuid="GPU-cccc")]))
    (cpu,) = classify([Node("a", answers, 2, gpu_limit=3)])
    text = " ".join(describe_hardware([cpu]).split())
    assert "start its Ray node again with CUDA_VISIBLE_DEVICES=0,2" in text
    assert [one.device for one in classify([Node("a", answers, 2, gpu_limit=2)])] == [
        "cpu",
        "gpu",
    ]
