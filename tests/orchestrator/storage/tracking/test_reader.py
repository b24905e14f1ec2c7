"""Sweeps read back from a store: from the table of trials, and from the runs that it lacks."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from orchestrator.core.arms import Arm
from orchestrator.core.criteria import (
    AutoBlocks,
    HardwarePrice,
    ReportCriteria,
)
from orchestrator.core.trial import ConfigValue, FinishedTrial
from orchestrator.storage.tracking import stored_records, trial_table
from orchestrator.storage.tracking.reader import find, list_sweeps, read_rows, read_stored_sweep
from orchestrator.storage.tracking.stored_records import LEASE_TAG, RECORD_TAG
from orchestrator.storage.tracking.tracker import StoredRun, Tracker
from orchestrator.storage.tracking.tracking_errors import (
    Damaged,
    Outdated,
    SweepNotFound,
    TrackingError,
    WrongVersion,
)
from orchestrator.storage.tracking.trial_table import read_stored_rows, read_table
from tests.building.arms import PORTABLE, XLA
from tests.building.stores import build_opening
from tests.building.trials import IDENTITY, build_failed_trial, build_full_trial
from tests.orchestrator.storage.tracking.recording import (
    address,
    children,
    parent,
    record,
    restore_run,
    table,
    tracker,
    writer,
)


@pytest.fixture
def runs_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the trials whose runs are read, by key."""
    seen: list[str] = []
    kind: Any = type(tracker(home))
    trial_runs = kind.trial_runs

    def watched(
        store: Tracker, sweep_run: StoredRun, deleted: bool = False, **options: Any
    ) -> Iterator[StoredRun]:
        for run in trial_runs(store, sweep_run, deleted=deleted, **options):
            if not deleted:
                seen.append(run.tags["trial_key"])
            yield run

    monkeypatch.setattr(kind, "trial_runs", watched)
    return seen


def trials(home: Path) -> list[FinishedTrial]:
    read = read_stored_sweep(address(home), "quickstart").trials
    return sorted(read, key=lambda trial: trial.block)


def test_what_is_recorded_later_is_read_from_its_runs(home: Path, runs_read: list[str]) -> None:
    record(home, build_full_trial(0), build_failed_trial(1), build_full_trial(2))
    late = build_full_trial(3, ended_s=1.6e9)  # under another home, before the others were
    retried = build_full_trial(1, attempt=2)
    with writer(home) as opened:
        assert len(opened.open(build_opening())[0]) == 3
        opened.record([late, retried])
        assert runs_read == []
        assert trials(home) == [build_full_trial(0), retried, build_full_trial(2), late]
        assert sorted(runs_read) == sorted([late.key, retried.key])
        opened._holds_lease = False  # it is killed
    assert record(home, build_full_trial(4)) == [
        build_full_trial(0),
        retried,
        build_full_trial(2),
        late,
    ]
    runs_read.clear()
    assert trials(home) == [
        build_full_trial(0),
        retried,
        build_full_trial(2),
        late,
        build_full_trial(4),
    ]
    assert runs_read == []


def test_a_deleted_run_is_left_out_and_can_be_recorded_again(home: Path) -> None:
    record(home, build_full_trial(0), build_full_trial(1))
    gone = children(home)[1].run_id
    tracker(home).delete_run(gone)
    assert trials(home) == [build_full_trial(0)]
    assert record(home) == [build_full_trial(0)]
    assert len(pq.read_table(table(home))) == 1  # nor does it come back once it is gone for good
    assert record(home, build_full_trial(1)) == [build_full_trial(0)]
    assert trials(home) == [build_full_trial(0), build_full_trial(1)]
    restore_run(home, gone)
    assert trials(home) == [build_full_trial(0), build_full_trial(1)]


@pytest.mark.parametrize("damage", ["truncated", "damaged record"])
def test_a_table_that_cannot_be_read_is_made_again(
    home: Path, damage: str, runs_read: list[str]
) -> None:
    record(home, build_full_trial(0), build_full_trial(1))
    path = table(home)
    if damage == "damaged record":
        content = pq.read_table(path)
        texts = [f"{text}x" for text in content.column("record").to_pylist()]
        index = content.schema.get_field_index("record")
        pq.write_table(content.set_column(index, "record", [texts]), path)
    else:
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(Damaged):
        read_table(path)
    assert trials(home) == [build_full_trial(0), build_full_trial(1)]
    assert len(runs_read) == 2
    record(home)
    runs_read.clear()
    assert trials(home) == [build_full_trial(0), build_full_trial(1)]
    assert runs_read == []
    if damage == "damaged record":  # of the runs alone: it is recorded again
        for old, new in (("{", ""), (build_full_trial(0).key, "0" * 16)):
            change_tag(home, RECORD_TAG, old, new, block=0)
            table(home).unlink()
            next(home.glob("**/sweep.json")).write_bytes(b"")
            assert record(home, build_full_trial(0)) == [build_full_trial(1)]
        assert len(record(home)) == len(children(home)) == 2


def test_a_table_is_written_now_and_then_and_an_error_loses_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.storage.tracking.writer._FEWEST_LATE", 2)
    kind: Any = type(tracker(home))
    write = kind.write_file

    def lose_the_answer(store: Tracker, run_id: str, path: str, content: str | Path) -> None:
        write(store, run_id, path, content)
        raise TrackingError("a store", "no answer", "Wait")

    with writer(home) as opened:
        opened.open(build_opening())
        opened.record([build_full_trial(0)])
        assert not list(home.glob("**/trials.parquet"))
        opened.record([build_full_trial(1)])
        assert len(pq.read_table(table(home))) == 2
        monkeypatch.setattr(kind, "write_file", lose_the_answer)
        batch = [build_full_trial(2), build_full_trial(3), build_full_trial(4)]
        with pytest.raises(TrackingError):
            opened.record(batch[:2])
        with pytest.raises(TrackingError):  # no run is written that a table could miss
            opened.record(batch)
        assert trials(home) == [build_full_trial(block) for block in range(4)]
        monkeypatch.undo()
        opened.record(batch)
        assert trials(home) == [build_full_trial(block) for block in range(5)]


def test_a_table_has_the_columns_of_queries_and_gives_back_its_trials(tmp_path: Path) -> None:
    trial = build_full_trial(0, metrics={"loss": float("inf"), "step_ms": 2.5}, node="läss \udcff")
    config: dict[str, ConfigValue] = {"units": 2**70, "mixed": 1, "seed": 5, "rate": 0.5}
    config |= {"layers": (64, 32), "dropout": None}
    trial = replace(trial, trial=replace(trial.trial, config=config))
    other = replace(trial, trial=replace(trial.trial, key="k", config={**config, "mixed": "auto"}))
    path = tmp_path / "trials.parquet"
    rows = [replace(stored, run_id=run_id) for stored, run_id in ((trial, "a"), (other, "b"))]
    trial_table.write_table(path, 7, [*rows, replace(build_failed_trial(1), run_id="c")])
    number, table = read_stored_rows(path)
    assert number == 7 and "record" not in table.column_names
    first, second, third = table.to_pylist()
    assert (first["config.units"], first["config.rate"]) == (float(2**70), 0.5)
    assert (first["config.mixed"], second["config.mixed"]) == ("1", "auto")
    assert (first["config.layers"], first["config.dropout"]) == ("[64,32]", None)
    assert (first["config.seed"], first["seed"]) == (5, trial.seed)
    assert (first["metric.loss"], third["metric.step_ms"]) == (float("inf"), None)
    assert (first["outcome"], third["outcome"]) == ("complete", "failed")
    assert first["started"].timestamp() == pytest.approx(trial.started_s, abs=86_400)
    number, back = read_table(path)
    clean = replace(trial, outcome=replace(trial.outcome, node="läss ?"))
    assert (number, back[0], back[0].run_id) == (7, clean, "a")


def change_tag(home: Path, tag: str, old: str, new: str, block: int | None = None) -> None:
    runs = [parent(home), *children(home)] if block is None else [children(home)[block]]
    (run,) = [run for run in runs if tag in run.tags]
    tracker(home).log(run.run_id, tags={tag: run.tags[tag].replace(old, new)})


@pytest.mark.parametrize(
    ("tag", "form"), [(RECORD_TAG, stored_records.TRIAL), (LEASE_TAG, stored_records.LEASE)]
)
def test_a_store_of_a_format_that_is_not_read_is_refused(
    home: Path, tag: str, form: stored_records.Form[Any]
) -> None:
    record(home, build_full_trial(0))
    change_tag(home, tag, f'"version":{form.format.number}', '"version":99')
    change_tag(home, "state", "complete", "running")  # so that the lease counts
    table(home).unlink()
    for read in (lambda: read_stored_sweep(address(home), "quickstart"), lambda: record(home)):
        with pytest.raises(
            WrongVersion, match=f"tag {tag} of run .* format 99, written by rnnsweep"
        ):
            read()
    assert [run.name for run in list_sweeps(address(home))] == ["quickstart"]
    with writer(home) as opened:  # as --fresh does
        assert opened.open(build_opening(replace(IDENTITY, generation=2))) == ([], [])
    assert find(address(home), "quickstart", fresh=True) == (2, None, "")


def test_a_store_of_former_formats_is_read_and_continued(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(home, build_full_trial(0), build_full_trial(1))
    former = {
        form: form.format
        for form in (stored_records.TRIAL, stored_records.MANIFEST, stored_records.LEASE)
    }

    def next_trial(content: dict[str, Any]) -> dict[str, Any]:
        return content | {"outcome": content["outcome"] | {"cost_basis": "a bill"}}

    def next_manifest(content: dict[str, Any]) -> dict[str, Any]:
        return content | {"repeats": 3}

    changes = (next_trial, next_manifest, lambda content: content)
    for (form, now), change in zip(former.items(), changes, strict=True):
        raised = replace(now, number=now.number + 1, migrations={now.number: change})
        monkeypatch.setattr(form, "format", raised)
    read = read_stored_sweep(address(home), "quickstart")
    assert (read.repeats, [trial.cost_basis for trial in read.trials]) == (3, ["a bill"] * 2)
    record(home, build_full_trial(2))
    assert [trial.block for trial in trials(home)] == [0, 1, 2]
    with tracker(home).file(parent(home).run_id, "sweep.json") as written:
        number = former[stored_records.MANIFEST].number + 1
        assert json.loads(written.read_text())["version"] == number


def test_a_table_of_another_format_is_written_again(home: Path) -> None:
    record(home, build_full_trial(0), build_full_trial(1))
    before = read_stored_sweep(address(home), "quickstart")
    content = pq.read_table(table(home))
    number = trial_table.TABLE.number
    old, new = f'"version":{number}'.encode(), b'"version":99'
    metadata = content.schema.metadata[b"rnnsweep"].replace(old, new)
    pq.write_table(content.replace_schema_metadata({"rnnsweep": metadata}), table(home))
    with pytest.raises(Outdated):
        trial_table.read_table(table(home))
    assert read_stored_sweep(address(home), "quickstart").trials == before.trials
    sweep, rows = read_rows(address(home), "quickstart")
    assert (sweep.run_id, rows.num_rows) == (before.run_id, 2)
    record(home)
    number, trials = trial_table.read_table(table(home))
    assert (number, len(trials)) == (1, 2)


def test_trials_are_read_in_the_order_of_the_plan_with_every_environment(home: Path) -> None:
    record(
        home,
        build_full_trial(1, XLA),
        build_failed_trial(1),
        build_full_trial(0, environment={"python": "3.12"}),
    )
    read = read_stored_sweep(address(home), "quickstart")
    order = [(0, PORTABLE), (1, PORTABLE), (1, XLA)]
    assert [(trial.block, trial.arm) for trial in read.trials] == order
    assert read.environment["python"] == "3.11.7 | 3.12"


def test_an_arm_that_leaves_a_sweep_keeps_its_results(home: Path) -> None:
    third = Arm("jax/portable", PORTABLE.hardware)
    arms = (PORTABLE, XLA, third)
    with writer(home) as opened:
        opened.open(build_opening(arms=arms, current=arms, blocks=2))
        opened.record([build_full_trial(block, arm) for block in range(2) for arm in arms])
        opened.close("complete", {})
        before = read_stored_sweep(address(home), "quickstart")
        assert (before.former, before.expected_trials) == ((), 6)
        auto = ReportCriteria(auto_blocks=AutoBlocks())
        opened.open(build_opening(arms=arms, current=arms[:2], criteria=auto))
        opened.record([build_full_trial(block, arm) for block in (2, 6) for arm in arms[:2]])
        opened.close("complete", {})
    read = read_stored_sweep(address(home), "quickstart")
    assert (read.arms, read.current, read.former) == (arms, arms[:2], (third,))
    assert (read.blocks, read.expected_trials) == (7, 7 * 2 + 2)  # more than it was opened for
    assert len(read.trials) == 10


def test_a_sweep_expects_the_blocks_and_repeats_of_its_last_start(home: Path) -> None:
    def expected() -> int:
        return read_stored_sweep(address(home), "quickstart").expected_trials

    ended = [build_full_trial(block, arm) for block in range(3) for arm in (PORTABLE, XLA)]
    with writer(home) as opened:
        opened.open(build_opening(blocks=3, repeats=2))
        opened.record([*ended[:5], build_full_trial(1, repeat=1)])
        assert expected() == 3 * 2 * 2
        opened.open(build_opening(blocks=3))
        assert expected() == 3 * 2 + 1
        opened.open(build_opening(blocks=2))
        assert expected() == 2 * 2 + 1 + 1
        opened.open(build_opening(blocks=4, skipped_blocks=(0, 2)))
        assert expected() == 2 * 2 + 2 + 1 + 1
        opened.close("complete", {})


def test_generations_are_separate(home: Path) -> None:
    record(home, build_full_trial(0))
    second = replace(IDENTITY, generation=2)
    with writer(home) as opened:
        assert opened.open(build_opening(second)) == ([], [])
        opened.close("stopped", {})
    latest = read_stored_sweep(address(home), "quickstart")
    assert (latest.generation, latest.state) == (2, "stopped")
    assert len(read_stored_sweep(address(home), "quickstart", 1).trials) == 1
    assert len(read_stored_sweep(address(home), "quickstart#1").trials) == 1
    assert [run.name for run in list_sweeps(address(home))] == ["quickstart#2", "quickstart"]
    assert find(address(home), "quickstart") == (2, build_opening(second).manifest, "")
    assert find(address(home), "another") == (0, None, "")
    with pytest.raises(SweepNotFound, match=r"quickstart#3.*quickstart#1, quickstart#2"):
        read_stored_sweep(address(home), "quickstart", 3)
    with pytest.raises(SweepNotFound, match=r"'quikstart' in .*quickstart"):
        read_stored_sweep(address(home), "quikstart")


def test_costs_follow_from_the_prices_of_the_last_start(home: Path) -> None:
    """The trials were recorded without a price; the last start of the sweep has one."""
    record(home, build_full_trial(0), build_full_trial(0, XLA))
    price = HardwarePrice("cpu", "a bill", "2026-11-27", usd_per_hour=3600.0)
    with writer(home) as opened:
        opened.open(build_opening(criteria=ReportCriteria(prices=(price,))))
        opened.close("complete", {})
    read = read_stored_sweep(address(home), "quickstart")
    for trial in read.trials:
        assert trial.metrics["cost_usd"] == pytest.approx(5.5)
        assert trial.metrics["train_cost_usd"] == pytest.approx(1.5)
    rows = read_rows(address(home), "quickstart")[1]
    assert rows["metric.cost_usd"].to_pylist() == [pytest.approx(5.5)] * 2
