"""Each trial has one run, whatever breaks; one driver at a time records into a sweep."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.storage.lock import Owner
from orchestrator.storage.tracking.reader import find, read_stored_sweep
from orchestrator.storage.tracking.stored_records import LEASE, LEASE_S, LEASE_TAG, RENEWAL_S, Lease
from orchestrator.storage.tracking.tracker import StoredRun, Tracker
from orchestrator.storage.tracking.tracking_errors import (
    ContentRefused,
    LeaseHeld,
    OtherSweep,
    StoreAway,
    TrackingError,
)
from orchestrator.storage.tracking.trial_content import trial_content
from tests.building.stores import build_opening
from tests.building.trials import IDENTITY, build_failed_trial, build_full_trial
from tests.orchestrator.storage.tracking.recording import (
    address,
    children,
    new_writer,
    other_owner,
    parent,
    record,
    table,
    tracker,
    writer,
)


@pytest.mark.parametrize("step", ["log", "log_dataset"])
def test_a_run_that_was_written_half_is_completed(
    home: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    record(home, build_full_trial(1))
    with writer(home) as opened:
        opened.open(build_opening())
        kind = type(tracker(home))
        monkeypatch.setattr(kind, step, _break_for_trials(getattr(kind, step)))
        with pytest.raises(TrackingError):
            opened.record([build_full_trial()])
        monkeypatch.undo()
    assert [run.status for run in children(home)] == ["running", "finished"]
    assert len(read_stored_sweep(address(home), "quickstart").trials) == 1
    assert record(home, build_full_trial()) == [build_full_trial(1)]
    assert record(home) == [build_full_trial(), build_full_trial(1)]
    assert [run.status for run in children(home)] == ["finished", "finished"]


def test_a_creation_whose_answer_is_lost_makes_one_run(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: Any = type(tracker(home))
    create = kind.create_trial_run
    with writer(home) as opened:
        opened.open(build_opening())

        def lose_the_answer(*args: Any, **kwargs: Any) -> StoredRun:
            create(*args, **kwargs)
            raise TrackingError("the store", "no answer", "Try again")

        for block, breaking in enumerate((lose_the_answer, _break)):
            monkeypatch.setattr(kind, "create_trial_run", breaking)
            with pytest.raises(TrackingError):
                opened.record([build_full_trial(block)])
        monkeypatch.undo()
        opened.record([build_full_trial(0), build_full_trial(1)])
    assert [run.tags["block"] for run in children(home)] == ["0", "1"]


def test_a_retried_trial_updates_its_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        content = "orchestrator.storage.tracking.trial_content.value_text"
        patched.setattr(content, lambda value: f"<{value}>")
        record(home, build_failed_trial(0, started_s=1.6e9, ended_s=1.6e9 + 1))
    (before,) = children(home)
    record(home, build_full_trial(0, attempt=2))
    (after,) = children(home)
    assert (after.run_id, after.status) == (before.run_id, "finished")
    assert after.tags["outcome"] == "complete"
    assert "failure" not in after.tags
    assert after.params["units"] == "<32>"  # params cannot change
    assert record(home, build_failed_trial(0, ended_s=1.8e9)) == [build_full_trial(0, attempt=2)]
    (last,) = children(home)
    assert last.status == "failed"
    assert "kernel_ran" not in last.tags
    assert record(home) == [build_failed_trial(0, ended_s=1.8e9)]


def test_doubled_runs_are_reduced_to_the_first_finished(home: Path) -> None:
    record(home, build_full_trial(0))
    (good,) = children(home)
    for start_ms in (1, 2_000_000_000_000):
        content = replace(trial_content(IDENTITY, build_full_trial(0)), start_ms=start_ms)
        tracker(home).create_trial_run(parent(home), content)
    table(home).unlink()
    assert len(read_stored_sweep(address(home), "quickstart").trials) == 1
    assert record(home) == [build_full_trial(0)]
    assert [run.run_id for run in children(home)] == [good.run_id]


@pytest.mark.parametrize("change", [{"pid": 2**22 + 1}, {"started_s": 12.5}])
def test_a_dead_owners_lease_is_taken_over_at_once(home: Path, change: dict[str, Any]) -> None:
    # Its process is gone, or the id is another process's by now.
    new_writer(home).open(build_opening(owner=replace(other_owner(), **change)))
    assert read_stored_sweep(address(home), "quickstart").state == "stopped"
    record(home, build_full_trial())
    assert len(children(home)) == 1


def test_an_owner_elsewhere_is_believed_until_its_lease_ends(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = replace(Owner.here(), host="elsewhere", machine="other-boot")
    first = new_writer(home)
    first.open(build_opening(owner=away))
    assert read_stored_sweep(address(home), "quickstart").state == "running"
    with pytest.raises(LeaseHeld, match=r"pid \d+ on elsewhere"):
        record(home)
    later_s = time.time() + LEASE_S + 1
    monkeypatch.setattr(time, "time", lambda: later_s)
    record(home, build_full_trial())
    with writer(home) as opened:
        opened.open(build_opening())
        with pytest.raises(LeaseHeld):  # the loss is noticed at the next renewal
            first.record([build_full_trial(1)])
    with pytest.raises(LeaseHeld, match="took over quickstart"):  # free, yet lost
        first.record([build_full_trial(1)])
    with pytest.raises(LeaseHeld):
        first.open(build_opening(owner=away), has_claimed=True)
    assert len(children(home)) == 1


def test_a_damaged_lease_is_none_and_one_far_ahead_is_ignored_on_request(home: Path) -> None:
    record(home)
    store = tracker(home)
    store.log(parent(home).run_id, tags={LEASE_TAG: "{"})
    record(home)
    far = LEASE.dump(Lease(replace(Owner.here(), machine="other-boot"), 1e18))
    store.log(parent(home).run_id, tags={LEASE_TAG: far})
    with pytest.raises(LeaseHeld, match="take_over=True"):
        record(home)
    with writer(home) as opened:
        asked = replace(build_opening(), takes_over=True)
        opened.open(asked)
        opened.record([build_full_trial()])
        store.log(parent(home).run_id, tags={LEASE_TAG: far})
        with pytest.raises(LeaseHeld):  # a later recorder process of this start takes nothing
            new_writer(home).open(asked, has_claimed=True)


def test_the_journal_of_another_sweep_with_an_equal_spec_is_refused(home: Path) -> None:
    for sweep_id in ("ours", "ours"):
        with writer(home) as opened:
            opened.open(replace(build_opening(), sweep_id=sweep_id))
    assert find(address(home), "quickstart")[2] == "ours"
    before = parent(home).tags
    with pytest.raises(OtherSweep, match=r"not the same sweep.*journal\.jsonl"):
        new_writer(home).open(replace(build_opening(), sweep_id="another"))
    assert parent(home).tags == before


@pytest.mark.parametrize("error", [None, StoreAway, ContentRefused])
def test_a_suspended_driver_leaves_one_run_of_the_trial_that_it_wrote_late(
    home: Path, monkeypatch: pytest.MonkeyPatch, error: type[TrackingError] | None
) -> None:
    kind: Any = type(tracker(home))
    create_run, log = kind.create_trial_run, kind.log

    def suspended(store: Tracker, *content: Any) -> StoredRun:
        monkeypatch.setattr(kind, "create_trial_run", create_run)
        run = create_run(store, *content) if error is ContentRefused else None
        later_s = time.time() + LEASE_S + 1
        monkeypatch.setattr(time, "time", lambda: later_s)
        record(home, build_full_trial())
        if error is not None:
            monkeypatch.setattr(kind, "log", broken)
        made: StoredRun = run or create_run(store, *content)
        return made

    def broken(*_: Any, **__: Any) -> None:
        monkeypatch.setattr(kind, "log", log)
        assert error is not None
        raise error("the store", "no answer", "Try again")

    first = new_writer(home)
    first.open(build_opening(owner=replace(Owner.here(), host="elsewhere", machine="other-boot")))
    monkeypatch.setattr(kind, "create_trial_run", suspended)
    with pytest.raises(LeaseHeld):
        with suppress(StoreAway):
            first.record([build_full_trial(), build_full_trial(1)])
        first.record([build_full_trial(), build_full_trial(1)])
    (run,) = children(home)
    assert run.status == "finished"
    assert record(home) == [build_full_trial()] and children(home)[0].run_id == run.run_id


def test_a_driver_gets_what_it_has_not_and_learns_what_the_store_lacks(home: Path) -> None:
    record(home, build_full_trial(0), build_full_trial(1), build_full_trial(2))
    newer, other = build_full_trial(1, ended_s=1.8e9), build_full_trial(3)
    had = {trial.key: trial.ended_s for trial in (build_full_trial(0), newer, other)}
    with writer(home) as opened:
        assert opened.open(build_opening(), had=had) == (
            [build_full_trial(2)],
            [newer.key, other.key],
        )
        assert opened.open(build_opening(blocks=9)) == ([], [])  # of what is open
        opened.close("complete", {})
    assert read_stored_sweep(address(home), "quickstart").blocks == 9


def test_a_lease_is_renewed_when_it_is_time(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lease() -> Lease:
        return LEASE.load(parent(home).tags[LEASE_TAG], "the test")

    with writer(home) as opened:
        opened.open(build_opening())
        before = lease()
        opened.renew_lease()
        assert lease() == before  # not yet time
        now_s = time.time()
        monkeypatch.setattr(time, "time", lambda: now_s + RENEWAL_S + 1)
        opened.record([])  # for hours, if one trial takes hours
        assert lease().until_s >= before.until_s + RENEWAL_S
    assert lease() == Lease()


@pytest.mark.parametrize("makes_a_run", [True, False])
def test_of_two_drivers_at_once_one_opens(
    home: Path, monkeypatch: pytest.MonkeyPatch, makes_a_run: bool
) -> None:
    """Both see no run, or a free lease, and write; the one that settles later gives way."""

    def overtake(seconds: float) -> None:
        store = tracker(home)
        lease = LEASE.dump(Lease(other_owner(), time.time() + LEASE_S))
        tags = {"generation": "1", LEASE_TAG: lease}
        if makes_a_run:
            store.create_sweep_run("quickstart", "quickstart", 1, tags)
        else:
            store.log(parent(home).run_id, tags=tags)

    if not makes_a_run:
        record(home)
    monkeypatch.setattr(time, "sleep", overtake)
    with pytest.raises(LeaseHeld):
        new_writer(home).open(build_opening())
    assert len(tracker(home).sweep_runs()) == 1 and not children(home)
    assert parent(home).start_ms == 1 or not makes_a_run


def _break(*_: Any, **__: Any) -> Any:
    raise TrackingError("the store", "no answer", "Try again")


def _break_for_trials(method: Callable[..., Any]) -> Callable[..., Any]:
    def breaking(store: Tracker, run_id: str, *args: Any, **content: Any) -> Any:
        if args or content.get("points"):
            _break()
        return method(store, run_id, *args, **content)

    return breaking
