"""The content of a trial's run in MLflow, from which the trial is read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow import MlflowClient

from orchestrator.core.arms import Arm, HardwareRef, HardwareUse, Usage
from orchestrator.core.trial import (
    DatasetRecord,
    EpochRecord,
    FailureRecord,
    FinishedTrial,
    Kernel,
    Outcome,
    SliceRecord,
    Telemetry,
    Trial,
)
from orchestrator.storage.tracking.mlflow_store import MlflowStore
from orchestrator.storage.tracking.records import TRIAL
from orchestrator.storage.tracking.run_content import entity_name, run_content, run_name
from tests.orchestrator.sample_hardware import on_cpu
from tests.orchestrator.sample_sweeps import IDENTITY, XLA, address, failed, finished
from tests.orchestrator.storage.tracking.recording import children, record, runs, table


def test_names_in_mlflow(home: Path) -> None:
    record(home, finished(1, XLA, repeat=1))
    (run,) = children(home)
    (parent,) = runs(home, "tags.generation = '1'")
    assert parent.info.run_name == "quickstart"
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["state"] == "complete"
    assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert run.info.run_name == (
        "lstm 33×2 learning_rate 0.001 bidirectional false · tensorflow/portable+xla"
        " · AMD EPYC 7763, 2 CPUs · repeat 1"
    )
    assert (run.info.status, run.info.start_time, run.info.end_time) == (
        "FINISHED",
        1_700_000_010_250,
        1_700_000_015_750,
    )
    params = {
        "workload": "image_rows",
        "dataset": "digits",
        "cell": "lstm",
        "epochs": "3",
        "units": "33",
        "layers": "2",
        "learning_rate": "0.001",
        "bidirectional": "false",
        "backend": "tensorflow",
        "kernel": "portable",
        "jit": "true",
        "precision": "float32",
        "repeat": "1",
        "seed": str(finished(1, XLA, repeat=1).trial.seed),
    }
    assert run.data.params.items() >= params.items()
    expected = {
        "sweep": "quickstart",
        "block": "1",
        "arm": "tensorflow/portable+xla on AMD EPYC 7763, 2 CPUs",
        "implementation": "tensorflow/portable+xla",
        "hardware": "AMD EPYC 7763, 2 CPUs",
        "node": "node-1",
        "trial_key": finished(1, XLA, repeat=1).trial.key,
        "kernel_ran": "portable",
        "kernel_evidence": "graph has While, no CudnnRNNV3",
        "outcome": "complete",
        "config": '{"bidirectional":false,"layers":2,"learning_rate":0.001,"units":33}',
    }
    assert {key: run.data.tags.get(key) for key in expected} == expected
    assert "failure" not in run.data.tags
    data = run.inputs.dataset_inputs[0].dataset
    assert (data.name, data.digest) == ("digits", ("ab" * 32)[:36])


def test_an_arms_use_of_its_hardware_is_among_the_params() -> None:
    own = Arm(
        "tensorflow/portable", on_cpu("AMD EPYC", 8, Usage(threads=4, settings={"epochs": 1}))
    )
    content = run_content(IDENTITY, finished(1, own))
    assert content.params["threads"] == "4"
    assert (content.params["epochs"], content.params["cell"]) == ("1", "lstm")
    assert content.tags["hardware"] == str(own.hardware)
    usual = run_content(IDENTITY, finished(1, XLA)).params
    assert (usual["epochs"], "threads" in usual) == ("3", False)


def test_curves_end_in_the_final_value(home: Path) -> None:
    record(home, finished())
    (run,) = children(home)
    assert run.data.metrics == {
        "loss": 0.25,
        "val_accuracy": 0.875,
        "step_ms": 8.123456789,
        "train_s": 1.5,
        "epoch_s": 0.5,
        "epoch_validate_s": 0.125,
    }
    history = MlflowClient(tracking_uri=address(home)).get_metric_history(run.info.run_id, "loss")
    points = sorted((point.step, point.timestamp, point.value) for point in history)
    assert points == [
        (0, 1_700_000_000_625, 1.0),
        (1, 1_700_000_001_250, 0.5),
        (2, 1_700_000_001_875, 1 / 3),
        (2, 1_700_000_005_500, 0.25),
    ]


def test_a_slice_is_recorded_as_a_slice(home: Path) -> None:
    slices = (SliceRecord(32, 0.25), SliceRecord(25, 0.25))
    ended = finished()
    outcome = replace(ended.outcome, epochs=(), slices=slices)
    record(home, FinishedTrial(ended.trial, outcome))
    (run,) = children(home)
    assert run.data.metrics["slice_s"] == 0.25
    assert run.data.metrics["slice_step_ms"] == 10.0
    assert "epoch_s" not in run.data.metrics


def test_telemetry_is_notes_and_system_metrics(home: Path) -> None:
    notes = {"energy_method": "nvml_counter", "energy_scope": "gpu", "neighbours": "none"}
    curve = "system/gpu_0_power_usage_watts"
    without_curves = Telemetry(
        energy_method="nvml_counter", energy_scope="gpu", other_gpu_processes=0
    )
    seen = replace(without_curves, at_s=(1.0, 2.0, 3.25), curves={curve: (70.0, None, 65.5)})
    trial = finished(metrics={"energy_j": 1234.5}, telemetry=seen)
    record(home, trial)
    (run,) = children(home)
    assert notes.items() <= run.data.tags.items()
    assert run.data.metrics[curve] == 65.5
    history = MlflowClient(tracking_uri=address(home)).get_metric_history(run.info.run_id, curve)
    points = sorted((point.step, point.timestamp, point.value) for point in history)
    assert points == [(0, 1_700_000_001_000, 70.0), (2, 1_700_000_003_250, 65.5)]
    # The curves are in the store and in the journal; what is read back has the notes.
    outcome = replace(trial.outcome, telemetry=without_curves)
    assert record(home) == [replace(trial, outcome=outcome)]
    retried = finished(started_s=trial.outcome.started_s + 1, telemetry=Telemetry())
    record(home, retried)  # a trial that is done again keeps no note of an earlier attempt
    (run,) = children(home)
    assert not notes.keys() & run.data.tags.keys()


def test_a_failed_trial_has_its_reason_and_its_output(home: Path) -> None:
    record(home, failed())
    (run,) = children(home)
    assert run.info.status == "FAILED"
    assert run.data.tags["failure"] == "crash: the trainer process ended with SIGSEGV"
    text = MlflowStore(address(home)).read_text(run.info.run_id, "trainer_output.txt")
    assert text.endswith("last\nlines\n")


def test_what_is_too_long_for_a_tag_is_in_an_artifact(home: Path) -> None:
    config = {f"p{index}": index for index in range(150)}
    kernel = Kernel("portable", "portable", "op " * 9000)
    metrics = {f"m/{index}": index / 7 for index in range(900)}
    trial = finished(epochs=500, metrics=metrics, kernel=kernel)
    trial = replace(trial, trial=replace(trial.trial, config=config))
    record(home, trial)
    (run,) = children(home)
    assert len(run.data.metrics) == 904
    assert len(run.data.params) > 150
    assert len(run.data.tags["kernel_evidence"]) == 1000
    store = MlflowStore(address(home))
    assert store.read_text(run.info.run_id, "kernel_evidence.txt") == kernel.evidence
    table(home).unlink()
    assert record(home) == [trial]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("val_accuracy", "val_accuracy"),
        ("top-5 acc.", "top-5 acc."),
        ("a/b", "a/b"),
        ("läss%", "läss_"),
        ("/a", "_a"),
        ("a//b", "a__b"),
        ("../a", "___a"),
        (".", "_"),
        ("x" * 300, "x" * 250),
    ],
)
def test_names_that_mlflow_refuses_are_made_acceptable(name: str, expected: str) -> None:
    assert entity_name(name) == expected


def test_a_setting_of_a_reserved_name_does_not_hide_the_trials_own() -> None:
    identity = replace(IDENTITY, settings={"seed": 99, "kernel": "rbf", "nested": {"a": [1]}})
    params = run_content(identity, finished()).params
    assert params["seed"] == str(finished().trial.seed)
    assert params["settings.seed"] == "99"
    assert (params["kernel"], params["settings.kernel"]) == ("portable", "rbf")
    assert params["nested"] == '{"a":[1]}'
    assert params["dataset"] == "digits"  # no setting names it: what the trainer loaded


def test_a_users_implementation_of_any_name_is_recorded() -> None:
    content = run_content(IDENTITY, finished(arm=Arm("my own thing", on_cpu())))
    assert "backend" not in content.params
    assert content.tags["implementation"] == "my own thing"
    named = run_content(IDENTITY, finished(arm=Arm("numpy/loop+relu", on_cpu())))
    assert (named.params["backend"], named.params["kernel"]) == ("numpy", "loop")
    assert not {"jit", "precision"} & set(named.params)
    assert "mathematics" not in named.tags


def test_the_implementation_has_precision_and_mathematics() -> None:
    arm = Arm("tensorflow/portable+bf16+relu+xla", on_cpu())
    content = run_content(IDENTITY, finished(arm=arm))
    assert (content.params["precision"], content.params["jit"]) == ("bf16", "true")
    assert content.tags["mathematics"] == "activation relu"
    assert "mathematics" not in run_content(IDENTITY, finished()).tags


def test_run_names_stay_short() -> None:
    trial = replace(finished().trial, config={"name": "x" * 500})
    assert len(run_name(IDENTITY, trial)) <= 250
    own = replace(IDENTITY, workload="own.module:run", settings={})
    assert run_name(own, replace(trial, config={})).startswith("block 0")


def test_params_name_the_defaults_too() -> None:
    trial = replace(finished().trial, config={"units": 32})
    content = run_content(replace(IDENTITY, settings={}), replace(finished(), trial=trial))
    assert content.params["cell"] == "lstm"
    assert content.params["precision"] == "float32"
    assert content.params["units"] == "32"
    assert "data_path" not in content.params
    assert content.name.startswith("lstm 32×2 · ")


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_number = st.floats(allow_nan=False, allow_infinity=True)
_metrics = st.dictionaries(_text, _number, max_size=4)
_finite = st.floats(allow_nan=False, allow_infinity=False)  # a spec refuses anything else
_value = st.booleans() | st.integers(-(2**62), 2**62) | _finite | _text
_count = st.none() | st.integers(1, 512)
_hardware = st.builds(
    HardwareUse,
    st.builds(HardwareRef, _text, st.sampled_from(["cpu", "gpu"]), _text, st.none() | _text),
    st.builds(
        Usage,
        _count,
        _count,
        st.dictionaries(_text, st.integers(-(2**62), 2**62) | _finite, max_size=2),
        st.sampled_from(["full", "timing"]),
    ),
)
_trial = st.builds(
    Trial,
    key=_text,
    block=st.integers(0, 9),
    config=st.dictionaries(_text, _value, max_size=4),
    arm=st.builds(Arm, _text, _hardware),
    repeat=st.integers(0, 3),
    seed=st.integers(0, 2**31),
)
_outcome = st.builds(
    Outcome,
    status=st.sampled_from(["complete", "failed", "wrong_kernel"]),
    started_s=st.floats(0, 2e9),
    ended_s=st.floats(0, 2e9),
    attempt=st.integers(1, 5),
    node=_text,
    metrics=_metrics,
    epochs=st.lists(
        st.builds(
            EpochRecord,
            index=st.integers(0, 99),
            seconds=st.floats(0, 1e6),
            validate_s=st.none() | st.floats(0, 1e6),
            metrics=_metrics,
        ),
        max_size=3,
    ).map(tuple),
    slices=st.lists(
        st.builds(SliceRecord, steps=st.integers(1, 99), seconds=st.floats(0, 1e6)), max_size=3
    ).map(tuple),
    kernel=st.none() | st.builds(Kernel, _text, _text, _text),
    dataset=st.none()
    | st.builds(DatasetRecord, _text, _text, _text, st.integers(0), st.integers(0)),
    environment=st.dictionaries(_text, st.none() | _value, max_size=3),
    failure=st.none()
    | st.builds(FailureRecord, st.sampled_from(["error", "hung", "lost"]), _text, _text),
    trainer_trials=st.integers(0, 9),
    artifacts=st.dictionaries(_text, _text, max_size=2),
    disturbance=st.dictionaries(_text, _number, max_size=2),
    round_id=st.none() | _text,
    cost_basis=st.none() | _text,
)


@given(trial=st.builds(FinishedTrial, _trial, _outcome))
def test_the_content_of_a_run_is_read_back_equal(trial: FinishedTrial) -> None:
    content = run_content(IDENTITY, trial)
    assert all(len(value) <= 8000 for value in content.tags.values())
    assert content == run_content(IDENTITY, trial)
    text = content.tags["record"]
    text = content.texts.get(text, text)
    back = TRIAL.load(text, "a run")
    assert back == replace(trial, outcome=replace(trial.outcome, artifacts={}))
    assert len(content.texts) >= len(trial.outcome.artifacts)
    kinds = [type(value) for value in trial.trial.config.values()]
    assert [type(value) for value in back.trial.config.values()] == kinds
