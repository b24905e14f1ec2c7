"""Each trial has one run, whatever breaks; one driver at a time records into a sweep."""

import json
import tarfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.models import Model as MLmodel

from orchestrator.analysis.summary import summarise
from orchestrator.report.formats.mlflow_values import to_metrics, to_params
from orchestrator.storage.lock import Owner
from orchestrator.storage.tracking.errors import (
    ContentRefused,
    LeaseHeld,
    OtherSweep,
    StoreAway,
    TrackingError,
)
from orchestrator.storage.tracking.mlflow.store import NOTE_TAG, MlflowStore
from orchestrator.storage.tracking.reader import find, read_sweep
from orchestrator.storage.tracking.records import BEAT_S, LEASE, LEASE_S, LEASE_TAG, Answer, Lease
from tests.orchestrator.sample_sweeps import IDENTITY, XLA, address, failed, finished, opening
from tests.orchestrator.storage.tracking.recording import (
    children,
    new_writer,
    other_owner,
    parent,
    record,
    runs,
    table,
    writer,
)


@pytest.mark.parametrize("step", ["log", "log_dataset"])
def test_a_run_that_was_written_half_is_completed(
    home: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    record(home, finished(1))
    with writer(home) as opened:
        opened.open(opening())
        monkeypatch.setattr(MlflowStore, step, _break_for_trials(getattr(MlflowStore, step)))
        with pytest.raises(TrackingError):
            opened.record([finished()])
        monkeypatch.undo()
    assert [run.info.status for run in children(home)] == ["RUNNING", "FINISHED"]
    assert len(read_sweep(address(home), "quickstart").trials) == 1
    assert record(home, finished()) == [finished(1)]
    assert record(home) == [finished(), finished(1)]
    assert [run.info.status for run in children(home)] == ["FINISHED", "FINISHED"]


def test_a_model_is_logged_as_one_of_keras(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "model.tar"
    (tmp_path / "best.keras").write_text("weights")
    with tarfile.open(packed, "w") as tar:
        tar.add(tmp_path / "best.keras", arcname="./best.keras")
    with writer(home) as opened:
        opened.open(opening())
        opened.record([finished()])
        (run,) = children(home)
        monkeypatch.setattr(MlflowClient, "finalize_logged_model", _break)
        with pytest.raises(TrackingError):
            opened.log_model(run.info.run_id, packed)
        monkeypatch.undo()
        opened.close("complete", {})
        opened.log_model(run.info.run_id, packed)
    (run,) = children(home)
    client = MlflowClient(tracking_uri=address(home))
    (model,) = client.search_logged_models([run.info.experiment_id])
    assert (model.status, model.source_run_id) == ("READY", run.info.run_id)
    assert run.data.tags["model"] == model.model_uri
    stored = Path(model.artifact_location.removeprefix("file://"))
    assert (stored / "data" / "model.keras").read_text() == "weights"
    assert MLmodel.load(stored).flavors["keras"]["data"] == "data"


def test_a_creation_whose_answer_is_lost_makes_one_run(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = MlflowStore.create_run
    with writer(home) as opened:
        opened.open(opening())

        def lose_the_answer(*args: Any, **kwargs: Any) -> str:
            create(*args, **kwargs)
            return _break()

        for block, breaking in enumerate((lose_the_answer, _break)):
            monkeypatch.setattr(MlflowStore, "create_run", breaking)
            with pytest.raises(TrackingError):
                opened.record([finished(block)])
        monkeypatch.undo()
        opened.record([finished(0), finished(1)])
    assert [run.data.tags["block"] for run in children(home)] == ["0", "1"]


def test_a_retried_trial_updates_its_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        content = "orchestrator.storage.tracking.run_content._text"
        patched.setattr(content, lambda value: f"<{value}>")
        record(home, failed(0, started_s=1.6e9, ended_s=1.6e9 + 1))
    (before,) = runs(home, "tags.trial_key LIKE '%'")
    record(home, finished(0, attempt=2))
    (after,) = children(home)
    assert (after.info.run_id, after.info.status) == (before.info.run_id, "FINISHED")
    assert after.data.tags["outcome"] == "complete"
    assert "failure" not in after.data.tags
    assert after.data.params["units"] == "<32>"  # params cannot change
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
    assert record(home) == [finished(0)]
    assert [run.info.run_id for run in children(home)] == [good.info.run_id]


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
    monkeypatch.setattr("orchestrator.storage.tracking.run_content.entity_name", str)
    bad = finished(0, metrics={metric: 1.0})
    with writer(home) as opened:
        opened.open(opening())
        refused = opened.record([bad, finished(1)])
        opened.close("complete", {})
    assert list(refused) == [bad.key]
    assert "expected content that it takes, received" in refused[bad.key]
    assert record(home) == [finished(1)]


def test_the_parent_run_has_the_answer_reports_and_documents(home: Path) -> None:
    halved = {**finished().metrics, "step_ms": finished().metrics["step_ms"] / 2}
    client = MlflowClient(tracking_uri=address(home))
    with writer(home) as opened:
        opened.open(opening())
        assert parent(home).info.status == "RUNNING"
        opened.record([finished(block) for block in range(6)])
        opened.record([finished(block, XLA, metrics=halved) for block in range(6)])
        summary = summarise(read_sweep(address(home), "quickstart"))
        params = to_params(summary, IDENTITY.search["space"])
        answer = Answer("×" * 9_000, to_metrics(summary), params)
        opened.close("complete", {"report.md": "# Whole", "report.json": "{}"}, answer)
        note = parent(home).data.tags[NOTE_TAG]
        assert note.startswith("×××") and len(note) < 5000
        assert client.get_experiment("1").tags[NOTE_TAG] == note
        client.set_experiment_tag("1", NOTE_TAG, "a person's own")
        opened.open(opening())
        later = Answer("later", answer.metrics, {**params, "baseline": "x", "new": 1})
        opened.close("failed", {}, later)
    assert client.get_experiment("1").tags[NOTE_TAG] == "a person's own"
    run = parent(home)
    assert (run.info.status, run.data.tags["state"]) == ("FAILED", "failed")
    visible = {name for name in run.data.tags if not name.startswith("mlflow.")}
    assert visible == {"sweep", "generation", "workload", "state", "latest.baseline"}
    speedup = {name: 2.0 for name in run.data.metrics if name.startswith("speedup")}
    assert len(speedup) == 3 and "speedup/tensorflow portable xla" in speedup
    counts = {"trials": 12, "trials_expected": 12, "trials_failed": 0, "trials_disturbed": 0}
    best = {"best/val_accuracy": 0.875, "best/step_ms": halved["step_ms"]}
    assert run.data.metrics == pytest.approx({**speedup, **counts, **best})
    texts = {"workload": "image_rows", "epochs": "3", "search.units": '{"high":128,"low":16}'}
    texts |= {"baseline": str(finished().arm), "tensorflow": "2.21.0", "new": "1", "seed": "7"}
    texts["nodes"] = "node-1"
    assert run.data.params.items() >= texts.items()
    assert len(read_sweep(address(home), "quickstart").trials) == 12
    store = MlflowStore(address(home))
    assert store.read_text(run.info.run_id, "report.md") == "# Whole"
    assert store.read_text(run.info.run_id, "spec.yaml") == opening().spec_yaml
    assert json.loads(store.read_text(run.info.run_id, "plan.json")) == opening().plan
    environments = json.loads(store.read_text(run.info.run_id, "environments.json"))
    digest = children(home)[0].data.tags["environment"]
    assert (len(environments), environments[digest]["python"]) == (1, "3.11.7")


@pytest.mark.parametrize("change", [{"pid": 2**22 + 1}, {"started_s": 12.5}])
def test_a_dead_owners_lease_is_taken_over_at_once(home: Path, change: dict[str, Any]) -> None:
    # Its process is gone, or the id is another process's by now.
    new_writer(home).open(opening(owner=replace(other_owner(), **change)))
    assert read_sweep(address(home), "quickstart").state == "stopped"
    record(home, finished())
    assert len(children(home)) == 1


def test_an_owner_elsewhere_is_believed_until_its_lease_ends(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = replace(Owner.here(), host="elsewhere", machine="other-boot")
    first = new_writer(home)
    first.open(opening(owner=away))
    assert read_sweep(address(home), "quickstart").state == "running"
    with pytest.raises(LeaseHeld, match=r"pid \d+ on elsewhere is recording into it"):
        record(home)
    later_s = time.time() + LEASE_S + 1
    monkeypatch.setattr(time, "time", lambda: later_s)
    record(home, finished())
    with writer(home) as opened:
        opened.open(opening())
        with pytest.raises(LeaseHeld):  # the loss is noticed at the next beat
            first.record([finished(1)])
    with pytest.raises(LeaseHeld):  # it is free by now, and yet lost
        first.record([finished(1)])
    with pytest.raises(LeaseHeld):
        first.open(opening(owner=away), True)
    assert len(children(home)) == 1


def test_a_damaged_lease_is_none_and_one_far_ahead_is_ignored_on_request(home: Path) -> None:
    record(home)
    store = MlflowStore(address(home), create=True)
    store.log(parent(home).info.run_id, tags={LEASE_TAG: "{"})
    record(home)
    far = LEASE.dump(Lease(replace(Owner.here(), machine="other-boot"), 1e18))
    store.log(parent(home).info.run_id, tags={LEASE_TAG: far})
    with pytest.raises(LeaseHeld, match="--take-over"):
        record(home)
    with writer(home) as opened:
        asked = replace(opening(), takes_over=True)
        opened.open(asked)
        opened.record([finished()])
        store.log(parent(home).info.run_id, tags={LEASE_TAG: far})
        with pytest.raises(LeaseHeld):  # a later recorder process of this start takes nothing
            new_writer(home).open(asked, True)


def test_the_journal_of_another_sweep_with_an_equal_spec_is_refused(home: Path) -> None:
    for sweep_id in ("ours", "ours"):
        with writer(home) as opened:
            opened.open(replace(opening(), sweep_id=sweep_id))
    assert find(address(home), "quickstart")[2] == "ours"
    before = parent(home).data.tags
    with pytest.raises(OtherSweep, match=r"under another id.*journal\.jsonl"):
        new_writer(home).open(replace(opening(), sweep_id="another"))
    assert parent(home).data.tags == before


@pytest.mark.parametrize("error", [None, StoreAway, ContentRefused])
def test_a_suspended_driver_leaves_one_run_of_the_trial_that_it_wrote_late(
    home: Path, monkeypatch: pytest.MonkeyPatch, error: type[TrackingError] | None
) -> None:
    create_run, log, later_s = MlflowStore.create_run, MlflowStore.log, time.time() + LEASE_S + 1

    def suspended(store: MlflowStore, *content: Any) -> str:
        monkeypatch.setattr(MlflowStore, "create_run", create_run)
        run_id = create_run(store, *content) if error is ContentRefused else ""
        monkeypatch.setattr(time, "time", lambda: later_s)
        record(home, finished())
        if error is not None:
            monkeypatch.setattr(MlflowStore, "log", broken)
        return run_id or create_run(store, *content)

    def broken(*_: Any, **__: Any) -> None:
        monkeypatch.setattr(MlflowStore, "log", log)
        assert error is not None
        raise error("the store", "an answer", "none", "Try again")

    first = new_writer(home)
    first.open(opening(owner=replace(Owner.here(), host="elsewhere", machine="other-boot")))
    monkeypatch.setattr(MlflowStore, "create_run", suspended)
    with pytest.raises(LeaseHeld):
        with suppress(StoreAway):
            first.record([finished(), finished(1)])
        first.record([finished(), finished(1)])
    (run,) = children(home)
    assert run.info.status == "FINISHED"
    assert record(home) == [finished()] and children(home)[0].info.run_id == run.info.run_id


def test_a_driver_gets_what_it_has_not_and_learns_what_the_store_lacks(home: Path) -> None:
    record(home, finished(0), finished(1), finished(2))
    newer, other = finished(1, ended_s=1.8e9), finished(3)
    had = {trial.key: trial.ended_s for trial in (finished(0), newer, other)}
    with writer(home) as opened:
        assert opened.open(opening(), had=had) == ([finished(2)], [newer.key, other.key])
        assert opened.open(opening(blocks=9)) == ([], [])  # of what is open
        opened.close("complete", {})
    assert read_sweep(address(home), "quickstart").blocks == 9


def test_the_heartbeat_renews_the_lease(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lease() -> Lease:
        return LEASE.load(parent(home).data.tags[LEASE_TAG], "the test")

    with writer(home) as opened:
        opened.open(opening())
        before = lease()
        opened.beat()
        assert lease() == before  # not yet time
        now_s = time.time()
        monkeypatch.setattr(time, "time", lambda: now_s + BEAT_S + 1)
        opened.record([])  # for hours, if one trial takes hours
        assert lease().until_s >= before.until_s + BEAT_S
    assert lease() == Lease()


@pytest.mark.parametrize("makes_a_run", [True, False])
def test_of_two_drivers_at_once_one_opens(
    home: Path, monkeypatch: pytest.MonkeyPatch, makes_a_run: bool
) -> None:
    """Both see no run, or a free lease, and write; the one that settles later gives way."""

    def overtake(seconds: float) -> None:
        store = MlflowStore(address(home), create=True)
        lease = LEASE.dump(Lease(other_owner(), time.time() + LEASE_S))
        tags = {"generation": "1", LEASE_TAG: lease}
        if makes_a_run:
            store.create_run(parent(home).info.experiment_id, "quickstart", 1, tags)
        else:
            store.log(parent(home).info.run_id, tags=tags)

    if not makes_a_run:
        record(home)
    monkeypatch.setattr(time, "sleep", overtake)
    with pytest.raises(LeaseHeld):
        new_writer(home).open(opening())
    assert len(runs(home)) == 1
    assert parent(home).info.start_time == 1 or not makes_a_run


def _break(*_: Any, **__: Any) -> Any:
    raise TrackingError("the store", "an answer", "none", "Try again")


def _break_for_trials(method: Callable[..., Any]) -> Callable[..., Any]:
    def breaking(store: MlflowStore, run_id: str, *args: Any, **content: Any) -> Any:
        if args or content.get("points"):
            _break()
        return method(store, run_id, *args, **content)

    return breaking
