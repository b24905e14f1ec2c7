"""An own model is built on each backend before its sweep: what is refused, and what cannot run."""

import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orchestrator.execution import workload_check
from orchestrator.execution.workload_check import (
    OwnModelUnusable,
    check_spec_file,
    check_user_code,
)
from orchestrator.hardware import classify
from orchestrator.planning.plan import make_plan
from orchestrator.spec import SpecError, SweepSpec
from orchestrator.spec.model_probes import model_probes
from orchestrator.spec.reading import refuse_object
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.lock import Locked
from orchestrator.storage.resume import identify
from tests.building.hardware import build_node
from tests.building.specs import build_spec, build_spec_text
from tests.lacking import skip_here
from workloads.eligibility import is_installed
from workloads.model_facts import (
    ArmFact,
    Inspection,
    InspectionRequest,
    ModelFacts,
    ModelFault,
)

DIGEST = "d" * 64
OWN_MODEL: Mapping[str, Any] = {
    "name": "mine",
    "model": "mine:build",
    "data": "mine:load",
    "sampler": "random",
    "configs": 2,
    "space": {"units": {"low": 4, "high": 8}},
    "objectives": {"val_mae": "minimize"},
    "implementations": ["tensorflow/portable", "torch/portable"],
    "hardware": ["cpu"],
}
FACTS = ModelFacts(("loss", "mae"), DIGEST, ())
HERE = classify([build_node("a")])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("import tensorflow\n")
    (tmp_path / "there").mkdir()


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Inspection]:
    """Return the answers of each backend's process, which the test may change."""
    found: dict[str, Inspection] = {"tensorflow": FACTS, "torch": FACTS}

    def inspect(request: InspectionRequest) -> Inspection:
        return found[request.implementations[0].partition("/")[0]]

    monkeypatch.setattr(workload_check, "_inspect", inspect)
    for module in ("orchestrator.execution.workload_check", "workloads.eligibility"):
        monkeypatch.setattr(f"{module}.is_installed", lambda _: True)
    return found


def check(
    on_cluster: bool = False, tell: Callable[[str], None] | None = None, **changes: Any
) -> SweepSpec:
    asked = build_spec(OWN_MODEL, **changes)
    return check_user_code(
        asked,
        on_cluster=on_cluster,
        refuse=partial(refuse_object, "mine", asked),
        tell=tell,
        hardware=None if on_cluster else HERE,
    )


def impossible(checked: SweepSpec) -> dict[str, str]:
    plan = make_plan(checked, HERE)
    return {arm.arm.implementation: arm.reason for arm in plan.impossible}


def test_the_digest_of_the_data_is_a_part_of_the_identity(answers: dict[str, Inspection]) -> None:
    assert identify(check(), 1).data_digest == DIGEST
    assert answers  # both backends found the same


def test_a_check_that_takes_long_says_which_backend_it_waits_for(
    answers: dict[str, Inspection], monkeypatch: pytest.MonkeyPatch
) -> None:
    told, may_end = list[str](), threading.Event()

    def inspect(request: InspectionRequest) -> Inspection:
        (name,) = request.implementations
        if name == "torch/portable":
            may_end.wait()
        return answers[name.partition("/")[0]]

    def tell(line: str) -> None:
        told.append(line)
        may_end.set()

    monkeypatch.setattr(workload_check, "_inspect", inspect)
    monkeypatch.setattr(workload_check, "_SIGN_S", 0.1)
    check(tell=tell)
    assert "torch" in told[0]


def test_a_backend_that_cannot_build_the_model_has_arms_that_cannot_run(
    answers: dict[str, Inspection],
) -> None:
    answers["torch"] = ModelFault("failed", "RuntimeError: no gradient\nat the layer\nlong")
    (reason,) = impossible(check()).values()
    assert reason == (
        "mine:build uses TensorFlow's own operations: RuntimeError: no gradient at the layer"
    )


def test_an_arm_that_cannot_run_the_model_of_some_config_says_which(
    answers: dict[str, Inspection],
) -> None:
    arms = (
        ArmFact(0, "torch/portable", "cpu", None),
        ArmFact(1, "torch/portable", "cpu", "layer lstm: too wide"),
        ArmFact(0, "torch/portable", "gpu", "another device"),
    )
    answers["torch"] = ModelFacts(("loss", "mae"), DIGEST, arms)
    assert impossible(check()) == {
        "torch/portable": "layer lstm: too wide (the space has units: 8)"
    }


@pytest.mark.parametrize(
    ("device", "runs"),
    [("cpu", ["tensorflow/portable", "torch/auto+compile"]), ("gpu", [])],
)
def test_only_what_can_run_here_is_built(
    answers: dict[str, Inspection], monkeypatch: pytest.MonkeyPatch, device: str, runs: list[str]
) -> None:
    asked, built = ["tensorflow/cudnn", "jax/fused", "torch/auto+compile"], list[str]()

    def inspect(request: InspectionRequest) -> Inspection:
        built.extend(request.implementations)
        return FACTS

    monkeypatch.setattr(workload_check, "_inspect", inspect)
    implementations = ["tensorflow/portable", *asked]
    objectives = {"step_ms": "minimize"}
    checked = check(implementations=implementations, hardware=[device], objectives=objectives)
    assert built == runs
    assert [name for name in implementations if name not in impossible(checked)] == runs
    assert answers


@pytest.mark.parametrize(
    ("reasons", "clause"),
    [
        pytest.param(("no GPU", "no GPU"), "", id="whatever the config"),
        pytest.param((None, "no GPU"), " (in search.configs[1])", id="one config"),
    ],
)
def test_a_listed_config_is_named_if_another_one_can_run(
    answers: dict[str, Inspection], reasons: tuple[str | None, str], clause: str
) -> None:
    arms = tuple(ArmFact(i, "torch/portable", "cpu", why) for i, why in enumerate(reasons))
    answers["torch"] = ModelFacts(("loss", "mae"), DIGEST, arms)
    checked = check(configs=[{"units": 4}, {"units": 8}], space=None, sampler=None)
    assert impossible(checked) == {"torch/portable": f"no GPU{clause}"}


def test_what_an_import_does_is_told_and_a_training_before_it(
    answers: dict[str, Inspection], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mine.py").write_text("import keras\nmodel.fit(x)\n")
    note = "mine.py:1 sets TF32 to True; each trial has its own value, here False"
    found = ModelFacts(("loss", "mae"), DIGEST, (), import_notes=(note,))
    told = list[str]()

    def inspect(request: InspectionRequest) -> Inspection:
        told.append("imported")
        return found

    monkeypatch.setattr(workload_check, "_inspect", inspect)
    check(tell=told.append)
    assert "mine.py:2 seems to train" in told[0]
    assert told[1:] == ["imported", "imported", f"mine: {note}"]


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        pytest.param(
            {"objectives": {"val_mea": "minimize"}},
            "search.objectives.val_mea",
            "(loss, mae, val_loss, val_mae)",
            id="a metric that the model lacks",
        ),
        pytest.param(
            {"settings": {"target_accuracy": 0.9}},
            "settings.target_accuracy",
            "the metric accuracy",
            id="a target of a metric that the model lacks",
        ),
        pytest.param(
            {"objectives": {"step_ms": "minimize"}, "pruner": "median", "settings": {"epochs": 9}},
            "search.pruner",
            "a metric of each epoch (loss, mae, val_loss, val_mae)",
            id="a pruner without a metric of each epoch",
        ),
    ],
)
def test_a_spec_that_does_not_fit_the_model_is_refused(
    answers: dict[str, Inspection], changes: dict[str, Any], key: str, words: str
) -> None:
    assert answers
    with pytest.raises(SpecError) as refused:
        check(**changes)
    (problem,) = refused.value.problems
    assert problem.key == key and words in f"{problem.expected} {problem.received}"


def test_objectives_may_be_metrics_of_the_model_and_times(answers: dict[str, Inspection]) -> None:
    objectives = dict.fromkeys(("val_mae", "loss", "step_ms", "peak_rss_mib"), "minimize")
    assert check(objectives=objectives).learning_metrics == ("loss", "mae", "val_loss", "val_mae")
    assert answers


def test_data_that_depend_on_a_parameter_are_refused_at_it(answers: dict[str, Inspection]) -> None:
    answers["torch"] = ModelFault("refused", "mine.py:3: load: …", "units")
    with pytest.raises(SpecError) as refused:
        check()
    assert [problem.key for problem in refused.value.problems] == ["search.space.units"]


def test_functions_that_no_backend_can_use_are_refused(answers: dict[str, Inspection]) -> None:
    answers["torch"] = answers["tensorflow"] = ModelFault("failed", "KeyError: 'x'")
    with pytest.raises(OwnModelUnusable, match="KeyError: 'x'"):
        check()
    answers["torch"], answers["tensorflow"] = ModelFault("refused", "no model"), FACTS
    with pytest.raises(OwnModelUnusable, match="no model"):
        check()


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        pytest.param("os.kill(os.getpid(), 9)", "reduce batch_size", id="killed"),
        pytest.param("os._exit(3)", "exit status 3", id="ended"),
    ],
)
def test_a_model_that_ends_its_process_is_refused(
    monkeypatch: pytest.MonkeyPatch, code: str, advice: str
) -> None:
    command = [sys.executable, "-c", f"import os; {code}"]
    monkeypatch.setattr(workload_check, "trainer_command", lambda *_: command)
    with pytest.raises(OwnModelUnusable, match=advice):
        check(implementations=["tensorflow/auto"])


def test_a_cluster_may_have_what_this_machine_lacks(answers: dict[str, Inspection]) -> None:
    answers["torch"] = answers["tensorflow"] = ModelFault("lacking", "no module pandas")
    assert not check(on_cluster=True).inspections
    with pytest.raises(OwnModelUnusable):
        check()


def test_data_that_differ_between_backends_are_refused(answers: dict[str, Inspection]) -> None:
    answers["torch"] = ModelFacts(("loss", "mae"), "e" * 64, ())
    with pytest.raises(OwnModelUnusable, match="its data differ between backends"):
        check()


def test_the_arrays_whose_types_differ_between_backends_are_named(
    answers: dict[str, Inspection],
) -> None:
    types = {"tensorflow": "int64", "torch": "int64", "jax": "int32"}
    for backend, y_type in types.items():
        arrays = ("x float32", f"y {y_type}")
        digest = f"{y_type:f<64}"
        answers[backend] = ModelFacts(("loss", "mae"), digest, (), data_types=arrays)
    with pytest.raises(OwnModelUnusable, match="jax: y int32") as refused:
        check(implementations=[f"{backend}/auto" for backend in types])
    assert "x float32" not in str(refused.value)


def test_the_model_is_built_at_both_ends_of_each_parameter_and_for_each_variant() -> None:
    settings = {"window": 5}
    probes = model_probes(build_spec(OWN_MODEL, settings=settings))
    assert [dict(probe.settings) for probe in probes] == [
        {"window": 5, "units": 4},
        {"window": 5, "units": 8},
    ]
    variants = [{"name": n, "settings": {"cell": n}} for n in ("gru", "lstm")]
    probes = model_probes(build_spec(OWN_MODEL, settings=settings, variants=variants))
    assert [(probe.variant, probe.settings["cell"]) for probe in probes] == [
        (name, name) for name in ("gru", "gru", "lstm", "lstm")
    ]
    listed = model_probes(build_spec(OWN_MODEL, sampler=None, space=None, configs=[{"units": 3}]))
    assert [probe.settings["units"] for probe in listed] == [3]


def test_a_real_process_builds_the_model() -> None:
    if not is_installed("torch"):
        skip_here("needs PyTorch")
    source = Path(__file__).parents[2] / "workloads/examples/own_models.py"
    Path("mine.py").write_text(source.read_text())
    checked = check(implementations=["torch/portable", "torch/cudnn"])
    assert checked.learning_metrics == ("loss", "mae", "val_loss", "val_mae")
    (reason,) = impossible(checked).values()
    assert "NVIDIA GPU" in reason
    with pytest.raises(OwnModelUnusable, match=r"mine\.py:\d+: build_nothing returns nothing"):
        check(model="mine:build_nothing", implementations=["torch/portable"])


def test_a_running_sweep_is_refused_before_its_model_is_built(
    tmp_path: Path, answers: dict[str, Inspection]
) -> None:
    answers.clear()  # an inspection would fail
    spec = tmp_path / "mine.yaml"
    spec.write_text(build_spec_text(OWN_MODEL))
    folder = SweepFolder(tmp_path / "home", "mine")
    with folder.lock(), pytest.raises(Locked):
        check_spec_file(spec, (), on_cluster=False, expect_free=lambda _: folder.expect_unlocked())
