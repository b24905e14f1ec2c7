"""GPUs as NVML reports them, or refuses to: one call in turn, by a stand-in for its library."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest
import yaml

from orchestrator import hardware
from orchestrator.hardware import Node, NodeProfile, classify, no_gpu_class_reason
from orchestrator.hardware.nvml import Memory, Nvml, NvmlDevice
from tests.nvml import simulated

Probe: TypeAlias = Callable[[simulated.SimulatedNvml], NodeProfile]

ROWS = yaml.safe_load(Path(__file__).with_name("facts.yaml").read_text())
H200 = simulated.SimulatedGpu(**ROWS["simulated_h200"])
T4 = simulated.SimulatedGpu(uuid="GPU-bbbb")


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Probe:
    def of(nvml: simulated.SimulatedNvml) -> NodeProfile:
        nvml.in_this_process(monkeypatch, tmp_path)
        return hardware.probe()

    return of


def failing(errors: Mapping[str, int]) -> simulated.SimulatedGpu:
    return dataclasses.replace(H200, errors=errors)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        *itertools.product(
            ["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetName", "nvmlDeviceGetUUID", "*"],
            [simulated.GPU_IS_LOST, simulated.NOT_SUPPORTED, simulated.UNKNOWN],
        ),
        ("nvmlDeviceGetEnforcedPowerLimit", simulated.GPU_IS_LOST),
    ],
)
def test_a_gpu_that_has_no_name_or_is_lost_is_a_fault(probe: Probe, call: str, code: int) -> None:
    answers = probe(simulated.SimulatedNvml([failing({call: code}), T4]))
    assert [(gpu.index, gpu.name) for gpu in answers.gpus] == [(1, "NVIDIA T4")]
    (fault,) = answers.gpu_faults
    assert fault.startswith("GPU 0 does not answer: ")
    assert code != simulated.GPU_IS_LOST or fault.endswith(": GPU is lost")
    (_, gpu) = classify([Node("", answers, 2)])
    assert gpu.name.startswith("NVIDIA T4 (")


@pytest.mark.parametrize("call", ["*", *simulated.NODE_CALLS])
@pytest.mark.parametrize(
    "code", [simulated.DRIVER_NOT_LOADED, simulated.LIB_RM_VERSION_MISMATCH, simulated.UNKNOWN]
)
def test_no_call_of_a_node_ends_a_probe(probe: Probe, call: str, code: int) -> None:
    answers = probe(simulated.SimulatedNvml([H200], errors={call: code}))
    assert bool(answers.gpus) != bool(answers.gpu_faults)


def test_a_gpu_in_parts_forms_no_class(probe: Probe) -> None:
    node = Node("", probe(simulated.SimulatedNvml([dataclasses.replace(H200, mig=True)])), 2)
    assert [one.device for one in classify([node])] == ["cpu"]
    assert "nvidia-smi -i 0 -mig 0" in (no_gpu_class_reason(node) or "")


def test_ray_may_not_hand_out_a_gpu_that_is_lost(probe: Probe) -> None:
    third = dataclasses.replace(H200, uuid="GPU-cccc")
    answers = probe(simulated.SimulatedNvml([H200, failing({"*": simulated.GPU_IS_LOST}), third]))
    node = Node("a", answers, 2, gpu_limit=3)
    assert [one.device for one in classify([node])] == ["cpu"]
    assert "CUDA_VISIBLE_DEVICES=0,2" in (no_gpu_class_reason(node) or "")
    node = Node("a", answers, 2, gpu_limit=2)
    assert [one.device for one in classify([node])] == ["cpu", "gpu"]


FACTS = ROWS["h200"]
MODES, NUMBERS = FACTS.pop("modes"), FACTS.pop("numbers")
FACTS |= {"compute_pids": (11, 0, 0), "clock_reasons": set(FACTS["clock_reasons"])}
FACTS["memory"] = Memory(143_771.0, 100.0)
EVERY: dict[str, object] = {**FACTS, **NUMBERS, **MODES}


def readings(device: NvmlDevice) -> dict[str, object]:
    facts = {name: getattr(device, name)() for name in FACTS}
    facts |= {name: device.number(name) for name in NUMBERS}
    return facts | {"Ecc": device.mode("Ecc"), "Mig": device.mode("Mig")}


@pytest.mark.parametrize(
    "code", [simulated.NOT_SUPPORTED, simulated.FUNCTION_NOT_FOUND, simulated.UNKNOWN, 4711]
)
def test_a_call_that_is_refused_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int
) -> None:
    simulated.SimulatedNvml([H200]).in_this_process(monkeypatch, tmp_path)
    absent = Counter[str]()
    with closing(Nvml()) as nvml:
        device = nvml.device(0)
        for call in simulated.GPU_CALLS:
            simulated.SimulatedNvml([failing({call: code})]).write(tmp_path)
            measured = readings(device)
            lacking = [name for name, value in measured.items() if value is None]
            expected = {**EVERY, **dict.fromkeys(lacking)}
            if call == "nvmlDeviceGetMemoryInfo_v2":
                expected["memory"] = Memory(143_771.0, 110.0)  # with the driver's own part
            assert measured == expected, call
            refused = list(device.errors.values())
            assert (refused or not lacking) and not device.lost
            assert all((one.code, one.call) == (code, call.removesuffix("_v3")) for one in refused)
            absent.update(lacking)
        simulated.SimulatedNvml([H200]).write(tmp_path)
        assert readings(device) == EVERY
        assert device.errors == {}  # a later reading clears its error
    two_calls = {"memory", "clock_reasons"}
    assert absent == dict.fromkeys(EVERY.keys() - two_calls, 1)
