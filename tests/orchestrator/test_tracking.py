"""Recording in MLflow: names, exactly-once, the lease, and reading back. Real SQLite stores."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlflow import MlflowClient

from orchestrator.tracking import (
    LeaseHeld,
    Owner,
    StoreMissing,
    SweepNotFound,
    TrackingError,
    artifact_root,
    tracking_uri,
)
from orchestrator.tracking import lease as leases
from orchestrator.tracking.parents import description
from orchestrator.tracking.place import shown
from orchestrator.tracking.reading import find_sweep, list_sweeps, read_sweep
from orchestrator.tracking.runs import entity_name, finished_trial, run_content, run_name
from orchestrator.tracking.store import Store
from orchestrator.tracking.tracker import Tracker
from orchestrator.trial import (
    Arm,
    DatasetRecord,
    EpochRecord,
    FailureRecord,
    FinishedTrial,
    Kernel,
    Outcome,
    Trial,
    digest,
)
from tests.orchestrator.recorded import (
    IDENTITY,
    PORTABLE,
    XLA,
    address,
    failed,
    finished,
    fresh_home,
    opening,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return fresh_home(tmp_path)


@pytest.fixture(autouse=True)
def no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The half second in which another driver could show up; the race's test brings it back."""
    monkeypatch.setattr("orchestrator.tracking.tracker._SETTLE_S", 0.0)


def tracker(home: Path) -> Tracker:
    return Tracker(address(home), artifact_root(home, address(home)))


def record(home: Path, *trials: FinishedTrial) -> list[FinishedTrial]:
    """Open, record, close; what the store had before."""
    with tracker(home) as opened:
        had = opened.open_sweep(opening(home))
        opened.record(trials)
        opened.close("complete", {})
        return had


def runs(home: Path, filter_text: str = "") -> list[Any]:
    client = MlflowClient(tracking_uri=address(home))
    experiments = [each.experiment_id for each in client.search_experiments()]
    return list(client.search_runs(experiments, filter_text))


def children(home: Path) -> list[Any]:
    return [run for run in runs(home) if "mlflow.parentRunId" in run.data.tags]


def other_owner() -> Owner:
    """A process of this machine that is alive and not this one."""
    return Owner.here(psutil.Process().ppid())


# What a run says


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
        " · AMD EPYC 7763 · repeat 1"
    )
    assert (run.info.status, run.info.start_time, run.info.end_time) == (
        "FINISHED",
        1_700_000_010_250,
        1_700_000_015_750,
    )
    assert run.data.params == {
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
        "repeat": "1",
        "seed": str(finished(1, XLA, repeat=1).trial.seed),
    }
    expected = {
        "sweep": "quickstart",
        "block": "1",
        "arm": "tensorflow/portable+xla on AMD EPYC 7763",
        "implementation": "tensorflow/portable+xla",
        "hardware": "AMD EPYC 7763",
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


def test_a_failed_trial_tells_why_and_keeps_the_output(home: Path) -> None:
    record(home, failed())
    (run,) = children(home)
    assert run.info.status == "FAILED"
    assert run.data.tags["failure"] == "crash: the trainer process ended with SIGSEGV"
    text = Store(address(home)).read_text(run.info.run_id, "trainer_output.txt")
    assert text.endswith("last\nlines\n")


def test_long_texts_go_whole_to_artifacts(home: Path) -> None:
    evidence = "op " * 9000
    trial = finished(kernel=Kernel("portable", "portable", evidence))
    record(home, trial)
    (run,) = children(home)
    assert len(run.data.tags["kernel_evidence"]) == 1000
    store = Store(address(home))
    assert store.read_text(run.info.run_id, "kernel_evidence.txt") == evidence
    assert record(home) == [trial]


def test_many_metrics_and_params_are_written_in_several_requests(home: Path) -> None:
    config = {f"p{index}": index for index in range(150)}
    trial = finished(epochs=500, metrics={f"m/{index}": index / 7 for index in range(900)})
    trial = replace(trial, trial=replace(trial.trial, config=config))
    record(home, trial)
    (run,) = children(home)
    assert len(run.data.metrics) == 904
    assert len(run.data.params) > 150
    (back,) = record(home)
    assert back == trial  # too long for a tag: read from the run's outcome.json


def test_epochs_that_do_not_fit_the_tag_are_left_to_the_curves(home: Path) -> None:
    trial = finished(epochs=300)
    record(home, trial)
    assert record(home) == [replace(trial, outcome=replace(trial.outcome, epochs=()))]


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
    content = run_content(IDENTITY, finished(arm=Arm("my own thing", "cpu")))
    assert "backend" not in content.params
    assert content.tags["implementation"] == "my own thing"


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


# Reading back

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_number = st.floats(allow_nan=False, allow_infinity=True)
_metrics = st.dictionaries(_text, _number, max_size=4)
_finite = st.floats(allow_nan=False, allow_infinity=False)  # a spec refuses anything else
_value = st.booleans() | st.integers(-(2**62), 2**62) | _finite | _text
_trial = st.builds(
    Trial,
    key=_text,
    block=st.integers(0, 9),
    config=st.dictionaries(_text, _value, max_size=4),
    arm=st.builds(Arm, _text, _text),
    repeat=st.integers(0, 3),
    seed=st.integers(0, 2**31),
)
_outcome = st.builds(
    Outcome,
    status=st.sampled_from(["complete", "failed", "wrong_kernel", "disturbed"]),
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
    kernel=st.none() | st.builds(Kernel, _text, _text, _text),
    dataset=st.none()
    | st.builds(DatasetRecord, _text, _text, _text, st.integers(0), st.integers(0)),
    environment=st.dictionaries(_text, st.none() | _value, max_size=3),
    failure=st.none()
    | st.builds(FailureRecord, st.sampled_from(["error", "hung", "lost"]), _text, _text),
    trainer_trials=st.integers(0, 9),
)


@settings(max_examples=150, deadline=None)
@given(trial=st.builds(FinishedTrial, _trial, _outcome))
def test_what_a_run_says_is_read_back_equal(trial: FinishedTrial) -> None:
    content = run_content(IDENTITY, trial)
    assert all(len(value) <= 8000 for value in content.tags.values())
    assert content == run_content(IDENTITY, trial)
    text = content.tags["record"]
    text = content.texts.get(text, text)
    environments = {digest(trial.outcome.environment): trial.outcome.environment}
    back = finished_trial(text, environments)
    assert back == trial
    kinds = [type(value) for value in trial.trial.config.values()]
    assert [type(value) for value in back.trial.config.values()] == kinds


def test_the_store_gives_back_what_was_recorded(home: Path) -> None:
    trials = [
        finished(0, metrics={"loss": float("inf"), "n": 3.0}),
        failed(1),
        finished(2, XLA, status="disturbed", environment={"python": "3.12", "gpu": None}),
        finished(3, status="wrong_kernel"),
    ]
    assert record(home, *trials) == []
    back = record(home, *trials)
    assert sorted(back, key=lambda each: each.trial.block) == trials
    assert len(children(home)) == 4


def test_a_record_of_a_later_version_is_told_or_left_out(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(TrackingError, match=r"record.*expected a record of version 1 or older"):
        finished_trial('{"version": 2}', {})
    record(home, finished(0), finished(1))
    run = next(run for run in children(home) if run.data.tags["block"] == "1")
    MlflowClient(tracking_uri=address(home)).set_tag(run.info.run_id, "record", "{}")
    assert record(home) == [finished(0)]
    assert run.info.run_id in caplog.text
    record(home, finished(1))  # and it can be written again
    assert len(record(home)) == len(children(home)) == 2


def test_read_sweep_is_what_a_report_needs(home: Path) -> None:
    record(home, finished(1, XLA), failed(1), finished(0, environment={"python": "3.12"}))
    read = read_sweep(address(home), "quickstart")
    assert (read.name, read.generation, read.state) == ("quickstart", 1, "complete")
    assert read.workload == "image_rows"
    assert read.objectives == {"val_accuracy": "maximize", "step_ms": "minimize"}
    assert read.arms == (PORTABLE, XLA)
    assert [str(each.arm) for each in read.impossible] == ["tensorflow/cudnn on cpu"]
    assert (read.blocks, read.repeats, read.expected_trials) == (4, 1, 8)
    assert [(each.block, each.arm) for each in read.trials] == [
        (0, PORTABLE),
        (1, PORTABLE),
        (1, XLA),
    ]
    first, second, _ = read.trials
    assert (first.config, first.metrics) == (
        finished(0).trial.config,
        finished(0).outcome.metrics,
    )
    assert (second.status, second.failure, second.kernel) == (
        "failed",
        "crash: the trainer process ended with SIGSEGV",
        None,
    )
    stored = {run.info.run_id: run.data.metrics for run in children(home)}
    assert all(stored[each.run_id].items() >= each.metrics.items() for each in read.trials)
    assert read.environment["python"] == "3.11.7 | 3.12"
    assert read.run_id == runs(home, "tags.generation = '1'")[0].info.run_id


def test_generations_stand_beside_each_other(home: Path) -> None:
    record(home, finished(0))
    second = replace(IDENTITY, generation=2)
    with tracker(home) as opened:
        assert opened.open_sweep(opening(home, second)) == []
        opened.close("stopped", {})
    assert read_sweep(address(home), "quickstart").generation == 2
    assert len(read_sweep(address(home), "quickstart", 1).trials) == 1
    assert len(read_sweep(address(home), "quickstart#1").trials) == 1
    assert [(each.name, each.generation, each.state) for each in list_sweeps(address(home))] == [
        ("quickstart", 2, "stopped"),
        ("quickstart", 1, "complete"),
    ]
    found = find_sweep(address(home), "quickstart")
    assert found is not None
    assert (found.identity, found.state, found.finished) == (second, "stopped", ())
    with pytest.raises(SweepNotFound, match=r"quickstart#3.*quickstart#1, quickstart#2"):
        read_sweep(address(home), "quickstart", 3)


def test_a_lost_journal_finds_all_it_needs(home: Path) -> None:
    record(home, finished(1), finished(0))
    found = find_sweep(address(home), "quickstart")
    assert found is not None
    assert found.identity == IDENTITY
    assert found.spec_yaml == opening(home).spec_yaml
    assert found.finished == (finished(0), finished(1))
    light = find_sweep(address(home), "quickstart", trials=False)
    assert light == replace(found, finished=())
    assert find_sweep(address(home), "another") is None


def test_a_sweep_that_is_not_there_is_told_with_the_nearest(home: Path) -> None:
    record(home)
    with pytest.raises(SweepNotFound, match=r"'quikstart' in sqlite.*nearest there: quickstart"):
        read_sweep(address(home), "quikstart")


# Exactly once


def test_a_run_that_was_written_half_is_completed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tracker(home) as opened:
        opened.open_sweep(opening(home))
        monkeypatch.setattr(Store, "log_dataset", _break)
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
    create = Store.create_run
    with tracker(home) as opened:
        opened.open_sweep(opening(home))

        def lose_the_answer(*args: Any, **kwargs: Any) -> str:
            create(*args, **kwargs)
            return _break()

        monkeypatch.setattr(Store, "create_run", lose_the_answer)
        opened.record([finished(0)])
        monkeypatch.setattr(Store, "create_run", _break)
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
    assert len(read_sweep(address(home), "quickstart").trials) == 1
    with tracker(home) as opened:
        assert opened.open_sweep(opening(home)) == [finished(0)]
        assert opened.doubles_removed == 2
    assert [run.info.run_id for run in children(home)] == [good.info.run_id]


def test_recording_again_changes_nothing(home: Path) -> None:
    record(home, finished(0))
    (before,) = children(home)
    with tracker(home) as opened:
        opened.open_sweep(opening(home))
        opened._children.clear()  # as if it did not know: it writes all again
        opened._unsure.add(finished(0).trial.key)
        opened.record([finished(0)])
    (after,) = children(home)
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
    monkeypatch.setattr("orchestrator.tracking.runs.entity_name", str)
    bad = finished(0, metrics={"//": 1.0})
    with tracker(home) as opened:
        opened.open_sweep(opening(home))
        refused = opened.record([bad, finished(1)])
        opened.close("complete", {})
    assert list(refused) == [bad.trial.key]
    assert "expected content that it takes, received" in refused[bad.trial.key]
    assert record(home) == [finished(1)]


def test_params_of_an_earlier_version_stay(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("orchestrator.tracking.runs._text", lambda value: f"<{value}>")
        record(home, failed(0))
    record(home, finished(0, attempt=2))
    assert record(home) == [finished(0, attempt=2)]
    (run,) = children(home)
    assert run.data.params["units"] == "<32>"


# The lease


def test_a_living_owner_keeps_others_out(home: Path) -> None:
    with tracker(home) as first, tracker(home) as second:
        first.open_sweep(opening(home))
        with pytest.raises(LeaseHeld, match=r"process \d+ on .* is recording into it") as caught:
            second.open_sweep(opening(home, owner=other_owner()))
        assert caught.value.until_s > time.time()
        first.record([finished()])
    record(home)  # given back on leaving, and nothing of it is broken
    assert read_sweep(address(home), "quickstart").state == "complete"


@pytest.mark.parametrize(
    "change",
    [{"pid": 2**22 + 1}, {"started_s": 12.5}],
    ids=["process gone", "another process of that id"],
)
def test_a_dead_owners_lease_is_taken_over_at_once(home: Path, change: dict[str, Any]) -> None:
    dead = replace(other_owner(), **change)
    with tracker(home) as first:
        first.open_sweep(opening(home, owner=dead))
        first._holds_lease = False  # it died
        assert read_sweep(address(home), "quickstart").state == "stopped"
        record(home, finished())
    assert len(children(home)) == 1


def test_an_owner_elsewhere_is_believed_until_its_lease_ends(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = replace(Owner.here(), host="elsewhere", machine="other-boot")
    with tracker(home) as first:
        first.open_sweep(opening(home, owner=away))
        assert read_sweep(address(home), "quickstart").state == "running"
        with pytest.raises(LeaseHeld, match="on elsewhere"):
            record(home)
        later_s = time.time() + leases.LEASE_S + 1
        monkeypatch.setattr(time, "time", lambda: later_s)
        record(home, finished())
        with tracker(home) as opened:
            opened.open_sweep(opening(home))
            with pytest.raises(LeaseHeld):  # the loss is noticed at the next beat
                first.record([finished(1)])
    assert len(children(home)) == 1


def test_the_heartbeat_renews_the_lease(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def until_s() -> float:
        return float(runs(home, "tags.generation = '1'")[0].data.tags["lease_until"])

    with tracker(home) as opened:
        opened.open_sweep(opening(home))
        before_s = until_s()
        opened.beat()
        assert until_s() == before_s  # not yet time
        now_s = time.time()
        monkeypatch.setattr(time, "time", lambda: now_s + leases.BEAT_S + 1)
        opened.record([finished()])
        assert until_s() >= before_s + leases.BEAT_S
    assert until_s() == 0


def test_of_two_drivers_at_once_one_opens(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.tracking.tracker._SETTLE_S", 0.5)
    together = threading.Barrier(2)
    results: list[object] = []

    def drive(owner: Owner) -> None:
        opened = tracker(home)
        together.wait()
        try:
            opened.open_sweep(opening(home, owner=owner))
            results.append(owner)
        except (LeaseHeld, TrackingError) as error:
            results.append(error)

    owners = [Owner.here(), other_owner()]
    threads = [threading.Thread(target=drive, args=[owner]) for owner in owners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(type(result).__name__ for result in results) == ["LeaseHeld", "Owner"]
    assert len(runs(home)) == 1


def test_owners_survive_as_text() -> None:
    owner = Owner("a:host", 12, 1234.5, "boot-1")
    assert Owner.parse(str(owner)) == owner
    assert Owner.parse("nobody") is None
    assert not Owner.here().is_gone()
    assert not other_owner().is_gone()


# Closing, and what stands on the parent run


def test_reports_and_documents_stand_on_the_parent(home: Path) -> None:
    report = "\n".join(f"line {number} " + "x" * 50 for number in range(300))
    with tracker(home) as opened:
        opened.open_sweep(opening(home))
        opened.record([finished(0), finished(1)])
        opened.close("complete", {"report.md": report, "report.json": "{}"})
    (parent,) = runs(home, "tags.generation = '1'")
    note = parent.data.tags["mlflow.note.content"]
    assert len(note) < 8000
    assert note.rsplit("\n", 4)[0].endswith("x")
    assert "the whole report is the artifact `report.md`" in note
    store = Store(address(home))
    assert store.read_text(parent.info.run_id, "report.md") == report
    assert store.read_text(parent.info.run_id, "spec.yaml") == opening(home).spec_yaml
    assert json.loads(store.read_text(parent.info.run_id, "plan.json")) == opening(home).plan
    (environment,) = store.texts(parent.info.run_id, "environment")
    assert json.loads(store.read_text(parent.info.run_id, environment))["python"] == "3.11.7"


def test_short_reports_are_the_whole_description() -> None:
    assert description("# Report\n") == "# Report\n"


@pytest.mark.parametrize(
    ("state", "status"), [("complete", "FINISHED"), ("stopped", "KILLED"), ("failed", "FAILED")]
)
def test_the_parents_status_is_the_sweeps(home: Path, state: Any, status: str) -> None:
    with tracker(home) as opened:
        opened.open_sweep(opening(home))
        assert runs(home)[0].info.status == "RUNNING"
        opened.close(state, {})
    assert runs(home)[0].info.status == status
    assert read_sweep(address(home), "quickstart").state == state


# Places


def test_the_default_store_is_in_the_home(tmp_path: Path) -> None:
    assert tracking_uri(tmp_path, {}) == f"sqlite:///{tmp_path}/mlflow.db"
    assert artifact_root(tmp_path, tracking_uri(tmp_path, {})) == tmp_path / "mlartifacts"
    given = "http://server:5000"
    assert tracking_uri(tmp_path, {"MLFLOW_TRACKING_URI": given}) == given
    assert artifact_root(tmp_path, given) is None


def test_a_home_with_a_hostile_name(tmp_path: Path) -> None:
    home = fresh_home(tmp_path / "50%20 a#b?c&d ü")
    record(home, failed())
    assert record(home) == [failed()]
    assert {each.name for each in home.iterdir()} >= {"mlflow.db", "mlartifacts"}


def test_reading_makes_no_store(tmp_path: Path) -> None:
    for read in (read_sweep, find_sweep):
        reading: Callable[[str, str], object] = read
        if read is find_sweep:
            assert reading(address(tmp_path), "quickstart") is None
        else:
            with pytest.raises(StoreMissing, match=r"mlflow.db: expected a SQLite file, .*Run a"):
                reading(address(tmp_path), "quickstart")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("uri", "tells"),
    [
        ("sqlite:////proc/nowhere/mlflow.db", "nowhere"),
        ("http://127.0.0.1:9", "127.0.0.1:9"),
        ("postgresql://me:secret@127.0.0.1:9/db", "postgresql"),
        ("gopher://x", "gopher"),
        ("file:///tmp/mlruns", "use sqlite:///PATH or a server's address"),
    ],
)
def test_a_store_that_cannot_be_used_is_told_soon(
    uri: str, tells: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    started_s = time.monotonic()
    with pytest.raises(TrackingError, match="expected a working store, received") as caught:
        Tracker(uri, None).open_sweep(opening(Path("home")))
    assert tells in str(caught.value)
    assert "secret" not in str(caught.value)
    assert time.monotonic() - started_s < 10


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("this is not a database, " * 100)
    with pytest.raises(TrackingError, match="file is not a database"):
        tracker(tmp_path)


def test_a_deleted_experiment_is_told_with_the_way_back(home: Path) -> None:
    record(home)
    client = MlflowClient(tracking_uri=address(home))
    found = client.get_experiment_by_name("quickstart")
    assert found is not None
    client.delete_experiment(found.experiment_id)
    with pytest.raises(TrackingError, match="mlflow experiments restore"):
        record(home)


def test_passwords_are_not_shown() -> None:
    assert shown("postgresql://me:pw@host/db") == "postgresql://me:***@host/db"
    assert shown("sqlite:////a/b.db") == "sqlite:////a/b.db"


def _break(*_: Any, **__: Any) -> Any:
    raise TrackingError("the store", "an answer", "none", "Try again")
