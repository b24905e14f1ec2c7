"""The table of a sweep's trials: quick to read, and never another story than the runs'."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from mlflow import MlflowClient

from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import ConfigValue, FinishedTrial
from orchestrator.storage.tracking import TrackingError
from orchestrator.storage.tracking.mlflow_store import MlflowStore, StoredRun
from orchestrator.storage.tracking.parquet_table import TableUnreadable, read_table, write_table
from orchestrator.storage.tracking.reader import find_sweep, read_sweep
from orchestrator.storage.tracking.run_content import run_content
from tests.orchestrator.sample_sweeps import (
    IDENTITY,
    XLA,
    address,
    failed,
    finished,
    opening,
)
from tests.orchestrator.storage.tracking.recording import children, record, table, writer


@pytest.fixture
def runs_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The trials whose runs are read, by key."""
    seen: list[str] = []
    search = MlflowStore.search

    def watched(
        store: MlflowStore, experiments: Sequence[str], query: str, *, deleted: bool = False
    ) -> Iterator[StoredRun]:
        for run in search(store, experiments, query, deleted=deleted):
            if "trial_key" in run.tags and not deleted:
                seen.append(run.tags["trial_key"])
            yield run

    monkeypatch.setattr(MlflowStore, "search", watched)
    return seen


def test_a_finished_sweep_is_read_without_its_runs(home: Path, runs_read: list[str]) -> None:
    record(home, finished(0, epochs=300), finished(1, XLA), failed(2))
    with_table = read(home)
    assert runs_read == []
    table(home).unlink()
    assert read(home) == with_table
    assert len(runs_read) == len(with_table.trials) == 3
    assert [len(trial.epochs) for trial in with_table.trials] == [300, 3, 0]


def test_what_is_recorded_later_is_read_from_its_runs(home: Path, runs_read: list[str]) -> None:
    record(home, finished(0), failed(1), finished(2))
    late = finished(3, ended_s=1.6e9)  # under another home, before the others were
    retried = finished(1, attempt=2)
    with writer(home) as opened:
        assert len(opened.open_sweep(opening(home))) == 3
        opened.record([late, retried])
        assert runs_read == []
        assert trials(home) == [finished(0), retried, finished(2), late]
        assert sorted(runs_read) == sorted([late.trial.key, retried.trial.key])
        opened.close("complete", {})
    runs_read.clear()
    assert trials(home) == [finished(0), retried, finished(2), late]
    assert runs_read == []


def test_a_driver_that_was_killed_leaves_nothing_out(home: Path) -> None:
    record(home, finished(0))
    killed = writer(home)
    killed.open_sweep(opening(home))
    killed.record([finished(1), finished(0, attempt=2)])
    with writer(home) as opened:
        had = opened.open_sweep(opening(home))
        assert sorted(trial.trial.block for trial in had) == [0, 1]
        opened.record([finished(2)])
    assert trials(home) == [finished(0, attempt=2), finished(1), finished(2)]


def test_a_deleted_run_is_left_out_and_can_be_recorded_again(home: Path) -> None:
    record(home, finished(0), finished(1))
    client = MlflowClient(tracking_uri=address(home))
    gone = next(run for run in children(home) if run.data.tags["block"] == "1")
    client.delete_run(gone.info.run_id)
    assert trials(home) == [finished(0)]
    assert record(home) == [finished(0)]
    assert len(pq.read_table(table(home))) == 1  # nor does it come back once it is gone for good
    assert record(home, finished(1)) == [finished(0)]
    assert trials(home) == [finished(0), finished(1)]
    client.restore_run(gone.info.run_id)
    assert trials(home) == [finished(0), finished(1)]


def test_a_half_written_run_is_finished_and_not_doubled(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(home, finished(0))
    with writer(home) as opened:
        opened.open_sweep(opening(home))
        monkeypatch.setattr(MlflowStore, "log", _refuse_children(MlflowStore.log))
        with pytest.raises(TrackingError):
            opened.record([finished(1)])
        monkeypatch.undo()
    assert read_table(table(home)).unfinished
    assert trials(home) == [finished(0)]
    record(home, finished(1))
    assert trials(home) == [finished(0), finished(1)]
    assert len(children(home)) == 2


@pytest.mark.parametrize("damage", ["torn", "no table", "damaged record"])
def test_a_table_that_cannot_be_read_is_made_again(
    home: Path, damage: str, runs_read: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    record(home, finished(0), finished(1))
    path = table(home)
    spoil(path, damage)
    assert trials(home) == [finished(0), finished(1)]
    assert len(runs_read) == 2
    assert "expected a table of trials, received" in caplog.text
    record(home)
    runs_read.clear()
    assert trials(home) == [finished(0), finished(1)]
    assert runs_read == []


def test_a_table_is_written_now_and_then(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.storage.tracking.parquet_table._FEWEST_LATE", 2)
    with writer(home) as opened:
        opened.open_sweep(opening(home))
        opened.record([finished(0)])
        assert not list(home.glob("mlartifacts/**/trials.parquet"))
        opened.record([finished(1)])
        assert len(pq.read_table(table(home))) == 2
        opened.record([finished(2)])
        assert trials(home) == [finished(0), finished(1), finished(2)]


def test_a_table_whose_writing_fails_is_no_loss(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("orchestrator.storage.tracking.parquet_table._FEWEST_LATE", 1)
    record(home, finished(0))
    write = MlflowStore.write_file
    with writer(home) as opened:
        opened.open_sweep(opening(home))

        def lose_the_answer(store: MlflowStore, run_id: str, path: Path) -> None:
            write(store, run_id, path)
            raise TrackingError("a store", "an answer", "none", "Wait")

        monkeypatch.setattr(MlflowStore, "write_file", lose_the_answer)
        assert opened.record([finished(1)]) == {}
        assert "the table is written later" in caplog.text
        opened.record([finished(2)])
        assert trials(home) == [finished(0), finished(1), finished(2)]
        monkeypatch.undo()
        opened.close("complete", {})
    assert len(pq.read_table(table(home))) == 3
    assert trials(home) == [finished(0), finished(1), finished(2)]


def test_columns_are_those_of_search_runs(home: Path) -> None:
    trial = finished(0, metrics={"loss": float("inf"), "step_ms": 2.5}, node="läss \udcff")
    config: dict[str, ConfigValue] = {
        "units": 2**70,
        "mixed": 1,
        "seed": 5,
        "rate": 0.5,
        "cell": "gru",
        "jit": True,
    }
    trial = replace(trial, trial=replace(trial.trial, config=config))
    other = replace(trial, trial=replace(trial.trial, key="k", config={**config, "mixed": "auto"}))
    path = home / "trials.parquet"
    rows = [replace(trial, run_id="a"), replace(other, run_id="b"), replace(failed(1), run_id="c")]
    write_table(path, "t", rows, ["d"])
    first, second, third = pq.read_table(path).to_pylist()
    assert first["params.units"] == str(2**70)
    assert (first["params.mixed"], second["params.mixed"]) == ("1", "auto")
    assert (first["params.rate"], first["params.cell"]) == (0.5, "gru")
    assert (first["params.settings.seed"], first["params.seed"]) == (5, trial.trial.seed)
    assert (first["params.settings.jit"], first["params.jit"]) == (True, False)
    tags, params = run_content(IDENTITY, failed(1)).tags, run_content(IDENTITY, failed(1)).params
    row = {name: value for name, value in third.items() if value is not None}
    assert {name for name in row if name.startswith("tags.")} <= {f"tags.{name}" for name in tags}
    assert all(tags[name[5:]] == value for name, value in row.items() if name.startswith("tags."))
    assert {name[7:] for name in row if name.startswith("params.")} <= params.keys()
    assert (first["metrics.loss"], first["metrics.step_ms"]) == (float("inf"), 2.5)
    assert (first["status"], third["status"]) == ("FINISHED", "FAILED")
    assert third["metrics.step_ms"] is None
    assert third["tags.failure"].startswith("crash: the trainer process")
    back = read_table(path)
    assert (back.token, back.unfinished) == ("t", ("d",))
    clean = replace(trial, outcome=replace(trial.outcome, node="läss ?"))
    assert (back.trials[0], back.trials[0].run_id) == (clean, "a")


def _refuse_children(log: Callable[..., None]) -> Callable[..., None]:
    def refusing(store: MlflowStore, run_id: str, **content: Any) -> None:
        if content.get("points"):
            raise TrackingError("a store", "an answer", "none", "Wait")
        log(store, run_id, **content)

    return refusing


def spoil(path: Path, damage: str) -> None:
    whole = path.read_bytes()
    if damage == "torn":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "no table":
        path.write_text("<html>a proxy's words</html>")
    else:
        content = pq.read_table(path)
        texts = [f"{text}x" for text in content.column("record").to_pylist()]
        index = content.schema.get_field_index("record")
        pq.write_table(content.set_column(index, "record", [texts]), path)
    with pytest.raises(TableUnreadable):
        read_table(path)


def read(home: Path) -> SweepRecord:
    return read_sweep(address(home), "quickstart")


def trials(home: Path) -> list[FinishedTrial]:
    """Return the trials in the store, by block."""
    stored = find_sweep(address(home), "quickstart")
    assert stored is not None
    return sorted(stored.finished, key=lambda trial: trial.trial.block)
