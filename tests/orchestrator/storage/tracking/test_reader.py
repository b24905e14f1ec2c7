"""Sweeps read back from a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from mlflow import MlflowClient

from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks, Margins, PublishedRow, ReportCriteria
from orchestrator.core.trial import Telemetry
from orchestrator.storage.tracking import SweepNotFound
from orchestrator.storage.tracking.errors import WrongVersion
from orchestrator.storage.tracking.mlflow_store import MlflowStore
from orchestrator.storage.tracking.reader import (
    find_sweep,
    latest_generation,
    list_sweeps,
    read_curves,
    read_sweep,
)
from tests.orchestrator.sample_sweeps import (
    IDENTITY,
    PORTABLE,
    XLA,
    address,
    failed,
    finished,
    opening,
)
from tests.orchestrator.storage.tracking.recording import children, record, runs, table, writer


def test_the_store_gives_back_what_was_recorded(home: Path) -> None:
    trials = [
        finished(0, metrics={"loss": float("inf"), "n": 3.0}),
        failed(1),
        finished(2, XLA, status="wrong_kernel", environment={"python": "3.12", "gpu": None}),
        finished(3, status="wrong_kernel"),
    ]
    assert record(home, *trials) == []
    back = record(home, *trials)
    assert sorted(back, key=lambda item: item.trial.block) == trials
    assert len(children(home)) == 4


def test_a_damaged_record_is_skipped(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    record(home, finished(0), finished(1))
    run = next(run for run in children(home) if run.data.tags["block"] == "1")
    MlflowClient(tracking_uri=address(home)).set_tag(run.info.run_id, "record", "{}")
    table(home).unlink()
    assert record(home) == [finished(0)]
    assert run.info.run_id in caplog.text
    record(home, finished(1))  # and it can be written again
    assert len(record(home)) == len(children(home)) == 2


def change_record(home: Path) -> None:
    (run,) = children(home)
    text = run.data.tags["record"].replace('"version":5', '"version":99')
    MlflowClient(tracking_uri=address(home)).set_tag(run.info.run_id, "record", text)
    table(home).unlink()


def change_manifest(home: Path) -> None:
    (path,) = home.glob("mlartifacts/**/sweep.json")
    path.write_text(path.read_text().replace('"version": 3', '"version": 99'))


def drop_manifest_version(home: Path) -> None:
    (path,) = home.glob("mlartifacts/**/sweep.json")
    path.write_text(path.read_text().replace('"version": 3', '"release": 3'))


def change_table(home: Path) -> None:
    content = pq.read_table(table(home))
    metadata = content.schema.metadata[b"rnnsweep"].replace(b'"version":3', b'"version":99')
    pq.write_table(content.replace_schema_metadata({"rnnsweep": metadata}), table(home))


def change_record_in_table(home: Path) -> None:
    content = pq.read_table(table(home))
    texts = [
        text.replace('"version":5', '"version":99') for text in content.column("record").to_pylist()
    ]
    index = content.schema.get_field_index("record")
    pq.write_table(content.set_column(index, "record", [texts]), table(home))


@pytest.mark.parametrize(
    ("change", "place", "expected", "received"),
    [
        (change_record, "tag record of run", 5, 99),
        (change_manifest, "sweep.json of run", 3, 99),
        (drop_manifest_version, "sweep.json of run", 3, None),
        (change_table, "trials.parquet of run", 3, 99),
        (change_record_in_table, "tag record of trials.parquet of run", 5, 99),
    ],
)
def test_a_store_of_another_version_is_refused(
    home: Path,
    change: Callable[[Path], None],
    place: str,
    expected: int,
    received: int | None,
) -> None:
    record(home, finished(0))
    change(home)
    for read in (
        lambda: read_sweep(address(home), "quickstart"),
        lambda: find_sweep(address(home), "quickstart"),
        lambda: record(home),
    ):
        with pytest.raises(WrongVersion) as caught:
            read()
        where, _, *versions = caught.value.args
        assert (where.startswith(place), versions) == (True, [expected, received])
        assert str(home / "mlflow.db") in where
        assert "--fresh" in str(caught.value)
    fresh = replace(IDENTITY, generation=2)
    with writer(home) as opened:  # as --fresh does
        assert opened.open_sweep(opening(home, fresh)) == []
    assert latest_generation(address(home), "quickstart") == 2


def test_a_lease_of_another_version_is_refused(home: Path) -> None:
    with writer(home) as opened:
        opened.open_sweep(opening(home))
        (parent,) = runs(home, "tags.generation = '1'")
        client = MlflowClient(tracking_uri=address(home))
        client.set_tag(parent.info.run_id, "lease_version", "99")
        with pytest.raises(
            WrongVersion, match="expected a lease of version 1, received version 99"
        ):
            read_sweep(address(home), "quickstart")
        with pytest.raises(
            WrongVersion, match="expected a lease of version 1, received version 99"
        ):
            writer(home).open_sweep(opening(home))
        assert list_sweeps(address(home))[0].name == "quickstart"


def test_read_sweep_is_what_a_report_needs(home: Path) -> None:
    record(home, finished(1, XLA), failed(1), finished(0, environment={"python": "3.12"}))
    read = read_sweep(address(home), "quickstart")
    assert (read.name, read.generation, read.state) == ("quickstart", 1, "complete")
    assert read.workload == "image_rows"
    assert read.objectives == {"val_accuracy": "maximize", "step_ms": "minimize"}
    assert read.arms == (PORTABLE, XLA)
    assert [str(item.arm) for item in read.impossible] == ["tensorflow/cudnn on cpu"]
    assert (read.blocks, read.repeats, read.expected_trials) == (4, 1, 8)
    assert [(item.block, item.arm) for item in read.trials] == [
        (0, PORTABLE),
        (1, PORTABLE),
        (1, XLA),
    ]
    first, second, _ = read.trials
    assert (first.config, first.metrics) == (
        finished(0).trial.config,
        finished(0).outcome.metrics,
    )
    assert (second.status, second.failure_text, second.kernel) == (
        "failed",
        "crash: the trainer process ended with SIGSEGV",
        None,
    )
    stored = {run.info.run_id: run.data.metrics for run in children(home)}
    assert all(stored[item.run_id].items() >= item.metrics.items() for item in read.trials)
    whole = finished(0)
    assert (first.epochs, first.seed) == (whole.outcome.epochs, whole.trial.seed)
    assert (first.started_s, first.ended_s) == (whole.outcome.started_s, whole.outcome.ended_s)
    assert (first.attempt, first.telemetry) == (1, Telemetry())
    assert read.environment["python"] == "3.11.7 | 3.12"
    assert read.run_id == runs(home, "tags.generation = '1'")[0].info.run_id


def test_what_a_sweep_is_to_decide_stands_in_its_manifest(home: Path) -> None:
    row = PublishedRow("a table", "tensorflow/cudnn", "Tesla P100", {"units": 128}, {"fit_s": 39.8})
    criteria = ReportCriteria("tensorflow/portable", Margins(0.05), AutoBlocks(), (row,))
    with writer(home) as opened:
        opened.open_sweep(opening(home, criteria=criteria))
        opened.close("complete", {})
    assert read_sweep(address(home), "quickstart").criteria == criteria


def test_more_blocks_than_a_sweep_was_opened_for_are_expected_once_they_are_there(
    home: Path,
) -> None:
    record(home, finished(0), finished(6))  # `blocks: auto` was stopped, and is `configs: 4` now
    read = read_sweep(address(home), "quickstart")
    assert (read.blocks, read.expected_trials) == (7, 14)


def test_an_arm_that_leaves_a_sweep_holds_up_none_of_the_others(home: Path) -> None:
    """A first start runs three arms over two blocks, the next one two of them over four."""
    third = Arm("jax/portable", PORTABLE.hardware)
    arms = (PORTABLE, XLA, third)
    with writer(home) as opened:
        opened.open_sweep(opening(home, arms=arms, current=arms, blocks=2))
        opened.record([finished(block, arm) for block in range(2) for arm in arms])
        opened.close("complete", {})
    before = read_sweep(address(home), "quickstart")
    assert (before.former, before.expected_trials) == ((), 6)
    with writer(home) as opened:
        opened.open_sweep(opening(home, arms=arms, current=arms[:2]))
        opened.record([finished(block, arm) for block in (2, 3) for arm in arms[:2]])
        opened.close("complete", {})
    read = read_sweep(address(home), "quickstart")
    assert (read.arms, read.current, read.former) == (arms, arms[:2], (third,))
    assert (read.expected_trials, len(read.trials)) == (4 * 2 + 2, 10)
    matched = match(read)
    assert {arm: len(rounds) for arm, rounds in matched.trials.items()} == {
        PORTABLE: 4,
        XLA: 4,
        third: 2,
    }


def test_generations_are_separate(home: Path) -> None:
    record(home, finished(0))
    second = replace(IDENTITY, generation=2)
    with writer(home) as opened:
        assert opened.open_sweep(opening(home, second)) == []
        opened.close("stopped", {})
    assert read_sweep(address(home), "quickstart").generation == 2
    assert len(read_sweep(address(home), "quickstart", 1).trials) == 1
    assert len(read_sweep(address(home), "quickstart#1").trials) == 1
    assert [(item.name, item.generation, item.state) for item in list_sweeps(address(home))] == [
        ("quickstart", 2, "stopped"),
        ("quickstart", 1, "complete"),
    ]
    stored_sweep = find_sweep(address(home), "quickstart")
    assert stored_sweep is not None
    assert (stored_sweep.identity, stored_sweep.state, stored_sweep.finished) == (
        second,
        "stopped",
        (),
    )
    with pytest.raises(SweepNotFound, match=r"quickstart#3.*quickstart#1, quickstart#2"):
        read_sweep(address(home), "quickstart", 3)


def test_a_lost_journal_finds_all_it_needs(home: Path) -> None:
    record(home, finished(1), finished(0))
    stored_sweep = find_sweep(address(home), "quickstart")
    assert stored_sweep is not None
    assert stored_sweep.identity == IDENTITY
    assert stored_sweep.spec_yaml == opening(home).spec_yaml
    assert stored_sweep.finished == (finished(0), finished(1))
    light = find_sweep(address(home), "quickstart", trials=False)
    assert light == replace(stored_sweep, finished=())
    assert find_sweep(address(home), "another") is None


def test_what_listed_configs_give_is_no_setting_of_all_trials(home: Path) -> None:
    listed = replace(IDENTITY, search={"sampler": "list", "space": {}})
    with writer(home) as opened:
        opened.open_sweep(opening(home, listed))
        opened.record([finished(0)])
        opened.close("complete", {})
    read = read_sweep(address(home), "quickstart")
    assert read.sampler == "list"
    assert read.settings["epochs"] == 3
    assert not read.settings.keys() & read.trials[0].config.keys()


def test_texts_stay_in_the_store_when_a_journal_is_made_again(home: Path) -> None:
    trial = finished(0, artifacts={"sample.txt": "To be \udcff", "outcome.json": "{}"})
    record(home, trial)
    (run,) = children(home)
    store = MlflowStore(address(home))
    assert store.read_text(run.info.run_id, "texts/sample.txt") == "To be ?"
    assert store.read_text(run.info.run_id, "texts/outcome.json") == "{}"
    stored_sweep = find_sweep(address(home), "quickstart")
    assert stored_sweep is not None
    assert stored_sweep.finished == (replace(trial, outcome=replace(trial.outcome, artifacts={})),)
    record(home, *stored_sweep.finished)
    assert store.texts(run.info.run_id, "texts") == ["texts/outcome.json", "texts/sample.txt"]


def test_a_missing_sweep_is_reported_with_the_nearest(home: Path) -> None:
    record(home)
    with pytest.raises(SweepNotFound, match=r"'quikstart' in sqlite.*nearest there: quickstart"):
        read_sweep(address(home), "quikstart")


def test_curves_of_a_few_trials_are_read_from_their_runs(home: Path) -> None:
    curves = {"system/cpu_utilization_percentage": (50.0, None, 70.5), "system/x": (None, 1.0, 2.0)}
    telemetry = Telemetry(other_trainers=0, at_s=(0.0, 1.25, 2.5), curves=curves)
    record(home, finished(0, telemetry=telemetry), finished(1))
    read = {item.block: item.run_id for item in read_sweep(address(home), "quickstart").trials}
    assert read_curves(address(home), read.values()) == {
        read[0]: Telemetry(at_s=telemetry.at_s, curves=curves)
    }


@pytest.mark.parametrize("epochs", [3, 300], ids=["in a tag", "in an artifact"])
def test_curves_of_a_trial_that_was_done_again_are_those_of_the_attempt_that_counts(
    home: Path, epochs: int
) -> None:
    """Whatever the others had: the run keeps the points of all, and begins with the first."""
    first, second, third = (
        Telemetry(at_s=tuple(map(float, range(points))), curves={"system/x": (value,) * points})
        for points, value in ((5, 1.0), (3, 2.0), (6, 3.0))
    )
    start_s = 1.7e9 + 7200
    record(home, failed(0, telemetry=first))
    counts = finished(
        0, epochs=epochs, attempt=2, started_s=start_s, ended_s=start_s + 5.5, telemetry=second
    )
    record(home, counts)
    (run,) = read_sweep(address(home), "quickstart").trials
    assert read_curves(address(home), [run.run_id]) == {run.run_id: second}
    later_s = start_s + 3600
    record(home, failed(0, started_s=later_s, ended_s=later_s + 6, telemetry=third))
    assert read_curves(address(home), [run.run_id]) == {run.run_id: third}
