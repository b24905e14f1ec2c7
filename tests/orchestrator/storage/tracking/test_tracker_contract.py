"""What every tracker has to do: MLflow's SQLite file, and MLflow's server."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from orchestrator.core.trial import DatasetRecord
from orchestrator.storage.tracking.stored_records import LEASE_TAG, SOURCE_TAG, Answer
from orchestrator.storage.tracking.tracker import Point, StoredRun, Tracker, read_run_text
from orchestrator.storage.tracking.trackers import create_tracker, open_tracker
from orchestrator.storage.tracking.tracking_errors import TrackingError
from orchestrator.storage.tracking.trial_content import trial_content
from tests.building.arms import PORTABLE, XLA
from tests.building.stores import build_home, build_opening
from tests.building.trials import IDENTITY, build_full_trial
from tests.faults.conftest import server  # noqa: F401  (a fixture)
from tests.orchestrator.storage.tracking.recording import address


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tracker is: `read` and `write` open it anew, as another process would."""

    address: str
    home: Path
    sweep: str

    def write(self) -> Tracker:
        return create_tracker(self.address, self.home)

    def read(self) -> Tracker:
        return open_tracker(self.address)


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.full)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "server":
        uri, _ = request.getfixturevalue("server")
        yield Place(uri, tmp_path, request.node.originalname)
        return
    home = build_home(tmp_path)
    yield Place(address(home), home, "quickstart")


def sweep_run(place: Place, generation: int = 1) -> StoredRun:
    tags = {"generation": str(generation), LEASE_TAG: "free"}
    return place.write().create_sweep_run(place.sweep, "label", generation, tags)


def trial_run(place: Place, sweep: StoredRun, block: int) -> StoredRun:
    content = trial_content(IDENTITY, build_full_trial(block), (PORTABLE, XLA))
    return place.write().create_trial_run(sweep, content)


def ids(runs: Iterator[StoredRun]) -> list[str]:
    return [run.run_id for run in runs]


def test_a_sweep_has_a_run_for_each_generation(place: Place) -> None:
    assert place.write().sweep_runs(place.sweep) == []
    first, second = sweep_run(place), sweep_run(place, 2)
    trial_run(place, second, 0)
    runs = place.read().sweep_runs(place.sweep)
    assert sorted(run.run_id for run in runs) == sorted([first.run_id, second.run_id])
    assert {run.tags[LEASE_TAG] for run in runs} == {"free"}
    assert {run.status for run in runs} == {"running"}
    assert place.sweep in place.read().sweep_names()
    every = place.read().sweep_runs()
    assert {first.run_id, second.run_id} <= {run.run_id for run in every}


def test_trials_are_selected_by_tag_by_status_and_if_deleted(place: Place) -> None:
    sweep, other = sweep_run(place), sweep_run(place, 2)
    runs = [trial_run(place, sweep, block) for block in range(4)]
    trial_run(place, other, 9)
    opened = place.write()
    opened.set_status(runs[1].run_id, "finished", 10)
    opened.set_status(runs[2].run_id, "failed", 10)
    opened.delete_run(runs[3].run_id)
    read, names = place.read(), [run.run_id for run in runs]
    assert ids(read.trial_runs(sweep)) == names[:3], "in order of their start"
    assert ids(read.trial_runs(sweep, status="running")) == names[:1]
    assert ids(read.trial_runs(sweep, tag=("trial_key", build_full_trial(1).key))) == names[1:2]
    assert ids(read.trial_runs(sweep, tag=("trial_key", "none"))) == []
    assert ids(read.trial_runs(sweep, deleted=True)) == names[3:]
    ended = {run.run_id: run.has_ended for run in read.trial_runs(sweep)}
    assert list(ended.values()) == [False, True, True]
    assert next(read.trial_runs(sweep)).tags["block"] == "0"


def test_what_is_logged_is_read_by_the_next_call(place: Place) -> None:
    run, opened = trial_run(place, sweep_run(place), 0), place.write()
    points = [Point("loss", 0.5, 1000, 0), Point("loss", 0.25, 2000, 1)]
    params = {f"param_{number}": str(number) for number in range(150)}
    opened.log(run.run_id, params=params, tags={"node": "a", "failure": "b"}, points=points)
    opened.log(run.run_id, tags={"node": "c", LEASE_TAG: "d"})
    opened.delete_tag(run.run_id, "failure")
    opened.log_dataset(run.run_id, DatasetRecord("digits", "ab", "scikit-learn", 3, 1))
    opened.log_dataset(run.run_id, DatasetRecord("digits", "ab", "scikit-learn", 3, 1))
    opened.set_status(run.run_id, "finished", 5000)
    read = place.read().run(run.run_id)
    assert (read.status, read.start_ms, read.end_ms) == ("finished", run.start_ms, 5000)
    assert (read.params.items() >= params.items(), read.metrics["loss"]) == (True, 0.25)
    assert (read.tags["node"], read.tags[LEASE_TAG], "failure" in read.tags) == ("c", "d", False)
    assert read.tags["trial_key"] == build_full_trial(0).key
    opened.set_status(run.run_id, "running")
    assert not place.read().run(run.run_id).has_ended


def test_files_are_kept_and_replaced(place: Place, tmp_path: Path) -> None:
    run, opened = sweep_run(place), place.write()
    source = tmp_path / "source.bin"
    source.write_bytes(b"\0\xff")
    assert opened.files(run.run_id) == []
    opened.write_file(run.run_id, "table.bin", source)
    for text in ("first", "läss"):
        opened.write_file(run.run_id, "texts/note.txt", text)
    read = place.read()
    assert sorted(read.files(run.run_id)) == ["table.bin", "texts"]
    assert read_run_text(read, run.run_id, "texts/note.txt") == "läss"
    with read.file(run.run_id, "table.bin") as local:
        assert local.read_bytes() == b"\0\xff"
    with pytest.raises(TrackingError), read.file(run.run_id, "missing"):
        pass


def test_the_answer_can_be_shown_again_with_other_values(place: Place) -> None:
    run, manifest = sweep_run(place), build_opening(replace(IDENTITY, name=place.sweep)).manifest
    for source, baseline in (("1", "a"), ("2", "b")):
        answer = Answer("# Faster", {"speedup": 2.0}, {"baseline": baseline}, source)
        place.write().show_sweep(run.run_id, manifest, {"units"}, answer)
        place.write().show_sweep(run.run_id, manifest, {"units"}, None)
    place.write().settle()
    read = place.read().run(run.run_id)
    assert (read.tags[SOURCE_TAG], read.params["baseline"]) == ("2", "a")
    assert read.metrics["speedup"] == 2.0


def test_a_run_that_does_not_exist_is_an_error(place: Place) -> None:
    sweep_run(place)
    with pytest.raises(TrackingError):
        place.read().run("0" * 32)
