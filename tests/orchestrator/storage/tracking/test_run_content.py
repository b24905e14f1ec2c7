"""The content of a trial's run in MLflow, from which the trial is read back."""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from mlflow import MlflowClient

from orchestrator.core.arms import Arm, HardwareRef, HardwareUse, Usage, Variant
from orchestrator.core.trial import (
    Block,
    EpochRecord,
    FailureRecord,
    FinishedTrial,
    Kernel,
    Outcome,
    SliceRecord,
    Telemetry,
    Trial,
    make_trial,
)
from orchestrator.storage.tracking.mlflow.store import MlflowStore
from orchestrator.storage.tracking.records import TRIAL
from orchestrator.storage.tracking.run_content import entity_name, run_content, run_name
from tests.orchestrator.sample_hardware import on_cpu
from tests.orchestrator.sample_sweeps import IDENTITY, XLA, address, finished
from tests.orchestrator.storage.tracking.recording import children, record, table


def test_names_and_points_in_mlflow() -> None:
    trial = finished(1, XLA, repeat=1)
    content = run_content(IDENTITY, trial)
    assert content.name == (
        "lstm 33×2 learning_rate 0.001 bidirectional false · tensorflow/portable+xla"
        " · AMD EPYC 7763, 2 CPUs · repeat 1"
    )
    params = {
        **{"workload": "image_rows", "dataset": "digits", "cell": "lstm", "epochs": "3"},
        **{"units": "33", "learning_rate": "0.001", "bidirectional": "false"},
        **{"jit": "true", "precision": "float32", "seed": str(trial.seed)},
    }
    assert content.params.items() >= params.items()
    assert not {"data_path", "threads"} & content.params.keys()
    tags = {"sweep": "quickstart", "arm": str(XLA), "trial_key": trial.key, "outcome": "complete"}
    config = '{"bidirectional":false,"layers":2,"learning_rate":0.001,"units":33}'
    assert content.tags.items() >= {**tags, "config": config}.items()
    assert not {"failure", "variant"} & content.tags.keys()
    work, gru = Usage(threads=4, settings={"epochs": 1}), Variant("small", {"cell": "gru"})
    own = Arm("tensorflow/portable", on_cpu(usage=work), gru)
    content = run_content(IDENTITY, finished(1, own))
    assert content.name.startswith("gru 33×2 ") and content.tags["variant"] == "small"
    assert content.params.items() >= {"threads": "4", "epochs": "1", "cell": "gru"}.items()
    plain = replace(IDENTITY, workload="own.module:run", settings={})
    assert len(run_name(plain, replace(trial.trial, config={"name": "x" * 500}))) <= 250
    timed = finished(epochs=0, slices=(SliceRecord(32, 0.25), SliceRecord(25, 0.25)))
    latest = {point.name: point.value for point in run_content(IDENTITY, timed).points}
    assert (latest["slice_s"], latest["slice_step_ms"], "epoch_s" in latest) == (0.25, 10.0, False)


def test_a_run_in_mlflow_has_epochs_telemetry_and_data(home: Path) -> None:
    curve = "system/gpu_0_power_usage_watts"
    notes = {"energy_method": "nvml_counter", "energy_scope": "gpu", "neighbours": "none"}
    noted = Telemetry(energy_method="nvml_counter", energy_scope="gpu", other_gpu_processes=0)
    seen = replace(noted, at_s=(1.0, 2.0, 3.25), curves={curve: (70.0, None, 65.5)})
    record(home, finished(telemetry=seen))
    (run,) = children(home)
    assert run.data.metrics == {
        **{"loss": 0.25, "val_accuracy": 0.875, "step_ms": 8.123456789, "train_s": 1.5},
        **{"epoch_s": 0.5, "epoch_validate_s": 0.125, curve: 65.5},
    }
    assert run.data.tags.items() >= notes.items()
    data = run.inputs.dataset_inputs[0].dataset
    assert (data.name, data.digest) == ("digits", ("ab" * 32)[:36])

    def points(metric: str) -> list[tuple[int, int, float]]:
        client = MlflowClient(tracking_uri=address(home))
        history = client.get_metric_history(run.info.run_id, metric)
        return sorted((point.step, point.timestamp, point.value) for point in history)

    assert points(curve) == [(0, 1_700_000_001_000, 70.0), (2, 1_700_000_003_250, 65.5)]
    assert points("loss") == [
        (0, 1_700_000_000_625, 1.0),
        (1, 1_700_000_001_250, 0.5),
        (2, 1_700_000_001_875, 1 / 3),
        (2, 1_700_000_005_500, 0.25),  # a curve ends in the final value
    ]
    # The curves are in the store and in the journal; what is read back has the notes.
    assert record(home) == [finished(telemetry=noted)]
    record(home, finished(started_s=1.7e9 + 1))  # a trial that ran again keeps no earlier note
    (run,) = children(home)
    assert not notes.keys() & run.data.tags.keys()


def test_long_texts_are_artifacts_and_many_values_several_requests(home: Path) -> None:
    config = {f"p{index}": index for index in range(150)}
    kernel = Kernel("portable", "portable", "op " * 9000)
    metrics = {f"m/{index}": index / 7 for index in range(900)}
    failure = FailureRecord("crash", "SIGSEGV \udcff\0", "last\nlines\n")
    texts = {"sample.txt": "To be \udcff", "outcome.json": "{}"}
    trial = finished(epochs=500, metrics=metrics, kernel=kernel, failure=failure, artifacts=texts)
    trial = replace(trial, trial=make_trial(IDENTITY, Block(0, config), trial.arm, 0))
    record(home, trial)
    (run,) = children(home)
    assert (len(run.data.metrics), len(run.data.params) > 150) == (904, True)
    assert len(run.data.tags["kernel_evidence"]) == 1000
    assert run.data.tags["failure"] == r"crash: SIGSEGV \udcff\x00"
    store = MlflowStore(address(home))
    assert store.read_text(run.info.run_id, "kernel_evidence.txt") == kernel.evidence
    assert store.read_text(run.info.run_id, "trainer_output.txt").endswith("last\nlines\n")
    assert store.read_text(run.info.run_id, "texts/sample.txt") == "To be ?"
    assert store.read_text(run.info.run_id, "texts/outcome.json") == "{}"
    table(home).unlink()
    assert record(home) == [replace(trial, outcome=replace(trial.outcome, artifacts={}))]


def test_names_that_mlflow_refuses_are_made_acceptable() -> None:
    for name in ("val_accuracy", "top-5 acc.", "a/b"):
        assert entity_name(name) == name
    refused = {"läss%": "läss_", "/a": "_a", "a//b": "a__b", "../a": "___a", ".": "_"}
    assert [entity_name(name) for name in refused] == list(refused.values())
    assert entity_name("x" * 300) == "x" * 250


def every_field(kind: type[Any], **given: Any) -> st.SearchStrategy[Any]:
    """Return a strategy of a dataclass that fills the fields with defaults too."""
    return st.builds(kind, **{field.name: ... for field in fields(kind)} | given)


def mapping_of(kind: Any) -> st.SearchStrategy[dict[Any, Any]]:
    return st.dictionaries(*map(st.from_type, kind.__args__), max_size=3)


st.register_type_strategy(float, st.floats(0, 2e9))
st.register_type_strategy(Mapping, mapping_of)
slices = every_field(SliceRecord, steps=st.integers(1, 99), seconds=st.floats(1e-6, 1e6))
st.register_type_strategy(SliceRecord, slices)
st.register_type_strategy(Telemetry, every_field(Telemetry, at_s=st.just(()), curves=st.just({})))
for nested in (Usage, HardwareRef, HardwareUse, Arm, EpochRecord, Trial, Outcome):
    st.register_type_strategy(nested, every_field(nested))


@given(trial=every_field(FinishedTrial, run_id=st.just("")))
def test_the_content_of_a_run_is_read_back_equal(trial: FinishedTrial) -> None:
    content = run_content(IDENTITY, trial)
    assert all(len(value) <= 8000 for value in content.tags.values())
    assert content == run_content(IDENTITY, trial)
    text = content.tags["mlflow.rnnsweep.record"]
    text = content.texts.get(text, text)
    back = TRIAL.load(text, "a run")
    assert back == replace(trial, outcome=replace(trial.outcome, artifacts={}))
    assert len(content.texts) >= len(trial.outcome.artifacts)
    kinds = [type(value) for value in trial.trial.config.values()]
    assert [type(value) for value in back.trial.config.values()] == kinds


def test_the_final_value_is_the_last_one_whatever_the_clock_did() -> None:
    trial = finished(0, metrics={"val_accuracy": 0.9})
    early = replace(trial, outcome=replace(trial.outcome, ended_s=trial.started_s))
    for content in (run_content(IDENTITY, trial), run_content(IDENTITY, early)):
        points = [point for point in content.points if point.name == "val_accuracy"]
        assert max(points, key=lambda point: (point.step, point.at_ms)).value == 0.9
        assert len({(point.step, point.at_ms) for point in points}) == len(points)
