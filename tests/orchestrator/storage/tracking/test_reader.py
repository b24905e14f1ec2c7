"""Sweeps read back from a store: from the table of trials, and from the runs that it lacks."""

import gc
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
    Margins,
    PublishedRow,
    ReportCriteria,
)
from orchestrator.core.formats import this_rnnsweep
from orchestrator.core.trial import ConfigValue, FinishedTrial
from orchestrator.storage.tracking import records, trial_table
from orchestrator.storage.tracking.errors import (
    Damaged,
    Outdated,
    SweepNotFound,
    TrackingError,
    WrongVersion,
)
from orchestrator.storage.tracking.reader import find, list_sweeps, read_rows, read_stored_sweep
from orchestrator.storage.tracking.records import LEASE_TAG, RECORD_TAG
from orchestrator.storage.tracking.tracker import StoredRun, Tracker
from orchestrator.storage.tracking.trackers import open_tracker
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


def test_the_table_and_the_runs_give_back_what_was_recorded(
    home: Path, runs_read: list[str]
) -> None:
    whole = [
        build_full_trial(
            0, metrics={"loss": float("inf"), "n": 3.0}, epochs=300
        ),  # too long for a tag
        build_failed_trial(1),
        build_full_trial(
            2, XLA, status="wrong_kernel", environment={"python": "3.12", "gpu": None}
        ),
        build_full_trial(3, status="wrong_kernel"),
    ]
    assert record(home, *whole) == []
    assert trials(home) == whole
    assert runs_read == []
    table(home).unlink()
    assert trials(home) == whole
    assert len(runs_read) == len(children(home)) == 4


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


@pytest.mark.parametrize("damage", ["truncated", "no table", "damaged record"])
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
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2] if damage == "truncated" else b"<html>")
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
        raise TrackingError("a store", "an answer", "none", "Wait")

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
    assert (first["config.seed"], first["seed"]) == (5, trial.seed)
    assert (first["metric.loss"], third["metric.step_ms"]) == (float("inf"), None)
    assert (first["outcome"], third["outcome"]) == ("complete", "failed")
    assert first["started"].timestamp() == pytest.approx(trial.started_s, abs=86_400)
    number, back = read_table(path)
    clean = replace(trial, outcome=replace(trial.outcome, node="läss ?"))
    assert (number, back[0], back[0].run_id) == (7, clean, "a")


def test_reading_leaves_the_garbage_collector_of_the_caller_on(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(home, build_full_trial(0))
    kind: Any = type(open_tracker(address(home)))
    trial_runs, enabled = kind.trial_runs, list[bool]()

    def watched(store: Tracker, *args: Any, **options: Any) -> Iterator[StoredRun]:
        enabled.append(gc.isenabled())
        found: Iterator[StoredRun] = trial_runs(store, *args, **options)
        return found

    monkeypatch.setattr(kind, "trial_runs", watched)
    read_stored_sweep(address(home), "quickstart")
    assert enabled and all(enabled)


def change_tag(home: Path, tag: str, old: str, new: str, block: int | None = None) -> None:
    runs = [parent(home), *children(home)] if block is None else [children(home)[block]]
    (run,) = [run for run in runs if tag in run.tags]
    tracker(home).log(run.run_id, tags={tag: run.tags[tag].replace(old, new)})


def give_another_version(home: Path, place: str, version: int) -> None:
    old, new = f'"version":{version}', '"version":99'
    match place.split():
        case ["tag", tag, *_]:
            change_tag(home, tag, old, new)
            change_tag(home, "state", "complete", "running")  # so that the lease counts
            table(home).unlink()
        case ["sweep.json", *_]:
            (path,) = home.glob("**/sweep.json")
            path.write_text(path.read_text().replace(old, '"release":5'))
        case _:
            content = pq.read_table(table(home))
            metadata = content.schema.metadata[b"rnnsweep"].replace(old.encode(), new.encode())
            pq.write_table(content.replace_schema_metadata({"rnnsweep": metadata}), table(home))


@pytest.mark.parametrize(
    ("place", "form", "received"),
    [
        (f"tag {RECORD_TAG} of run", records.TRIAL, 99),
        ("sweep.json of run", records.MANIFEST, None),
        (f"tag {LEASE_TAG} of run", records.LEASE, 99),
    ],
)
def test_a_store_of_a_format_that_is_not_read_is_refused(
    home: Path, place: str, form: records.Form[Any], received: int | None
) -> None:
    record(home, build_full_trial(0))
    number = form.format.number
    give_another_version(home, place, number)
    for read in (lambda: read_stored_sweep(address(home), "quickstart"), lambda: record(home)):
        with pytest.raises(WrongVersion) as caught:
            read()
        text = str(caught.value)
        assert text.startswith(place)
        assert tracker(home).shown in text
        numbers = number if form.format.oldest == number else f"{form.format.oldest} to {number}"
        assert f"of format {numbers}, received" in text
        if received is None:
            assert "no format number, from before the first release" in text
        else:
            assert f"format 99 of {this_rnnsweep()}" in text
    assert [run.name for run in list_sweeps(address(home))] == ["quickstart"]
    with writer(home) as opened:  # as --fresh does
        assert opened.open(build_opening(replace(IDENTITY, generation=2))) == ([], [])
    assert find(address(home), "quickstart", fresh=True) == (2, None, "")


def test_a_store_of_former_formats_is_read_and_continued(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(home, build_full_trial(0), build_full_trial(1))
    former = {form: form.format for form in (records.TRIAL, records.MANIFEST, records.LEASE)}

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
        number = former[records.MANIFEST].number + 1
        assert json.loads(written.read_text())["version"] == number


def test_a_table_of_another_format_is_written_again(home: Path) -> None:
    record(home, build_full_trial(0), build_full_trial(1))
    before = read_stored_sweep(address(home), "quickstart")
    give_another_version(home, "trials.parquet", trial_table.TABLE.number)
    with pytest.raises(Outdated):
        trial_table.read_table(table(home))
    assert read_stored_sweep(address(home), "quickstart").trials == before.trials
    sweep, rows = read_rows(address(home), "quickstart")
    assert (sweep.run_id, rows.num_rows) == (before.run_id, 2)
    record(home)
    number, trials = trial_table.read_table(table(home))
    assert (number, len(trials)) == (1, 2)


def test_read_sweep_is_what_a_report_needs(home: Path) -> None:
    row = PublishedRow("a table", "tensorflow/cudnn", "Tesla P100", {"units": 128}, {"fit_s": 39.8})
    criteria = ReportCriteria("tensorflow/portable", Margins(0.05), AutoBlocks(), (row,))
    listed = replace(IDENTITY, search={"sampler": "list", "space": {}})
    with writer(home) as opened:
        opened.open(build_opening(listed, criteria=criteria))
        opened.record(
            [
                build_full_trial(1, XLA),
                build_failed_trial(1),
                build_full_trial(0, environment={"python": "3.12"}),
            ]
        )
        opened.close("complete", {})
    read = read_stored_sweep(address(home), "quickstart")
    assert (read.name, read.generation, read.state) == ("quickstart", 1, "complete")
    assert (read.workload, read.sampler, read.expected_trials) == ("image_rows", "list", 8)
    manifest = build_opening(listed, criteria=criteria).manifest
    for name in ("criteria", "objectives", "arms", "impossible", "blocks", "repeats"):
        assert getattr(read, name) == getattr(manifest, name)
    order = [(0, PORTABLE), (1, PORTABLE), (1, XLA)]
    assert [(item.block, item.arm) for item in read.trials] == order
    stored = {run.run_id: run.metrics for run in children(home)}
    assert all(stored[item.run_id].items() >= item.metrics.items() for item in read.trials)
    assert read.environment["python"] == "3.11.7 | 3.12"
    assert read.settings["epochs"] == 3
    assert not read.settings.keys() & read.trials[0].config.keys()
    assert parent(home).run_id == read.run_id


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
    with pytest.raises(SweepNotFound, match=r"'quikstart' in .*nearest there: quickstart"):
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
