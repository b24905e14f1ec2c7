"""What importing the file of an own model changes in its process, and what its arms then are."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.workloads.probes import INSPECTION_ADAPTER
from tests.workloads.shared_trainer import (
    Trainer,
    environment_of,
    expect_package,
    failure,
    result,
    single_event,
)
from workloads.model_facts import Inspection, ModelFacts, ModelFault
from workloads.protocol import Artifact, Event, KernelProof
from workloads.registry import own_model_name
from workloads.resources import usable_cpus

FOLDER = "tests/workloads/examples/imported"
SETTINGS = {"units": 4, "batch_size": 8, "timed_steps": 2}


def workload_of(file: str) -> str:
    module = f"{FOLDER.replace('/', '.')}.{file}"
    return own_model_name(f"{module}:build", f"{module}:load")


def train(trainer: Trainer, file: str, implementation: str) -> list[Event]:
    return trainer.ask(workload_of(file), implementation, settings=SETTINGS)


def inspect(trainer: Trainer, file: str, *implementations: str) -> Inspection:
    asked = {"workload": workload_of(file), "units": [4], "searched": []}
    events = trainer.ask(
        "tests.workloads.probes:inspect_model",
        implementations[0],
        settings={**asked, "implementations": implementations},
    )
    result(events)
    return INSPECTION_ADAPTER.validate_json(single_event(events, Artifact).text)


def facts_of(trainer: Trainer, file: str, *implementations: str) -> ModelFacts:
    found = inspect(trainer, file, *implementations)
    assert isinstance(found, ModelFacts), found
    return found


def line_of(file: str, text: str) -> str:
    """Return the place of the line with a text, as messages have it."""
    path = Path(FOLDER, f"{file}.py")
    lines = path.read_text(encoding="utf-8").splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line]
    return f"{path}:{number}"


@pytest.mark.parametrize(
    "backend",
    ["torch", *(pytest.param(name, marks=pytest.mark.full) for name in ("jax", "tensorflow"))],
)
def test_a_file_that_computes_and_chooses_a_backend_decides_nothing(backend: str) -> None:
    expect_package(backend)
    with Trainer() as fresh:  # nothing may have run in it
        events = train(fresh, "computes", f"{backend}/auto")
        assert result(events)["step_ms"] > 0
        facts = environment_of(events)
        assert (facts["backend"], facts["intra_op_threads"]) == (backend, usable_cpus())
        notes = facts_of(fresh, "computes", f"{backend}/auto").import_notes
    place = line_of("computes", "os.environ")
    expected = f"{place} sets KERAS_BACKEND to tensorflow; trials use their own value"
    assert [note.partition(", here")[0] for note in notes] == (
        [] if backend == "tensorflow" else [expected]
    )


SWITCHES = {
    "torch": {
        "threads": "set_num_threads(",
        "interop threads": "set_num_interop",
        "precision of float32 products": "allow_tf32",
        "deterministic operations": "use_deterministic",
    },
    "jax": {"jax_default_matmul_precision": "jax_default_matmul_precision"},
    "tensorflow": {
        "intra_op threads": "set_intra_op",
        "automatic clustering by XLA": "set_jit",
        "deterministic operations": "enable_op_determinism",
    },
}


@pytest.mark.parametrize(
    "backend",
    ["torch", "jax", pytest.param("tensorflow", marks=pytest.mark.full)],
)
def test_switches_that_a_file_changes_are_set_back_and_named(backend: str) -> None:
    expect_package(backend)
    file = f"{backend}_switches"
    with Trainer() as fresh:
        notes = facts_of(fresh, file, f"{backend}/auto").import_notes
        facts = environment_of(train(fresh, file, f"{backend}/auto"))
    named = {note.partition(" to ")[0] for note in notes}
    assert named == {
        f"{line_of(file, text)} sets {name}" for name, text in SWITCHES[backend].items()
    }
    assert facts["intra_op_threads"] == usable_cpus()
    assert facts.get("inter_op_threads", usable_cpus()) == usable_cpus()
    assert facts["tf32"] is False
    assert facts.get("auto_clustering", "off") in ("off", "False", "")


@pytest.mark.parametrize(
    ("file", "implementation", "text"),
    [
        pytest.param("other_backend", "torch/auto", "set_backend"),
        pytest.param(
            "tensorflow_threads", "tensorflow/auto", "set_intra_op", marks=pytest.mark.full
        ),
    ],
)
def test_what_cannot_be_set_back_is_refused_with_its_line(
    file: str, implementation: str, text: str
) -> None:
    expect_package(implementation.partition("/")[0])
    with Trainer() as fresh:
        failed = failure(train(fresh, file, implementation))
        fault = inspect(fresh, file, implementation)
    assert isinstance(fault, ModelFault)
    assert (failed.kind, fault.kind) == ("not_possible", "failed")
    place = line_of(file, text)
    assert place in failed.message and place in fault.text


@pytest.mark.parametrize("backend", ["torch", pytest.param("jax", marks=pytest.mark.full)])
def test_a_number_format_of_the_file_is_kept_as_written_and_refused_elsewhere(
    trainer_for: Callable[[str], Trainer], backend: str
) -> None:
    arms = [f"{backend}/{kernel}" for kernel in ("auto", "portable", "portable+bf16")]
    trainer = trainer_for(arms[0])
    found: dict[str, Any] = {arm: train(trainer, "mixed", arm) for arm in arms}
    place = line_of("mixed", "set_global_policy")
    for arm in (arms[0], arms[2]):
        assert environment_of(found[arm])["precision"] == "bf16"
        assert single_event(found[arm], KernelProof).ran.endswith("+bf16")
    assert failure(found[arms[1]]).kind == "not_possible"
    assert place in failure(found[arms[1]]).message
    reasons = {
        fact.implementation: fact.reason
        for fact in facts_of(trainer, "mixed", *arms).arms
        if fact.device == "cpu"
    }
    assert [reasons[arm] is None for arm in arms] == [True, False, True]
    assert place in str(reasons[arms[1]])


def test_the_type_of_all_numbers_is_kept_as_written(torch_trainer: Trainer) -> None:
    facts = environment_of(train(torch_trainer, "double", "torch/auto"))
    assert (facts["dtype_policy"], facts["precision"]) == ("float64", "float64")
    refused = failure(train(torch_trainer, "double", "torch/portable"))
    assert line_of("double", "set_floatx") in refused.message
    others = environment_of(
        torch_trainer.ask("image_rows", "torch/portable", settings={"epochs": 1})
    )
    assert (others["dtype_policy"], others["precision"]) == ("float32", "float32")
