"""A spec laid over hardware: what can run, what cannot and why, and the lanes of its nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.hardware import Gpu, HardwareClass, Node, NodeProfile, classify
from orchestrator.planning.lanes import Lane, lanes_of, make_lanes
from orchestrator.planning.plan import Plan, describe_plan, make_plan
from orchestrator.scheduling.preflight import NothingToRun, expect_runnable
from orchestrator.spec import SweepSpec
from tests.orchestrator.sample_plans import node
from tests.orchestrator.sample_specs import OWN, spec

FUSED = ["tensorflow/portable", "tensorflow/cudnn"]
NO_CUDNN = "cuDNN kernels need an NVIDIA GPU"


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


def test_cudnn_needs_a_gpu_and_absent_hardware_is_shown() -> None:
    laid = make_plan(spec_of(), machine())
    assert [str(arm) for arm in laid.arms] == ["tensorflow/portable on CPU A, 4 CPUs"]
    assert reasons(laid) == {
        "tensorflow/cudnn on cpu": NO_CUDNN,
        "tensorflow/portable on gpu": "no NVIDIA GPU found on 1 node (asked through NVML)",
        "tensorflow/cudnn on gpu": "no NVIDIA GPU found on 1 node (asked through NVML)",
    }
    assert (laid.blocks, laid.trials) == (3, 6)
    text = describe_plan(laid, "plan").splitlines()
    assert text[0] == "sweep plan: 3 blocks × 1 arm × 2 repeats = 6 trials"
    assert f"  cannot run tensorflow/cudnn on cpu: {NO_CUDNN}" in text
    assert "  cannot run tensorflow/portable, tensorflow/cudnn on gpu" in "\n".join(text)


def test_a_machine_with_a_gpu_offers_both() -> None:
    laid = make_plan(spec_of(), machine(gpus=1))
    assert [str(arm) for arm in laid.arms] == [
        "tensorflow/portable on CPU A, 4 CPUs",
        "tensorflow/portable on NVIDIA T4 (CPU A, 4 CPUs)",
        "tensorflow/cudnn on NVIDIA T4 (CPU A, 4 CPUs)",
    ]
    assert reasons(laid) == {"tensorflow/cudnn on cpu": NO_CUDNN}


@pytest.mark.parametrize(
    ("part", "value", "words"),
    [
        ("settings", {"activation": "relu"}, "activation tanh"),
        ("settings", {"recurrent_activation": "hard_sigmoid"}, "recurrent activation sigmoid"),
        ("settings", {"recurrent_dropout": 0.2}, "no recurrent dropout"),
        ("settings", {"use_bias": False}, "needs the bias"),
        ("space", {"activation": ["tanh", "relu"]}, "the space has activation: relu"),
        ("space", {"use_bias": [True, False]}, "the space has use_bias: false"),
        (
            "space",
            {"recurrent_dropout": {"low": 0.0, "high": 0.5}},
            "the space has recurrent_dropout",
        ),
    ],
)
def test_settings_that_cudnn_cannot_do_take_its_arm_out_with_the_reason(
    part: str, value: dict[str, Any], words: str
) -> None:
    wanted = spec_of(**{part: value, "configs": 1})
    assert words in reasons(make_plan(wanted, machine(gpus=1)))["tensorflow/cudnn on gpu"]


def test_settings_that_fit_only_with_a_value_of_the_space_are_laid_out() -> None:
    wanted = spec_of()
    space = {"dataset": {"choices": ["mnist"]}, "activation": {"choices": ["tanh", "relu"]}}
    search = {**wanted.search.model_dump(), "space": space}
    body = {**wanted.model_dump(), "settings": {"data_path": "x.npz"}, "search": search}
    laid = make_plan(SweepSpec.model_validate(body), machine(gpus=1))
    assert "the space has activation: relu" in reasons(laid)["tensorflow/cudnn on gpu"]


@pytest.mark.parametrize(
    ("entry", "is_found"),
    [("*T4*", True), ("NVIDIA T4", True), ("NVIDIA T4 (CPU A, 4 CPUs)", True), ("*L4*", False)],
)
def test_a_hardware_class_can_be_named_or_matched(entry: str, is_found: bool) -> None:
    laid = make_plan(one_of(entry), machine(gpus=1))
    assert bool(laid.arms) is is_found
    assert all(reason.startswith("no node is of this") for reason in reasons(laid).values())


@pytest.mark.parametrize("selector", ["gpu", "NVIDIA T4", "*L4*"])
def test_unlike_gpus_of_a_node_are_not_possible(selector: str) -> None:
    unlike = (Gpu(0, "NVIDIA T4", "GPU-0", 16_000), Gpu(1, "NVIDIA L4", "GPU-1", 24_000))
    profile = NodeProfile("host", "CPU A", 4, 8_000, unlike, None, "Linux", "3.11")
    laid = make_plan(one_of(selector), classify([Node("id", profile, 4)]))
    assert laid.arms == ()
    (reason,) = reasons(laid).values()
    assert reason.startswith("host has unlike GPUs (NVIDIA L4, NVIDIA T4)")


@pytest.mark.parametrize("selector", ["gpu", "NVIDIA T4"])
def test_a_gpu_that_does_not_answer_is_reported_where_none_is_found(selector: str) -> None:
    here = node("host")
    lost = replace(here.profile, gpu_faults=("GPU 0 does not answer: GPU is lost",))
    (reason,) = reasons(
        make_plan(one_of(selector), classify([replace(here, profile=lost)]))
    ).values()
    assert reason.endswith("; on host, GPU 0 does not answer: GPU is lost")


def test_a_reason_that_holds_for_every_config_names_none() -> None:
    configs = [{"units": 8}, {"units": 9}]
    laid = make_plan(spec_of(configs=configs, sampler=None, space=None), machine(gpus=1))
    assert reasons(laid) == {"tensorflow/cudnn on cpu": NO_CUDNN}


def test_an_arm_named_twice_runs_once() -> None:
    assert len(make_plan(one_of("cpu", "CPU A*"), machine()).arms) == 1


def test_a_users_implementations_are_names_of_its_own() -> None:
    wanted = spec(workload="my.module:run", implementations=["anything/cudnn"])
    assert len(make_plan(wanted, machine()).arms) == 1


def test_a_backend_that_is_not_installed_shows_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda package: package != "jax")
    wanted = spec(implementations=["tensorflow/portable", "jax/portable"])
    laid = make_plan(wanted, machine())
    reason = "jax is not installed here: pip install 'rnnsweep[jax]'"
    assert reasons(laid) == {"jax/portable on cpu": reason}
    expect_runnable(wanted, laid)
    alone = spec(implementations=["jax/portable"])
    with pytest.raises(NothingToRun, match=r"jax/portable on cpu: jax is not installed here: pip"):
        expect_runnable(alone, make_plan(alone, machine()))


def test_an_arm_of_other_mathematics_is_reported_as_such() -> None:
    laid = make_plan(
        spec(implementations=["tensorflow/portable", "tensorflow/portable+relu"]), machine()
    )
    assert "different mathematics (activation relu)" in describe_plan(laid, "plan")
    assert [arm["mathematics"] for arm in laid.as_json()["arms"]] == ["", "activation relu"]


def test_fresh_trainers_are_reported_with_their_reason() -> None:
    laid = make_plan(spec(objectives={"peak_rss_mib": "minimize"}), machine())
    assert "fresh trainer process: peak_rss_mib is an objective" in describe_plan(laid, "plan")
    assert laid.as_json()["trainer"] == "fresh"
    warm = make_plan(spec(), machine())
    assert "fresh" not in describe_plan(warm, "plan")
    assert warm.as_json()["trainer"] == "warm"


def reading(over: str, **changes: Any) -> SweepSpec:
    return spec_of(objectives={"val_accuracy": {"direction": "maximize", "over": over}}, **changes)


TIMED = ["gpu", {"class": "CPU A*", "measure": "timing"}]


@pytest.mark.parametrize(
    ("wanted", "gpus", "reason"),
    [
        (spec(implementations=["tensorflow/cudnn"]), 0, NO_CUDNN),
        (reading("tensorflow/portable on cpu"), 1, None),
        (reading("tensorflow/cudnn"), 0, "val_accuracy reads only tensorflow/cudnn"),
        (
            reading("tensorflow/portable on CPU ?*", hardware=TIMED),
            1,
            r"trained whole.*measure: full",
        ),
        (reading("mean", hardware=TIMED), 1, None),
    ],
)
def test_a_plan_that_could_have_no_result_is_refused(
    wanted: SweepSpec, gpus: int, reason: str | None
) -> None:
    laid = make_plan(wanted, machine(gpus))
    if reason is None:
        expect_runnable(wanted, laid)
        return
    with pytest.raises(NothingToRun, match=reason):
        expect_runnable(wanted, laid)


def labelled(name: str, labels: dict[str, str], **fields: Any) -> Node:
    return replace(node(name, cpus=8, **fields), labels=labels)


LABELLED = classify(
    [
        labelled("n0", {"market-type": "spot"}),
        labelled("n1", {"market-type": "on-demand"}),
        labelled("n2", {"market-type": "spot", "ray.io/accelerator-type": "T4"}, gpus=1),
        labelled(
            "n3", {"ray.io/accelerator-type": "L4"}, gpus=1, gpu="NVIDIA L4", cpu_model="CPU B"
        ),
    ]
)
SPOT = {"market-type": "spot"}


@pytest.mark.parametrize(
    ("hardware", "arms"),
    [
        ([{"class": "cpu", "labels": SPOT}], {"CPU A, 8 CPUs": ["n0"]}),
        (
            [{"class": "cpu", "labels": {"market-type": "!spot"}}],
            {"CPU A, 8 CPUs": ["n1"], "CPU B, 8 CPUs": ["n3"]},
        ),
        (
            [{"class": "gpu", "labels": {"ray.io/accelerator-type": "in(T4, A100)"}}],
            {"NVIDIA T4 (CPU A, 8 CPUs)": ["n2"]},
        ),
        ([{"labels": SPOT}], {"CPU A, 8 CPUs": ["n0"], "NVIDIA T4 (CPU A, 8 CPUs)": ["n2"]}),
        (
            [
                {"class": "cpu", "labels": SPOT},
                {"class": "cpu", "labels": {"market-type": "on-demand"}},
            ],
            {"CPU A, 8 CPUs": ["n0", "n1"]},
        ),
    ],
)
def test_labels_choose_nodes(hardware: list[Any], arms: dict[str, list[str]]) -> None:
    laid = make_plan(one_of(*hardware), LABELLED)
    assert {
        str(planned.arm.hardware): [node.id for node in planned.hardware.nodes]
        for planned in laid.possible
    } == arms


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"labels": {"zone": "eu"}}, "no node has the labels zone=eu; present: market-type=on-dem"),
        ({"class": "gpu", "labels": {"market-type": "on-demand"}}, "no NVIDIA GPU found on 1 node"),
        ({"class": "*L4*", "labels": SPOT}, "no node of this class has the labels market-type=s"),
        ({"class": "*L4*", "cpus": 9}, "cpus: 9 for a trial, but a node of NVIDIA L4 (CPU B, 8 C"),
        ({"class": "CPU A*", "threads": 9}, "threads: 9 for a trial, but a node of CPU A, 8 CPUs"),
        ({"class": "CPU A*", "cpus": 2}, "cpus: a CPU arm takes its whole node; threads limits"),
    ],
)
def test_hardware_that_cannot_be_used_as_asked_is_reported(entry: Any, reason: str) -> None:
    (text,) = reasons(make_plan(one_of(entry), LABELLED)).values()
    assert text.startswith(reason)


def test_what_holds_for_one_class_only_is_reported_of_that_class() -> None:
    hardware = classify([node("n0", cpus=8), node("n1", cpu_model="CPU B")])
    laid = make_plan(one_of({"class": "cpu", "threads": 4}), hardware)
    assert [str(arm) for arm in laid.arms] == ["tensorflow/portable on CPU A, 8 CPUs [4 threads]"]
    assert list(reasons(laid)) == ["tensorflow/portable on CPU B, 2 CPUs [4 threads]"]


def test_another_use_of_a_class_is_another_arm() -> None:
    wanted = one_of(
        "cpu", {"class": "cpu", "threads": 2}, {"class": "cpu", "settings": {"epochs": 1}}
    )
    laid = make_plan(wanted, classify([node("n0", cpus=8)]))
    uses = ["CPU A, 8 CPUs", "CPU A, 8 CPUs [2 threads]", "CPU A, 8 CPUs [epochs 1]"]
    assert [str(arm.hardware) for arm in laid.arms] == uses
    lane = only_lane(laid)
    assert [lane.cpus_used(arm) for arm in laid.arms] == [None, 2, None]
    assert lane.bundle("cpu") == {"CPU": 8}


@pytest.mark.parametrize(
    ("use", "cpus", "slots", "used"),
    [
        ({}, 2, 4, 2),
        ({"cpus": 4}, 4, 2, 4),
        ({"cpus": 1}, 1, 4, 1),
        ({"cpus": 8}, 8, 1, None),
        ({"threads": 1}, 2, 4, 1),
        ({"cpus": 4, "threads": 3}, 4, 2, 3),
    ],
)
def test_a_gpu_has_its_share_of_the_cpus_or_what_is_asked_for(
    use: dict[str, int], cpus: int, slots: int, used: int | None
) -> None:
    laid = make_plan(one_of({"class": "gpu", **use}), classify([node("n0", cpus=8, gpus=4)]))
    lane = only_lane(laid)
    assert (lane.bundle("gpu"), lane.slots) == ({"CPU": cpus, "GPU": 1}, slots)
    assert lane.cpus_used(laid.arms[0]) == used


@pytest.mark.parametrize(
    ("ray_cpus", "ray_gpus", "slots", "share"),
    [(64, None, 4, 2), (8, None, 4, 2), (4, None, 4, 1), (8, 2, 2, 4), (8, 1, 1, 8)],
)
def test_no_more_is_shared_out_than_both_the_node_and_ray_have(
    ray_cpus: int, ray_gpus: int | None, slots: int, share: int
) -> None:
    here = node("n0", cpus=8, gpus=4)
    laid = make_plan(one_of("gpu"), classify([Node("n0", here.profile, ray_cpus, ray_gpus)]))
    assert (only_lane(laid).slots, only_lane(laid).cpus) == (slots, share)


def test_a_node_of_several_groups_has_one_lane() -> None:
    nodes = [node("n0", gpus=1), node("n1", gpus=1, gpu="NVIDIA L4")]
    groups = make_lanes(make_plan(one_of("cpu", "*T4*", "*L4*"), classify(nodes)))
    names = [sorted(lane.node.id for lane in group.lanes) for group in groups]
    assert names == [["n0", "n1"], ["n0"], ["n1"]]
    shared = {"CPU": 2, "GPU": 1}
    assert len(lanes_of(groups)) == 2
    assert all(lane.bundle("cpu") == lane.bundle("gpu") == shared for lane in lanes_of(groups))


def test_a_plan_shows_the_stopping_rule_and_what_is_timed() -> None:
    checked = spec(
        OWN,
        configs=None,
        space={"layers": {"low": 1, "high": 99}},
        implementations=["python/a", "python/b"],
        measure={"mode": "timing", "interval": 0.02, "slices": [8, 40]},
        blocks={"interval": 0.005, "at_least": 8, "at_most": 20},
    )
    laid = make_plan(checked, machine())
    text = describe_plan(laid, "sure")
    assert "sweep sure: 8 to 20 blocks × 2 arms = at most 40 trials" in text
    assert "is within ± 0.5 %" in text
    assert "8 to 40 slices of 0.25 s each, until each ratio of a round is known to ± 2 %" in text
    plain = describe_plan(laid.with_block_count(9), "sure")
    assert "sweep sure: 9 blocks × 2 arms = 18 trials" in plain
