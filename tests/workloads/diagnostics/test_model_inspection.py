"""A user's own model is built, and its data tried, before any trial: in one warm trainer here."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.workloads.probes import INSPECTION_ADAPTER
from tests.workloads.shared_trainer import Trainer, failure, result, single_event
from workloads import protocol
from workloads.model_facts import Inspection, ModelFacts, ModelFault
from workloads.registry import own_model_name

MODULE = "tests.workloads.examples.own_models"
FILE = "tests/workloads/examples/own_models.py"


def inspect(
    trainer: Trainer, build: str, load: str | None, module: str = MODULE, **asked: Any
) -> Inspection:
    """Return what the probe `inspect_model` of a warm trainer answers, of two probes of units."""
    name = own_model_name(f"{module}:{build}", f"{module}:{load}" if load else None)
    settings = {"workload": name, "units": [4, 8], "searched": ["units"], **asked}
    events = trainer.ask(
        "tests.workloads.probes:inspect_model", "tensorflow/portable", settings=settings
    )
    result(events)
    return INSPECTION_ADAPTER.validate_json(single_event(events, protocol.Artifact).text)


def test_the_facts_of_a_model_are_its_metrics_and_its_data(trainer: Trainer) -> None:
    facts, again = (inspect(trainer, "build", "load") for _ in range(2))
    assert isinstance(facts, ModelFacts)
    assert facts == again
    assert facts.metrics == ("loss", "mae")
    assert facts.data_digest is not None and len(facts.data_digest) == 64
    asked = {(arm.probe, arm.device): arm.reason for arm in facts.arms}
    assert asked == dict.fromkeys([(0, "cpu"), (0, "gpu"), (1, "cpu"), (1, "gpu")])


def test_each_kernel_is_examined_on_each_device(trainer: Trainer) -> None:
    texts = ["tensorflow/auto", "tensorflow/portable+unroll", "tensorflow/cudnn"]
    facts = inspect(trainer, "build", "load", implementations=[*texts, "tensorflow/fused"])
    assert isinstance(facts, ModelFacts)
    runs = {
        device: {a.implementation for a in facts.arms if a.device == device and a.reason is None}
        for device in ("cpu", "gpu")
    }
    assert runs == {"cpu": set(texts[:2]), "gpu": {*texts, "tensorflow/fused"}}


@pytest.mark.parametrize(
    ("build", "load", "masked"),
    [
        ("build_masked", "load_masked", ["auto", "cudnn", "fused"]),
        ("build", "load", []),
    ],
)
def test_the_arms_that_run_masked_layers_in_a_library_are_known(
    trainer: Trainer, build: str, load: str, masked: list[str]
) -> None:
    kernels = ["auto", "portable", "cudnn", "fused"]
    texts = [f"tensorflow/{kernel}" for kernel in kernels]
    facts = inspect(trainer, build, load, implementations=texts)
    assert isinstance(facts, ModelFacts)
    found = {(arm.implementation, arm.device) for arm in facts.arms if arm.is_masked}
    assert found == {(f"tensorflow/{kernel}", "gpu") for kernel in masked}


@pytest.mark.parametrize("load", ["load", "load_dataset"])
def test_a_model_may_wait_for_its_data_to_be_built(trainer: Trainer, load: str) -> None:
    facts = inspect(trainer, "build_unbuilt", load, implementations=["tensorflow/portable"])
    assert isinstance(facts, ModelFacts)
    assert {arm.reason for arm in facts.arms} == {None}


@pytest.mark.parametrize("build", ["build_of_one_size", "build_with_own_step"])
def test_a_subclass_is_tried_on_batches_as_it_gets_them(trainer: Trainer, build: str) -> None:
    facts = inspect(
        trainer,
        build,
        "load",
        "tests.workloads.examples.subclassed",
        fixed={"batch_size": 12},
        implementations=["tensorflow/auto"],
    )
    assert isinstance(facts, ModelFacts)
    assert {arm.reason for arm in facts.arms} == {None}


def test_an_initializer_of_the_users_own_needs_own_weights(trainer: Trainer) -> None:
    fault = inspect(trainer, "build_with_own_initializer", "load")
    assert isinstance(fault, ModelFault)
    assert fault.kind == "refused"
    assert fault.text.startswith(f"{FILE}:")
    assert "draw_ones" in fault.text and "settings.weights" in fault.text
    facts = inspect(trainer, "build_with_own_initializer", "load", fixed={"weights": "own"})
    assert isinstance(facts, ModelFacts)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"20": ["token", 11]}, ["sample 20 of the training", "takes 0 to 10"]),
        ({"39": ["class", 3]}, ["sample 3 of the validation", "classes 0 to 2"]),
        ({"20": ["class", -1]}, ["sample 20 of the training", "class -1"]),
    ],
)
def test_a_token_or_a_class_out_of_range_is_found_in_any_sample(
    trainer: Trainer, wrong: dict[str, Any], words: list[str]
) -> None:
    fixed = {"wrong": wrong}
    fault = inspect(trainer, "build_sparse_classifier", "load_labelled_tokens", fixed=fixed)
    assert isinstance(fault, ModelFault)
    assert [word for word in words if word not in fault.text] == []


@pytest.mark.parametrize("tokens", [None, [0, 0, 0, 1, 2, 3], [0] * 6])
def test_arms_of_a_library_need_padding_on_the_right(trainer: Trainer, tokens: Any) -> None:
    wrong = {"20": ["token", tokens]} if tokens else {}
    facts = inspect(
        trainer,
        "build_sparse_classifier",
        "load_labelled_tokens",
        fixed={"wrong": wrong},
        implementations=["tensorflow/portable", "tensorflow/fused"],
    )
    assert isinstance(facts, ModelFacts)
    reasons = {a.implementation: a.reason for a in facts.arms if a.device == "gpu"}
    assert reasons["tensorflow/portable"] is None
    assert ("sample 20" in str(reasons["tensorflow/fused"])) is (tokens is not None)


def test_weights_of_classes_need_one_output(trainer: Trainer) -> None:
    weighted = {"class_weight": {"0": 2.0}}
    fault = inspect(trainer, "build_of_two_inputs", "load_two_inputs", fixed=weighted)
    assert isinstance(fault, ModelFault)
    assert fault.kind == "refused" and "settings.class_weight" in fault.text
    assert fault.text.startswith(f"{FILE}:")


def test_missing_values_are_no_error_where_the_model_handles_them(trainer: Trainer) -> None:
    facts = inspect(trainer, "build_for_missing_values", "load_masked_missing_values")
    assert isinstance(facts, ModelFacts)


def test_a_model_whose_predictions_are_timed_needs_no_optimizer(trainer: Trainer) -> None:
    facts = inspect(trainer, "build_uncompiled", "load", timed_work="predict")
    assert isinstance(facts, ModelFacts)
    assert facts.metrics == ()


def test_a_function_without_settings_is_called_without_them(trainer: Trainer) -> None:
    assert isinstance(inspect(trainer, "build_without_settings", "load"), ModelFacts)


def test_random_data_fit_the_model_and_have_times_only(trainer: Trainer) -> None:
    for build in ("build", "build_classifier_of_tokens"):
        facts = inspect(trainer, build, None)
        assert isinstance(facts, ModelFacts)
        assert (facts.metrics, facts.data_digest) == ((), None)
    name = own_model_name(f"{MODULE}:build_classifier_of_tokens", None)
    settings = {"units": 4, "batch_size": 4, "timed_steps": 2}
    metrics = result(trainer.ask(name, "tensorflow/portable", settings=settings))
    assert metrics["step_ms"] > 0 and metrics["predict_s"] > 0
    assert not {"loss", "mae", "accuracy", "val_loss"} & metrics.keys()


def test_a_trial_trains_the_model_on_its_data(trainer: Trainer) -> None:
    name = own_model_name(f"{MODULE}:build", f"{MODULE}:load_parts")
    facts = inspect(trainer, "build", "load_parts")
    assert isinstance(facts, ModelFacts)
    settings = {"units": 4, "batch_size": 8, "epochs": 2, "timed_steps": 2}

    def ask(digest: str | None) -> list[protocol.Event]:
        return trainer.ask(name, "tensorflow/portable", settings=settings, data_digest=digest)

    events = ask(facts.data_digest)
    dataset = single_event(events, protocol.Dataset)
    assert (dataset.samples, dataset.validation_samples) == (24, 16)
    parameters = 4 * (4 * 3 + 4 * 4 + 4) + 4 + 1
    built = single_event(events, protocol.ModelBuilt)
    assert built == protocol.ModelBuilt(parameters, 4 * parameters / 2**20)
    assert {"loss", "mae", "val_loss", "val_mae", "step_ms"} <= result(events).keys()
    assert failure(ask("0" * 64)).kind == "data"


@pytest.mark.parametrize(
    ("build", "load", "file"),
    [
        ("build", "load", "model.keras"),
        ("build_of_several_dense_layers", "load", "model.keras"),
        ("build_for_missing_values", "load_masked_missing_values", "model.weights.h5"),
    ],
)
def test_a_model_with_automatic_names_is_kept(
    trainer: Trainer, tmp_path: Path, build: str, load: str, file: str
) -> None:
    name = own_model_name(f"{MODULE}:{build}", f"{MODULE}:{load}")
    settings = {"units": 4, "batch_size": 8, "timed_steps": 0, "keep": "best"}
    folder = tmp_path / "kept"
    events = trainer.ask(name, "tensorflow/portable", settings=settings, model_path=str(folder))
    result(events)
    assert [event.text for event in events if isinstance(event, protocol.Artifact)] == []
    assert [path.name for path in folder.iterdir()] == [file]


def test_a_trial_stores_nothing_by_the_autologging_of_its_file(trainer: Trainer) -> None:
    module = "tests.workloads.examples.autologged"
    name = own_model_name(f"{module}:build", f"{module}:load")
    settings = {"units": 4, "batch_size": 8, "timed_steps": 0}
    result(trainer.ask(name, "tensorflow/portable", settings=settings))
    probe = "tests.workloads.probes:autologging_integrations"
    assert result(trainer.ask(probe, "tensorflow/portable"))["switched_on"] == 0


def test_metrics_have_the_same_names_in_every_trial(trainer: Trainer) -> None:
    facts = inspect(trainer, "build_of_two_classes", "load_two_classes")
    assert isinstance(facts, ModelFacts)
    assert set(facts.metrics) == {"loss", "auc"}
    name = own_model_name(f"{MODULE}:build_of_two_classes", f"{MODULE}:load_two_classes")
    settings = {"units": 4, "batch_size": 8, "timed_steps": 2}
    # Keras numbers objects of one class in a process, and the inspection has built some.
    assert "val_auc" in result(trainer.ask(name, "tensorflow/portable", settings=settings))


class WrongModel(NamedTuple):
    """Functions that cannot be used, and what is said about them."""

    name: str
    build: str = "build"
    load: str = "load"
    kind: str = "refused"
    place: str = ""
    text: str = ""
    setting: str | None = None


WRONG_MODELS = [
    WrongModel("no model", build="build_nothing", place="build_nothing", text="keras.Model"),
    WrongModel(
        "a model that is not compiled",
        build="build_uncompiled",
        place="build_uncompiled",
        text="the model is not compiled",
    ),
    WrongModel(
        "a model that differs from call to call",
        build="build_at_random",
        place="build_at_random",
        text="different model in each call",
    ),
    WrongModel(
        "an optimizer that differs from call to call",
        build="build_with_random_rate",
        place="build_with_random_rate",
        text="different model in each call",
    ),
    WrongModel(
        "a setting that the spec lacks",
        build="build_misspelt",
        kind="failed",
        text="add it to settings",
    ),
    WrongModel(
        "a model that fits no memory",
        build="build_huge",
        kind="failed",
        text="too little memory for the model: reduce batch_size",
    ),
    WrongModel("no data", load="load_nothing", place="load_nothing", text="return (x, y)"),
    WrongModel(
        "states without a full batch of validation",
        build="build_stateful",
        place="load",
        text="validation: the model takes full batches of 32 samples",
    ),
    WrongModel(
        "data of another shape",
        load="load_wide",
        place="load_wide",
        text="(None, 5, 3) and returns (None, 1); received x of shape (32, 5, 4)",
    ),
    WrongModel(
        "targets of another shape",
        load="load_wide_targets",
        place="load_wide_targets",
        text="returns (None, 1); received x of shape (32, 5, 3), y of shape (32, 7)",
    ),
    WrongModel(
        "a loss that is not a number",
        load="load_missing_values",
        place="build",
        text="loss and mae are NaN or infinite",
    ),
    WrongModel(
        "a loss that is not a number, after the first batch",
        load="load_a_late_missing_value",
        place="build",
        text="sample 20 of the training data",
    ),
    WrongModel(
        "a backward pass that fails",
        build="build_without_gradient",
        kind="failed",
        text="the backward pass of a training step failed",
    ),
    WrongModel(
        "data that a data set shuffles anew in each pass",
        load="load_shuffled_dataset",
        place="load_shuffled_dataset",
        text="reshuffle_each_iteration=False",
    ),
    WrongModel(
        "a metric whose name MLflow refuses",
        build="build_with_unrecordable_metric",
        place="build_with_unrecordable_metric",
        text="'error@1'",
    ),
    WrongModel(
        "data that differ from call to call",
        load="load_at_random",
        place="load_at_random",
        text="different data in each call",
    ),
    WrongModel(
        "data that depend on a searched setting",
        load="load_of_units",
        place="load_of_units",
        text="the data depend on 'units'",
        setting="units",
    ),
]


@pytest.mark.parametrize("case", WRONG_MODELS, ids=lambda case: case.name)
def test_functions_that_cannot_be_used_are_named_with_their_place(
    trainer: Trainer, case: WrongModel
) -> None:
    fault = inspect(trainer, case.build, case.load)
    assert isinstance(fault, ModelFault)
    assert (fault.kind, fault.setting) == (case.kind, case.setting)
    assert case.text in fault.text
    if case.place:
        place, line, name = fault.text.split(":")[:3]
        assert (place, name.split()[0]) == (FILE, case.place)
        source = Path(FILE).read_text().splitlines()[int(line) - 1]
        assert source.startswith(f"def {case.place}(")
