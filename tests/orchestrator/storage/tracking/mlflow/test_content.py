"""The run of a trial as MLflow shows it."""

from dataclasses import replace
from pathlib import Path

from mlflow import MlflowClient

from orchestrator.core.trial import Block, FailureRecord, Kernel, Telemetry, make_trial
from orchestrator.storage.tracking.mlflow.store import MlflowStore
from orchestrator.storage.tracking.tracker import read_run_text
from tests.building.stores import mlflow_address
from tests.building.trials import IDENTITY, build_full_trial
from tests.orchestrator.storage.tracking.mlflow.stored import trial_runs
from tests.orchestrator.storage.tracking.recording import record, table


def test_a_run_in_mlflow_has_epochs_telemetry_and_data(home: Path) -> None:
    curve = "system/gpu_0_power_usage_watts"
    notes = {"energy_method": "nvml_counter", "energy_scope": "gpu", "neighbours": "none"}
    noted = Telemetry(energy_method="nvml_counter", energy_scope="gpu", other_gpu_processes=0)
    seen = replace(noted, at_s=(1.0, 2.0, 3.25), curves={curve: (70.0, None, 65.5)})
    record(home, build_full_trial(telemetry=seen))
    (run,) = trial_runs(home)
    assert run.data.metrics == {
        "loss": 0.25,
        "val_accuracy": 0.875,
        "step_ms": 8.123456789,
        "train_s": 1.5,
        "epoch_s": 0.5,
        "epoch_validate_s": 0.125,
        curve: 65.5,
    }
    assert run.data.tags.items() >= notes.items()
    data = run.inputs.dataset_inputs[0].dataset
    assert (data.name, data.digest) == ("digits", ("ab" * 32)[:36])

    def points(metric: str) -> list[tuple[int, int, float]]:
        client = MlflowClient(tracking_uri=mlflow_address(home))
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
    assert record(home) == [build_full_trial(telemetry=noted)]
    record(
        home, build_full_trial(started_s=1.7e9 + 1)
    )  # a trial that ran again keeps no earlier note
    (run,) = trial_runs(home)
    assert not notes.keys() & run.data.tags.keys()


def test_long_texts_are_artifacts_and_many_values_several_requests(home: Path) -> None:
    config = {f"p{index}": index for index in range(150)}
    kernel = Kernel("portable", "portable", "op " * 9000)
    metrics = {f"m/{index}": index / 7 for index in range(900)}
    failure = FailureRecord("crash", "SIGSEGV \udcff\0", "last\nlines\n")
    texts = {"sample.txt": "To be \udcff", "outcome.json": "{}"}
    trial = build_full_trial(
        epochs=500, metrics=metrics, kernel=kernel, failure=failure, artifacts=texts
    )
    trial = replace(trial, trial=make_trial(IDENTITY, Block(0, config), trial.arm, 0))
    record(home, trial)
    (run,) = trial_runs(home)
    assert (len(run.data.metrics), len(run.data.params) > 150) == (904, True)
    assert len(run.data.tags["kernel_evidence"]) == 1000
    assert run.data.tags["failure"] == r"crash: SIGSEGV \udcff\x00"
    store = MlflowStore(mlflow_address(home))
    assert read_run_text(store, run.info.run_id, "kernel_evidence.txt") == kernel.evidence
    assert read_run_text(store, run.info.run_id, "trainer_output.txt").endswith("last\nlines\n")
    assert read_run_text(store, run.info.run_id, "texts/sample.txt") == "To be ?"
    assert read_run_text(store, run.info.run_id, "texts/outcome.json") == "{}"
    table(home).unlink()
    assert record(home) == [replace(trial, outcome=replace(trial.outcome, artifacts={}))]
