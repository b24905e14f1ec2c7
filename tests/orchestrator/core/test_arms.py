"""Identity of arms: fields, never texts."""

import random
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from orchestrator.core.arms import Arm, HardwareRef, Usage, Variant
from orchestrator.core.trial import Block, make_trial
from tests.building.hardware import build_cpu_use, build_gpu_use, build_timing_use
from tests.building.trials import IDENTITY


def key(arm: Arm) -> str:
    return make_trial(IDENTITY, Block(0, {"units": 8}), arm, 0).key


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (Usage(), ""),
        (Usage(settings={"epochs": 1, "share": 0.5}), " [epochs 1, share 0.5]"),
        (Usage(cpus=8, settings={"epochs": 1}, measure="timing"), " [8 CPUs, timing, epochs 1]"),
    ],
)
def test_the_display_text_has_the_class_and_its_use(usage: Usage, text: str) -> None:
    hardware = build_gpu_use("NVIDIA H200", "AMD EPYC", 16, usage)
    assert str(hardware) == f"NVIDIA H200 (AMD EPYC, 16 CPUs){text}"
    assert str(Arm("jax/scan", hardware)) == f"jax/scan on {hardware}"
    assert str(Arm("jax/scan", hardware, Variant("gru"))) == f"gru: jax/scan on {hardware}"


EVERY = [
    Arm(implementation, hardware)
    for implementation in ("jax/scan", "torch/fused")
    for hardware in (
        build_cpu_use(),
        build_cpu_use(cpus=4),
        build_cpu_use("Intel Xeon"),
        build_gpu_use(),
        build_gpu_use("NVIDIA T4"),
        build_timing_use(build_cpu_use()),
        build_cpu_use(usage=Usage(threads=2)),
        build_gpu_use(usage=Usage(cpus=2)),
        build_cpu_use(usage=Usage(settings={"epochs": 1})),
        build_cpu_use(usage=Usage(settings={"epochs": 2})),
    )
]
SETTINGS: list[dict[str, str | float | bool]] = [
    {},
    {"cell": "gru"},
    {"cell": "gru", "use_bias": True},
    {"dropout": 0.5},
]
EVERY += [
    Arm("jax/scan", build_cpu_use(), Variant(name, settings))
    for name in ("gru", "again")
    for settings in SETTINGS
]


def test_each_field_makes_another_arm_with_other_trials() -> None:
    assert len(set(EVERY)) == len({key(arm) for arm in EVERY}) == len(EVERY)
    mixed = random.Random(1).sample(EVERY, len(EVERY))
    assert sorted(mixed) == sorted(EVERY)
    one = build_cpu_use(usage=Usage(settings={"epochs": 1, "share": 2}))
    other = build_cpu_use(usage=Usage(settings={"share": 2.0, "epochs": 1.0}))
    assert one == other and hash(one) == hash(other)
    assert key(Arm("jax/scan", one)) == key(Arm("jax/scan", other))


def test_an_arm_is_the_same_in_another_wording_and_when_read_back_from_json() -> None:
    adapter = TypeAdapter(Arm)
    for arm in EVERY:
        renamed = replace(arm.hardware_class, name="X")
        other = replace(arm, hardware=replace(arm.hardware, hardware_class=renamed))
        assert (other, key(other)) == (arm, key(arm))
        read = adapter.validate_json(adapter.dump_json(arm), strict=True)
        assert (read, str(read)) == (arm, str(arm))


@pytest.mark.parametrize("part", [None, "ARM 0x41/0xd40"])
def test_a_class_of_a_store_has_the_facts_that_it_was_made_from(part: str | None) -> None:
    host = HardwareRef.of_cpu("Neoverse-N1 (r3), 2 CPUs", 1, part)
    for ref in (host, host.of_gpu("T4 (a), 8 CPUs")):
        assert (ref.cpu_model, ref.cpus, ref.cpu_part) == ("Neoverse-N1 (r3), 2 CPUs", 1, part)
        assert ref.host_id == host.id
