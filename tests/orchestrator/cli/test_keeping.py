"""`check`, `export` and `status --format json`: what keeps and watches a sweep."""

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from orchestrator.core.trial import FinishedTrial, Telemetry
from orchestrator.storage import journal
from orchestrator.storage.heartbeat import write_heartbeat
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.tracking.records import TRIAL
from tests.building.arms import PORTABLE, XLA
from tests.building.stores import build_home
from tests.building.trials import IDENTITY, build_failed_trial, build_full_trial
from tests.orchestrator.cli.typed_commands import Run
from tests.orchestrator.storage.test_heartbeat import BEAT
from tests.orchestrator.storage.test_private_files import NOBODY, needs_root
from tests.orchestrator.storage.tracking.recording import record, table

TRIALS = (build_full_trial(0), build_full_trial(1), build_failed_trial(1, XLA))
LOAD = Telemetry(at_s=(0.5, 1.0), curves={"system/cpu": (10.0, None)})
MEASURED = replace(TRIALS[0], outcome=replace(TRIALS[0].outcome, telemetry=LOAD))


@pytest.fixture
def kept(home: Path, tmp_path: Path) -> Path:
    """A home whose store has three trials."""
    assert build_home(tmp_path) == home
    record(home, *TRIALS)
    return home


def write_journal(
    home: Path, trials: Sequence[FinishedTrial] = TRIALS, **opening: Any
) -> journal.JournalState:
    folder = SweepFolder(home, "quickstart").generation(1)
    folder.mkdir(parents=True)
    with journal.Journal(folder) as opened:
        opened.append(journal.SweepOpened(opening.pop("identity", IDENTITY), {}, **opening))
        opened.append(journal.SessionStarted(1.0, 1, "here", "0", 2, 1, [PORTABLE, XLA]))
        for block in sorted({trial.block for trial in trials}):
            config = next(trial.config for trial in trials if trial.block == block)
            opened.append(journal.BlockSuggested(block, config, 0.0))
        for trial in trials:
            opened.append(journal.TrialFinished(trial))
        assert opened.state is not None
        return opened.state


def findings(run: Run, code: int = 1) -> list[tuple[str, str]]:
    ended, out, _ = run("check", "quickstart", "--format", "json")
    body = json.loads(out)
    assert (ended, body["agrees"]) == (code, code == 0)
    return [(finding["kind"], finding["place"]) for finding in body["findings"]]


def test_check_agrees_where_both_have_the_same(kept: Path, run: Run) -> None:
    write_journal(kept)
    assert findings(run, 0) == []
    code, out, _ = run("check", "quickstart")
    assert code == 0
    assert "3 trials in the journal, 3 trials in the store, all of them the same" in out


def test_check_finds_what_one_side_lacks_or_has_otherwise(kept: Path, run: Run) -> None:
    extra = build_full_trial(2)
    changed = build_full_trial(1, attempt=2, ended_s=2e9)
    write_journal(kept, (changed, extra, TRIALS[2]))
    assert set(findings(run)) == {
        ("differs", changed.key),
        ("only_journal", extra.key),
        ("only_store", TRIALS[0].key),
    }
    code, out, _ = run("check", "quickstart")
    assert code == 1
    assert "the next `run` records it" in " ".join(out.split())


def test_check_finds_the_journal_of_another_sweep_and_a_damaged_table(kept: Path, run: Run) -> None:
    write_journal(kept, identity=replace(IDENTITY, seed=IDENTITY.seed + 1), sweep_id="other")
    table(kept).write_bytes(b"no table")
    assert [kind for kind, _ in findings(run)] == ["other_sweep", "other_identity", "damaged_table"]


def test_check_needs_a_journal(kept: Path, run: Run) -> None:
    code, out, err = run("check", "quickstart")
    assert (code, out) == (2, "")
    assert "expected the journal of quickstart" in err


@pytest.fixture
def exported(kept: Path, run: Run, tmp_path: Path) -> Path:
    """Return the folder of an exported sweep, one trial of which has telemetry."""
    write_journal(kept, (MEASURED, *TRIALS[1:]))
    folder = tmp_path / "exported"
    code, out, err = run("export", "quickstart", str(folder))
    assert (code, out) == (0, ""), err
    return folder


def test_the_index_of_an_export_has_the_digest_of_each_file(exported: Path) -> None:
    index = json.loads((exported / "export.json").read_text())
    assert (index["format"], index["version"], index["trials"]) == ("rnnsweep-export", 1, 3)
    written = {path.name: path.read_bytes() for path in exported.iterdir()}
    del written["export.json"]
    assert {file["name"]: (file["bytes"], file["sha256"]) for file in index["files"]} == {
        name: (len(content), hashlib.sha256(content).hexdigest())
        for name, content in written.items()
    }


def test_an_export_has_the_manifest_and_a_table_of_trials(exported: Path) -> None:
    manifest = json.loads((exported / "sweep.json").read_text())
    assert manifest["content"]["identity"]["workload"] == IDENTITY.workload
    rows = pq.read_table(exported / "trials.parquet").to_pylist()
    assert {row["trial_key"]: row["step_ms"] for row in rows} == {
        trial.key: trial.metrics.get("step_ms") for trial in TRIALS
    }


def test_an_export_has_the_curves_of_epochs_and_telemetry(exported: Path) -> None:
    points: dict[tuple[str, str], list[float]] = defaultdict(list)
    for point in pq.read_table(exported / "curves.parquet").to_pylist():
        points[point["trial_key"], point["curve"]].append(point["value"])
    losses = [epoch.metrics["loss"] for epoch in TRIALS[1].epochs]
    assert points[TRIALS[1].key, "loss"] == losses
    with_load = {key: values for key, values in points.items() if key[1] == "system/cpu"}
    assert with_load == {(MEASURED.key, "system/cpu"): [10.0]}


def test_an_export_has_each_environment_once_and_each_trials_digest_of_it(exported: Path) -> None:
    written = json.loads((exported / "environments.json").read_text())
    digest = written["trials"][TRIALS[0].key]
    assert written["environments"][digest] == TRIALS[0].outcome.environment


def test_an_export_has_the_whole_record_of_each_trial(exported: Path) -> None:
    lines = (exported / "records.jsonl").read_text().splitlines()
    read = {trial.key: trial for trial in (TRIAL.load(line, "a line") for line in lines)}
    assert read[TRIALS[2].key].failure == TRIALS[2].failure


def test_export_never_writes_over_anything(kept: Path, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    for place in (folder, folder / "mine.txt"):
        code, _, err = run("export", "quickstart", str(place))
        assert (code, str(place) in err) == (2, True)
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


@needs_root
def test_export_never_writes_into_another_users_folder(
    kept: Path, run: Run, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    code, _, err = run("export", "quickstart", str(theirs))
    assert (code, str(theirs) in err) == (2, True)
    assert not [*theirs.iterdir()]


def test_status_is_data_for_machines(home: Path, run: Run) -> None:
    write_journal(home)
    write_heartbeat(SweepFolder(home, "quickstart").path, BEAT)
    code, out, _ = run("status", "quickstart", "--format", "json")
    body = json.loads(out)
    (row,) = body["sweeps"]
    assert (code, body["format"], row["sweep"], row["state"]) == (
        0,
        "rnnsweep-status",
        "quickstart",
        "killed",
    )
    assert row["trials"] == {
        "ended": 3,
        "expected": 4,
        "at_most": False,
        "outcomes": {"complete": 2, "failed": 1},
        "last_ended_s": max(trial.ended_s for trial in TRIALS),
    }
    assert row["heartbeat"]["not_in_store"] == 2
    assert row["driver"] is None
    assert run("status", "--format", "json", "--address", "http://nowhere:8265")[0] == 2
