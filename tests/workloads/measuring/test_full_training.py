"""The measurement loop, which is the same on every backend."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lacking import skip_here
from tests.workloads.shared_trainer import Trainer, failure, only, result
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
def name(request: pytest.FixtureRequest) -> str:
    """Each backend in its turn."""
    return request.param


@pytest.fixture(scope="module")
def asked(request: pytest.FixtureRequest, name: str) -> Trainer:
    """Its shared trainer."""
    return request.getfixturevalue("trainer" if name == "tensorflow" else f"{name}_trainer")


@pytest.fixture(scope="module")
def usual(asked: Trainer, name: str) -> list[Event]:
    """The events of one small trial on it."""
    return asked.ask("image_rows", f"{name}/portable", settings=SMALL, seed=3)


def probe(
    asked: Trainer, name: str, what: str, implementation: str = "portable", **own: Any
) -> Any:
    settings = {**SMALL, **own}
    return asked.ask(f"{PROBES}:{what}", f"{name}/{implementation}", settings=settings, seed=3)


def test_every_phase_and_metric_is_told(usual: list[Event]) -> None:
    metrics = result(usual)
    began = [event.phase for event in usual if isinstance(event, PhaseBegan)]
    ended = [event.phase for event in usual if isinstance(event, PhaseEnded)]
    assert began == ended
    timed = ["train", "validate"] * 2
    assert [p for p in began if p != "import"] == [
        "load", "compile", *timed, "evaluate", "predict", "latency", "steps"
    ]  # fmt: skip
    elsewhere = {"time_to_accuracy_s", "peak_gpu_mib", "step_ms_p95"}
    assert {*metrics, *elsewhere} - {"import_s"} == set(find_workload("image_rows").metrics)
    epochs = [event for event in usual if isinstance(event, Epoch)]
    assert metrics["train_s"] == pytest.approx(sum(epoch.seconds for epoch in epochs))
    assert metrics["step_ms"] == pytest.approx(1_000 * metrics["train_s"] / 6)
    assert metrics["samples_per_s"] == pytest.approx(140 / metrics["train_s"])
    assert metrics["sample_us"] == pytest.approx(1e6 * metrics["train_s"] / 140)
    assert metrics["model_flops_per_s"] == pytest.approx(
        1_000 * metrics["model_flops_per_step"] / metrics["step_ms"]
    )
    assert 0 < metrics["cpu_over_wall"] < 10_000
    assert min(metrics["compile_s"], metrics["predict_sample_ms"], metrics["step_ms_median"]) > 0


def test_the_environment_is_told(usual: list[Event], name: str) -> None:
    facts = only(usual, Environment).facts
    assert (facts["backend"], facts["devices"], facts["tf32"]) == (name, "CPU", False)
    assert (facts["precision"], facts["dtype_policy"]) == ("float32", "float32")
    assert facts["intra_op_threads"] == facts["usable_cpus"]
    assert {"python", "keras", "numpy", name, "cuda_build", "cudnn_build"} <= set(facts)


def test_the_seed_decides_everything(usual: list[Event], asked: Trainer, name: str) -> None:
    again, other = (
        result(asked.ask("image_rows", f"{name}/portable", settings=SMALL, seed=seed))
        for seed in (3, 4)
    )
    names = ("loss", "accuracy", "val_loss", "val_accuracy")
    assert [result(usual)[each] for each in names] == [again[each] for each in names]
    assert result(usual)["loss"] != other["loss"]


@pytest.mark.parametrize("seed", [2**31 - 1, 2**64])
def test_any_seed_will_do(asked: Trainer, name: str, seed: int) -> None:
    settings = {**SMALL, **ONE_SHAPE, "epochs": 1}
    assert result(asked.ask("image_rows", f"{name}/portable", settings=settings, seed=seed))


def test_warming_up_changes_nothing_about_the_training(
    usual: list[Event], asked: Trainer, name: str
) -> None:
    assert result(usual)["loss"] == result(probe(asked, name, "bare"))["loss"]


def test_the_whole_start_is_restored_after_a_warm_up(asked: Trainer, name: str) -> None:
    expect_restored(result(probe(asked, name, "warm_ups", **ONE_SHAPE)))


@pytest.mark.parametrize("kernel", ["portable+xla", "portable+fp16"])
def test_so_is_that_of_options(trainer: Trainer, kernel: str) -> None:
    expect_restored(result(probe(trainer, "tensorflow", "warm_ups", kernel, **ONE_SHAPE)))


def test_so_is_that_of_a_stack_that_draws_from_the_frameworks_own_generator(
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
    installed = [name for name in BACKENDS if is_installed(name)]
    if len(installed) < 2:
        skip_here("one backend alone is installed here: pip install 'rnnsweep[jax,torch]'")
    shared = {"units": 4, "dropout": 0.0, "epochs": 2, "samples": 70, "validation_samples": 40}
    losses = {}
    for name in installed:
        fixture = "trainer" if name == "tensorflow" else f"{name}_trainer"
        asked: Trainer = request.getfixturevalue(fixture)
        own = {**shared, "timed_steps": 0, **settings}
        metrics = result(asked.ask(workload, f"{name}/portable", settings=own, seed=5))
        losses[name] = (metrics["loss"], metrics["val_loss"])
    assert all(each == pytest.approx(losses["tensorflow"], rel=1e-4) for each in losses.values())


@pytest.mark.parametrize(("samples", "validation_samples"), [(64, 32), (65, 33), (20, 40)])
def test_partial_batches_are_warm_too(
    asked: Trainer, name: str, samples: int, validation_samples: int
) -> None:
    settings = {**SMALL, "samples": samples, "validation_samples": validation_samples}
    events = asked.ask("image_rows", f"{name}/portable", settings={**settings, "epochs": 1})
    assert result(events)["loss"] > 0


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_a_compilation_inside_the_timed_part_fails_the_trial(
    trainer_of: Trainer, backend: str
) -> None:
    failed = failure(probe(trainer_of, backend, "unwarmed"))
    assert failed.kind == "error"
    assert "expected the warm-up to cover every function and shape" in failed.message


def test_keras_tells_when_an_epochs_steps_are_done(asked: Trainer, name: str) -> None:
    calls = result(probe(asked, name, "hook_calls"))
    assert {key: calls[key] for key in ("fit", "evaluate", "steps_done")} == {
        "fit": 4,  # two epochs, and the validation after each
        "evaluate": 1,
        "steps_done": 3,
    }


@pytest.mark.parametrize(("wanted", "run"), [(2, 2), (5, 7)])
def test_single_steps_are_those_of_full_batches(
    asked: Trainer, name: str, wanted: int, run: int
) -> None:
    found = result(probe(asked, name, "single_steps", timed_steps=wanted))
    assert (found["timed"], found["run"]) == (wanted, run)  # each third batch is partial
    assert found["step_ms_median"] > 0
    assert "step_ms_p95" not in found


def test_no_single_steps_are_timed_where_none_are_wanted(asked: Trainer, name: str) -> None:
    settings = {**SMALL, **ONE_SHAPE, "timed_steps": 0}
    events = asked.ask("image_rows", f"{name}/portable", settings=settings)
    assert "step_ms_median" not in result(events)
    assert "steps" not in [event.phase for event in events if isinstance(event, PhaseBegan)]


def test_batches_are_the_same_however_they_come(asked: Trainer, name: str) -> None:
    losses = result(probe(asked, name, "fed", dropout=0.0))
    assert losses["arrays"] == pytest.approx(losses["mapped"], rel=1e-6)
    assert losses["arrays"] == pytest.approx(losses["batches"], rel=1e-6)
    as_arrays = [losses[f"{each}_are_arrays"] for each in ("arrays", "mapped", "batches")]
    assert as_arrays == [name != "torch", 0, 0], "PyTorch's come cut"


def test_states_begin_anew_with_each_evaluation(asked: Trainer, name: str) -> None:
    losses = result(probe(asked, name, "stateful"))
    assert losses["first"] == losses["again"] != losses["going_on"]
    assert not losses["takes_one_sample"]


def test_a_loss_that_is_not_finite_fails_the_trial_at_once(asked: Trainer, name: str) -> None:
    events = probe(asked, name, "poisoned")
    failed = failure(events)
    assert failed.kind == "non_finite"
    assert "epoch 0: expected finite metrics; " in failed.message
    assert "loss is nan" in failed.message
    assert not [event for event in events if isinstance(event, Epoch)]


def test_a_gpu_trial_never_runs_on_the_cpu(asked: Trainer, name: str) -> None:
    failed = failure(probe(asked, name, "on_a_gpu"))
    assert failed.kind == "not_possible"
    assert "device gpu: expected a GPU that " in failed.message
    assert "it sees none" in failed.message


def test_no_other_framework_is_imported_beside_a_backend(asked: Trainer, name: str) -> None:
    settings = {**SMALL, **ONE_SHAPE, "bidirectional": True, "epochs": 1}
    assert result(asked.ask("image_rows", f"{name}/portable", settings=settings))
    assert result(probe(asked, name, "foreign"))["frameworks"] == 0


def test_a_warm_process_keeps_nothing_of_a_trial(
    usual: list[Event], asked: Trainer, name: str
) -> None:
    left = result(probe(asked, name, "leftovers"))
    assert (left["models"], left["graphs"]) == (0, 0)


def expect_restored(found: dict[str, float]) -> None:
    assert found["first_loss"] == found["second_loss"]
    assert found["before"] == found["after"] != found["changed"]


def test_the_kernel_is_proven(usual: list[Event]) -> None:
    proof = only(usual, KernelProof)
    assert proof.ran == proof.asked == "portable"
