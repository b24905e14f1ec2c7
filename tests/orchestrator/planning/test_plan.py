"""A spec laid over hardware: what can run, what cannot and why, and the lanes of its nodes."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.core.errors import Refusal
from orchestrator.hardware import HardwareClass, Node, classify
from orchestrator.planning.description import describe_plan
from orchestrator.planning.lanes import Lane, make_lanes
from orchestrator.planning.plan import Plan, make_plan
from orchestrator.scheduling.runnable import expect_runnable
from orchestrator.spec import SweepSpec
from tests.orchestrator.planning import reference_plans
from tests.orchestrator.sample_plans import node
from tests.orchestrator.sample_specs import spec

ROWS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("plans.yaml").read_text())
FUSED = ["tensorflow/portable", "tensorflow/cudnn"]
NO_CUDNN = "cuDNN kernels need an NVIDIA GPU"
NO_GPU = "no NVIDIA GPU found on 1 node (asked through NVML)"


def spec_of(**changes: Any) -> SweepSpec:
    usual = {"hardware": ["cpu", "gpu"], "implementations": FUSED, "repeats": 2}
    return spec(**{**usual, **changes})


def one_of(*hardware: Any) -> SweepSpec:
    return spec(hardware=list(hardware))


def machine(gpus: int = 0) -> tuple[HardwareClass, ...]:
    return classify([node("host", cpus=4, gpus=gpus)])


def reasons(laid: Plan) -> dict[str, str]:
    return {str(impossible.arm): impossible.reason for impossible in laid.impossible}


def only_lane(laid: Plan) -> Lane:
    ((lane,),) = (group.lanes for group in make_lanes(laid))
    return lane


def test_what_runs_and_what_cannot_is_shown() -> None:
    laid = make_plan(spec_of(), machine())
    assert [str(arm) for arm in laid.arms] == ["tensorflow/portable on CPU A, 4 CPUs"]
    assert reasons(laid) == {
        "tensorflow/cudnn on cpu": NO_CUDNN,
        "tensorflow/portable on gpu": NO_GPU,
        "tensorflow/cudnn on gpu": NO_GPU,
    }
    assert (laid.blocks, laid.trials) == (3, 6)
    assert describe_plan(spec_of(), laid).splitlines() == [
        "sweep mine: 3 blocks × 1 arm × 2 repeats = 6 trials",
        "  runs   tensorflow/portable on CPU A, 4 CPUs",
        f"  cannot run tensorflow/cudnn on cpu: {NO_CUDNN}",
        f"  cannot run tensorflow/portable, tensorflow/cudnn on gpu: {NO_GPU}",
    ]
    laid = make_plan(spec_of(), machine(gpus=1))
    assert str(laid.arms[-1]) == "tensorflow/cudnn on NVIDIA T4 (CPU A, 4 CPUs)"
    assert (len(laid.arms), reasons(laid)) == (3, {"tensorflow/cudnn on cpu": NO_CUDNN})


@pytest.mark.parametrize(("changes", "words"), ROWS["unfit"])
def test_values_that_cudnn_cannot_do_take_its_arm_out(
    changes: dict[str, Any], words: str | None
) -> None:
    wanted = spec_of(**{"configs": 1, **changes})
    why = reasons(make_plan(wanted, machine(gpus=1)))
    assert why.pop("tensorflow/cudnn on cpu").startswith(NO_CUDNN), "whatever the config"
    assert len(why) == (words is not None)
    assert all((words or "") in text for text in why.values())


def test_each_variant_is_an_arm_where_its_settings_allow() -> None:
    variants = [{"cell": "gru"}, {"name": "noisy", "settings": {"recurrent_dropout": 0.2}}]
    wanted = spec_of(variants=variants, hardware=["gpu"])
    laid = make_plan(wanted, machine(gpus=1))
    assert [arm.short_name for arm in laid.arms] == [
        *("gru: tensorflow/portable", "noisy: tensorflow/portable", "gru: tensorflow/cudnn")
    ]
    ((arm, reason),) = reasons(laid).items()
    assert (arm, "no recurrent dropout" in reason) == ("noisy: tensorflow/cudnn on gpu", True)
    assert "different models (gru, noisy)" in describe_plan(wanted, laid)
    assert laid.as_json()["arms"][0]["variant"] == {"name": "gru", "settings": {"cell": "gru"}}


def test_settings_that_fit_only_with_a_value_of_the_space_are_laid_out() -> None:
    wanted = spec_of()
    space = {"dataset": {"choices": ["mnist"]}, "activation": {"choices": ["tanh", "relu"]}}
    search = {**wanted.search.model_dump(), "space": space}
    body = {**wanted.model_dump(), "settings": {"data_path": "x.npz"}, "search": search}
    laid = make_plan(SweepSpec.model_validate(body), machine(gpus=1))
    assert "the space has activation: relu" in reasons(laid)["tensorflow/cudnn on gpu"]


def test_a_class_can_be_named_or_matched_and_runs_once() -> None:
    for entry in ("*T4*", "NVIDIA T4", "NVIDIA T4 (CPU A, 4 CPUs)", "CPU A*"):
        assert len(make_plan(one_of(entry), machine(gpus=1)).arms) == 1
    assert len(make_plan(one_of("cpu", "CPU A*"), machine()).arms) == 1
    laid = make_plan(one_of("*L4*"), machine(gpus=1))
    assert laid.arms == ()
    assert all(reason.startswith("no node is of this") for reason in reasons(laid).values())


@pytest.mark.parametrize("selector", ["gpu", "*L4*"])
def test_a_gpu_that_is_lost_is_the_reason(selector: str) -> None:
    here = node("host")
    host = replace(here, profile=replace(here.profile, gpu_faults=("GPU 0 is lost",)))
    laid = make_plan(one_of(selector), classify([host]))
    assert laid.arms == ()
    assert all("; on host, GPU 0 is lost" in reason for reason in reasons(laid).values())


def test_reference_sweeps_have_the_recorded_arms_on_an_h200_an_a100_and_a_t4(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    golden = yaml.safe_load(reference_plans.GOLDEN.read_text())
    assert reference_plans.reference_plans(monkeypatch, tmp_path) == golden


@pytest.mark.parametrize(("changes", "text", "key", "value"), ROWS["described"])
def test_a_plan_is_described_in_words_and_as_json(
    changes: dict[str, Any], text: str, key: str, value: Any
) -> None:
    wanted = spec(**changes)
    laid = make_plan(wanted, machine())
    described = describe_plan(wanted, laid)
    assert text in described
    assert ("fresh" in described) == ("fresh" in text)
    assert laid.as_json()[key] == value
    fixed = describe_plan(wanted, laid.with_index_count(9))
    assert fixed.startswith("sweep mine: 9 blocks × 1 arm = 9 trials")


@pytest.mark.parametrize(("changes", "over", "gpus", "reason"), ROWS["results"])
def test_a_plan_that_could_have_no_result_is_refused(
    changes: dict[str, Any], over: str | None, gpus: int, reason: str | None
) -> None:
    read = {"val_accuracy": {"direction": "maximize", "over": over}} if over else None
    wanted = spec_of(objectives=read, **changes)
    refused = pytest.raises(Refusal, match=reason) if reason else contextlib.nullcontext()
    with refused:
        expect_runnable(wanted, make_plan(wanted, machine(gpus)))


def labelled(name: str, labels: dict[str, str], **fields: Any) -> Node:
    return replace(node(name, cpus=8, **fields), labels=labels)


SPOT, ON_DEMAND = {"market-type": "spot"}, {"market-type": "on-demand"}
LABELLED = classify(
    [
        labelled("n0", SPOT),
        labelled("n1", ON_DEMAND),
        labelled("n2", {**SPOT, "ray.io/accelerator-type": "T4"}, gpus=1),
        labelled(
            "n3", {"ray.io/accelerator-type": "L4"}, gpus=1, gpu="NVIDIA L4", cpu_model="CPU B"
        ),
    ]
)


@pytest.mark.parametrize(("hardware", "nodes"), ROWS["labels"])
def test_labels_choose_nodes(hardware: list[Any], nodes: list[list[str]]) -> None:
    laid = make_plan(one_of(*hardware), LABELLED)
    assert [[node.id for node in planned.hardware.nodes] for planned in laid.possible] == nodes


@pytest.mark.parametrize(("entry", "reason"), ROWS["unusable"])
def test_hardware_that_cannot_be_used_as_asked_is_reported(entry: Any, reason: str) -> None:
    (text,) = reasons(make_plan(one_of(entry), LABELLED)).values()
    assert text.startswith(reason)


def test_what_holds_for_one_class_only_is_reported_of_that_class() -> None:
    hardware = classify([node("n0", cpus=8), node("n1", cpu_model="CPU B")])
    laid = make_plan(one_of({"class": "cpu", "threads": 4}), hardware)
    assert [str(arm) for arm in laid.arms] == ["tensorflow/portable on CPU A, 8 CPUs [4 threads]"]
    assert list(reasons(laid)) == ["tensorflow/portable on CPU B, 2 CPUs [4 threads]"]


def test_another_use_of_a_class_is_another_arm() -> None:
    uses = {"class": "cpu", "threads": 2}, {"class": "cpu", "settings": {"epochs": 1}}
    laid = make_plan(one_of("cpu", *uses), classify([node("n0", cpus=8)]))
    names = ["CPU A, 8 CPUs", "CPU A, 8 CPUs [2 threads]", "CPU A, 8 CPUs [epochs 1]"]
    assert [str(arm.hardware) for arm in laid.arms] == names
    lane = only_lane(laid)
    assert [lane.cpus_used(arm) for arm in laid.arms] == [None, 2, None]
    assert lane.bundle("cpu") == {"CPU": 8}


@pytest.mark.parametrize(("use", "ray_cpus", "ray_gpus", "cpus", "slots", "used"), ROWS["shares"])
def test_a_gpu_has_its_share_of_the_cpus_or_what_is_asked_for(
    use: dict[str, int], ray_cpus: int, ray_gpus: int | None, cpus: int, slots: int, used: int
) -> None:
    here = Node("n0", node("n0", cpus=8, gpus=4).profile, ray_cpus, ray_gpus)
    laid = make_plan(one_of({"class": "gpu", **use}), classify([here]))
    lane = only_lane(laid)
    assert (lane.bundle("gpu"), lane.slots) == ({"CPU": cpus, "GPU": 1}, slots)
    assert lane.cpus_used(laid.arms[0]) == used


def test_a_lost_gpu_keeps_a_slot_and_its_cpus() -> None:
    laid = make_plan(one_of("cpu", "gpu"), classify([node("n0", cpus=8, gpus=4)]))
    ((lane,), *_) = (group.lanes for group in make_lanes(laid, {"n0": 1}))
    assert (lane.bundle("gpu"), lane.slots) == ({"CPU": 2, "GPU": 1}, 3)
    assert (lane.bundle("cpu"), lane.takes_turns) == ({"CPU": 6}, True)


def test_a_node_of_several_groups_has_one_lane() -> None:
    nodes = [node("n0", gpus=1), node("n1", gpus=1, gpu="NVIDIA L4")]
    groups = make_lanes(make_plan(one_of("cpu", "*T4*", "*L4*"), classify(nodes)))
    names = [sorted(lane.node.id for lane in group.lanes) for group in groups]
    assert names == [["n0", "n1"], ["n0"], ["n1"]]
    shared = {"CPU": 2, "GPU": 1}
    lanes = {lane for group in groups for lane in group.lanes}
    assert len(lanes) == 2
    assert all(lane.bundle("cpu") == lane.bundle("gpu") == shared for lane in lanes)
