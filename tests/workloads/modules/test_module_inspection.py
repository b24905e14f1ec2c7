"""A PyTorch module is built, and its data tried, before any trial: in one warm trainer here."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.workloads.probes import INSPECTION_ADAPTER
from tests.workloads.shared_trainer import Trainer, result, single_event
from workloads import protocol
from workloads.model_facts import GraphCounts, Inspection, ModelFacts, ModelFault
from workloads.registry import own_model_name

EXAMPLES = "tests.workloads.examples"
CARRYING, TOKENS = "carrying_modules:load", "carrying_modules:load_tokens"
FOLDER = Path("tests/workloads/examples")


def inspect(
    trainer: Trainer,
    build: str = "own_modules:build",
    load: str | None = "own_modules:load",
    **asked: Any,
) -> Inspection:
    """Return what the probe `inspect_model` of a warm trainer answers, of two probes of units."""
    name = own_model_name(f"{EXAMPLES}.{build}", f"{EXAMPLES}.{load}" if load else None)
    settings = {"workload": name, "units": [4, 8], "searched": ["units"], **asked}
    events = trainer.ask("tests.workloads.probes:inspect_model", "torch/auto", settings=settings)
    result(events)
    return INSPECTION_ADAPTER.validate_json(single_event(events, protocol.Artifact).text)


def fault_text(found: Inspection) -> str:
    assert isinstance(found, ModelFault)
    return found.text


def reasons(facts: Inspection, device: str) -> dict[str, str | None]:
    """Return why each implementation cannot run the first probe on a device."""
    assert isinstance(facts, ModelFacts)
    arms = [arm for arm in facts.arms if (arm.probe, arm.device) == (0, device)]
    return {arm.implementation: arm.reason for arm in arms}


def test_the_facts_of_a_module_are_its_metrics_and_its_data(torch_trainer: Trainer) -> None:
    facts, again = (inspect(torch_trainer) for _ in range(2))
    assert isinstance(facts, ModelFacts)
    assert facts == again
    assert (facts.metrics, facts.validation_metrics) == (("loss",), ("val_mae",))
    assert facts.data_digest is not None and len(facts.data_digest) == 64
    asked = {(arm.probe, arm.device): arm.reason for arm in facts.arms}
    assert asked == dict.fromkeys([(0, "cpu"), (0, "gpu"), (1, "cpu"), (1, "gpu")])


def test_a_module_runs_on_pytorch_as_it_is_written(torch_trainer: Trainer) -> None:
    runs = ["torch/auto", "torch/auto+bf16", "torch/auto+tf32", "torch/auto+compile"]
    refused = ["torch/portable", "torch/fused", "torch/auto+xla", "tensorflow/auto", "jax/auto"]
    found = reasons(inspect(torch_trainer, implementations=[*runs, *refused]), "gpu")
    assert [text for text, reason in found.items() if reason is None] == runs
    assert "only on PyTorch" in str(found["tensorflow/auto"])
    assert "as it is written" in str(found["torch/fused"])


@pytest.mark.parametrize("kind", ["float64", "bfloat16"])
def test_a_module_of_another_number_format_runs_in_that_one_only(
    torch_trainer: Trainer, kind: str
) -> None:
    asked = ["torch/auto", "torch/auto+bf16", "torch/auto+tf32"]
    facts = inspect(torch_trainer, f"own_modules:build_{kind}", implementations=asked)
    found = reasons(facts, "cpu")
    assert found["torch/auto"] is None
    assert all(kind in str(found[text]) for text in asked[1:])


def test_the_graphs_of_a_compiled_module_are_counted(torch_trainer: Trainer) -> None:
    def graphs(build: str, implementation: str = "torch/auto+compile") -> GraphCounts | None:
        build = f"own_modules:{build}"
        facts = inspect(torch_trainer, build, implementations=[implementation])
        assert isinstance(facts, ModelFacts)
        return facts.graphs

    counts = graphs("build_with_decision")
    assert counts is not None and (counts.graphs, counts.breaks, counts.reason) == (2, 1, None)
    assert "branch" in counts.causes[0]
    of_library = graphs("build")
    assert of_library is not None and of_library.graphs == 0 and of_library.causes
    assert graphs("build", "torch/auto") is None


def test_a_module_for_one_batch_size_is_tried_with_it(torch_trainer: Trainer) -> None:
    fixed = {"batch_size": 12}
    facts = inspect(torch_trainer, "own_modules:build_for_one_size", fixed=fixed)
    assert isinstance(facts, ModelFacts)


def test_predictions_need_no_loss(torch_trainer: Trainer) -> None:
    facts = inspect(torch_trainer, "bare_modules:build", timed_work="predict")
    assert isinstance(facts, ModelFacts)
    assert (facts.metrics, facts.validation_metrics) == ((), ())


def test_a_layer_of_keras_is_no_module(torch_trainer: Trainer) -> None:
    fault = inspect(torch_trainer, "own_models:build_layer", "own_models:load")
    assert isinstance(fault, ModelFault)
    assert "returns LSTM" in fault.text


@pytest.mark.parametrize(("build", "carried"), [("build", ("hidden",)), ("build_caching", ())])
def test_a_state_that_goes_from_batch_to_batch_is_found(
    torch_trainer: Trainer, build: str, carried: tuple[str, ...]
) -> None:
    fixed = {"batch_size": 12}
    parts = "carrying_modules:load_parts"
    facts = inspect(torch_trainer, f"carrying_modules:{build}", parts, fixed=fixed)
    assert isinstance(facts, ModelFacts)
    assert facts.carried == carried


def test_a_module_may_have_its_loss_inside(torch_trainer: Trainer) -> None:
    facts = inspect(torch_trainer, "carrying_modules:build_with_loss", TOKENS)
    assert isinstance(facts, ModelFacts)
    assert facts.metrics == ("loss",)


def test_a_token_that_an_embedding_lacks_is_found_in_any_sample(torch_trainer: Trainer) -> None:
    fixed = {"late_token": 20}
    fault = inspect(torch_trainer, "carrying_modules:build_with_loss", TOKENS, fixed=fixed)
    assert isinstance(fault, ModelFault)
    assert "(0 to 20)" in fault.text


@pytest.mark.parametrize(
    ("shuffle", "passes"), [(None, False), (True, False), (False, True)], ids=str
)
def test_samples_are_tried_in_the_order_of_a_trial(
    torch_trainer: Trainer, shuffle: bool | None, passes: bool
) -> None:
    found = inspect(
        torch_trainer,
        "unusual_modules:build_packing",
        "unusual_modules:load_from_the_longest",
        fixed={"shuffle": shuffle},
    )
    assert isinstance(found, ModelFacts) == passes
    assert passes or "settings.shuffle: false" in fault_text(found)


@pytest.mark.parametrize(("batch_size", "passes"), [(12, True), (20, False)], ids=str)
def test_a_module_of_one_size_is_tried_on_a_full_batch(
    torch_trainer: Trainer, batch_size: int, passes: bool
) -> None:
    build, load = "unusual_modules:build_of_one_size", "unusual_modules:load"
    found = inspect(torch_trainer, build, load, fixed={"batch_size": batch_size})
    assert isinstance(found, ModelFacts) == passes
    assert passes or "validation: the model takes full batches of 20" in fault_text(found)


class WrongModule(NamedTuple):
    """Functions that cannot be used, and what is said about them."""

    name: str
    text: str
    build: str = "own_modules:build"
    load: str | None = "own_modules:load"
    place: str = "build"
    optimizer: str = "Adam"
    weights: str = "equal"
    class_weight: dict[str, float] | None = None


WRONG_MODULES = [
    WrongModule("no loss", build="bare_modules:build", text="a function loss(outputs, targets)"),
    WrongModule(
        "a loss for each sample", build="wrong_losses:build", text="a tensor of shape (28, 1)"
    ),
    WrongModule(
        "an optimizer with a closure",
        optimizer="LBFGS",
        text="LBFGS evaluates the loss several times",
    ),
    WrongModule(
        "nothing to train",
        build="own_modules:build_frozen",
        place="build_frozen",
        text="parameters to train",
    ),
    WrongModule(
        "a module that differs from call to call",
        build="own_modules:build_at_random",
        place="build_at_random",
        text="different model in each call",
    ),
    WrongModule(
        "data of another shape",
        load="own_modules:load_wide",
        place="load_wide",
        text="x of shape (32, 5, 4) and y of shape (32, 1)",
    ),
    WrongModule(
        "a backward pass that fails",
        build="carrying_modules:build_failing",
        load=CARRYING,
        place="build_failing",
        text="the backward pass failed",
    ),
    WrongModule(
        "an optimizer that refuses the gradients",
        build="carrying_modules:build_with_loss",
        load=TOKENS,
        place="build_with_loss",
        text="the step of the optimizer failed",
    ),
    WrongModule(
        "a carried state without a full batch of validation",
        build="carrying_modules:build",
        load=CARRYING,
        place="load",
        text="validation: the model takes full batches of 32 samples",
    ),
    WrongModule(
        "a module that returns something else in eval mode",
        build="carrying_modules:build_decoder",
        load=TOKENS,
        optimizer="SGD",
        place="build_decoder",
        text="received list",
    ),
    WrongModule(
        "a loss that is not a number",
        load="own_modules:load_missing_values",
        text="loss and mae are NaN or infinite",
    ),
    WrongModule("a choice of weights", weights="own", text="remove settings.weights"),
    WrongModule("weights of classes", class_weight={"0": 2.0}, text="remove settings.class_weight"),
    WrongModule("no data", load=None, text="does not show its shapes"),
]


@pytest.mark.parametrize("case", WRONG_MODULES, ids=lambda case: case.name)
def test_functions_that_cannot_be_used_are_named_with_their_place(
    torch_trainer: Trainer, case: WrongModule
) -> None:
    fault = inspect(
        torch_trainer,
        case.build,
        case.load,
        fixed={
            "optimizer": case.optimizer,
            "weights": case.weights,
            "class_weight": case.class_weight,
        },
    )
    assert isinstance(fault, ModelFault)
    assert fault.kind == "refused"
    assert case.text in fault.text
    file, line, name = fault.text.split(":")[:3]
    assert (Path(file).parent, name.split()[0]) == (FOLDER, case.place)
    source = Path(file).read_text().splitlines()[int(line) - 1]
    assert source.startswith(f"def {case.place}(")
