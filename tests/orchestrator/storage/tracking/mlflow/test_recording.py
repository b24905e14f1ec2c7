"""What a recorded sweep looks like in MLflow: its answer, its models, its refusals."""

import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.models import Model as MLmodel

from orchestrator.storage.tracking.mlflow import mlflow_names, sqlite_client
from orchestrator.storage.tracking.reader import find, list_sweeps, read_rows, read_stored_sweep
from orchestrator.storage.tracking.stored_records import Answer
from orchestrator.storage.tracking.tracking_errors import TrackingError
from orchestrator.storage.tracking.trial_table import to_rows
from orchestrator.storage.tracking.writer import unpack_model
from tests.building.stores import build_home, build_opening, mlflow_address
from tests.building.trials import build_failed_trial, build_full_trial, build_identity
from tests.orchestrator.storage.tracking.mlflow.stored import sweep_run, trial_runs
from tests.orchestrator.storage.tracking.recording import record, writer


@pytest.mark.parametrize("kind", ["a path outside", "a link"])
def test_a_packed_model_with_anything_but_its_own_files_is_refused(
    tmp_path: Path, kind: str
) -> None:
    packed, folder = tmp_path / "model.tar", tmp_path / "there"
    member = tarfile.TarInfo("../outside" if kind == "a path outside" else "link")
    if kind == "a link":
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(packed, "w") as tar:
        tar.addfile(member)
    folder.mkdir()
    with pytest.raises(tarfile.TarError, match="is not a file or folder of one model"):
        unpack_model(packed, folder)
    assert not list(folder.iterdir())


def test_a_model_is_logged_as_one_of_keras(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "model.tar"
    (tmp_path / "best.keras").write_text("weights")
    with tarfile.open(packed, "w") as tar:
        tar.add(tmp_path / "best.keras", arcname="./best.keras")
    with writer(home) as opened:
        opened.open(build_opening())
        opened.record([build_full_trial()])
        (run,) = trial_runs(home)
        monkeypatch.setattr(MlflowClient, "finalize_logged_model", _break)
        with pytest.raises(TrackingError):
            opened.log_model(run.info.run_id, packed)
        monkeypatch.undo()
        opened.close("complete", {})
        opened.log_model(run.info.run_id, packed)
    (run,) = trial_runs(home)
    client = MlflowClient(tracking_uri=mlflow_address(home))
    (model,) = client.search_logged_models([run.info.experiment_id])
    assert (model.status, model.source_run_id) == ("READY", run.info.run_id)
    assert run.data.tags["model"] == model.model_uri
    stored = Path(model.artifact_location.removeprefix("file://"))
    assert (stored / "data" / "model.keras").read_text() == "weights"
    assert MLmodel.load(stored).flavors["keras"]["data"] == "data"


@pytest.mark.parametrize("metric", ["//", "large"])
def test_one_trial_that_mlflow_refuses_keeps_no_other_waiting(
    home: Path, monkeypatch: pytest.MonkeyPatch, metric: str
) -> None:
    log_batch = MlflowClient.log_batch

    def limited(client: MlflowClient, run_id: str, metrics: Any, *others: Any) -> Any:
        if any(point.key == "large" for point in metrics):
            raise MlflowException("API request failed with error code 413 != 200")
        return log_batch(client, run_id, metrics, *others)

    monkeypatch.setattr(MlflowClient, "log_batch", limited)
    monkeypatch.setattr("orchestrator.storage.tracking.trial_content.entity_name", str)
    bad = build_full_trial(0, metrics={metric: 1.0})
    with writer(home) as opened:
        opened.open(build_opening())
        refused = opened.record([bad, build_full_trial(1)])
        opened.close("complete", {})
    assert list(refused) == [bad.key]
    assert "it rejects this" in refused[bad.key]
    assert record(home) == [build_full_trial(1)]


OWN_NOTE = "a person's own"


@dataclass(frozen=True, slots=True)
class RecordedSweep:
    """The store of a sweep that was complete, and then failed in a second start.

    Before the second start, a person wrote a note of their own on the experiment.
    """

    home: Path
    status_while_running: str
    note: str
    note_on_experiment: str

    @property
    def run(self) -> Any:
        return sweep_run(self.home)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RecordedSweep:
    home = build_home(tmp_path_factory.mktemp("recorded"))
    client = MlflowClient(tracking_uri=mlflow_address(home))
    with writer(home) as opened:
        opened.open(build_opening())
        status = sweep_run(home).info.status
        opened.record([build_full_trial()])
        opened.close("complete", {}, Answer("×" * 9_000, params={"baseline": "x"}))
        note = sweep_run(home).data.tags[mlflow_names.NOTE_TAG]
        on_experiment = client.get_experiment("1").tags[mlflow_names.NOTE_TAG]
        client.set_experiment_tag("1", mlflow_names.NOTE_TAG, OWN_NOTE)
        opened.open(build_opening())
        opened.close("failed", {}, Answer("later", params={"baseline": "y"}))
    return RecordedSweep(home, status, note, on_experiment)


def test_the_parent_run_has_the_state_of_the_sweep(recorded: RecordedSweep) -> None:
    assert recorded.status_while_running == "RUNNING"
    assert (recorded.run.info.status, recorded.run.data.tags["state"]) == ("FAILED", "failed")


def test_a_long_answer_is_cut_for_the_note_of_run_and_experiment(recorded: RecordedSweep) -> None:
    assert recorded.note.startswith("×××") and len(recorded.note) < 5000
    answer, links = recorded.note.rstrip().rsplit("\n", 1)
    assert links.startswith("[Trials](")
    assert recorded.note_on_experiment == f"{links}\n\n{answer}"


def test_a_note_of_a_person_is_kept(recorded: RecordedSweep) -> None:
    client = MlflowClient(tracking_uri=mlflow_address(recorded.home))
    assert client.get_experiment("1").tags[mlflow_names.NOTE_TAG] == OWN_NOTE


def test_the_parent_run_has_few_tags_and_what_a_later_start_changed(
    recorded: RecordedSweep,
) -> None:
    visible = {name for name in recorded.run.data.tags if not name.startswith("mlflow.")}
    assert visible == {"sweep", "generation", "workload", "state", "latest.baseline"}


def test_the_parent_run_has_the_commit_of_the_users_repository_where_mlflow_shows_it(
    home: Path,
) -> None:
    with writer(home) as opened:
        opened.open(build_opening(build_identity(code_commit="0123456789ab-dirty")))
        tags = sweep_run(home).data.tags
    assert tags["git_commit"] == tags["mlflow.source.git.commit"] == "0123456789ab-dirty"


def test_a_sqlite_file_is_read_without_mlflow_and_as_it_reads(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(
        home, build_full_trial(0), build_failed_trial(1), build_full_trial(2), build_full_trial(3)
    )
    MlflowClient(tracking_uri=mlflow_address(home)).delete_run(trial_runs(home)[2].info.run_id)

    def read() -> list[object]:
        sweep, rows = read_rows(mlflow_address(home), "quickstart")
        whole = read_stored_sweep(mlflow_address(home), "quickstart")
        assert rows.to_pylist() == to_rows(whole.trials).to_pylist()
        assert (sweep.settings, sweep.state) == (whole.settings, whole.state)
        listed = list_sweeps(mlflow_address(home))
        return [whole, rows.to_pylist(), listed, find(mlflow_address(home), "quickstart")]

    with writer(home) as opened:
        opened.open(build_opening())
        states = [read()]
        opened.record([build_full_trial(1, attempt=2), build_full_trial(4, epochs=300)])
        states.append(read())
    code = "import sys; from orchestrator.storage.tracking.reader import read_stored_sweep"
    code += f"; read_stored_sweep({mlflow_address(home)!r}, 'quickstart')"
    code += "; sys.exit('mlflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    states.append(read())
    monkeypatch.setattr(sqlite_client, "client_of", lambda uri: None)
    assert read() == states.pop()
    assert [len(state[1]) for state in states] == [3, 4]  # type: ignore[arg-type]


def _break(*_: Any, **__: Any) -> Any:
    raise TrackingError("the store", "no answer", "Try again")
