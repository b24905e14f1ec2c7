"""The callbacks of a user's own model, in a real training and before it."""

import csv
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.workloads.probes import INSPECTION_ADAPTER
from tests.workloads.shared_trainer import Trainer, failure, result, single_event
from workloads.backends.registry import backends
from workloads.model_facts import Inspection, ModelFacts, ModelFault
from workloads.protocol import (
    Artifact,
    Epoch,
    Event,
    Finish,
    Slice,
    TrialRequest,
    encode_message,
)
from workloads.registry import own_model_name

MODULE = "tests.workloads.examples.own_callbacks"
FILE = "tests/workloads/examples/own_callbacks.py"
SETTINGS = {"units": 4, "batch_size": 8, "epochs": 9, "timed_steps": 2}


def name_of(callbacks: str, module: str = MODULE) -> str:
    return own_model_name(f"{module}:build", f"{module}:load", f"{MODULE}:{callbacks}")


def train(trainer: Trainer, implementation: str, callbacks: str, **own: Any) -> list[Event]:
    return trainer.ask(name_of(callbacks), implementation, settings={**SETTINGS, **own})


def epochs_of(events: list[Event]) -> list[Epoch]:
    return [event for event in events if isinstance(event, Epoch)]


@pytest.mark.parametrize("backend", backends())
def test_callbacks_work_as_in_fit(trainer_of: Trainer, backend: str, tmp_path: Path) -> None:
    """The rate is 0 in the first epoch, 5 in the second: the loss grows, and training stops."""
    log = tmp_path / "log.csv"
    events = train(trainer_of, f"{backend}/auto", "make", log=str(log))
    metrics, epochs = result(events), epochs_of(events)
    assert (metrics["train_epochs"], len(epochs), metrics["train_samples"]) == (2, 2, 2 * 24)
    best, last = (epoch.metrics["val_loss"] for epoch in epochs)
    assert metrics["val_loss"] == pytest.approx(best, rel=1e-5) and best < last
    assert metrics["loss"] == epochs[1].metrics["loss"]
    assert {*epochs[0].metrics} == {"loss", "mae", "val_loss", "val_mae"}
    assert metrics["callbacks_s"] > 0
    rows = list(csv.DictReader(log.open()))
    assert [float(row["learning_rate"]) for row in rows] == pytest.approx([0.0, 5.0])
    assert [float(row["val_loss"]) for row in rows] == pytest.approx([best, last], rel=1e-5)
    assert float(rows[0]["weights"]) != float(rows[1]["weights"])


def test_a_training_that_an_epoch_would_stop_ends_after_it(torch_trainer: Trainer) -> None:
    metrics = result(train(torch_trainer, "torch/auto", "make_two_epochs", epochs=5))
    assert (metrics["train_epochs"], metrics["train_samples"]) == (3, 3 * 24)


def test_the_error_of_a_callback_names_its_line(torch_trainer: Trainer) -> None:
    failed = failure(train(torch_trainer, "torch/auto", "make_failing"))
    assert failed.kind == "error"
    assert failed.message.startswith("callbacks: KeyError: 'val_f1'")


def test_slices_call_no_callbacks(torch_trainer: Trainer) -> None:
    name = name_of("make_failing")
    request = TrialRequest(name, "torch/auto", settings=SETTINGS, measure="timing")
    for message in (request, Slice(3), Slice(9), Finish()):
        torch_trainer.send(encode_message(message))
    assert "callbacks_s" not in result(torch_trainer.events_of_trial())


def inspect(trainer: Trainer, callbacks: str, module: str = MODULE, **fixed: Any) -> Inspection:
    name = name_of(callbacks, module)
    settings = {"workload": name, "units": [4, 8], "searched": ["units"], "fixed": fixed}
    implementation = "torch/auto" if module != MODULE else "tensorflow/auto"
    probe = "tests.workloads.probes:inspect_model"
    events = trainer.ask(probe, implementation, settings=settings)
    result(events)
    return INSPECTION_ADAPTER.validate_json(single_event(events, Artifact).text)


@pytest.mark.parametrize(
    ("callbacks", "classes"),
    [
        ("make_two_epochs", ("LambdaCallback",)),
        ("make_boards", ("TensorBoard",)),
        ("make_with_own_metric", ("CountsItself", "EarlyStopping")),
    ],
)
def test_callbacks_that_work_at_epochs_are_found(
    trainer: Trainer, callbacks: str, classes: tuple[str, ...]
) -> None:
    facts = inspect(trainer, callbacks)
    assert isinstance(facts, ModelFacts)
    assert facts.callbacks == classes


class Refused(NamedTuple):
    """A function whose callbacks cannot be used, and what is said about them."""

    callbacks: str
    words: tuple[str, ...]
    update_freq: str = "epoch"


@pytest.mark.parametrize(
    "case",
    [
        Refused("make_at_batches", ("TerminateOnNaN", "on_batch_end")),
        Refused("make_lambda_at_batches", ("LambdaCallback", "on_train_batch_end")),
        Refused("make_checkpoints", ("ModelCheckpoint", "on_train_batch_end")),
        Refused("make_boards", ("TensorBoard", "on_train_batch_begin"), update_freq="batch"),
        Refused("make_none", ("list", "EarlyStopping")),
        Refused("make_once", ("return the same callbacks",)),
        Refused("make_misspelt", ("EarlyStopping", "'val_los'", "val_loss, val_mae")),
    ],
    ids=lambda case: f"{case.callbacks} {case.update_freq}",
)
def test_callbacks_that_cannot_be_used_are_refused_before_a_trial(
    trainer: Trainer, case: Refused
) -> None:
    fault = inspect(trainer, case.callbacks, update_freq=case.update_freq)
    assert isinstance(fault, ModelFault)
    assert fault.kind == "refused" and fault.text.startswith(f"{FILE}:")
    assert [word for word in case.words if word not in fault.text] == []


def test_a_pytorch_module_takes_no_callbacks(torch_trainer: Trainer) -> None:
    fault = inspect(torch_trainer, "make_two_epochs", "tests.workloads.examples.own_modules")
    assert isinstance(fault, ModelFault)
    assert fault.kind == "refused"
    assert "returns a torch.nn.Module" in fault.text and "own_loop.md" in fault.text
