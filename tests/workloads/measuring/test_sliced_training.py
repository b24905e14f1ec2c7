"""Trials that are timed in slices, in real trainers on every backend."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.workloads.shared_trainer import Trainer, failure, result, single_event
from tests.workloads.tasks.small_settings import SMALL
from workloads import protocol
from workloads.metrics import sliced_metrics
from workloads.registry import own_model_name

full = pytest.mark.full


def run_in_slices(
    trainer: Trainer,
    workload: str,
    implementation: str,
    slice_s: float = 0.02,
    timed_work: protocol.TimedWork = "train",
    **own: Any,
) -> list[protocol.Event]:
    request = protocol.TrialRequest(
        workload,
        implementation,
        {**SMALL.get(workload, {}), **own},
        seed=3,
        measure="timing",
        slice_s=slice_s,
        timed_work=timed_work,
    )
    for line in (request, protocol.Slice(), protocol.Slice(), protocol.Slice(), protocol.Finish()):
        trainer.send(protocol.encode_message(line))
    return trainer.events_of_trial()


def expect_sound(
    events: Sequence[protocol.Event], timed_work: protocol.TimedWork = "train"
) -> list[protocol.SliceDone]:
    metrics, proof = result(events), single_event(events, protocol.KernelProof)
    done = [event for event in events if isinstance(event, protocol.SliceDone)]
    assert proof.ran == proof.asked
    optional = {"ratio_interval", "peak_gpu_mib", "import_s"}
    assert {*metrics, *optional} == {*sliced_metrics(timed_work), *optional}
    assert not [event for event in events if isinstance(event, protocol.Epoch)]
    ended = [event for event in events if isinstance(event, protocol.PhaseEnded)]
    trained = [event for event in ended if event.phase == timed_work][-len(done) :]  # no trial runs
    for window, item in zip(trained, done, strict=True):
        assert window.seconds > 0 and item.seconds > 0
    return done


@pytest.mark.parametrize(
    "backend", ["torch", *(pytest.param(b, marks=full) for b in ("tensorflow", "jax"))]
)
def test_a_slice_is_whole_steps_of_full_batches(trainer_of: Trainer, backend: str) -> None:
    implementation, samples = f"{backend}/portable", 32 * 6 + 12
    events = run_in_slices(trainer_of, "image_rows", implementation, 1e-4, samples=samples)
    assert single_event(events, protocol.Ready).slice_steps == 1
    assert [item.steps for item in expect_sound(events)] == [1] * 3
    assert result(events)["samples_per_s"] == pytest.approx(32_000 / result(events)["step_ms"])
    assert single_event(events, protocol.Dataset).samples == samples


@full
@pytest.mark.parametrize(
    ("workload", "backend", "implementation"),
    [
        pytest.param("image_rows", "torch", "torch/portable", id="whole model, PyTorch"),
        pytest.param("synthetic", "torch", "torch/fused", id="layers alone, PyTorch"),
        pytest.param("char_rnn", "torch", "torch/fused+bf16", id="stateful, bf16", marks=full),
        *(
            pytest.param("image_rows", backend, f"{backend}/portable", marks=full)
            for backend in ("tensorflow", "jax")
        ),
        pytest.param("image_rows", "tensorflow", "tensorflow/portable+eager", marks=full),
    ],
)
def test_a_slice_is_whole_predictions_of_full_batches(
    trainer_of: Trainer, workload: str, backend: str, implementation: str
) -> None:
    events = run_in_slices(trainer_of, workload, implementation, timed_work="predict")
    steps, metrics = single_event(events, protocol.Ready).slice_steps, result(events)
    assert [item.steps for item in expect_sound(events, "predict")] == [steps] * 3
    batch = SMALL[workload].get("batch_size", 32)
    assert metrics["predict_sample_us"] == pytest.approx(1e3 * metrics["predict_ms"] / batch)


@pytest.mark.parametrize(
    "backend", ["torch", *(pytest.param(b, marks=full) for b in ("tensorflow", "jax"))]
)
def test_a_model_that_is_not_compiled_predicts_single_samples(
    trainer_of: Trainer, backend: str
) -> None:
    own = "tests.workloads.examples.own_models"
    events = run_in_slices(
        trainer_of,
        own_model_name(f"{own}:build_uncompiled", f"{own}:load"),
        f"{backend}/auto",
        timed_work="predict",
        units=4,
        batch_size=1,
    )
    metrics = result(events)
    assert metrics["predict_sample_us"] == pytest.approx(1e3 * metrics["predict_ms"])
    assert single_event(events, protocol.KernelProof).ran.startswith("portable")


def test_a_function_that_only_trains_is_refused_where_predictions_are_timed(
    trainer: Trainer,
) -> None:
    events = run_in_slices(
        trainer, "tests.workloads.examples.slicing:steady", "tensorflow/any", timed_work="predict"
    )
    assert failure(events).kind == "not_possible"
    assert "trial.timed_work" in failure(events).message
