"""The measurement loop, which is equal on every backend."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lacking import skip_here
from tests.workloads.shared_trainer import Trainer, failure, result, single_event
from workloads.eligibility import is_installed
from workloads.implementations import BACKENDS
from workloads.protocol import Environment, Epoch, Event, KernelProof, PhaseBegan, PhaseEnded
from workloads.registry import find_workload

SMALL: dict[str, Any] = {
    "units": 8,
    "layers": 1,
    "dense_units": 8,
    "epochs": 2,
    "samples": 70,
    "validation_samples": 40,
    "dropout": 0.4,
    "timed_steps": 3,
}
ONE_SHAPE: dict[str, Any] = {"samples": 64, "validation_samples": 32}  # half the compilations
PROBES = "tests.workloads.probes"


@pytest.fixture(scope="module", params=tuple(BACKENDS))
def backend_name(request: pytest.FixtureRequest) -> str:
    """Return the name of a backend."""
    return request.param


@pytest.fixture(scope="module")
def process(request: pytest.FixtureRequest, backend_name: str) -> Trainer:
    """Return the shared trainer of the backend."""
    return request.getfixturevalue(
        "trainer" if backend_name == "tensorflow" else f"{backend_name}_trainer"
    )


@pytest.fixture(scope="module")
def full_trial(process: Trainer, backend_name: str) -> list[Event]:
    """Return the events of a small trial."""
    return process.ask("image_rows", f"{backend_name}/portable", settings=SMALL, seed=3)


def probe(
    process: Trainer, backend_name: str, what: str, implementation: str = "portable", **own: Any
) -> Any:
    settings = {**SMALL, **own}
    return process.ask(
        f"{PROBES}:{what}", f"{backend_name}/{implementation}", settings=settings, seed=3
    )


def test_every_phase_and_metric_is_reported(full_trial: list[Event]) -> None:
    metrics = result(full_trial)
    began = [event.phase for event in full_trial if isinstance(event, PhaseBegan)]
    ended = [event.phase for event in full_trial if isinstance(event, PhaseEnded)]
    assert began == ended
    timed = ["train", "validate"] * 2
    assert [p for p in began if p != "import"] == [
        "load", "compile", *timed, "evaluate", "predict", "latency", "steps"
    ]  # fmt: skip
    absent = {"time_to_accuracy_s", "peak_gpu_mib", "step_ms_p95"}
    assert {*metrics, *absent} - {"import_s"} == set(find_workload("image_rows").metrics)
    epochs = [event for event in full_trial if isinstance(event, Epoch)]
    assert metrics["train_s"] == pytest.approx(sum(epoch.seconds for epoch in epochs))
    assert metrics["step_ms"] == pytest.approx(1_000 * metrics["train_s"] / 6)
    assert metrics["samples_per_s"] == pytest.approx(140 / metrics["train_s"])
    assert metrics["sample_us"] == pytest.approx(1e6 * metrics["train_s"] / 140)
    assert metrics["model_flops_per_s"] == pytest.approx(
        1_000 * metrics["model_flops_per_step"] / metrics["step_ms"]
    )
    assert 0 < metrics["cpu_over_wall"] < 10_000
    assert min(metrics["compile_s"], metrics["predict_sample_ms"], metrics["step_ms_median"]) > 0


def test_the_environment_is_reported(full_trial: list[Event], backend_name: str) -> None:
    facts = single_event(full_trial, Environment).facts
    assert (facts["backend"], facts["devices"], facts["tf32"]) == (backend_name, "CPU", False)
    assert (facts["precision"], facts["dtype_policy"]) == ("float32", "float32")
    assert facts["intra_op_threads"] == facts["usable_cpus"]
    assert {"python", "keras", "numpy", backend_name, "cuda_build", "cudnn_build"} <= set(facts)


def test_the_seed_decides_everything(
    full_trial: list[Event], process: Trainer, backend_name: str
) -> None:
    repeated, other = (
        result(process.ask("image_rows", f"{backend_name}/portable", settings=SMALL, seed=seed))
        for seed in (3, 4)
    )
    names = ("loss", "accuracy", "val_loss", "val_accuracy")
    assert [result(full_trial)[metric] for metric in names] == [
        repeated[metric] for metric in names
    ]
    assert result(full_trial)["loss"] != other["loss"]


@pytest.mark.parametrize("seed", [2**31 - 1, 2**64])
def test_any_seed_is_accepted(process: Trainer, backend_name: str, seed: int) -> None:
    settings = {**SMALL, **ONE_SHAPE, "epochs": 1}
    assert result(
        process.ask("image_rows", f"{backend_name}/portable", settings=settings, seed=seed)
    )


def test_warming_up_changes_nothing_about_the_training(
    full_trial: list[Event], process: Trainer, backend_name: str
) -> None:
    assert result(full_trial)["loss"] == result(probe(process, backend_name, "bare"))["loss"]


def test_the_start_is_restored_after_a_warm_up(process: Trainer, backend_name: str) -> None:
    expect_restored(result(probe(process, backend_name, "warm_ups", **ONE_SHAPE)))


@pytest.mark.parametrize("kernel", ["portable+xla", "portable+fp16"])
def test_the_start_is_restored_with_options(trainer: Trainer, kernel: str) -> None:
    expect_restored(result(probe(trainer, "tensorflow", "warm_ups", kernel, **ONE_SHAPE)))


def test_the_start_is_restored_for_a_stack_with_the_frameworks_generator(
    torch_trainer: Trainer,
) -> None:
    expect_restored(result(probe(torch_trainer, "torch", "warm_ups", "fused", **ONE_SHAPE)))


@pytest.mark.parametrize(
    ("workload", "settings"),
    [
        ("image_rows", {"layers": 2, "cell": "gru", "dense_units": 8}),
        ("next_token", {"sequence_length": 6}),  # tokens that occur several times in a batch
        ("sentiment", {"dataset": "python-docs", "sequence_length": 6}),  # masked, both ways
        ("char_rnn", {"sequence_length": 6, "batch_size": 8, "sample_characters": 0}),  # stateful
    ],
)
def test_backends_start_equal_and_stay_close(
    request: pytest.FixtureRequest, workload: str, settings: dict[str, Any]
) -> None:
    installed = [backend_name for backend_name in BACKENDS if is_installed(backend_name)]
    if len(installed) < 2:
        skip_here("one backend alone is installed here: pip install 'rnnsweep[jax,torch]'")
    shared = {"units": 4, "dropout": 0.0, "epochs": 2, "samples": 70, "validation_samples": 40}
    losses = {}
    for backend_name in installed:
        fixture = "trainer" if backend_name == "tensorflow" else f"{backend_name}_trainer"
        process: Trainer = request.getfixturevalue(fixture)
        trial_settings = {**shared, "timed_steps": 0, **settings}
        metrics = result(
            process.ask(workload, f"{backend_name}/portable", settings=trial_settings, seed=5)
        )
        losses[backend_name] = (metrics["loss"], metrics["val_loss"])
    assert all(pair == pytest.approx(losses["tensorflow"], rel=1e-4) for pair in losses.values())


@pytest.mark.parametrize(("samples", "validation_samples"), [(64, 32), (65, 33), (20, 40)])
def test_partial_batches_are_warm_too(
    process: Trainer, backend_name: str, samples: int, validation_samples: int
) -> None:
    settings = {**SMALL, "samples": samples, "validation_samples": validation_samples}
    events = process.ask(
        "image_rows", f"{backend_name}/portable", settings={**settings, "epochs": 1}
    )
    assert result(events)["loss"] > 0


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_a_compilation_inside_the_timed_part_fails_the_trial(
    trainer_of: Trainer, backend: str
) -> None:
    failed = failure(probe(trainer_of, backend, "unwarmed"))
    assert failed.kind == "error"
    assert "expected the warm-up to cover every function and shape" in failed.message


def test_keras_calls_the_hook_at_the_end_of_an_epochs_steps(
    process: Trainer, backend_name: str
) -> None:
    calls = result(probe(process, backend_name, "hook_calls"))
    assert {key: calls[key] for key in ("fit", "evaluate", "steps_done")} == {
        "fit": 4,  # two epochs, and the validation after each
        "evaluate": 1,
        "steps_done": 3,
    }


@pytest.mark.parametrize(("wanted", "run"), [(2, 2), (5, 7)])
def test_single_steps_are_those_of_full_batches(
    process: Trainer, backend_name: str, wanted: int, run: int
) -> None:
    metrics = result(probe(process, backend_name, "single_steps", timed_steps=wanted))
    assert (metrics["timed"], metrics["run"]) == (wanted, run)  # every third batch is partial


def test_no_single_steps_are_timed_with_timed_steps_0(process: Trainer, backend_name: str) -> None:
    settings = {**SMALL, **ONE_SHAPE, "timed_steps": 0}
    events = process.ask("image_rows", f"{backend_name}/portable", settings=settings)
    assert "step_ms_median" not in result(events)
    assert "steps" not in [event.phase for event in events if isinstance(event, PhaseBegan)]


def test_batches_are_equal_from_every_kind_of_feed(process: Trainer, backend_name: str) -> None:
    losses = result(probe(process, backend_name, "losses_by_feed", dropout=0.0))
    assert losses["arrays"] == pytest.approx(losses["mapped"], rel=1e-6)
    assert losses["arrays"] == pytest.approx(losses["batches"], rel=1e-6)
    as_arrays = [losses[f"{feed}_are_arrays"] for feed in ("arrays", "mapped", "batches")]
    assert as_arrays == [backend_name != "torch", 0, 0], "PyTorch's are cut"


def test_states_are_reset_before_every_evaluation(process: Trainer, backend_name: str) -> None:
    losses = result(probe(process, backend_name, "stateful"))
    assert losses["first"] == losses["again"] != losses["continued"]
    assert not losses["takes_one_sample"]


def test_a_loss_that_is_not_finite_fails_the_trial_immediately(
    process: Trainer, backend_name: str
) -> None:
    events = probe(process, backend_name, "poisoned")
    failed = failure(events)
    assert failed.kind == "non_finite"
    assert "epoch 0: expected finite metrics; " in failed.message
    assert "loss is nan" in failed.message
    assert not [event for event in events if isinstance(event, Epoch)]


def test_a_gpu_trial_never_runs_on_the_cpu(process: Trainer, backend_name: str) -> None:
    failed = failure(probe(process, backend_name, "on_a_gpu"))
    assert failed.kind == "not_possible"
    assert "device gpu: expected a GPU that " in failed.message
    assert "it sees none" in failed.message


def test_only_one_framework_is_imported(process: Trainer, backend_name: str) -> None:
    settings = {**SMALL, **ONE_SHAPE, "bidirectional": True, "epochs": 1}
    assert result(process.ask("image_rows", f"{backend_name}/portable", settings=settings))
    assert result(probe(process, backend_name, "foreign"))["frameworks"] == 0


def test_a_warm_process_releases_a_trials_memory(
    full_trial: list[Event], process: Trainer, backend_name: str
) -> None:
    counts = result(probe(process, backend_name, "leftovers"))
    assert (counts["models"], counts["graphs"]) == (0, 0)


def expect_restored(metrics: dict[str, float]) -> None:
    assert metrics["first_loss"] == metrics["second_loss"]
    assert metrics["before"] == metrics["after"] != metrics["changed"]


def test_the_kernel_is_proven(full_trial: list[Event]) -> None:
    proof = single_event(full_trial, KernelProof)
    assert proof.ran == proof.asked == "portable"
