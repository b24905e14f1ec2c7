"""Trials of PyTorch modules of a user's own, in one warm trainer."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.analysis.arms.mathematics import fingerprint_difference
from tests.workloads.shared_trainer import Trainer, environment_of, failure, result, single_event
from workloads import protocol
from workloads.model_facts import COMPILED_GRAPHS, GRAPH_BREAKS
from workloads.registry import own_model_name

EXAMPLES = "tests.workloads.examples"
SETTINGS = {"units": 8, "batch_size": 8, "epochs": 1, "timed_steps": 2}


def ask(
    trainer: Trainer,
    build: str = "own_modules:build",
    implementation: str = "torch/auto",
    *,
    load: str = "own_modules:load",
    slices: int | None = None,
    settings: dict[str, Any] | None = None,
    **fields: Any,
) -> list[protocol.Event]:
    """Return the events of a trial; with `slices` it is timed in so many of them."""
    name = own_model_name(f"{EXAMPLES}.{build}", f"{EXAMPLES}.{load}")
    if slices is not None:
        fields = {"measure": "timing", "slice_s": 0.01} | fields
    request = protocol.TrialRequest(
        name, implementation, settings={**SETTINGS, **(settings or {})}, **fields
    )
    trainer.send(protocol.encode_message(request))
    for _ in range(slices or 0):
        trainer.send('{"command": "slice"}')
    if slices is not None:
        trainer.send('{"command": "finish"}')
    return trainer.events_of_trial()


def kernel_of(events: list[protocol.Event]) -> protocol.KernelProof:
    return single_event(events, protocol.KernelProof)


def test_a_training_computes_what_a_loop_of_pytorch_computes(torch_trainer: Trainer) -> None:
    plain = result(
        torch_trainer.ask(
            "tests.workloads.modules.probes:train_plainly", "torch/auto", settings=SETTINGS, seed=5
        )
    )
    events = ask(torch_trainer, seed=5)
    expected = {name: plain[name] for name in ("loss", "val_loss", "val_mae")}
    assert single_event(events, protocol.Epoch).metrics == pytest.approx(expected, rel=1e-5)
    metrics = result(events)
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, rel=1e-5)


def test_a_loader_gives_a_module_samples_and_their_weights(torch_trainer: Trainer) -> None:
    def train(load: str, weight: float) -> tuple[int, float, float]:
        events = ask(
            torch_trainer,
            "weighted_modules:build",
            load=f"weighted_modules:{load}",
            settings={"weight": weight, "timed_steps": 0},
        )
        metrics = result(events)
        dataset = single_event(events, protocol.Dataset)
        return dataset.samples, metrics["loss"], metrics["val_loss"]

    samples, loss, val_loss = train("load_arrays", 1.0)
    assert samples == 25  # of 28, of which the last tenth is for validation
    assert train("load", 2.0) == pytest.approx((samples, 2 * loss, 2 * val_loss))


def test_only_an_arm_with_tf32_may_round_products(torch_trainer: Trainer) -> None:
    for implementation, may_round in (("torch/auto+tf32", 1), ("torch/auto", 0)):
        probe = "tests.workloads.modules.probes:may_round_to_tf32"
        allowed = result(torch_trainer.ask(probe, implementation))
        assert (allowed["products"], allowed["cudnn"]) == (may_round, may_round)


@pytest.mark.parametrize(
    ("double", "ran"), [(False, "portable+tf32"), (True, "portable")], ids=["float32", "float64"]
)
def test_the_evidence_names_rounding_to_tf32(
    torch_trainer: Trainer, double: bool, ran: str
) -> None:
    probe = "tests.workloads.modules.probes:prove_as_on_a_gpu_that_rounds"
    settings = {"units": 4, "double": double}
    assert kernel_of(torch_trainer.ask(probe, "torch/auto+tf32", settings=settings)).ran == ran


def test_a_training_has_the_metrics_of_a_keras_model(torch_trainer: Trainer) -> None:
    metrics = result(ask(torch_trainer, settings={"timed_steps": 20}))
    times = ["step_ms", "step_ms_median", "step_ms_p95", "predict_sample_ms", "evaluate_s"]
    others = ["compile_s", "cpu_over_wall"]
    assert all(metrics[name] >= 0 for name in [*times, *others])
    of_lstm, of_head = 5 * 2 * (4 * 8 * 3 + 4 * 8 * 8), 2 * 8
    mean_batch = 28 / 4  # the last batch is half full
    assert metrics["model_flops_per_step"] == 3 * (of_lstm + of_head) * mean_batch


@pytest.mark.parametrize(
    ("build", "implementation", "ran", "operand"),
    [
        pytest.param("build_cells", "torch/auto", "portable", "float32", id="loop over cells"),
        pytest.param("build_float64", "torch/auto", "portable", "float64", id="float64"),
        pytest.param("build_cells", "torch/auto+bf16", "portable+bf16", "bfloat16", id="bf16"),
        pytest.param("build_bfloat16", "torch/auto", "portable+bf16", "bfloat16", id="bfloat16"),
    ],
)
def test_the_evidence_names_what_ran_the_recurrent_layers(
    torch_trainer: Trainer, build: str, implementation: str, ran: str, operand: str
) -> None:
    proof = kernel_of(ask(torch_trainer, f"own_modules:{build}", implementation))
    assert proof.ran == ran
    assert operand in proof.evidence


def test_the_library_call_of_an_lstm_is_named(torch_trainer: Trainer) -> None:
    proof = kernel_of(ask(torch_trainer))
    assert proof.ran in ("onednn", "native")  # as the processor has it
    assert "aten::lstm × 1" in proof.evidence


def test_training_steps_are_timed_in_slices_on_full_batches(torch_trainer: Trainer) -> None:
    events = ask(torch_trainer, slices=3)
    metrics, facts = result(events), environment_of(events)
    assert facts[protocol.MODEL_KIND] == protocol.MODULE_KIND  # for the lines that put it to use
    assert single_event(events, protocol.ModelBuilt).parameters == 4 * 8 * (3 + 8 + 2) + 8 + 1
    assert metrics["slices"] == 3
    assert metrics["step_ms"] > 0
    assert metrics["samples_per_s"] == pytest.approx(8_000 / metrics["step_ms"])
    assert "loss" not in metrics


def test_predictions_need_no_loss(torch_trainer: Trainer) -> None:
    events = ask(torch_trainer, "bare_modules:build", slices=2, timed_work="predict")
    metrics = result(events)
    sample_us = 1_000 * metrics["predict_ms"] / SETTINGS["batch_size"]
    assert metrics["predict_sample_us"] == pytest.approx(sample_us)
    assert "step_ms" not in metrics
    assert "prediction" in kernel_of(events).evidence


def test_an_lstm_layer_is_not_compiled_and_the_evidence_says_why(torch_trainer: Trainer) -> None:
    events = ask(torch_trainer, implementation="torch/auto+compile", slices=2)
    proof = kernel_of(events)
    assert proof.ran in ("onednn", "native")
    assert "made no graph" in proof.evidence
    assert "LSTM" in proof.evidence.partition("made no graph")[2]
    facts = environment_of(events)
    assert (facts[COMPILED_GRAPHS], facts[GRAPH_BREAKS] > 0) == (0, True)


@pytest.mark.full
def test_a_loop_over_cells_is_compiled_before_the_slices_and_its_graph_breaks_are_counted(
    torch_trainer: Trainer,
) -> None:
    build = "own_modules:build_with_decision"
    events, as_written = (
        ask(torch_trainer, build, arm, slices=2, seed=3, fingerprint=True)
        for arm in ("torch/auto+compile", "torch/auto")
    )
    proof = kernel_of(events)
    assert proof.ran == "compiled"
    assert "made 2 graphs, with 1 graph break (" in proof.evidence
    facts = environment_of(events)
    assert (facts[COMPILED_GRAPHS], facts[GRAPH_BREAKS]) == (2, 1)
    assert "branch" in proof.evidence.partition("graph break (")[2]
    assert result(events)["compile_s"] > 0
    difference = fingerprint_difference(
        *(single_event(trial, protocol.Fingerprint) for trial in (events, as_written))
    )
    assert difference.outputs_share < 1e-5
    assert difference.gradients is not None
    assert difference.gradients < 1e-4


@pytest.mark.full
def test_what_a_carried_state_compiles_in_later_steps_is_compiled_before_the_slices(
    torch_trainer: Trainer,
) -> None:
    build, load = "carrying_modules:build_sums", "carrying_modules:load_parts"
    one_step_s = 1e-9  # as few as for a slow model
    events = ask(
        torch_trainer, build, "torch/auto+compile", load=load, slices=3, slice_s=one_step_s
    )
    assert kernel_of(events).ran == "compiled"
    assert result(events)["slices"] == 3
    whole = result(ask(torch_trainer, build, "torch/auto+compile", load=load))
    assert whole["evaluate_s"] > 0


@pytest.mark.full
def test_nothing_that_was_compiled_before_is_used(torch_trainer: Trainer) -> None:
    probe = "tests.workloads.modules.probes:compile_twice"
    counts = result(torch_trainer.ask(probe, "torch/auto+compile"))
    assert (counts["graphs"], counts["hits"], counts["misses"]) == (1, 0, 1)


def test_a_compiler_is_looked_for_in_the_phase_that_compiles(torch_trainer: Trainer) -> None:
    probe = "tests.workloads.modules.probes:train_without_a_compiler"
    failed = failure(torch_trainer.ask(probe, "torch/auto+compile", settings=SETTINGS))
    assert failed.kind == "not_possible"
    assert failed.message.startswith("compile: ")


def test_a_module_in_bfloat16_has_its_precision_and_trains(torch_trainer: Trainer) -> None:
    events = ask(torch_trainer, "own_modules:build_bfloat16", fingerprint=True)
    as_usual = result(ask(torch_trainer, "own_modules:build_cells"))
    assert environment_of(events)["precision"] == "bf16"
    assert single_event(events, protocol.Fingerprint).outputs
    metrics = result(events)
    assert metrics["predict_sample_ms"] > 0
    assert metrics["val_loss"] == pytest.approx(as_usual["val_loss"], rel=0.1)


def test_the_trained_weights_are_kept(torch_trainer: Trainer, tmp_path: Path) -> None:
    kept = tmp_path / "model"
    result(ask(torch_trainer, settings={"keep": "best"}, model_path=str(kept)))
    assert [file.name for file in kept.iterdir()] == ["state_dict.pt"]
    floats = 4 * 8 * 3 + 4 * 8 * 8 + 2 * 4 * 8 + 8 + 1
    assert (kept / "state_dict.pt").stat().st_size > 4 * floats


@pytest.mark.parametrize("shuffle", [None, True])
def test_a_carried_state_follows_the_order_of_the_data(
    torch_trainer: Trainer, shuffle: bool | None
) -> None:
    settings = {"batch_size": 12, "epochs": 2, "timed_steps": 0, "shuffle": shuffle}
    build, load = "carrying_modules:build", "carrying_modules:load_parts"
    metrics = result(ask(torch_trainer, build, load=load, settings=settings, seed=5))
    plain = result(
        torch_trainer.ask(
            "tests.workloads.modules.probes:train_in_order",
            "torch/auto",
            settings={**SETTINGS, **settings},
            seed=5,
        )
    )
    assert (metrics["loss"] == pytest.approx(plain["loss"], rel=1e-5)) is (shuffle is None)


@pytest.mark.parametrize("build", ["build_with_loss", "build_with_loss_in_array"])
def test_a_module_with_its_loss_inside_is_trained(torch_trainer: Trainer, build: str) -> None:
    load, settings = "carrying_modules:load_tokens", {"optimizer": "SGD"}
    events = ask(
        torch_trainer,
        f"carrying_modules:{build}",
        load=load,
        settings=settings,
        fingerprint=True,
    )
    assert {"loss", "val_loss"} <= result(events).keys()
    assert all(norm > 0 for norm in single_event(events, protocol.Fingerprint).gradient_norms)


def test_a_module_of_one_size_has_full_batches(torch_trainer: Trainer) -> None:
    events = ask(
        torch_trainer,
        "unusual_modules:build_of_one_size",
        load="unusual_modules:load",
        settings={"batch_size": 12, "timed_steps": 0},
    )
    assert result(events)["val_loss"] > 0


def test_a_module_may_write_into_its_inputs(torch_trainer: Trainer) -> None:
    build, load = "unusual_modules:build_writing", "unusual_modules:load"
    events = ask(torch_trainer, build, load=load, settings={"epochs": 2}, fingerprint=True)
    assert result(events)["val_loss"] > 0


def test_what_a_module_draws_in_python_begins_with_the_training(torch_trainer: Trainer) -> None:
    build, load = "unusual_modules:build_drawing", "unusual_modules:load"
    losses = {
        result(ask(torch_trainer, build, load=load, seed=5, fingerprint=fingerprint))["loss"]
        for fingerprint in (False, True)
    }
    assert len(losses) == 1
