"""A spec laid over hardware: what can run, what cannot and why, and the lanes of its nodes."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from orchestrator import hardware
from orchestrator.core.errors import Refusal
from orchestrator.hardware import HardwareClass, Node, classify
from orchestrator.planning.description import describe_plan
from orchestrator.planning.lanes import Lane, make_lanes
from orchestrator.planning.plan import Plan, UnusableGpu, make_plan
from orchestrator.scheduling.runnable import expect_runnable, replaced_baseline
from orchestrator.spec import SweepSpec, load_spec
from tests.building.hardware import build_node
from tests.building.specs import build_spec
from tests.nvml.simulated import SimulatedGpu, SimulatedNvml
from workloads.model_facts import GraphCounts, ModelFacts
from workloads.own_code import code_in

ROOT = Path(__file__).resolve().parents[3]
FUSED = ["tensorflow/portable", "tensorflow/cudnn"]
NO_CUDNN = "cuDNN kernels need an NVIDIA GPU"
NO_GPU = "no NVIDIA GPU found on 1 node (asked through NVML)"


def spec_of(**changes: Any) -> SweepSpec:
    usual = {"hardware": ["cpu", "gpu"], "implementations": FUSED, "repeats": 2}
    return build_spec(**{**usual, **changes})


def one_of(*hardware: Any) -> SweepSpec:
    return build_spec(hardware=list(hardware))


def machine(gpus: int = 0) -> tuple[HardwareClass, ...]:
    return classify([build_node("host", cpus=4, gpus=gpus)])


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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param(
            {"space": {"recurrent_dropout": {"low": 0.0, "high": 0.5}}},
            "has recurrent_dropout",
            id="a range of the space",
        ),
        pytest.param(
            {
                "sampler": None,
                "space": None,
                "configs": [{"units": 8, "activation": "tanh"}, {"units": 9, "activation": "relu"}],
            },
            "(search.configs[1] has activation: relu)",
            id="a listed config",
        ),
    ],
)
def test_values_that_cudnn_cannot_do_take_its_arm_out(changes: dict[str, Any], words: str) -> None:
    wanted = spec_of(**{"configs": 1, **changes})
    why = reasons(make_plan(wanted, machine(gpus=1)))
    assert why.pop("tensorflow/cudnn on cpu").startswith(NO_CUDNN), "whatever the config"
    (text,) = why.values()
    assert words in text


def test_each_variant_is_an_arm_where_its_settings_allow() -> None:
    variants = [{"cell": "gru"}, {"name": "noisy", "settings": {"recurrent_dropout": 0.2}}]
    objectives = {"step_ms": "minimize", "val_loss": "minimize"}
    wanted = spec_of(variants=variants, hardware=["gpu"], objectives=objectives)
    laid = make_plan(wanted, machine(gpus=1))
    assert [arm.short_name for arm in laid.arms] == [
        "gru: tensorflow/portable",
        "noisy: tensorflow/portable",
        "gru: tensorflow/cudnn",
    ]
    ((arm, reason),) = reasons(laid).items()
    assert (arm, "no recurrent dropout" in reason) == ("noisy: tensorflow/cudnn on gpu", True)
    assert "different models (gru, noisy)" in describe_plan(wanted, laid)
    assert laid.as_json()["arms"][0]["variant"] == {"name": "gru", "settings": {"cell": "gru"}}


@pytest.mark.parametrize(
    ("carried", "settings", "words"),
    [
        (("hidden",), {}, ["keep the order of the data", "hidden"]),
        (("hidden",), {"shuffle": True}, ["are shuffled", "hidden"]),
        ((), {"shuffle": False}, ["keep the order of the data", "settings.shuffle"]),
        ((), {}, []),
    ],
)
def test_the_order_of_the_batches_is_shown(
    carried: tuple[str, ...], settings: dict[str, Any], words: list[str]
) -> None:
    wanted = spec_of(workload=None, model="mine:build", data="mine:load", settings=settings)
    facts = {"tensorflow": ModelFacts(("loss",), "digest", (), carried=carried)}
    text = describe_plan(wanted.with_inspections(facts), make_plan(wanted, machine()))
    lines = [line for line in text.splitlines() if "batches" in line]
    assert [all(word in line for word in words) for line in lines] == [True] * bool(words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ["without the callbacks of fit at mine.py:4: EarlyStopping", "callbacks: mine:"]),
        ({"callbacks": "mine:make"}, ["(mine:make): EarlyStopping, CSVLogger"]),
        ({"callbacks": "mine:make", "measure": "timing"}, ["not called: EarlyStopping"]),
    ],
)
def test_callbacks_are_shown_and_how_to_have_those_of_the_file(
    changes: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    source = "import keras\ndef build(): ...\ndef train():\n    build().fit(callbacks=[{}])\n"
    (tmp_path / "mine.py").write_text(source.format("keras.callbacks.EarlyStopping()"))
    wanted = spec_of(workload=None, model="mine:build", data="mine:build", settings={}, **changes)
    facts = {"tensorflow": ModelFacts(("loss",), "", (), callbacks=("EarlyStopping", "CSVLogger"))}
    with code_in(tmp_path):
        text = describe_plan(wanted.with_inspections(facts), make_plan(wanted, machine()))
    lines = [line for line in text.splitlines() if "callbacks" in line]
    assert [all(word in line for word in words) for line in lines] == [True]


@pytest.mark.parametrize(
    ("changes", "is_warned"),
    [
        ({"space": {"batch_size": [16, 32, 64]}}, True),
        (
            {
                "space": {"batch_size": [16, 32, 64]},
                "objectives": {"samples_per_s": "maximize"},
            },
            False,
        ),
        ({"space": {"units": [8, 16, 32]}}, False),
        ({"variants": [{"batch_size": 32}, {"batch_size": 64}]}, True),
        ({"variants": [{"cell": "lstm"}, {"cell": "gru"}]}, False),
    ],
)
def test_an_objective_per_batch_warns_of_unlike_batches(
    changes: dict[str, Any], *, is_warned: bool
) -> None:
    wanted = spec_of(**{"objectives": {"step_ms": "minimize"}, **changes})
    text = describe_plan(wanted, make_plan(wanted, machine()))
    assert ("samples_per_s: maximize" in text) == is_warned


@pytest.mark.parametrize(
    ("graphs", "words"),
    [
        (GraphCounts(2, 1, ("a number decides",)), ["2 graphs, 1 graph break", "a number decides"]),
        (GraphCounts(reason="RuntimeError: no"), ["not counted", "RuntimeError: no"]),
        (None, []),
    ],
)
def test_the_graphs_of_a_compiled_module_are_shown(
    graphs: GraphCounts | None, words: list[str]
) -> None:
    wanted = spec_of(workload=None, model="mine:build", data="mine:load", settings={})
    facts = {"torch": ModelFacts(("loss",), "digest", (), graphs=graphs)}
    text = describe_plan(wanted.with_inspections(facts), make_plan(wanted, machine()))
    lines = [line for line in text.splitlines() if "+compile:" in line]
    assert [all(word in line for word in words) for line in lines] == [True] * bool(words)


LISTED = {"sampler": None, "space": None, "configs": [{"units": 8}, {"units": 9}]}
SMALL = {"space": {"units": [8, 16, 32]}, "configs": 2}
GRID = {"sampler": "grid", "configs": None, "space": {"units": [8, 16]}}


@pytest.mark.parametrize(
    ("changes", "how"),
    [
        pytest.param({"configs": 5}, "--set search.configs=6", id="five configs"),
        pytest.param({"configs": 5, "repeats": 9}, "--set search.configs=6", id="many repeats"),
        pytest.param({"configs": 1, "repeats": 5}, "--set repeats=6", id="one config"),
        pytest.param(LISTED, "the list search.configs", id="a list"),
        pytest.param(SMALL, "configs=6, with more values in search.space", id="a small space"),
        pytest.param(GRID, "values to search.space", id="a grid"),
        pytest.param({"configs": 6}, None, id="six configs"),
        pytest.param({"configs": 1, "repeats": 6}, None, id="six repeats of one config"),
        pytest.param({"configs": 5, "hardware": ["cpu"]}, None, id="nothing to compare"),
    ],
)
def test_a_plan_that_can_decide_nothing_says_what_can(
    changes: dict[str, Any], how: str | None
) -> None:
    space = {"units": {"low": 8, "high": 64}}
    wanted = spec_of(**{"space": space, "hardware": ["gpu"], "repeats": 1, **changes})
    laid = make_plan(wanted, machine(gpus=1))
    assert laid.as_json()["can_decide"] == (how is None)
    lines = [text for text in describe_plan(wanted, laid).splitlines() if "give no verdict" in text]
    assert [str(how) in line for line in lines] == ([] if how is None else [True])


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
    here = build_node("host")
    host = replace(here, profile=replace(here.profile, gpu_faults=("GPU 0 is lost",)))
    laid = make_plan(one_of(selector), classify([host]))
    assert laid.arms == ()
    assert all("; on host, GPU 0 is lost" in reason for reason in reasons(laid).values())


def test_options_that_need_a_newer_gpu_do_not_run_on_an_old_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda package: True)
    SimulatedNvml([SimulatedGpu(name="NVIDIA T4", compute_capability=(7, 5))]).in_this_process(
        monkeypatch, tmp_path
    )
    spec = load_spec(ROOT / "sweeps" / "deepbench_rnn.yaml")
    laid = make_plan(spec, classify([Node("", hardware.probe(), 8)]))
    on_gpu = [other for other in laid.impossible if other.arm.hardware != "cpu"]
    refused = {"torch/fused+tf32", "torch/fused+bf16", "tensorflow/fused+tf32", "jax/fused+tf32"}
    assert {other.arm.short_name for other in on_gpu} == refused


class PlanWithoutResult(NamedTuple):
    """Changes of a spec, the arms that its objective reads, the GPUs, and a part of the refusal."""

    name: str
    changes: dict[str, Any]
    over: str | None = None
    gpus: int = 0
    reason: str | None = None


PLANS_WITHOUT_RESULT = [
    PlanWithoutResult(
        name="the arm that is read cannot run",
        changes={},
        over="tensorflow/cudnn",
        reason="val_accuracy reads only tensorflow/cudnn",
    ),
    PlanWithoutResult(
        name="no arm that is read is trained whole",
        changes={"hardware": ["gpu", {"class": "CPU A*", "measure": "timing"}]},
        over="* on CPU ?*",
        gpus=1,
        reason="only timed.*measure: full",
    ),
    PlanWithoutResult(
        name="an average of arms trained whole",
        changes={"hardware": ["gpu", {"class": "CPU A*", "measure": "timing"}]},
        over="mean",
        gpus=1,
    ),
]


@pytest.mark.parametrize("case", PLANS_WITHOUT_RESULT, ids=lambda case: case.name)
def test_a_plan_that_could_have_no_result_is_refused(case: PlanWithoutResult) -> None:
    read = {"val_accuracy": {"direction": "maximize", "over": case.over}} if case.over else None
    wanted = spec_of(objectives=read, **case.changes)
    refused = pytest.raises(Refusal, match=case.reason) if case.reason else contextlib.nullcontext()
    with refused:
        expect_runnable(wanted, make_plan(wanted, machine(case.gpus)))


def test_a_baseline_that_cannot_run_is_replaced_by_the_first_arm_that_can() -> None:
    wanted = spec_of(baseline="tensorflow/cudnn")
    assert replaced_baseline(wanted, make_plan(wanted, machine(gpus=1))) == []
    (replaced,) = replaced_baseline(wanted, make_plan(wanted, machine()))
    assert "tensorflow/portable on CPU A, 4 CPUs" in replaced
    assert "tensorflow/cudnn cannot run" in replaced
    assert NO_CUDNN in replaced
    assert NO_GPU in replaced


def test_gpus_that_a_framework_cannot_use_take_no_trials_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda package: True)
    hosts = [replace(build_node(name, cpus=4, gpus=1), id=name) for name in ("n0", "n1")]
    wanted = spec_of(implementations=[*FUSED, "torch/fused"])
    blind = [
        UnusableGpu(name, "tensorflow", "it sees none: pip install it") for name in ["n0", "n1"]
    ]
    masked = UnusableGpu("n1", "torch/fused", "masks are wrong")
    laid = make_plan(wanted, classify(hosts), unusable=[*blind, masked])
    assert {
        str(planned.arm.implementation): [node.id for node in planned.hardware.nodes]
        for planned in laid.possible
        if planned.arm.device == "gpu"
    } == {"torch/fused": ["n0"]}
    on_gpus = {arm: reason for arm, reason in reasons(laid).items() if arm.endswith("on gpu")}
    assert on_gpus == {
        "tensorflow/portable on gpu": "it sees none: pip install it",
        "tensorflow/cudnn on gpu": "it sees none: pip install it",
    }
    on_cpu = [arm.implementation for arm in laid.arms if arm.device == "cpu"]
    assert on_cpu == ["tensorflow/portable", "torch/fused"]
    only_one = make_plan(wanted, classify(hosts), unusable=blind[:1])
    assert len(only_one.arms) == 5, "a node of the class can run them"


def labelled(name: str, labels: dict[str, str], **fields: Any) -> Node:
    return replace(build_node(name, cpus=8, **fields), labels=labels)


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


@pytest.mark.parametrize(
    ("hardware", "nodes"),
    [
        pytest.param(
            [{"class": "cpu", "labels": {"market-type": "!spot"}}], [["n1"], ["n3"]], id="not spot"
        ),
        pytest.param(
            [{"labels": {"market-type": "spot"}}],
            [["n0"], ["n2"]],
            id="spot with and without a GPU",
        ),
        pytest.param(
            [
                {"class": "cpu", "labels": {"market-type": "spot"}},
                {"class": "cpu", "labels": {"market-type": "on-demand"}},
            ],
            [["n0", "n1"]],
            id="two entries of a class",
        ),
    ],
)
def test_labels_choose_nodes(hardware: list[Any], nodes: list[list[str]]) -> None:
    laid = make_plan(one_of(*hardware), LABELLED)
    assert [[node.id for node in planned.hardware.nodes] for planned in laid.possible] == nodes


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        pytest.param(
            {"class": "*L4*", "labels": {"market-type": "spot"}},
            "no node of this class has the labels market-type=s",
            id="no node of the class with the label",
        ),
        pytest.param(
            {"class": "*L4*", "cpus": 9},
            "cpus: 9 for a trial, but a node of NVIDIA L4 (CPU B, 8 C",
            id="more CPUs than a node has",
        ),
        pytest.param(
            {"class": "CPU A*", "threads": 9},
            "threads: 9 for a trial, but a node of CPU A, 8 CPUs",
            id="more threads than a node has",
        ),
        pytest.param(
            {"class": "CPU A*", "cpus": 2},
            "cpus: a CPU arm takes its whole node; use threads",
            id="CPUs of a CPU arm",
        ),
    ],
)
def test_hardware_that_cannot_be_used_as_asked_is_reported(entry: Any, reason: str) -> None:
    (text,) = reasons(make_plan(one_of(entry), LABELLED)).values()
    assert text.startswith(reason)


def test_what_holds_for_one_class_only_is_reported_of_that_class() -> None:
    hardware = classify([build_node("n0", cpus=8), build_node("n1", cpu_model="CPU B")])
    laid = make_plan(one_of({"class": "cpu", "threads": 4}), hardware)
    assert [str(arm) for arm in laid.arms] == ["tensorflow/portable on CPU A, 8 CPUs [4 threads]"]
    assert list(reasons(laid)) == ["tensorflow/portable on CPU B, 2 CPUs [4 threads]"]


def test_another_use_of_a_class_is_another_arm() -> None:
    uses = {"class": "cpu", "threads": 2}, {"class": "cpu", "settings": {"epochs": 1}}
    laid = make_plan(one_of("cpu", *uses), classify([build_node("n0", cpus=8)]))
    names = ["CPU A, 8 CPUs", "CPU A, 8 CPUs [2 threads]", "CPU A, 8 CPUs [epochs 1]"]
    assert [str(arm.hardware) for arm in laid.arms] == names
    lane = only_lane(laid)
    assert [lane.cpus_used(arm) for arm in laid.arms] == [None, 2, None]
    assert lane.bundle("cpu") == {"CPU": 8}


class GpuShare(NamedTuple):
    """The use of a GPU, the CPUs and GPUs that Ray has of the node; the lane's CPUs and slots."""

    name: str
    use: dict[str, int]
    ray_cpus: int
    cpus: int
    slots: int
    used: int | None
    ray_gpus: int | None = None


GPU_SHARES = [
    GpuShare(name="an equal share", use={}, ray_cpus=8, cpus=2, slots=4, used=2),
    GpuShare(name="every CPU", use={"cpus": 8}, ray_cpus=8, cpus=8, slots=1, used=None),
    GpuShare(name="a single thread", use={"threads": 1}, ray_cpus=8, cpus=2, slots=4, used=1),
    GpuShare(name="more CPUs in Ray than there are", use={}, ray_cpus=64, cpus=2, slots=4, used=2),
    GpuShare(
        name="fewer GPUs in Ray than there are",
        use={},
        ray_cpus=8,
        ray_gpus=2,
        cpus=4,
        slots=2,
        used=4,
    ),
]


@pytest.mark.parametrize("case", GPU_SHARES, ids=lambda case: case.name)
def test_a_gpu_has_its_share_of_the_cpus_or_what_is_asked_for(case: GpuShare) -> None:
    here = Node("n0", build_node("n0", cpus=8, gpus=4).profile, case.ray_cpus, case.ray_gpus)
    laid = make_plan(one_of({"class": "gpu", **case.use}), classify([here]))
    lane = only_lane(laid)
    assert (lane.bundle("gpu"), lane.slots) == ({"CPU": case.cpus, "GPU": 1}, case.slots)
    assert lane.cpus_used(laid.arms[0]) == case.used


def test_a_lost_gpu_keeps_a_slot_and_its_cpus() -> None:
    laid = make_plan(one_of("cpu", "gpu"), classify([build_node("n0", cpus=8, gpus=4)]))
    ((lane,), *_) = (group.lanes for group in make_lanes(laid, {"n0": 1}))
    assert (lane.bundle("gpu"), lane.slots) == ({"CPU": 2, "GPU": 1}, 3)
    assert (lane.bundle("cpu"), lane.takes_turns) == ({"CPU": 6}, True)


def test_a_node_of_several_groups_has_one_lane() -> None:
    nodes = [build_node("n0", gpus=1), build_node("n1", gpus=1, gpu="NVIDIA L4")]
    groups = make_lanes(make_plan(one_of("cpu", "*T4*", "*L4*"), classify(nodes)))
    names = [sorted(lane.node.id for lane in group.lanes) for group in groups]
    assert names == [["n0", "n1"], ["n0"], ["n1"]]
    shared = {"CPU": 2, "GPU": 1}
    lanes = {lane for group in groups for lane in group.lanes}
    assert len(lanes) == 2
    assert all(lane.bundle("cpu") == lane.bundle("gpu") == shared for lane in lanes)
