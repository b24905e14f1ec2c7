"""The measurement loop, which is equal on every backend."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.workloads.shared_trainer import Trainer, environment_of, failure, result, single_event
from tests.workloads.tasks.small_settings import SMALL as TEXTS
from workloads.backends.registry import backends
from workloads.protocol import Event, KernelProof, PhaseBegan, PhaseEnded
from workloads.registry import find_workload

full = pytest.mark.full
EACH_BACKEND = pytest.mark.parametrize("backend", backends())
SMALL: dict[str, Any] = {
    "units": 8,
    "layers": 1,
    "dense_units": 8,
    "epochs": 2,
    "dropout": 0.4,
    "timed_steps": 3,
    "samples": 70,
    "validation_samples": 40,
}
ONE_SHAPE: dict[str, Any] = {"samples": 64, "validation_samples": 32}  # half the compilations
PROBES = "tests.workloads.probes"


def probe(trainer: Trainer, what: str, implementation: str, **own: Any) -> list[Event]:
    return trainer.ask(f"{PROBES}:{what}", implementation, settings={**SMALL, **own}, seed=3)


@EACH_BACKEND
def test_a_trial_is_whole_and_its_seed_decides_its_losses(
    trainer_of: Trainer, backend: str
) -> None:
    implementation = f"{backend}/portable"
    before = result(probe(trainer_of, "leftovers", implementation))
    bare, other_seed = (
        result(trainer_of.ask(f"{PROBES}:bare", implementation, settings=SMALL, seed=seed))
        for seed in (3, 4)
    )
    events = trainer_of.ask("image_rows", implementation, settings=SMALL, seed=3)
    expect_every_phase_and_metric(events)
    proof, facts = single_event(events, KernelProof), environment_of(events)
    assert proof.ran == proof.asked == "portable"
    assert (facts["backend"], facts["devices"], facts["tf32"]) == (backend, "CPU", False)
    assert (facts["precision"], facts["dtype_policy"]) == ("float32", "float32")
    assert facts["intra_op_threads"] == facts["usable_cpus"]
    assert {"python", "keras", "numpy", backend, "cuda_build", "cudnn_build"} <= set(facts)
    metrics = result(events)
    # Warming up, clocks and callbacks change nothing about the training.
    assert metrics["loss"] == bare["loss"] != other_seed["loss"]
    remaining = result(probe(trainer_of, "leftovers", implementation))
    assert (remaining["models"], remaining["graphs"]) == (0, 0)
    assert remaining["frameworks"] == before["frameworks"], "a file of another test may import one"
    assert remaining["frozen"] > 0, "collections leave the framework's own objects out"


@pytest.mark.parametrize(
    "implementation", ["torch/fused", pytest.param("tensorflow/portable+unroll", marks=full)]
)
def test_a_kept_model_has_keras_own_layers_and_predicts_as_the_trial_did(
    trainer_for: Callable[[str], Trainer], implementation: str, tmp_path: Path
) -> None:
    kept = {"settings": {**SMALL, "bidirectional": True, "keep": "best"}, "seed": 3}
    folder, trainer = tmp_path / "model", trainer_for(implementation)
    events = trainer.ask("image_rows", implementation, **kept, model_path=str(folder))
    expect_every_phase_and_metric(events)
    settings = {**SMALL, "path": str(folder / "model.keras")}
    loaded = trainer.ask(f"{PROBES}:kept_accuracy", implementation, settings=settings)
    accuracy = pytest.approx(result(events)["val_accuracy"])
    assert result(loaded)["val_accuracy"] == accuracy
    assert result(loaded)["foreign"] == 0


def expect_every_phase_and_metric(events: list[Event]) -> None:
    metrics = result(events)
    began = [event.phase for event in events if isinstance(event, PhaseBegan)]
    assert began == [event.phase for event in events if isinstance(event, PhaseEnded)]
    assert [phase for phase in began if phase != "import"] == [
        "load", "compile", *["train", "validate"] * 2,
        "evaluate", "predict", "latency", "steps",
    ]  # fmt: skip
    absent = {"time_to_accuracy_s", "step_ms_p95"}
    absent |= {"peak_gpu_mib", "peak_flops_per_s", "model_flops_utilization_pct"}
    assert {*metrics, *absent} - {"import_s"} == set(find_workload("image_rows").metrics)
    assert 0 < metrics["cpu_over_wall"] < 10_000
    assert min(metrics["predict_sample_ms"], metrics["step_ms_median"]) > 0
    compiles_nothing = environment_of(events)["backend"] == "torch"
    assert metrics["compile_s"] > 0 or compiles_nothing


# In torch/fused the framework has the generator of its dropout.
OTHERS = ["tensorflow/portable+xla", "tensorflow/portable+fp16", "jax/portable"]
OTHERS += ["torch/portable", "torch/fused"]


@pytest.mark.parametrize(
    "implementation", ["tensorflow/portable", *(pytest.param(name, marks=full) for name in OTHERS)]
)
def test_the_start_is_restored_after_a_warm_up(
    trainer_for: Callable[[str], Trainer], implementation: str
) -> None:
    trainer = trainer_for(implementation)
    metrics = result(probe(trainer, "warm_ups", implementation, **ONE_SHAPE))
    assert metrics["first_loss"] == metrics["second_loss"]
    assert metrics["before"] == metrics["after"] != metrics["changed"]


@pytest.mark.parametrize("backend", ["tensorflow", pytest.param("jax", marks=full)])
def test_a_compilation_inside_the_timed_part_fails_the_trial(
    trainer_of: Trainer, backend: str
) -> None:
    failed = failure(probe(trainer_of, "unwarmed", f"{backend}/portable"))
    assert failed.kind == "error"
    assert "its times are not valid" in failed.message


@full
@EACH_BACKEND
def test_keras_calls_the_hook_at_the_end_of_an_epochs_steps(
    trainer_of: Trainer, backend: str
) -> None:
    calls = result(probe(trainer_of, "hook_calls", f"{backend}/portable"))
    # Two epochs, and the validation after each; the first one has three steps.
    assert (calls["fit"], calls["evaluate"], calls["steps_done"]) == (4, 1, 3)


@full
@EACH_BACKEND
def test_batches_are_equal_from_every_kind_of_feed(trainer_of: Trainer, backend: str) -> None:
    losses = result(probe(trainer_of, "losses_by_feed", f"{backend}/portable", dropout=0.0))
    assert losses["arrays"] == pytest.approx(losses["mapped"], rel=1e-6)
    assert losses["arrays_are_arrays"] and not losses["mapped_are_arrays"]


@full
def test_states_are_reset_before_every_evaluation(torch_trainer: Trainer) -> None:
    streams = {"workload": "char_rnn", "batch_size": 4, "sequence_length": 6, "samples": 8}
    losses = result(probe(torch_trainer, "stateful", "torch/portable", **streams))
    assert losses["first"] == losses["again"] != losses["continued"]
    assert not losses["takes_one_sample"]


@pytest.mark.parametrize(
    ("implementation", "build"),
    [
        ("torch/portable", "build_attribute"),
        ("torch/portable", "build_cells"),
        ("torch/portable", "build_stateful"),
        ("tensorflow/portable", "build_nested"),
        pytest.param("jax/portable", "build_nested", marks=pytest.mark.full),
    ],
)
def test_stateful_layers_inside_a_model_are_found_and_reset(
    trainer_for: Callable[[str], Trainer], implementation: str, build: str
) -> None:
    found = result(probe(trainer_for(implementation), "states_inside", implementation, build=build))
    assert found["first"] == found["again"] != found["continued"]
    assert (found["layers"], found["in_order"]) == (1, 1)


def test_dense_and_convolutional_layers_have_their_operations_counted(trainer: Trainer) -> None:
    flops = result(probe(trainer, "flops_of_layers", "tensorflow/portable"))
    assert flops["dense"] == 2 * 10 * (4 * 8)
    assert flops["conv1d"] == 2 * 5 * (3 * 4 * 8)
    assert flops["any length"] == 2 * 10 * (3 * 4 * 8)
    assert flops["conv2d"] == 2 * (4 * 3) * (3 * 3 * 2 * 3)


@EACH_BACKEND
def test_a_gpu_trial_never_runs_on_the_cpu(trainer_of: Trainer, backend: str) -> None:
    failed = failure(probe(trainer_of, "on_a_gpu", f"{backend}/portable"))
    assert failed.kind == "not_possible"
    assert "sees no GPU" in failed.message
    assert ("No visible GPU devices" in failed.message) == (backend == "jax")


@pytest.mark.parametrize("kernel", ["portable", "portable+unroll"])
def test_a_step_has_the_operations_of_bare_keras(trainer: Trainer, kernel: str) -> None:
    settings = {**TEXTS["char_rnn"], "batches": "windows"}
    what = f"{PROBES}:compared_with_bare_keras"
    events = trainer.ask(what, f"tensorflow/{kernel}", settings=settings)
    counts = result(events)
    assert counts["common"] > 100
    assert (counts["more"], counts["fewer"]) == (0, 0)
