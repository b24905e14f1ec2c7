"""Each trial has one run, whatever breaks; what stands on the parent run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from orchestrator.core.trial import FailureRecord
from orchestrator.report.brief import to_short_markdown
from orchestrator.report.render import summarise
from orchestrator.storage.tracking import TrackingError
from orchestrator.storage.tracking.mlflow_store import MlflowStore
from orchestrator.storage.tracking.reader import read_sweep
from orchestrator.storage.tracking.trial_record import TAG_LIMIT
from tests.orchestrator.report.large_sweep import large
from tests.orchestrator.sample_sweeps import address, failed, finished, opening
from tests.orchestrator.storage.tracking.recording import children, record, runs, table, writer


def test_a_run_that_was_written_half_is_completed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writer(home) as opened:
        opened.open_sweep(opening(home))
        monkeypatch.setattr(MlflowStore, "log_dataset", _break)
        with pytest.raises(TrackingError):
            opened.record([finished()])
        monkeypatch.undo()
    assert [run.info.status for run in children(home)] == ["RUNNING"]
    assert read_sweep(address(home), "quickstart").trials == ()
    assert record(home, finished()) == []
    assert record(home) == [finished()]
    assert [run.info.status for run in children(home)] == ["FINISHED"]


def test_a_creation_whose_answer_is_lost_makes_one_run(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = MlflowStore.create_run
    with writer(home) as opened:
        opened.open_sweep(opening(home))

        def lose_the_answer(*args: Any, **kwargs: Any) -> str:
            create(*args, **kwargs)
            return _break()

        monkeypatch.setattr(MlflowStore, "create_run", lose_the_answer)
        opened.record([finished(0)])
        monkeypatch.setattr(MlflowStore, "create_run", _break)
        with pytest.raises(TrackingError):
            opened.record([finished(1)])
        monkeypatch.undo()
        opened.record([finished(0), finished(1)])
    assert sorted(run.data.tags["block"] for run in children(home)) == ["0", "1"]


def test_a_retried_trial_updates_its_run(home: Path) -> None:
    record(home, failed(0, started_s=1.6e9, ended_s=1.6e9 + 1))
    (before,) = children(home)
    record(home, finished(0, attempt=2))
    (after,) = children(home)
    assert after.info.run_id == before.info.run_id
    assert after.info.status == "FINISHED"
    assert after.data.tags["outcome"] == "complete"
    assert "failure" not in after.data.tags
    assert record(home, failed(0, ended_s=1.8e9)) == [finished(0, attempt=2)]
    (last,) = children(home)
    assert last.info.status == "FAILED"
    assert "kernel_ran" not in last.data.tags
    assert record(home) == [failed(0, ended_s=1.8e9)]


def test_doubled_runs_are_reduced_to_the_first_finished(home: Path) -> None:
    record(home, finished(0))
    client = MlflowClient(tracking_uri=address(home))
    (good,) = children(home)
    for start_ms in (1, 2_000_000_000_000):
        client.create_run(good.info.experiment_id, start_time=start_ms, tags=good.data.tags)
    table(home).unlink()
    assert len(read_sweep(address(home), "quickstart").trials) == 1
    with writer(home) as opened:
        assert opened.open_sweep(opening(home)) == [finished(0)]
        assert opened.doubles_removed == 2
    assert [run.info.run_id for run in children(home)] == [good.info.run_id]


def test_recording_again_changes_nothing(home: Path) -> None:
    record(home, finished(0))
    (before,) = children(home)
    with writer(home) as opened:
        opened.open_sweep(opening(home))
        opened._finished.clear()  # as if it did not have them: it writes all again
        opened._unsure.add(finished(0).trial.key)
        opened.record([finished(0)])
    (after,) = children(home)
    assert after.data.tags.pop("after_table")  # the run was written later than the table
    assert after.data.to_dictionary() == before.data.to_dictionary()
    client = MlflowClient(tracking_uri=address(home))
    assert len(client.get_metric_history(after.info.run_id, "loss")) == 4


def test_texts_that_no_database_takes_are_recorded_all_the_same(home: Path) -> None:
    nasty = "file \udcff and \0"
    trial = failed(0, node=nasty, failure=FailureRecord("error", nasty, nasty))
    record(home, trial)
    (back,) = record(home)
    assert back.outcome.failure == FailureRecord("error", "file ? and \0", "file ? and \0")
    (run,) = children(home)
    assert run.data.tags["failure"] == "error: file ? and ␀"


def test_one_trial_that_mlflow_refuses_keeps_no_other_waiting(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.storage.tracking.run_content.entity_name", str)
    bad = finished(0, metrics={"//": 1.0})
    with writer(home) as opened:
        opened.open_sweep(opening(home))
        refused = opened.record([bad, finished(1)])
        opened.close("complete", {})
    assert list(refused) == [bad.trial.key]
    assert "expected content that it takes, received" in refused[bad.trial.key]
    assert record(home) == [finished(1)]


def test_params_of_an_earlier_attempt_stay(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(
            "orchestrator.storage.tracking.run_content._text", lambda value: f"<{value}>"
        )
        record(home, failed(0))
    record(home, finished(0, attempt=2))
    assert record(home) == [finished(0, attempt=2)]
    (run,) = children(home)
    assert run.data.params["units"] == "<32>"


def test_reports_and_documents_stand_on_the_parent(home: Path) -> None:
    with writer(home) as opened:
        opened.open_sweep(opening(home))
        opened.record([finished(0), finished(1)])
        opened.close("complete", {"report.md": "# Whole", "report.json": "{}"}, "# In short")
        opened.open_sweep(opening(home))
        opened.close("complete", {})
    (parent,) = runs(home, "tags.generation = '1'")
    assert parent.data.tags["mlflow.note.content"] == "# In short"
    store = MlflowStore(address(home))
    assert store.read_text(parent.info.run_id, "report.md") == "# Whole"
    assert store.read_text(parent.info.run_id, "spec.yaml") == opening(home).spec_yaml
    assert json.loads(store.read_text(parent.info.run_id, "plan.json")) == opening(home).plan
    (environment,) = store.texts(parent.info.run_id, "environment")
    assert json.loads(store.read_text(parent.info.run_id, environment))["python"] == "3.11.7"


def test_a_description_as_long_as_may_be_is_kept_whole(home: Path) -> None:
    short = to_short_markdown(summarise(large(blocks=8, kernels=10)), TAG_LIMIT)
    assert TAG_LIMIT // 2 < len(short) <= TAG_LIMIT
    for description in (
        short,
        "×" * (TAG_LIMIT - 1),
        "×" * (TAG_LIMIT + 1),
    ):  # characters count, not bytes
        with writer(home) as opened:
            opened.open_sweep(opening(home))
            opened.close("complete", {}, description)
        (parent,) = runs(home)
        assert parent.data.tags["mlflow.note.content"] == description[:TAG_LIMIT]


@pytest.mark.parametrize(
    ("state", "status"), [("complete", "FINISHED"), ("stopped", "KILLED"), ("failed", "FAILED")]
)
def test_the_parents_status_is_the_sweeps(home: Path, state: Any, status: str) -> None:
    with writer(home) as opened:
        opened.open_sweep(opening(home))
        assert runs(home)[0].info.status == "RUNNING"
        opened.close(state, {})
    assert runs(home)[0].info.status == status
    assert read_sweep(address(home), "quickstart").state == state


def _break(*_: Any, **__: Any) -> Any:
    raise TrackingError("the store", "an answer", "none", "Try again")
