"""Who may record into a sweep."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.storage.tracking import LeaseHeld, Owner, TrackingError
from orchestrator.storage.tracking import lease as leases
from orchestrator.storage.tracking.reader import read_sweep
from tests.orchestrator.sample_sweeps import address, finished, opening
from tests.orchestrator.storage.tracking.recording import (
    children,
    other_owner,
    record,
    runs,
    writer,
)


def test_a_living_owner_keeps_others_out(home: Path) -> None:
    with writer(home) as first, writer(home) as second:
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
    with writer(home) as first:
        first.open_sweep(opening(home, owner=dead))
        first._holds_lease = False  # it died
        assert read_sweep(address(home), "quickstart").state == "stopped"
        record(home, finished())
    assert len(children(home)) == 1


def test_an_owner_elsewhere_is_believed_until_its_lease_ends(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = replace(Owner.here(), host="elsewhere", machine="other-boot")
    with writer(home) as first:
        first.open_sweep(opening(home, owner=away))
        assert read_sweep(address(home), "quickstart").state == "running"
        with pytest.raises(LeaseHeld, match="on elsewhere"):
            record(home)
        later_s = time.time() + leases.LEASE_S + 1
        monkeypatch.setattr(time, "time", lambda: later_s)
        record(home, finished())
        with writer(home) as opened:
            opened.open_sweep(opening(home))
            with pytest.raises(LeaseHeld):  # the loss is noticed at the next beat
                first.record([finished(1)])
    assert len(children(home)) == 1


def test_the_heartbeat_renews_the_lease(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def until_s() -> float:
        return float(runs(home, "tags.generation = '1'")[0].data.tags["lease_until"])

    with writer(home) as opened:
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
    monkeypatch.setattr("orchestrator.storage.tracking.writer._SETTLE_S", 0.5)
    together = threading.Barrier(2)
    results: list[object] = []

    def drive(owner: Owner) -> None:
        opened = writer(home)
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
