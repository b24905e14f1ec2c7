"""Sweeps read back from a store."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.core.criteria import AutoBlocks, Margins, PublishedRow, ReportCriteria
from orchestrator.core.rounds import RERUN, STANDS
from orchestrator.core.trial import Arm, Telemetry
from orchestrator.storage.tracking import SweepNotFound, TrackingError
from orchestrator.storage.tracking.curves import read_curves
from orchestrator.storage.tracking.manifest import manifest_adapter, manifest_of
from orchestrator.storage.tracking.mlflow_store import Store
from orchestrator.storage.tracking.reader import find_sweep, list_sweeps, read_sweep
from orchestrator.storage.tracking.trial_record import finished_trial
from tests.orchestrator.sample_sweeps import (
    IDENTITY,
    PORTABLE,
    XLA,
    address,
    failed,
    finished,
    opening,
)
from tests.orchestrator.storage.tracking.recording import children, record, runs, table, tracker


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
    with pytest.raises(TrackingError, match=r"record.*expected a record of version 4 or older"):
        finished_trial('{"version": 5}', {})
    record(home, finished(0), finished(1))
    run = next(run for run in children(home) if run.data.tags["block"] == "1")
    MlflowClient(tracking_uri=address(home)).set_tag(run.info.run_id, "record", "{}")
    table(home).unlink()
    assert record(home) == [finished(0)]
    assert run.info.run_id in caplog.text
    record(home, finished(1))  # and it can be written again
    assert len(record(home)) == len(children(home)) == 2


def test_read_sweep_is_what_a_report_needs(home: Path) -> None:
    record(home, finished(1, XLA), failed(1), finished(0, environment={"python": "3.12", RERUN: 1}))
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
    whole = finished(0)
    assert (first.epochs, first.seed) == (whole.outcome.epochs, whole.trial.seed)
    assert (first.started_s, first.ended_s) == (whole.outcome.started_s, whole.outcome.ended_s)
    assert (first.attempt, first.notes) == (1, {})
    assert read.environment["python"] == "3.11.7 | 3.12"
    assert RERUN not in read.environment
    assert read.run_id == runs(home, "tags.generation = '1'")[0].info.run_id


def test_what_a_sweep_is_to_decide_stands_in_its_manifest(home: Path) -> None:
    row = PublishedRow("a table", "tensorflow/cudnn", "Tesla P100", {"units": 128}, {"fit_s": 39.8})
    criteria = ReportCriteria("tensorflow/portable", Margins(0.05), AutoBlocks(), (row,))
    with tracker(home) as opened:
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
    with tracker(home) as opened:
        opened.open_sweep(opening(home, arms=arms, current=arms, blocks=2))
        opened.record([finished(block, arm) for block in range(2) for arm in arms])
        opened.close("complete", {})
    before = read_sweep(address(home), "quickstart")
    assert (before.former, before.expected_trials) == ((), 6)
    with tracker(home) as opened:
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
    manifest = json.loads(manifest_adapter.dump_json(manifest_of(opening(home))))
    del manifest["current"]  # as earlier versions wrote it
    assert manifest_adapter.validate_json(json.dumps(manifest)).current == ()


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


def test_what_listed_configs_give_is_no_setting_of_all_trials(home: Path) -> None:
    listed = replace(IDENTITY, search={"sampler": "list", "space": {}})
    with tracker(home) as opened:
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
    store = Store(address(home))
    assert store.read_text(run.info.run_id, "texts/sample.txt") == "To be ?"
    assert store.read_text(run.info.run_id, "texts/outcome.json") == "{}"
    found = find_sweep(address(home), "quickstart")
    assert found is not None
    assert found.finished == (replace(trial, outcome=replace(trial.outcome, artifacts={})),)
    record(home, *found.finished)
    assert store.texts(run.info.run_id, "texts") == ["texts/outcome.json", "texts/sample.txt"]


def test_a_sweep_that_is_not_there_is_told_with_the_nearest(home: Path) -> None:
    record(home)
    with pytest.raises(SweepNotFound, match=r"'quikstart' in sqlite.*nearest there: quickstart"):
        read_sweep(address(home), "quikstart")


def test_curves_of_a_few_trials_are_read_from_their_runs(home: Path) -> None:
    curves = {"system/cpu_utilization_percentage": (50.0, None, 70.5), "system/x": (None, 1.0, 2.0)}
    telemetry = Telemetry({"neighbours": "none"}, (0.0, 1.25, 2.5), curves)
    record(home, finished(0, telemetry=telemetry), finished(1))
    read = {each.block: each.run_id for each in read_sweep(address(home), "quickstart").trials}
    assert read_curves(address(home), read.values()) == {
        read[0]: Telemetry({}, telemetry.at_s, curves)
    }


@pytest.mark.parametrize("epochs", [3, 300], ids=["in a tag", "beside the run"])
def test_curves_of_a_trial_that_was_done_again_are_those_of_the_attempt_that_counts(
    home: Path, epochs: int
) -> None:
    """Whatever the others had: the run keeps the points of all, and begins with the first."""
    first, again, third = (
        Telemetry({}, tuple(map(float, range(points))), {"system/x": (value,) * points})
        for points, value in ((5, 1.0), (3, 2.0), (6, 3.0))
    )
    start_s = 1.7e9 + 7200
    record(home, failed(0, telemetry=first))
    counts = finished(
        0, epochs=epochs, attempt=2, started_s=start_s, ended_s=start_s + 5.5, telemetry=again
    )
    record(home, counts)
    (run,) = read_sweep(address(home), "quickstart").trials
    assert read_curves(address(home), [run.run_id]) == {run.run_id: again}
    later_s = start_s + 3600  # done again once more, in vain: what was complete stands
    record(home, failed(0, started_s=later_s, ended_s=later_s + 6, telemetry=third))
    stood = {**counts.outcome.environment, STANDS: later_s + 6}
    record(home, replace(counts, outcome=replace(counts.outcome, environment=stood)))
    assert read_curves(address(home), [run.run_id]) == {run.run_id: again}
