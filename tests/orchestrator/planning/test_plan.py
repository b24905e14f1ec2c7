"""A spec laid over hardware: what can run, what cannot and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from orchestrator.core.arms import Arm
from orchestrator.hardware import Gpu, HardwareClass, Node, NodeProfile, classify
from orchestrator.planning.lanes import lanes_of, make_lanes
from orchestrator.planning.plan import describe_plan, make_plan
from orchestrator.scheduling.preflight import NothingToRun, expect_runnable
from orchestrator.spec import SweepSpec, parse
from tests.orchestrator.sample_hardware import on_cpu
from workloads.eligibility import LayerTraits

SPEC = """
name: plan
workload: {workload}
settings: {settings}
search:
  sampler: random
  configs: 5
  space: {space}
  objectives: {objectives}
arms:
  implementations: {implementations}
  hardware: {hardware}
repeats: 2
"""


def spec(**parts: str) -> SweepSpec:
    defaults = {
        "workload": "image_rows",
        "settings": "{}",
        "space": "{units: {low: 8, high: 64}}",
        "objectives": "{val_accuracy: maximize}",
        "implementations": "[tensorflow/portable, tensorflow/cudnn]",
        "hardware": "[cpu, gpu]",
    }
    return parse(SPEC.format(**(defaults | parts)), source="plan.yaml")


def machine(gpus: int = 0, cpu: str = "CPU A") -> tuple[HardwareClass, ...]:
    matched = tuple(Gpu(index, "NVIDIA T4", f"GPU-{index}", 16_000) for index in range(gpus))
    profile = NodeProfile("host", cpu, 4, 8_000, matched, None, "Linux", "3.11")
    return classify([Node("id", profile, 4)])


def reasons(laid: object) -> dict[str, str]:
    return {str(impossible.arm): impossible.reason for impossible in laid.impossible}  # type: ignore[attr-defined]


def test_cudnn_needs_a_gpu_and_absent_hardware_is_shown() -> None:
    laid = make_plan(spec(), machine())
    assert laid.arms == (Arm("tensorflow/portable", on_cpu("CPU A", 4)),)
    assert reasons(laid) == {
        "tensorflow/cudnn on cpu": "cuDNN kernels need an NVIDIA GPU",
        "tensorflow/portable on gpu": "no NVIDIA GPU found on 1 node (asked through NVML)",
        "tensorflow/cudnn on gpu": "no NVIDIA GPU found on 1 node (asked through NVML)",
    }
    assert (laid.blocks, laid.trials) == (5, 10)


def test_a_machine_with_a_gpu_offers_both() -> None:
    laid = make_plan(spec(), machine(gpus=1))
    assert [str(arm) for arm in laid.arms] == [
        "tensorflow/portable on CPU A, 4 CPUs",
        "tensorflow/portable on NVIDIA T4 (CPU A, 4 CPUs)",
        "tensorflow/cudnn on NVIDIA T4 (CPU A, 4 CPUs)",
    ]
    assert reasons(laid) == {"tensorflow/cudnn on cpu": "cuDNN kernels need an NVIDIA GPU"}


@pytest.mark.parametrize(
    ("part", "value", "words"),
    [
        ("settings", "{activation: relu}", "activation tanh"),
        ("settings", "{recurrent_activation: hard_sigmoid}", "recurrent activation sigmoid"),
        ("settings", "{recurrent_dropout: 0.2}", "no recurrent dropout"),
        ("settings", "{use_bias: false}", "needs the bias"),
        ("space", "{activation: [tanh, relu]}", "the space has activation: relu"),
        ("space", "{use_bias: [true, false]}", "the space has use_bias: false"),
        ("space", "{recurrent_dropout: {low: 0.0, high: 0.5}}", "the space has recurrent_dropout"),
    ],
)
def test_settings_that_cudnn_cannot_do_take_its_arm_out_with_the_reason(
    part: str, value: str, words: str
) -> None:
    if part == "space" and "[" in value:
        laid = make_plan(spec(space=value.replace("}", ", units: [8, 16, 32]}")), machine(gpus=1))
    else:
        laid = make_plan(spec(**{part: value}), machine(gpus=1))
    (reason,) = (r for arm, r in reasons(laid).items() if arm == "tensorflow/cudnn on gpu")
    assert words in reason


def test_a_hardware_class_can_be_named_or_matched() -> None:
    laid = make_plan(spec(hardware='["*T4*", "NVIDIA A100*"]'), machine(gpus=1))
    assert {str(arm.hardware) for arm in laid.arms} == {"NVIDIA T4 (CPU A, 4 CPUs)"}
    assert reasons(laid)["tensorflow/portable on NVIDIA A100*"].startswith("no node is of this")


def test_a_gpu_goes_by_its_own_name() -> None:
    laid = make_plan(spec(hardware='["NVIDIA T4"]'), machine(gpus=1))
    assert {str(arm.hardware) for arm in laid.arms} == {"NVIDIA T4 (CPU A, 4 CPUs)"}


@pytest.mark.parametrize("selector", ["gpu", "NVIDIA T4", "*L4*"])
def test_unlike_gpus_of_a_node_are_not_possible(selector: str) -> None:
    matched = (Gpu(0, "NVIDIA T4", "GPU-0", 16_000), Gpu(1, "NVIDIA L4", "GPU-1", 24_000))
    profile = NodeProfile("host", "CPU A", 4, 8_000, matched, None, "Linux", "3.11")
    laid = make_plan(spec(hardware=f'["{selector}"]'), classify([Node("id", profile, 4)]))
    assert laid.arms == ()
    assert all(
        reason.startswith("host has unlike GPUs (NVIDIA L4, NVIDIA T4)")
        for reason in reasons(laid).values()
    )


@pytest.mark.parametrize("selector", ["gpu", "NVIDIA T4"])
def test_a_gpu_that_does_not_answer_is_reported_where_none_is_found(selector: str) -> None:
    profile = NodeProfile("host", "CPU A", 4, 8_000, (), None, "Linux", "3.11")
    lost = replace(profile, gpu_faults=("GPU 0 does not answer: GPU is lost",))
    laid = make_plan(spec(hardware=f'["{selector}"]'), classify([Node("id", lost, 4)]))
    assert all(
        reason.endswith("; on host, GPU 0 does not answer: GPU is lost")
        for reason in reasons(laid).values()
    )


@pytest.mark.parametrize(("limit", "slots", "cpus"), [(None, 3, 1), (2, 2, 2), (1, 1, 4)])
def test_as_many_trials_run_at_once_as_ray_has_gpus(
    limit: int | None, slots: int, cpus: int
) -> None:
    matched = tuple(Gpu(index, "NVIDIA T4", f"GPU-{index}", 16_000) for index in range(3))
    profile = NodeProfile("host", "CPU A", 4, 8_000, matched, None, "Linux", "3.11")
    laid = make_plan(spec(hardware="[gpu]"), classify([Node("id", profile, 4, limit)]))
    ((lane,),) = (group.lanes for group in make_lanes(laid))
    assert (lane.slots, lane.cpus, lane.bundle("gpu")) == (slots, cpus, {"CPU": cpus, "GPU": 1})


def test_settings_that_fit_only_with_a_value_of_the_space_are_laid_out() -> None:
    wanted = spec()
    space = {"dataset": {"choices": ["mnist"]}, "activation": {"choices": ["tanh", "relu"]}}
    search = {**wanted.search.model_dump(), "space": space}
    body = {**wanted.model_dump(), "settings": {"data_path": "x.npz"}, "search": search}
    laid = make_plan(SweepSpec.model_validate(body), machine(gpus=1))
    assert "the space has activation: relu" in reasons(laid)["tensorflow/cudnn on gpu"]


LISTED_FOR_FUSED = [
    ([{"layers": 1, "dropout": 0.2}, {"layers": 2, "dropout": 0.2}], "[1] has layers: 2)"),
    ([{"layers": 2, "dropout": 0.2}, {"layers": 2, "dropout": 0.0}], "[0] has dropout: 0.2)"),
    ([{"units": 8, "use_bias": True}, {"units": 9, "use_bias": False}], "[1] has use_bias: false)"),
    (
        [
            {"activation": "tanh", "recurrent_activation": "sigmoid", "use_bias": True},
            {"activation": "tanh", "recurrent_activation": "sigmoid", "use_bias": False},
            {"activation": "relu", "recurrent_activation": "sigmoid", "use_bias": True},
        ],
        "[1] has use_bias: false)",
    ),
]


@pytest.mark.parametrize(("configs", "words"), LISTED_FOR_FUSED)
def test_a_listed_config_takes_an_arm_out_and_is_named(
    configs: list[dict[str, object]], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda package: True)
    body = spec(implementations="[tensorflow/portable, jax/fused]").model_dump()
    fixed = {"layers": 1} if "layers" not in configs[0] else {}
    wanted = {**body, "settings": fixed, "search": {"configs": configs}}
    laid = make_plan(SweepSpec.model_validate(wanted), machine(gpus=1))
    assert (laid.blocks, laid.listed) == (len(configs), tuple(configs))
    assert reasons(laid)["jax/fused on gpu"].endswith(f"(search.configs{words}")


def test_values_that_no_single_change_would_cure_are_reported_as_their_config(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def either(_: object, traits: LayerTraits, __: object) -> str | None:
        return "too much" if traits.bidirectional or not traits.use_bias else None

    monkeypatch.setattr("orchestrator.planning.feasibility.ineligibility_reason", either)
    configs = [
        {"bidirectional": False, "use_bias": True},
        {"bidirectional": True, "use_bias": False},
    ]
    body = {**spec().model_dump(), "search": {"configs": configs}}
    laid = make_plan(SweepSpec.model_validate(body), machine())
    assert reasons(laid)["tensorflow/portable on cpu"] == "too much (in search.configs[1])"


def test_listed_configs_that_an_arm_can_do_are_no_obstacle() -> None:
    body = {**spec().model_dump(), "search": {"configs": [{"units": 8}, {"units": 9}]}}
    laid = make_plan(SweepSpec.model_validate(body), machine(gpus=1))
    assert "tensorflow/cudnn on gpu" not in reasons(laid)


def test_a_reason_that_holds_for_every_config_names_none() -> None:
    wanted = {**spec().model_dump(), "search": {"configs": [{"units": 8}, {"units": 9}]}}
    laid = make_plan(SweepSpec.model_validate(wanted), machine())
    assert reasons(laid)["tensorflow/cudnn on cpu"] == "cuDNN kernels need an NVIDIA GPU"


def test_an_arm_named_twice_runs_once() -> None:
    laid = make_plan(spec(hardware='[cpu, "CPU A*"]'), machine())
    assert len(laid.arms) == 1


def test_a_users_implementations_are_names_of_its_own() -> None:
    laid = make_plan(
        spec(workload="my.module:run", implementations="[anything/cudnn]", hardware="[cpu]"),
        machine(),
    )
    assert len(laid.arms) == 1


def test_the_plan_reads_well() -> None:
    text = describe_plan(make_plan(spec(), machine()), "plan")
    assert text.splitlines()[0] == "sweep plan: 5 blocks × 1 arm × 2 repeats = 10 trials"
    assert "cannot run tensorflow/cudnn on cpu: cuDNN kernels need an NVIDIA GPU" in text


def test_arms_that_share_a_reason_share_a_line() -> None:
    names = ", ".join(f"tensorflow/{kernel}" for kernel in ("cudnn", "cudnn+tf32"))
    text = describe_plan(make_plan(spec(implementations=f"[{names}]"), machine()), "plan")
    assert f"cannot run {names} on cpu: cuDNN kernels need" in text
    four = ", ".join(f"tensorflow/cudnn{option}" for option in ("", "+tf32", "+bf16", "+fp16"))
    text = describe_plan(make_plan(spec(implementations=f"[{four}]"), machine()), "plan")
    assert "cannot run 4 implementations on cpu: cuDNN kernels need an NVIDIA GPU" in text


def test_a_backend_that_is_not_installed_shows_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda package: package != "jax")
    wanted = spec(implementations="[tensorflow/portable, jax/portable]", hardware="[cpu]")
    laid = make_plan(wanted, machine())
    description = "jax is not installed here: pip install 'rnnsweep[jax]'"
    assert reasons(laid) == {"jax/portable on cpu": description}
    assert f"cannot run jax/portable on cpu: {description}" in describe_plan(laid, "plan")
    expect_runnable(wanted, laid)
    alone = spec(implementations="[jax/portable]", hardware="[cpu]")
    with pytest.raises(NothingToRun, match=r"jax/portable on cpu: jax is not installed here: pip"):
        expect_runnable(alone, make_plan(alone, machine()))


def test_an_arm_of_other_mathematics_is_reported_as_such() -> None:
    wanted = spec(implementations="[tensorflow/portable, tensorflow/portable+relu]")
    laid = make_plan(wanted, machine())
    description = (
        "tensorflow/portable+relu on CPU A, 4 CPUs: different mathematics (activation relu), no"
    )
    assert description in describe_plan(laid, "plan")
    assert [arm["mathematics"] for arm in laid.as_json()["arms"]] == ["", "activation relu"]


def test_fresh_trainers_are_reported_with_their_reason() -> None:
    wanted = spec(objectives="{val_accuracy: maximize, peak_rss_mib: minimize}")
    laid = make_plan(wanted, machine())
    description = "each trial in a fresh trainer process: peak_rss_mib is an objective"
    assert description in describe_plan(laid, "plan")
    assert laid.as_json()["trainer"] == "fresh"
    warm = make_plan(spec(), machine())
    assert "fresh" not in describe_plan(warm, "plan")
    assert warm.as_json()["trainer"] == "warm"


def test_nothing_to_run_is_refused_with_every_reason() -> None:
    wanted = spec(implementations="[tensorflow/cudnn]")
    with pytest.raises(NothingToRun, match="cuDNN kernels need an NVIDIA GPU"):
        expect_runnable(wanted, make_plan(wanted, machine()))


def test_an_objective_may_read_an_arm_on_a_device() -> None:
    over = "tensorflow/portable on cpu"
    wanted = spec(objectives=f"{{val_accuracy: {{direction: maximize, over: {over}}}}}")
    expect_runnable(wanted, make_plan(wanted, machine(gpus=1)))


def test_an_objective_on_accuracy_wants_an_arm_that_is_trained_whole() -> None:
    mixed = spec(
        hardware="[gpu, {class: 'CPU A*', measure: timing}]",
        objectives="{val_accuracy: {direction: maximize, over: 'tensorflow/portable on CPU ?*'}}",
    )
    with pytest.raises(NothingToRun, match=r"trained whole.*measure: full"):
        expect_runnable(mixed, make_plan(mixed, machine(gpus=1)))
    expect_runnable(
        mixed.model_copy(update={"search": spec().search}), make_plan(mixed, machine(gpus=1))
    )


def test_an_objective_that_reads_an_arm_that_cannot_run_is_refused() -> None:
    wanted = spec(objectives="{val_accuracy: {direction: maximize, over: tensorflow/cudnn}}")
    with pytest.raises(NothingToRun, match="val_accuracy reads only tensorflow/cudnn"):
        expect_runnable(wanted, make_plan(wanted, machine()))


def cluster(*members: Mapping[str, object]) -> tuple[HardwareClass, ...]:
    """Nodes by `cpu`, `gpu` (its name), `gpus` and `labels`."""
    nodes = []
    for index, member in enumerate(members):
        matched = tuple(
            Gpu(number, str(member["gpu"]), f"GPU-{index}-{number}", 16_000)
            for number in range(int(str(member.get("gpus", 1))) if "gpu" in member else 0)
        )
        cpu = str(member.get("cpu", "CPU A"))
        profile = NodeProfile(f"host{index}", cpu, 8, 8_000, matched, None, "Linux", "3.11")
        labels = dict[str, str](member.get("labels", {}))  # type: ignore[call-overload]
        nodes.append(Node(f"n{index}", profile, 8, labels=labels))
    return classify(nodes)


SPOT = {"market-type": "spot"}
LABELLED = (
    {"labels": SPOT},
    {"labels": {"market-type": "on-demand"}},
    {"gpu": "NVIDIA T4", "labels": SPOT | {"ray.io/accelerator-type": "T4"}},
    {"gpu": "NVIDIA L4", "cpu": "CPU B", "labels": {"ray.io/accelerator-type": "L4"}},
)


def standing(hardware: str) -> dict[str, list[str]]:
    """Of a one-implementation sweep: the hardware of its arms, and the nodes of each."""
    laid = make_plan(
        spec(implementations="[tensorflow/portable]", hardware=hardware), cluster(*LABELLED)
    )
    return {
        str(planned.arm.hardware): [node.id for node in planned.hardware.nodes]
        for planned in laid.possible
    }


@pytest.mark.parametrize(
    ("hardware", "arms"),
    [
        ("[{class: cpu, labels: {market-type: spot}}]", {"CPU A, 8 CPUs": ["n0"]}),
        (
            "[{class: cpu, labels: {market-type: '!spot'}}]",
            {"CPU A, 8 CPUs": ["n1"], "CPU B, 8 CPUs": ["n3"]},
        ),
        (
            "[{class: gpu, labels: {ray.io/accelerator-type: 'in(T4, A100)'}}]",
            {"NVIDIA T4 (CPU A, 8 CPUs)": ["n2"]},
        ),
        (
            "[{labels: {market-type: spot}}]",
            {"CPU A, 8 CPUs": ["n0"], "NVIDIA T4 (CPU A, 8 CPUs)": ["n2"]},
        ),
        (
            "[{class: cpu, labels: {market-type: spot}},"
            " {class: cpu, labels: {market-type: on-demand}}]",
            {"CPU A, 8 CPUs": ["n0", "n1"]},
        ),
    ],
)
def test_labels_choose_nodes(hardware: str, arms: dict[str, list[str]]) -> None:
    assert standing(hardware) == arms


@pytest.mark.parametrize(
    ("hardware", "reason"),
    [
        ("{labels: {zone: eu}}", "no node has the labels zone=eu; present: market-type=on-demand,"),
        ("{class: gpu, labels: {market-type: on-demand}}", "no NVIDIA GPU found on 1 node"),
        (
            "{class: '*L4*', labels: {market-type: spot}}",
            "no node of this class has the labels market-type=spot",
        ),
        ("{class: '*L4*', cpus: 9}", "cpus: 9 for a trial, but a node of NVIDIA L4 (CPU B, 8 C"),
        (
            "{class: 'CPU A*', threads: 9}",
            "threads: 9 for a trial, but a node of CPU A, 8 CPUs has 8",
        ),
        ("{class: 'CPU A*', cpus: 2}", "cpus: a CPU arm takes its whole node; threads limits"),
    ],
)
def test_hardware_that_cannot_be_used_as_asked_is_reported(hardware: str, reason: str) -> None:
    wanted = spec(implementations="[tensorflow/portable]", hardware=f"[{hardware}]")
    description = reasons(make_plan(wanted, cluster(*LABELLED)))
    assert all(text.startswith(reason) for text in description.values()), description


def test_what_holds_for_one_class_only_is_reported_of_that_class() -> None:
    small = NodeProfile("small", "CPU B", 2, 8_000, (), None, "Linux", "3.11")
    hardware = classify([*cluster({})[0].nodes, Node("n1", small, 2)])
    wanted = spec(implementations="[tensorflow/portable]", hardware="[{class: cpu, threads: 4}]")
    laid = make_plan(wanted, hardware)
    assert [str(arm) for arm in laid.arms] == ["tensorflow/portable on CPU A, 8 CPUs [4 threads]"]
    assert reasons(laid) == {
        "tensorflow/portable on CPU B, 2 CPUs [4 threads]": "threads: 4 for a trial, but a node of "
        "CPU B, 2 CPUs has 2 CPUs"
    }


def test_another_use_of_a_class_is_another_arm() -> None:
    wanted = spec(
        implementations="[tensorflow/portable]",
        hardware="[cpu, {class: cpu, threads: 2}, {class: cpu, settings: {epochs: 1}}]",
    )
    laid = make_plan(wanted, cluster({}))
    assert [str(arm.hardware) for arm in laid.arms] == [
        "CPU A, 8 CPUs",
        "CPU A, 8 CPUs [2 threads]",
        "CPU A, 8 CPUs [epochs 1]",
    ]
    ((lane,),) = (group.lanes for group in make_lanes(laid))
    assert [lane.cpus_used(arm) for arm in laid.arms] == [None, 2, None]
    assert lane.bundle("cpu") == {"CPU": 8}
    assert "runs   tensorflow/portable on CPU A, 8 CPUs [2 threads]" in describe_plan(laid, "p")


@pytest.mark.parametrize(
    ("use", "bundle", "slots", "used"),
    [
        ("", {"CPU": 2, "GPU": 1}, 4, 2),
        (", cpus: 4", {"CPU": 4, "GPU": 1}, 2, 4),
        (", cpus: 1", {"CPU": 1, "GPU": 1}, 4, 1),
        (", cpus: 8", {"CPU": 8, "GPU": 1}, 1, None),
        (", threads: 1", {"CPU": 2, "GPU": 1}, 4, 1),
        (", cpus: 4, threads: 3", {"CPU": 4, "GPU": 1}, 2, 3),
    ],
)
def test_a_gpu_has_its_share_of_the_cpus_or_what_is_asked_for(
    use: str, bundle: dict[str, int], slots: int, used: int | None
) -> None:
    hardware = f"[{{class: gpu{use}}}]"
    wanted = spec(implementations="[tensorflow/portable]", hardware=hardware)
    laid = make_plan(wanted, cluster({"gpu": "NVIDIA T4", "gpus": 4}))
    ((lane,),) = (group.lanes for group in make_lanes(laid))
    assert (lane.bundle("gpu"), lane.slots, lane.cpus_used(laid.arms[0])) == (bundle, slots, used)


@pytest.mark.parametrize(("given", "share"), [(64, 2), (8, 2), (4, 1)])
def test_no_more_cpus_are_shared_out_than_there_are(given: int, share: int) -> None:
    (gpu,) = (
        hardware_class
        for hardware_class in cluster({"gpu": "NVIDIA T4", "gpus": 4})
        if hardware_class.device == "gpu"
    )
    description = classify([replace(gpu.nodes[0], cpus=given)])
    wanted = spec(implementations="[tensorflow/portable]", hardware="[gpu]")
    laid = make_plan(wanted, description)
    ((lane,),) = (group.lanes for group in make_lanes(laid))
    assert (lane.slots, lane.cpus, lane.cpus_used(laid.arms[0])) == (4, share, share)


def test_a_node_of_several_groups_has_one_lane() -> None:
    wanted = spec(implementations="[tensorflow/portable]", hardware="[cpu, '*T4*', '*L4*']")
    laid = make_plan(wanted, cluster({"gpu": "NVIDIA T4"}, {"gpu": "NVIDIA L4"}))
    groups = make_lanes(laid)
    assert [sorted(lane.node.id for lane in group.lanes) for group in groups] == [
        ["n0", "n1"],
        ["n0"],
        ["n1"],
    ]
    assert len(lanes_of(groups)) == 2
    assert all(
        lane.bundle("cpu") == lane.bundle("gpu") == {"CPU": 8, "GPU": 1}
        for lane in lanes_of(groups)
    )
