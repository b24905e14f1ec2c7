"""Fleets of `plan --nodes`: numbers of hardware classes, and saved listings."""

import json
from pathlib import Path

import pytest

from orchestrator.core.arms import Arm
from orchestrator.core.errors import Refusal
from orchestrator.diagnostics.hardware_listing import hardware_json
from orchestrator.hardware import Node, classify
from orchestrator.planning.fleets import known_nodes, read_fleet
from tests.building.hardware import build_cpu_use, build_gpu_use, build_node
from tests.building.trials import build_full_trial

T4, TWO = build_node("gpu", cpus=8, gpus=2), build_node("two", cpus=4, cpu_model="CPU C")


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    """Return what fleets may be made of: a node with two GPUs, and CPUs A and B that had trials.

    The working directory has `lab.json`, of the node with two GPUs and one of CPU C.
    """
    monkeypatch.chdir(tmp_path)
    Path("lab.json").write_text(json.dumps(hardware_json(classify([T4, TWO]))))
    Path("old.json").write_text(json.dumps({"format": "rnnsweep-hardware", "version": 1}))
    arms = [Arm("torch/portable", build_cpu_use(model)) for model in ("CPU A", "CPU B")]
    return known_nodes([T4], [build_full_trial(arm=arm) for arm in arms])


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        pytest.param("2 x CPU A, 2*", {"CPU A, 2 CPUs": 2}, id="a pattern"),
        pytest.param(
            "1 x CPU A, 2 CPUs, 3 × cpu b, 2 cpus",
            {"CPU A, 2 CPUs": 1, "CPU B, 2 CPUs": 3},
            id="two classes whose names have commas",
        ),
        pytest.param(
            "4 x NVIDIA T4",
            {"CPU A, 8 CPUs": 4, "NVIDIA T4 (CPU A, 8 CPUs)": 4},
            id="GPUs and the CPUs beside them",
        ),
        pytest.param(
            "1 x CPU B*, 2 x lab.json",
            {
                "CPU C, 4 CPUs": 2,
                "CPU A, 8 CPUs": 2,
                "CPU B, 2 CPUs": 1,
                "NVIDIA T4 (CPU A, 8 CPUs)": 2,
            },
            id="a class, and a file twice",
        ),
    ],
)
def test_a_fleet_is_numbers_of_classes_and_files(
    text: str, classes: dict[str, int], samples: list[Node]
) -> None:
    nodes = read_fleet(text, samples)
    assert len({node.id for node in nodes}) == len(nodes)
    assert {group.name: len(group.nodes) for group in classify(nodes)} == classes


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        pytest.param("2 x NVIDIA T5", "no class .*NVIDIA T4", id="an unknown class"),
        pytest.param(
            "2 x cpu", "several classes .*CPU A, 2 CPUs; CPU B, 2 CPUs", id="several classes"
        ),
        pytest.param("NVIDIA T4", "a number of nodes", id="no number"),
        pytest.param("20000 x NVIDIA T4", "at most 10,000", id="too many nodes"),
        pytest.param("old.json", "of format 1", id="a file of a former format"),
        pytest.param("absent.json", "No such file", id="no file"),
    ],
)
def test_a_fleet_of_unknown_classes_or_files_is_refused(
    text: str, refusal: str, samples: list[Node]
) -> None:
    with pytest.raises(Refusal, match=refusal):
        read_fleet(text, samples)


def test_a_node_is_known_again_from_its_trials() -> None:
    for hardware in (TWO, T4, build_node("arm", cpu_part="ARM 0x41 0xd40")):
        same = Node.of_class(hardware.main_class, max(1, hardware.gpus))
        facts = [(n.main_class, n.main_class.name, n.cpu_class, n.gpus) for n in (hardware, same)]
        assert facts[0] == facts[1]


def test_gpus_that_0_1_0_recorded_are_counted_by_their_name() -> None:
    name = "Acme 1, 80 GB"
    arm = Arm("torch/fused", build_gpu_use(name))
    trial = build_full_trial(arm=arm, environment={"gpus": f"{name}, {name}"})
    (known,) = known_nodes([], [trial])
    assert (known.main_class, known.gpus) == (arm.hardware_class, 2)
